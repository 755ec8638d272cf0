"""Consoles, and progress bars that turn into plain lines where there is no terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

#: Into a pipe or a file there is no terminal to fit; wide enough for every table.
PIPED_WIDTH = 140


def console() -> Console:
    """Where results go."""
    return Console(width=None if sys.stdout.isatty() else PIPED_WIDTH)


def error_console() -> Console:
    """Where errors, hints and progress go, so that results can be piped."""
    return Console(stderr=True, width=None if sys.stderr.isatty() else PIPED_WIDTH)


def print_json(data: Any) -> None:
    """JSON and nothing else on standard output."""
    sys.stdout.write(json.dumps(data, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def progress(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yields ``report(done, total)``; shown on standard error."""
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=error_console(),
        disable=not sys.stderr.isatty(),
        transient=True,
    ) as bar:
        task = bar.add_task(label, total=None)

        def report(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total)

        yield report
