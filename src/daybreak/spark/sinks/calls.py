"""Sinks that hand rows to a function: at least once, with a key that recognises a repetition."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.spark.log.durable import file_name, same_folder
from daybreak.spark.log.rows import CommittedFile, StagedFile
from daybreak.spark.sinks.destination import DeliveryId, Destination
from daybreak.spark.sinks.sink import Callback, Staging, is_gone, opened, unstage

#: Raises if rows can never be written; called before they are committed.
Accept: TypeAlias = Callable[[pa.Table], None]


class CallingSink(Staging):
    """Gives the rows to some function, then removes a staged file: at least once.

    Nobody else reads that file, so it is of the kind that is written and read soonest. ``accept``
    raises before the commit if the function can never take these rows.
    """

    exactly_once = False

    def __init__(
        self, query: str, staging: Path, call: Callback, accept: Accept = lambda _table: None
    ) -> None:
        super().__init__(query, staging / file_name(query), "arrow", write_arrow)
        self._call = call
        self._accept = accept

    def _staged(self, job: str, table: pa.Table, folder: Path) -> StagedFile:
        self._accept(table)
        return super()._staged(job, table, folder)

    def owns(self, file: CommittedFile) -> bool:
        # Earlier versions staged in another format.
        return same_folder(file.path.parent, self._staging)

    def deliver(self, file: CommittedFile) -> bool:
        if is_gone(file):
            return False
        self._give(read_staged(file), file)
        unstage(file)
        return True

    def _give(self, rows: pa.Table, file: CommittedFile) -> None:
        self._call(rows, DeliveryId.of(file).key)


def write_arrow(table: pa.Table, out: BinaryIO) -> None:
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)


def read_staged(file: CommittedFile) -> pa.Table:
    with opened(file) as staged:
        if file.path.suffix == ".parquet":  # as it was in earlier run directories
            return pq.read_table(staged, partitioning=None)
        return pa.ipc.open_stream(staged).read_all()


class SinkTimeout(Exception):
    """A sink's function did not return in time."""


class _Caller:
    """A thread that calls functions for another one, which need not wait without end.

    It ends with the thread it called for: nobody refers to it then.
    """

    def __init__(self) -> None:
        calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._calls = calls
        threading.Thread(target=_make_calls, args=(calls,), name="sinks", daemon=True).start()

    def call(self, function: Callable[[], object]) -> Future[object]:
        outcome: Future[object] = Future()
        self._calls.put((function, outcome))
        return outcome

    def __del__(self) -> None:
        self._calls.put(None)


_Call: TypeAlias = tuple[Callable[[], object], Future[object]]
#: The caller of each thread that delivers: a new thread for every call would cost more than the
#: call, all the more where many threads share Python's lock.
_callers = threading.local()


def _make_calls(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        function, outcome = call
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)
        del call, function, outcome  # rows are not kept until the next ones come


class LimitedCalls:
    """Calls functions, one at a time, each of which has ``limit_s`` to return.

    Then it is left behind, so that others need not wait for it; nothing is called before it has
    returned.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._left: Future[object] | None = None

    def call(self, function: Callable[[], object]) -> object:
        """What the function returns or raises; ``SinkTimeout`` if it takes too long."""
        if self._left is not None and not self._left.done():
            raise SinkTimeout("its sink has not returned from an earlier call yet")
        caller: _Caller | None = getattr(_callers, "mine", None)
        if caller is None:
            caller = _callers.mine = _Caller()
        outcome = caller.call(function)
        try:
            failure = outcome.exception(self._limit_s)
        except TimeoutError:
            self._left = outcome
            del _callers.mine  # it is at this call until that returns
            late = f"its sink took longer than job_timeout = {self._limit_s:g} s"
            raise SinkTimeout(late) from None
        if failure is not None:
            raise failure
        return outcome.result()


class CallbackSink(CallingSink):
    """A Python function, called with the rows and a key to recognise a repetition by.

    It is called again, with the same key, if it raised or took longer than ``limit_s``.
    """

    def __init__(
        self,
        query: str,
        staging: Path,
        call: Callback,
        limit_s: float,
        accept: Accept = lambda _table: None,
    ) -> None:
        super().__init__(query, staging, self._within, accept)
        self._function = call
        self._limited = LimitedCalls(limit_s)

    def _within(self, table: pa.Table, key: str) -> None:
        self._limited.call(partial(self._function, table, key))


class DestinationSink(CallingSink):
    """A ``Destination``: exactly once if that recognises what it has written before."""

    def __init__(self, query: str, staging: Path, destination: Destination, limit_s: float) -> None:
        super().__init__(query, staging, lambda _table, _key: None, destination.accept)
        self.exactly_once = destination.exactly_once
        self._destination = destination
        self._limited = LimitedCalls(limit_s)

    def has(self, file: CommittedFile) -> bool:
        return bool(self._limited.call(partial(self._destination.has, DeliveryId.of(file))))

    def close(self) -> None:
        self._destination.close()

    def _give(self, rows: pa.Table, file: CommittedFile) -> None:
        self._limited.call(partial(self._destination.write, rows, DeliveryId.of(file)))
