"""The inside of an engine, for tests of it: nothing else looks behind its views."""

from __future__ import annotations

from daybreak.engine.core import Core
from daybreak.engine.engine import Engine


def inside(engine: Engine) -> Core:
    """State, queries, compositor and policy of an engine, by its own thread."""
    return engine._core
