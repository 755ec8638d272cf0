"""A query that fails by itself leaves the compiled group: the others keep running as one job."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest
from pyspark.sql.types import LongType, StructField, StructType
from tests.until import until

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.events import Ran, Resume
from daybreak.engine.inbox import Inbox
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.model.limits import Limits
from daybreak.model.network import Box, Network, Query, Stream
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.accounting import Accounts
from daybreak.runtime.history import History
from daybreak.runtime.monitor import Monitor
from daybreak.runtime.record import Recorder
from daybreak.spark.jobs.committer import JobInput, Permit
from daybreak.spark.jobs.runner import JobRunner
from daybreak.spark.log.segments import Segment
from daybreak.spark.loop.driver import Driver, new_command
from daybreak.spark.loop.driver_hooks import Hooks
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.composite import Parts, Source
from daybreak.spark.sql.forms import Composable, SqlBody
from daybreak.spark.tasks.task import Runnable

GOOD, SEGMENTS, ROWS = 20, 10, 10


class Runner(JobRunner):
    """Without Spark: a job fails if what is planned together holds a query that fails."""

    def __init__(self) -> None:
        self.jobs: list[tuple[int, bool]] = []
        self.fails: Callable[[str], bool] = lambda name: name == "bad"

    def _attempt(self, job: JobInput, permit: Permit) -> Ran:
        queries = job.queries
        failed = any(self.fails(query.name) for query in job.cell)
        self.jobs.append((len(queries), failed))
        if failed:
            raise ValueError("CAST_INVALID_INPUT")
        permit.commit()
        now = time.time_ns()
        return Ran((0,) * len(queries), 1000, 0, now, now, {}, (None,) * len(queries))

    def close(self) -> None:
        pass


class World:
    """An executor over one stream, with a class of filters of which one may be bad."""

    def __init__(self, names: Sequence[str]) -> None:
        network = Network(
            streams=[Stream(name="s")],
            boxes=[Box(name=n, inputs=("s",), kind="filter") for n in names],
            queries=[Query(name=n, output=n) for n in names],
        )
        state = JobState(network, 1)
        start = time.time_ns()
        schema = StructType([StructField("n", LongType())])
        parts = Parts(Source("s", (), ()), None, ())
        queries = [
            Runnable(
                CheckedQuery(n, ("s",), schema, "filter", SqlBody("", None), Composable(parts)),
                cast(Any, None),
            )
            for n in names
        ]
        self.runner = Runner()
        self.names = list(names)
        hooks = Hooks(
            lambda _tag: self.runner,
            lambda _tag: None,
            lambda _loop: None,
            lambda _given, _why: None,
        )
        facts = [QueryFacts(n, ("s",), share_key="s") for n in names]
        settings = Settings(limits=Limits(retries=2, retry_s=0.001), rider_bound_ns=10**10)
        inboxes = [Inbox() for _ in names]
        engine = Engine(state, facts, inboxes, make_policy_with("fcfs"), settings)
        accounts = Accounts(
            engine, Monitor(network), Recorder(), History(lambda: engine.view, start), start
        )
        self.driver = Driver(engine, accounts, queries, hooks, 60.0)
        self._thread = threading.Thread(target=self.driver.run, daemon=True)

    def __enter__(self) -> World:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.driver.stop()
        self._thread.join()
        self.driver.join()

    def feed(self, seq: int) -> None:
        """One segment, answered by all that are not parked."""
        segment = Segment(
            stream="s", seq=seq, checkpoint_id="c", batch_id=seq, offsets="[]", rows=ROWS, bytes=1,
            arrival_ns=time.time_ns(), file="",
        )  # fmt: skip
        self.driver.on_segment(segment)
        until(lambda: self.driver.ask().result(timeout=30), "all is quiet")

    def resume(self, name: str) -> None:
        box = self.names.index(name)
        number = new_command()
        self.driver.command(number, lambda: Resume(box, command=number)).result(timeout=30)


@pytest.mark.parametrize("at", [0, 7, GOOD], ids=["asked first", "in between", "last"])
def test_a_parked_query_does_not_fail_the_jobs_of_its_class(at: int) -> None:
    names = [f"good{i}" for i in range(GOOD)]
    names.insert(at, "bad")
    with World(names) as world:
        for seq in range(SEGMENTS):
            world.feed(seq)
        jobs = world.runner.jobs
        assert world.driver.failures.keys() == {"bad"}
        assert all(n == SEGMENTS * ROWS for n in answered(world, names) if n is not None)
        together = [n for n, failed in jobs if n > 1 and failed]
        assert len(together) == 1, "once is enough to find out who it is"
        assert len(jobs) <= 1 + (GOOD + 1) + 2 + SEGMENTS
        assert jobs[-1] == (GOOD, False), "the others run as one job"
        # Once it works again it is back.
        world.runner.fails = lambda _name: False
        world.resume("bad")
        for seq in range(SEGMENTS, SEGMENTS + 2):
            world.feed(seq)
        assert world.runner.jobs[-1] == (GOOD + 1, False)


def test_a_query_with_a_bad_record_stays_apart_until_it_is_past_it() -> None:
    """It works on the first half of the range, which is no reason to let it fail the others."""
    names = ["bad", *(f"good{i}" for i in range(5))]
    with World(names) as world:
        calls = [0]

        def fails(name: str) -> bool:
            calls[0] += name == "bad"
            return name == "bad" and calls[0] in (1, 2, 4)  # together, alone, alone again

        world.runner.fails = fails
        world.feed(0)
        world.feed(1)
        assert not world.driver.failures
        assert [n for n, failed in world.runner.jobs if n > 1 and failed] == [6]
        world.feed(2)
        assert world.runner.jobs[-1] == (6, False)


def answered(world: World, names: Sequence[str]) -> list[int | None]:
    """Tuples each query has answered; None of the bad one."""
    tuples = world.driver.engine.view.tuples_in
    return [None if name == "bad" else tuples[b] for b, name in enumerate(names)]
