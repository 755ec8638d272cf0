"""Waiting for what happens elsewhere: in another thread, in another process, on Spark."""

from __future__ import annotations

import time
from collections.abc import Callable

#: Long enough for a busy machine; a test that passes never waits so long.
PATIENCE_S = 120.0
EVERY_S = 0.01


def until(
    condition: Callable[[], object], awaited: str = "", *, within_s: float = PATIENCE_S
) -> None:
    """Polls until the condition holds; fails, and names what was awaited, if it never does."""
    end_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end_s, f"not within {within_s:g} s: {awaited or 'the condition'}"
        time.sleep(EVERY_S)
