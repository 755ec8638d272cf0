"""Watches a running application until it is time to stop: a live table, or plain lines.

On standard error, so that results can be piped.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.live import Live

from daybreak.cli.console import error_console
from daybreak.report.live import live_line, live_table

if TYPE_CHECKING:
    from daybreak.spark.run import Run

REFRESH_S = 0.5
LINE_EVERY_S = 5.0


class Watch:
    """Shows a run and keeps the notes that scroll beside it."""

    def __init__(self, run: Run, title: str, *, lines: Callable[[str], None] | None = None) -> None:
        """``lines``: say everything as lines there, also on a terminal."""
        self._run = run
        self._title = title
        self._notes: list[str] = []
        self._terminal = lines is None and sys.stderr.isatty()
        self._to = error_console()
        self._line = lines or self._print

    def note(self, text: str) -> None:
        """Something that happened, worth a line."""
        self._notes.append(text)
        if not self._terminal:
            self._line(text)

    def _print(self, text: str) -> None:
        self._to.print(text, markup=False, highlight=False)

    def until(
        self, over: Callable[[float], bool], each: Callable[[float], None] = lambda _s: None
    ) -> bool:
        """Shows the run until ``over(elapsed_s)``; calls ``each`` about twice a second.

        False if it was told to stop before (Ctrl-C, SIGTERM).
        """
        with stop_signals() as stopped, self._screen() as show:
            began = time.monotonic()
            while not stopped.is_set() and not over(elapsed := time.monotonic() - began):
                self._run.healthy()
                each(elapsed)
                show()
                stopped.wait(REFRESH_S)
            if stopped.is_set():
                self._run.announce("stopping", "jobs under way end first", reason="signal")
            return not stopped.is_set()

    @contextmanager
    def _screen(self) -> Iterator[Callable[[], None]]:
        if not self._terminal:
            last = [time.monotonic() - LINE_EVERY_S]

            def line() -> None:
                if time.monotonic() - last[0] >= LINE_EVERY_S:
                    last[0] = time.monotonic()
                    self._line(live_line(self._run.snapshot()))

            yield line
            return
        with Live(console=self._to, auto_refresh=False) as live:
            yield lambda: live.update(
                live_table(self._run.snapshot(), self._title, self._notes), refresh=True
            )


@contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """SIGINT and SIGTERM set an event; a second one ends the process at once.

    To be entered after the SparkContext exists: its own handler for SIGINT cancels all jobs.
    """
    stopped = threading.Event()
    before = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}

    def handle(_signal: int, _frame: object) -> None:
        if stopped.is_set():
            raise KeyboardInterrupt
        stopped.set()

    for s in before:
        signal.signal(s, handle)
    try:
        yield stopped
    finally:
        for s, handler in before.items():
            signal.signal(s, handler)
