"""The rule by which a task finds its engine, with engines that compute nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

from daybreak.engine.events import Way
from daybreak.spark.tasks.engines import Engines, TaskEngine
from daybreak.spark.tasks.task import Built, Leaves, Task, TaskResult, Unfit

ROWS = pa.table({"n": [1, 2, 3]})
LEAVES = Leaves.of({"s": ROWS})


def task(name: str, *, prepared: bool = True, job: bool = True) -> Task:
    def build(*_: object) -> Built:
        raise AssertionError("no engine here plans")

    return Task(name, {}, build, prepared=prepared, job=job)


@dataclass
class Fake:
    """Notes what it is asked for, and answers it, leaves it to others, or fails."""

    way: Way
    takes: str
    ends: object = "answers"
    asked: list[object] = field(default_factory=list)

    def accepts(self, task: Task, _leaves: Leaves) -> bool:
        return bool(getattr(task, self.takes))

    def run(self, task: Task, _leaves: Leaves) -> TaskResult | None:
        self.asked.append(task.key)
        if isinstance(self.ends, BaseException):
            raise self.ends
        return TaskResult([ROWS], self.way) if self.ends == "answers" else None


def engines(*each: Fake) -> Engines:
    return Engines(cast(Sequence[TaskEngine], each))


def test_the_first_engine_that_accepts_a_task_computes_it() -> None:
    plan, job = Fake("prepared", "prepared"), Fake("spark-job", "job")
    found = engines(plan, job)
    assert found.compute([task("a")], LEAVES).way == "prepared"
    assert found.compute([task("b", prepared=False)], LEAVES).way == "spark-job"
    assert (plan.asked, job.asked) == (["a"], ["b"])
    assert found.ways == {"prepared", "spark-job"}
    found.begin()
    assert not found.ways, "of the present job alone"


def test_an_engine_tries_all_tasks_before_the_next_engine_does() -> None:
    """A query's own plan is prepared if that of its cell cannot be, before it takes a job."""
    plan, job = Fake("prepared", "prepared", ends="nothing"), Fake("spark-job", "job")
    found = engines(plan, job).compute([task("cell", job=False), task("own")], LEAVES)
    assert found.way == "spark-job"
    assert (plan.asked, job.asked) == (["cell", "own"], ["own"])


def test_what_fails_on_spark_is_left_to_the_next_engine() -> None:
    """A job over rows in memory may fail where one over a file does not."""
    memory = Fake("spark-job", "job", ends=PySparkException("guarded", messageParameters={}))
    file = Fake("spark-job-on-file", "job")
    assert engines(memory, file).compute([task("a")], LEAVES).way == "spark-job-on-file"


def test_the_error_of_the_last_engine_counts() -> None:
    first = Fake("spark-job", "job", ends=PySparkException("first", messageParameters={}))
    last = Fake("spark-job-on-file", "job", ends=PySparkException("last", messageParameters={}))
    with pytest.raises(PySparkException, match="last"):
        engines(first, last).compute([task("a")], LEAVES)


def test_a_job_whose_time_is_over_is_not_tried_again() -> None:
    failure = PySparkException("cancelled", messageParameters={})
    memory, file = Fake("spark-job", "job", ends=failure), Fake("spark-job-on-file", "job")
    found = engines(memory, file)
    found.begin(lambda: True)
    with pytest.raises(PySparkException, match="cancelled"):
        found.compute([task("a")], LEAVES)
    assert not file.asked


def test_an_error_that_is_not_sparks_ends_the_task() -> None:
    first, next_one = Fake("spark-job", "job", ends=Unfit("changed")), Fake("executors", "job")
    with pytest.raises(Unfit, match="changed"):
        engines(first, next_one).compute([task("a")], LEAVES)
    assert not next_one.asked


def test_a_task_that_no_engine_accepts_says_so() -> None:
    with pytest.raises(Unfit, match="no engine accepts"):
        engines(Fake("prepared", "prepared")).compute([task("a", prepared=False)], LEAVES)
