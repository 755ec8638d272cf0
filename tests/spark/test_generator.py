"""The built-in source: every row once, in order, in segments of bounded size."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tests.spark.test_segments import opened

from daybreak.model.arrivals import Arrivals
from daybreak.model.specs import StreamSpec
from daybreak.spark.ingest.generator import MOST_ROWS, GeneratorSource


def test_a_source_that_falls_behind_makes_more_segments_instead_of_larger_ones(
    tmp_path: Path,
) -> None:
    limit = 2 * MOST_ROWS + 7
    spec = StreamSpec(
        name="r",
        format="generator",
        options={"limit": str(limit)},
        arrivals=Arrivals(rate_per_s=1e9),  # all of it is due at once
    )
    with opened(tmp_path, memory_bytes=2**28) as (store, _):
        source = GeneratorSource(spec, store, lambda _segment: None, tick_s=0.001)
        source.start()
        source.drain()
        assert source.failure() is None
        segments = store.segments("r")
    assert [s.rows for s in segments] == [MOST_ROWS, MOST_ROWS, 7]
    offsets = [0, MOST_ROWS, 2 * MOST_ROWS, limit]
    made = [f"[{first},{last}]" for first, last in pairwise(offsets)]
    assert [s.offsets.replace(" ", "") for s in segments] == made
