"""Periodic tasks: one that fails is tried again, and is reported once until it works."""

from __future__ import annotations

import logging
import threading

from daybreak.spark.upkeep.maintenance import PeriodicTask, PeriodicTasks


def test_a_task_that_fails_is_reported_once_and_tried_again_beside_others() -> None:
    heard: list[tuple[str, object]] = []
    failures, well, others = [3], threading.Event(), [0]

    def emit(
        event: str,
        message: str,
        *,
        level: int = logging.INFO,
        query: str | None = None,
        **fields: object,
    ) -> None:
        heard.append((event, fields["task"]))
        if event == "trouble-over":
            well.set()

    def flaky() -> None:
        if failures[0]:
            failures[0] -= 1
            raise OSError(28, "No space left on device")

    def steady() -> None:
        others[0] += 1

    tasks = PeriodicTasks(
        [PeriodicTask("flaky", 0.001, flaky), PeriodicTask("steady", 0.001, steady)], emit
    )
    try:
        assert well.wait(30)
        assert tasks.troubles == {}
    finally:
        tasks.stop()
    assert heard == [("trouble", "flaky"), ("trouble-over", "flaky")]
    assert others[0] >= 3, "a task that fails holds up no other"
