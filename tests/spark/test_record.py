"""The record of a run, as a process that is killed leaves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from daybreak.engine.core import Settings
from daybreak.engine.engine import Engine
from daybreak.engine.inbox import Inbox
from daybreak.engine.queries import QueryFacts
from daybreak.engine.state import JobState
from daybreak.model import Arrivals, Network, Query, Stream, chain
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.journal_file import JournalRecorder
from daybreak.runtime.report import RunReport
from daybreak.spark.upkeep.record import Figures, Manifest, RunRecord


class About:
    """What is stated beside the figures, as it changes."""

    def __init__(self) -> None:
        self.registered = 1

    def as_json(self) -> dict[str, object]:
        return {"registered": self.registered}


def test_series_never_get_ahead_of_the_head_that_names_their_queries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = Network(
        streams=[Stream(name="s", arrivals=Arrivals(rate_per_s=1.0))],
        boxes=chain("q", "s", [1_000]),
        queries=[Query(name="q", output="q.1")],
    )
    about = About()
    policy, facts = make_policy_with("fcfs"), QueryFacts("q", ("s",))
    engine = Engine(JobState(network), [facts], [Inbox()], policy, Settings())
    figures = Figures(engine)
    journal = JournalRecorder(engine.journal, figures.start_ns)
    record = RunRecord(tmp_path, 2**20, figures, cast(Manifest, about), journal)
    record.take_if_older(0)
    record.write()
    assert RunReport.load(tmp_path).manifest["registered"] == 1
    about.registered = 2
    record.take_if_older(0)

    def killed(*_args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(record._parts, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        record.write()
    assert RunReport.load(tmp_path).manifest["registered"] == 2
