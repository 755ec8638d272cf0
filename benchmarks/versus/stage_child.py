"""The child process of ``stages.py``: runs one side, and notes when each stage of an answer ended.

python -m benchmarks.versus.stage_child TASK.json
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from benchmarks.versus.sides import SIDES
from benchmarks.versus.workload import Task

from daybreak.engine.instructions import Account
from daybreak.runtime.clock import CLOCK
from daybreak.runtime.why.answers import SlowAnswer
from daybreak.runtime.why.book import WaitBook
from daybreak.spark.log.commitlog import CommitLog

#: What ends each stage of an answer, in their order.
STAGES = ("seen", "read", "listed", "decided", "run", "computed", "committed", "delivered")


class Stamps:
    """Stages of every job's answers, one for each class of queries in it."""

    def __init__(self) -> None:
        #: When the rows of a segment were in the driver, by stream and arrival.
        self._read: dict[tuple[str, int], int] = {}
        self.answers: list[dict[str, Any]] = []

    def listen(self) -> None:
        """From now on, of every run in this process."""
        add, ran = CommitLog.add_segment, WaitBook.ran

        def adding(log: CommitLog, segment: Any, *rest: Any, **more: Any) -> Any:
            self._read[segment.stream, segment.arrival_ns] = CLOCK.now_ns()
            return add(log, segment, *rest, **more)

        def running(book: WaitBook, job: Account) -> None:
            if job.taken:
                self.answers.extend(self._of(book, job))
            ran(book, job)

        for owner, name, listening in (
            (CommitLog, "add_segment", adding),
            (WaitBook, "ran", running),
        ):
            setattr(owner, name, listening)

    def _of(self, book: WaitBook, job: Account) -> Iterator[dict[str, Any]]:
        order, oldest, ran = book._orders.get(job.worker), min(job.taken), job.ran
        if order is None:
            return
        delivered_ns = max(ran.began_ns + ran.work_ns + ran.commit_ns, ran.committed_at_ns)
        names = sorted(book._engine.view.facts[box].name for box in job.boxes)
        for cls, some in groupby(names, key=lambda name: name.partition("-")[0]):
            queries = list(some)
            answer = book._answer(queries[0], job, oldest, order, delivered_ns)
            read_ns = self._read.get((oldest.stream, oldest.arrival_ns), oldest.arrival_ns)
            stages = stages_of(answer, read_ns - book._start_ns)
            yield {
                "class": cls, "queries": len(queries), "arrival_ns": oldest.arrival_ns,
                "stages_ns": stages,
            }  # fmt: skip


def stages_of(answer: SlowAnswer, read_ns: int) -> list[int]:
    """The length of every stage; together they are the time from creation to delivery."""
    created_ns = answer.arrival_ns if answer.created_ns is None else answer.created_ns
    read_ns = min(max(read_ns, answer.arrival_ns), answer.ingested_ns)
    stamps = (
        created_ns, answer.arrival_ns, read_ns, answer.ingested_ns, answer.decided_ns,
        answer.begun_ns, answer.computed_ns, answer.committed_ns, answer.delivered_ns,
    )  # fmt: skip
    return [until - since for since, until in pairwise(stamps)]


def main() -> None:
    task = Task(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))
    work, stamps = Path(task.work), Stamps()
    stamps.listen()
    task.output.mkdir(parents=True, exist_ok=True)
    with SIDES[task.side].run(task) as check:
        (work / "ready").touch()
        while not (work / "stop").exists():
            check()
            time.sleep(0.1)
    told = {"answers": stamps.answers}
    (work / "told.json").write_text(json.dumps(told), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
