"""Waits until a run is quiet, and says what it waited for if it never is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait

from daybreak.model.errors import ConfigError
from daybreak.runtime.display import duration, plural
from daybreak.spark.loop.driver import Driver

#: How long it is until the scheduler is asked again.
AGAIN_S = 0.02
#: A failure of the run is noticed this soon while the scheduler does not answer.
LOOK_S = 0.5
#: Queries that a message names; further ones are counted.
MOST_NAMED = 5


def await_quiet(
    driver: Driver, name: str, check: Callable[[], None], left_s: float, timeout_s: float
) -> None:
    """Returns when all that arrived is answered; ``ConfigError`` that names the rest otherwise.

    ``check`` raises if the run cannot continue. Paused and parked queries are not waited for.
    ``left_s``: what is left of ``timeout_s``, which the message states.
    """
    end_s = time.monotonic() + left_s
    asked = driver.ask()
    while True:
        check()
        left_s = end_s - time.monotonic()
        wait([asked], timeout=min(LOOK_S, max(left_s, 0.0)))
        if asked.done() and asked.result():
            return
        if left_s <= 0:
            left = "; ".join(_what_is_left(driver, asked))
            raise ConfigError(name, f"still has work after {timeout_s:g} s: {left}", "wait longer")
        if asked.done():
            time.sleep(min(AGAIN_S, left_s))
            asked = driver.ask()


def _what_is_left(driver: Driver, asked: Future[int]) -> Iterator[str]:
    view = driver.engine.view
    names = [facts.name for facts in view.facts]
    if not asked.done():
        yield f"the scheduler (policy {view.policy.name!r}) is busy for {duration(driver.busy_s())}"
    for _, group, for_s in driver.underway():
        whose, rows = _some([names[box] for box in group.boxes]), plural(group.tuples, "row")
        yield f"a job of {whose} on {rows} for {duration(for_s)}"
    waits = [
        f"{name} ({plural(tuples, 'row')}{_why(state)})"
        for name, tuples, state in zip(names, view.waiting, view.states, strict=True)
        if tuples and state in ("running", "retrying")
    ]
    if waits:
        yield f"rows wait for {_some(waits)}"


def _why(state: str) -> str:
    return ", to be retried" if state == "retrying" else ""


def _some(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
