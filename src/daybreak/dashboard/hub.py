"""One look at the run a second for all pages that are open; none while no page is.

Lives on the server's event loop. A page that does not keep up is let go: it comes back by itself
and gets everything anew, while nothing piles up here.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from daybreak.dashboard.source import Ask
from daybreak.dashboard.wire import Picture, message
from daybreak.model.errors import ConfigError

EVERY_S = 1.0
#: Sent when there was nothing else for so long, so that both ends notice a dead connection.
HEARTBEAT_S = 10.0
#: Messages that may wait for one page.
MOST_WAITING = 8
#: Messages that are kept for pages that come back.
KEPT = 30
MOST_PAGES = 32


class Page:
    """An open page: what waits for it, and the task that sends it."""

    def __init__(self) -> None:
        self.waiting: asyncio.Queue[bytes | None] = asyncio.Queue(MOST_WAITING)
        self.task: asyncio.Task[Any] | None = None


class Hub:
    """Looks, and tells every page what is new."""

    def __init__(self, ask: Ask, every_s: float = EVERY_S) -> None:
        self._ask = ask
        self._every_s = every_s
        self._threads = ThreadPoolExecutor(1, "daybreak-look")
        #: Names this server: the page of an earlier one starts anew.
        self._epoch = secrets.token_hex(4)
        self._picture = Picture()
        self._number = 0
        self._kept: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._pages: set[Page] = set()
        self._looking: asyncio.Task[None] | None = None
        self._guard = asyncio.Lock()
        #: How often the run was asked, for tests and for measuring.
        self.looks = 0

    @property
    def pages(self) -> int:
        return len(self._pages)

    async def events(self, last_id: str | None) -> AsyncIterator[bytes]:
        """The messages of one page, until it goes or the server stops."""
        page = Page()
        page.task = asyncio.current_task()
        async with self._guard:  # no look in between: nothing is missed, nothing comes twice
            await self._look()
            first = self._since(last_id)
            self._pages.add(page)
            if self._looking is None:
                self._looking = asyncio.create_task(self._keep_looking())
        try:
            yield first
            while True:
                try:
                    async with asyncio.timeout(HEARTBEAT_S):
                        told = await page.waiting.get()
                except TimeoutError:
                    told = b": still here\n\n"
                if told is None:
                    return
                yield told
        finally:
            self._pages.discard(page)

    async def snapshot(self) -> Any:
        """The whole snapshot, for scripts."""
        return await self._asked({})

    async def look_now(self) -> None:
        """So that pages see a change at once."""
        async with self._guard:
            if self._pages:
                await self._look()

    def close(self) -> None:
        """Ends all streams."""
        if self._looking is not None:
            self._looking.cancel()
        for page in list(self._pages):
            self._tell(page, None)
        self._threads.shutdown(wait=False)

    async def _keep_looking(self) -> None:
        try:
            while self._pages:
                await asyncio.sleep(self._every_s)
                async with self._guard:
                    await self._look()
        finally:
            self._looking = None

    async def _look(self) -> None:
        """Asks what is new and tells every page."""
        try:
            found = await self._asked(self._picture.wanted)
            if self._picture.is_other(found):
                self._picture = Picture()
                self._picture.take(await self._asked({}))
                self._tell_all("hello", self._picture.everything())
                self._kept.clear()
            else:
                self._tell_all("news", self._picture.take(found))
        except ConfigError as error:
            self._tell_all("gone", {"error": str(error)})

    async def _asked(self, values: dict[str, Any]) -> Any:
        self.looks += 1
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._ask, "snapshot", values)

    def _tell_all(self, kind: str, data: dict[str, Any]) -> None:
        self._number += 1
        told = message(kind, f"{self._epoch}-{self._number}", data)
        self._kept.append((self._number, told))
        for page in list(self._pages):
            self._tell(page, told)

    def _tell(self, page: Page, told: bytes | None) -> None:
        with suppress(asyncio.QueueFull):
            page.waiting.put_nowait(told)
            return
        self._pages.discard(page)
        if page.task is not None:
            page.task.cancel()  # it is stuck in sending

    def _since(self, last_id: str | None) -> bytes:
        """What a page that has seen up to there lacks; everything if that is not known here."""
        epoch, _, number = (last_id or "").partition("-")
        if epoch == self._epoch and number.isdecimal():
            seen = int(number)
            missed = [told for n, told in self._kept if n > seen]
            if missed and self._kept[0][0] <= seen + 1:
                return b"".join(missed)
        if not self._picture.known:
            return self._kept[-1][1]  # why there is nothing to show
        everything = self._picture.everything()
        return message("hello", f"{self._epoch}-{self._number}", everything)
