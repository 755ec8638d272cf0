"""The freshening experiments: fast ones hold, and the machinery behind the others is right."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from daybreak.freshness.mirror_simulator import Events
from daybreak.model import ConfigError
from daybreak_experiments.core import Context
from daybreak_experiments.freshening import EXPERIMENTS
from daybreak_experiments.freshening.dynamic import Bursts, simulate_split
from daybreak_experiments.freshening.hops import fresh_behind
from daybreak_experiments.freshening.learning import YEARS, read_changes
from daybreak_experiments.freshening.mirrors import thesis_mirror

BY_NAME = {e.name: e for e in EXPERIMENTS}
FAST = (
    "fig2.1", "table2.1", "fig2.2", "fig2.3", "fig2.5", "fig2.6", "fig2.10", "fig2.11",
    "section6.2.1", "section6.2.2", "section6.2.3-pages",
)  # fmt: skip


@pytest.mark.parametrize("name", FAST)
def test_robust_claims_hold(name: str) -> None:
    experiment = BY_NAME[f"freshening/{name}"]
    outcome = experiment.run(Context(seeds=[1, 2], workers=1))
    assert [c for c in outcome.claims if c.kind == "robust" and not c.holds] == []
    assert len({len(row) for row in outcome.table}) <= 1


def test_every_figure_of_the_text_has_its_experiment() -> None:
    names = {f"freshening/fig2.{n}" for n in range(1, 12)} | {"freshening/table2.1"}
    assert names | {f"freshening/section6.2.{n}" for n in range(1, 8)} <= set(BY_NAME)


def test_without_the_trace_the_real_pages_are_skipped_with_a_reason() -> None:
    outcome = BY_NAME["freshening/section6.2.3-pages"].run(Context(seeds=[1]))
    assert outcome.claims[0].kind == "skipped"
    assert "--trace page-changes=" in outcome.claims[0].ours


def test_changes_are_read_for_pages_known_before_2024(tmp_path: Path) -> None:
    path = tmp_path / "changes.csv.gz"
    old, new = (YEARS[0] - 5) * 86_400, (YEARS[0] + 5) * 86_400
    rows = ["collection,page,epoch_s,kind,git_status", f"c,a,{old},first,A", f"c,b,{new},first,A",
            f"c,a,{new},change,M", f"c,b,{new},change,M", f"c,a,{new},technical,M"]  # fmt: skip
    path.write_bytes(gzip.compress("\n".join(rows).encode()))
    time_d, page, pages = read_changes(path)
    assert (time_d.tolist(), page.tolist(), pages) == ([YEARS[0] + 5], [0], 1)


def test_a_push_delivers_the_mirrors_last_sync() -> None:
    changes = Events(np.array([1.0, 5.0]), np.array([0, 0]))
    syncs, pushes = (
        (np.array([2.0, 6.0]), np.array([0, 0])),
        (np.array([3.0, 5.5]), np.array([0, 0])),
    )
    reads = Events(np.array([0.5, 2.5, 3.5, 5.8, 6.5]), np.zeros(5, np.int64))
    own = fresh_behind(changes, syncs, pushes, reads, after_sync=False)
    assert own.tolist() == [True, False, True, False, False]
    delayed = fresh_behind(changes, syncs, pushes, reads, after_sync=True)
    assert delayed.tolist() == [True, False, False, False, True]


def test_a_queue_without_bursts_or_share_gives_the_plans_freshness() -> None:
    from daybreak.freshness import plan

    mirror, calm = thesis_mirror(1, objects=60), Bursts(per_period=0, periods=1)
    seen = simulate_split(
        mirror, 30, 0.0, "value", calm, periods=150, accesses_per_period=400, seed=3
    )
    assert seen == pytest.approx(plan(mirror, 30).perceived_freshness, abs=0.03)
    with pytest.raises(ConfigError, match="queue"):
        simulate_split(mirror, 30, 0.5, "fifo", calm, periods=1, accesses_per_period=1, seed=1)
