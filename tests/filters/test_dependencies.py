"""The frontier, and graphs that make no sense."""

from itertools import permutations

import pytest

from daybreak.filters import Dependencies
from daybreak.filters.filter_tuples import StreamTuple
from daybreak.model import ConfigError

DIAMOND = Dependencies("abcd", {"b": ["a"], "c": ["a"], "d": ["b", "c"]})


def test_counters_give_the_same_frontier_as_sets_on_every_path() -> None:
    for order in permutations(range(4)):
        t = StreamTuple(0, None, 0.0)
        t.enter(DIAMOND)
        for i in order:
            expected = {j for j in range(4) if DIAMOND.allows(t.passed, j)}
            assert {j for j in range(4) if t.may_go_to(j)} == expected
            if i not in expected:
                break
            t.pass_(i, DIAMOND)


def test_a_filter_that_works_on_the_tuple_cannot_take_it_again() -> None:
    t = StreamTuple(0, None, 0.0)
    t.enter(DIAMOND)
    t.start(0)
    assert not t.may_go_to(0)
    t.stop(0)
    assert t.may_go_to(0)


def test_a_cycle_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="a -> c -> b -> a"):
        Dependencies("abcd", {"a": ["b"], "b": ["c"], "c": ["a"], "d": ["a"]})
    with pytest.raises(ConfigError, match="a -> a"):
        Dependencies("ab", {"a": ["a"]})


def test_an_unknown_predecessor_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigError, match="did you mean 'alpha'"):
        Dependencies(["alpha", "beta"], {"beta": ["alpa"]})
