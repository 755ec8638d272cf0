"""The link experiments that run in a blink, and that every figure has one."""

import pytest

from daybreak.links.needs import Need
from daybreak_experiments.core import Context
from daybreak_experiments.links import EXPERIMENTS
from daybreak_experiments.links.common import near

BY_NAME = {e.name: e for e in EXPERIMENTS}


def test_every_figure_of_the_text_but_the_drawing_of_the_setup_has_an_experiment() -> None:
    assert {f"links/fig{n}" for n in (1, 2, 4, 5, 6, 7, 8, 9)} <= BY_NAME.keys()


@pytest.mark.slow
def test_quick_experiments_hold() -> None:
    for name in ("links/fig1", "links/fig2", "links/section5.3", "links/sizes"):
        outcome = BY_NAME[name].run(Context(seeds=[1, 2], workers=1))
        assert outcome.holds, name
        assert len(outcome.table) > 1


def test_near_takes_three_standard_errors_of_the_difference_and_half_a_digit() -> None:
    need = Need(2500, 10)
    assert near("x", need, 2.547).holds
    assert not near("x", need, 2.549).holds
