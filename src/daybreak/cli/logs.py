"""What a running command says on standard error: events as text, or as JSON lines only."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from daybreak.model.errors import ConfigError, suggestion
from daybreak.runtime.eventlog import LEVELS, Format, Level, log_to_standard_error

LogFormat = Annotated[
    str, typer.Option(help="Events on standard error: text, or json for a line of JSON each.")
]
LogLevel = Annotated[str, typer.Option(help="debug, info, warning or error.")]


def set_up(form: str, level: str) -> bool:
    """Sends events to standard error; True if there is to be JSON and nothing else there."""
    formats: dict[str, Format] = {"text": "text", "json": "json"}
    levels: dict[str, Level] = {name: name for name in LEVELS}  # type: ignore[misc]
    if form not in formats:
        raise ConfigError("--log-format", f"unknown format {form!r}", suggestion(form, formats))
    if level not in levels:
        raise ConfigError("--log-level", f"unknown level {level!r}", suggestion(level, levels))
    log_to_standard_error(formats[form], levels[level])
    return form == "json"


def teller(name: str) -> Callable[[str], None]:
    """Says lines as events of this name, outside the event log of a run."""
    logger = logging.getLogger(f"daybreak.{name}")
    return logger.info


@contextmanager
def spark_as_events() -> Iterator[None]:
    """What a JVM that is started within writes to standard error becomes events named ``spark``.

    For as long as it lives, beyond this block; so that standard error holds nothing but JSON.
    """
    sys.stderr.flush()
    ours, (read, write) = os.dup(2), os.pipe()
    os.set_inheritable(ours, False)
    # Ours goes on to the old place while the JVM, which inherits 2, is started with the pipe.
    before, sys.stderr = sys.stderr, os.fdopen(ours, "w", buffering=1, encoding="utf-8")
    os.dup2(write, 2)
    os.close(write)
    threading.Thread(target=_read, args=(read,), name="spark-lines", daemon=True).start()
    try:
        yield
    finally:
        os.dup2(sys.stderr.fileno(), 2)
        sys.stderr.close()
        sys.stderr = before


def _read(pipe: int) -> None:
    logger = logging.getLogger("daybreak.spark")
    with os.fdopen(pipe, "r", encoding="utf-8", errors="replace") as lines:
        for line in lines:
            if line.strip():
                logger.warning("%s", line.rstrip())
