"""Section 6.3's experiments: the exact one, and the networks of the others."""

import pytest

from daybreak_experiments.aurora.overlap import SHARED, Case, overlapping, run_overlap
from daybreak_experiments.aurora.windows import APART, WHOLE, fig_6_5, output_times
from daybreak_experiments.core import Context


def test_figure_6_5_is_exact() -> None:
    assert output_times(**WHOLE).tolist() == [210.5 + i / 2 for i in range(20)]
    assert output_times(**APART).tolist() == [106.0 + 6 * i for i in range(20)]
    assert output_times(workers=2, **APART).tolist() == [106.0 + 5 * i for i in range(20)]


def test_the_misprinted_mean_is_the_only_claim_of_figure_6_5_that_fails() -> None:
    claims = fig_6_5(Context(seeds=[1])).claims
    assert [(c.claim, c.kind) for c in claims if not c.holds] == [
        ("train: mean as printed", "published")
    ]


@pytest.mark.parametrize("shared", SHARED)
def test_the_degree_of_overlap_is_the_share_of_common_boxes(shared: int) -> None:
    network = overlapping(2, shared, seed=1)
    one, other = (set(boxes) for boxes in network.query_boxes)
    assert len(one) == len(other) == 80
    assert len(one & other) / len(one) == shared / 10


def test_overlapping_applications_exclude_each_other() -> None:
    trees, cuts = (
        run_overlap(Case(c, 6, 2, seed=9)) for c in ("application trees", "intersections")
    )
    assert trees.busy_workers <= 1 < cuts.busy_workers
