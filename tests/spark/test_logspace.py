"""Which part of a queue lies before the places up to which a full log is given up."""

from __future__ import annotations

import pytest

from daybreak.engine.engine import tuples_before
from daybreak.engine.inbox import Waiting
from daybreak.spark.log.rows import Cursor

WAITING = [Waiting(1, "r", 3, 4, 7), Waiting(2, "q", 5, 0), Waiting(3, "r", 10, 5)]


@pytest.mark.parametrize(
    ("cut", "tuples"),
    [
        ({}, 0),
        ({"r": Cursor(4, 0)}, 0),
        ({"r": Cursor(5, 0)}, 3),
        ({"r": Cursor(6, 0)}, 18),
        ({"q": Cursor(1, 0)}, 8),
        ({"q": Cursor(1, 0), "r": Cursor(5, 0)}, 8),
    ],
)
def test_the_shortest_prefix_that_holds_all_rows_before_the_places(
    cut: dict[str, Cursor], tuples: int
) -> None:
    assert tuples_before(WAITING, cut) == tuples
