"""An inbox is a query's position: what is taken of it are ranges, without gaps or overlaps."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from daybreak.engine.inbox import Inbox, Waiting, closing, same_range


@dataclass(frozen=True)
class Segment:
    arrival_ns: int
    stream: str
    seq: int
    rows: int
    after_us: int | None = None
    borders: tuple[int, ...] = ()


def rows_of(taken: list[Waiting]) -> list[tuple[str, int, int]]:
    return [(w.stream, w.seq, w.row + i) for w in taken for i in range(w.tuples)]


@given(
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=6),
    limits=st.lists(st.tuples(st.integers(1, 7), st.booleans()), max_size=40),
)
def test_what_is_taken_is_each_row_once_and_in_order(
    sizes: list[int], limits: list[tuple[int, bool]]
) -> None:
    """Also where jobs fail, and what they took is put back."""
    inbox = Inbox()
    for seq, rows in enumerate(sizes):
        assert inbox.arrive(Segment(seq, "r", seq, rows)) == rows
    every = [("r", seq, row) for seq, rows in enumerate(sizes) for row in range(rows)]
    found: list[tuple[str, int, int]] = []
    for limit, fails in limits:
        taken = inbox.take(limit)
        if fails:
            inbox.put_back(taken)
        else:
            found += rows_of(taken)
        assert inbox.tuples == len(every) - len(found)
    assert found + rows_of(inbox.take(None)) == every
    assert (inbox.tuples, inbox.arrival_sum_ns, inbox.head_ns) == (0, 0, 0)


@given(
    files=st.lists(st.lists(st.integers(1, 9), max_size=4), min_size=1, max_size=5),
    limits=st.lists(st.tuples(st.integers(1, 7), st.booleans(), st.booleans()), max_size=40),
)
def test_trains_over_files_are_cut_at_their_borders(
    files: list[list[int]], limits: list[tuple[int, bool, bool]]
) -> None:
    """Unless cuts are asked for; then what is left of a file is the next train's."""
    inbox = Inbox()
    for seq, borders in enumerate(files):
        inbox.arrive(Segment(seq, "r", seq, sum(borders) or 3, borders=tuple(borders)))
    every = [("r", seq, i) for seq, rows in enumerate(files) for i in range(sum(rows) or 3)]
    ends = {(seq, sum(rows[: n + 1])) for seq, rows in enumerate(files) for n in range(len(rows))}
    found: list[tuple[str, int, int]] = []
    for limit, cuts, fails in limits:
        taken = inbox.take(limit, cuts=cuts)
        assert len({item.whole for item in taken}) <= 1, "from files, or from memory"
        size = sum(item.tuples for item in taken)
        if cuts or (taken and not taken[0].whole):
            assert size <= limit
        elif taken:
            assert all((item.seq, item.row + item.tuples) in ends for item in taken)
            assert size <= limit or len(taken) == 1
        if fails and not cuts:
            inbox.put_back(taken)
        else:
            found += rows_of(taken)
    while rest := inbox.take(None):
        found += rows_of(rest)
    assert found == every


def test_streams_are_merged_by_arrival_and_each_keeps_its_order() -> None:
    """Stamps may go back: a clock that was set, or rows of a view."""
    r = [Waiting(at_ns, "r", 1, seq) for seq, at_ns in enumerate((10, 5, 30))]
    q = [Waiting(at_ns, "q", 1, seq) for seq, at_ns in enumerate((7, 20))]
    merged = Inbox.of([*r, *q]).take(None)
    assert [(w.stream, w.seq) for w in merged] == [
        ("q", 0), ("r", 0), ("r", 1), ("q", 1), ("r", 2),
    ]  # fmt: skip


def test_the_same_range_may_come_in_other_pieces() -> None:
    whole = [Waiting(1, "r", 10, 4, 2), Waiting(2, "r", 3, 5)]
    pieces = [Waiting(1, "r", 4, 4, 2), Waiting(1, "r", 6, 4, 6), Waiting(2, "r", 3, 5)]
    assert same_range(whole, pieces)
    assert not same_range(whole, pieces[1:]), "it begins elsewhere"
    assert not same_range(whole, pieces[:-1]), "it ends elsewhere"
    windows = [closing(1, "r", 8, 0, 10), closing(2, "r", 3, 10, 20)]
    assert same_range(windows, [closing(2, "r", 99, 0, 20)])
    assert not same_range(windows, windows[1:])
    assert not same_range(windows, windows[:1])
