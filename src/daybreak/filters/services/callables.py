"""A plain Python function, or coroutine function, as a filter service."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from daybreak.filters.services.base import Replica, Service, ServiceUnavailable


class CallableReplica(Replica):
    """Calls ``function(tuple)``; a plain function runs in one of ``threads`` threads.

    Its result decides: None or False drops the tuple. ``OSError`` and ``TimeoutError`` mean that
    whatever it asks is not reachable, and the tuple is tried again.
    """

    def __init__(self, function: Callable[[Any], Any], threads: int) -> None:
        self.address = getattr(function, "__qualname__", repr(function))
        self._function = function
        self._pool = (
            None
            if inspect.iscoroutinefunction(function)
            else ThreadPoolExecutor(threads, thread_name_prefix="daybreak-filter")
        )

    async def ask(self, tuples: Sequence[Any]) -> Sequence[Any]:
        try:
            if self._pool is None:
                return [await self._function(t) for t in tuples]
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(
                self._pool, lambda: [self._function(t) for t in tuples]
            )
        except (OSError, TimeoutError) as error:
            raise ServiceUnavailable(str(error) or type(error).__name__) from error

    async def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def callable_service(
    name: str, function: Callable[[Any], Any], *, threads: int = 4, **options: Any
) -> Service:
    """A service that calls a function; for other options see `Service`."""
    # A running thread cannot be cancelled; a coroutine can.
    options.setdefault("cancellable", inspect.iscoroutinefunction(function))
    return Service(
        name=name, replicas=[CallableReplica(function, threads)], threads=threads, **options
    )
