"""The comparison's own parts that need no Spark: what is asked, what counts as visible."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from benchmarks.versus.feeder import Feeder
from benchmarks.versus.present import BEGIN, END, utility, write_page
from benchmarks.versus.visible import Delivered, visible_files
from benchmarks.versus.workload import CLASSES, filters, readings


@pytest.mark.parametrize("n", [1, 2, 3, 25, 60, 250])
def test_no_two_queries_ask_the_same(n: int) -> None:
    """Equal conditions would be a present to whoever shares work."""
    queries = filters(n)
    assert len({q.condition for q in queries}) == len({q.name for q in queries}) == n


def test_critical_queries_come_first() -> None:
    order = [q.cls for q in filters(25)]
    assert order == sorted(order, key=list(CLASSES).index)
    assert [order.count(cls) for cls in CLASSES] == [5, 10, 10]


def test_the_feeder_knows_what_must_arrive(tmp_path: Path) -> None:
    query = filters(25)[0]
    feeder = Feeder(tmp_path, 1000, [query])
    feeder.burst(1000, files=2)
    fed = pa.concat_tables([pq.read_table(f) for f in sorted(tmp_path.glob("*.parquet"))])
    expected = [
        row["id"]
        for row in fed.to_pylist()
        if query.low <= row["temperature"] < query.high and row["wind"] > query.wind
    ]
    assert feeder.wanted(query).ids.tolist() == expected
    assert expected, "a query that keeps nothing would measure nothing"


def test_a_file_is_visible_since_its_rename(tmp_path: Path) -> None:
    """Not since it was written: a rename must set the change time on this file system."""
    partial = tmp_path / "_a.parquet.partial"
    pq.write_table(pa.table({"id": [1]}), partial)
    written_ns = partial.stat().st_ctime_ns
    deadline = time.monotonic() + 10
    probe = tmp_path / "_clock"
    while True:  # until the kernel's coarse clock has moved on
        probe.touch()
        if probe.stat().st_ctime_ns > written_ns:
            break
        assert time.monotonic() < deadline
    partial.rename(tmp_path / "a.parquet")
    found = visible_files(tmp_path)
    assert list(found) == [tmp_path / "a.parquet"]
    assert found[tmp_path / "a.parquet"] > written_ns // 1000


def test_files_of_sparks_sink_are_visible_once_listed(tmp_path: Path) -> None:
    """A compacted entry repeats older files; those count from the entry that had them first."""
    log = tmp_path / "_spark_metadata"
    log.mkdir()
    for name, files in {"0": ["a"], "1.compact": ["a", "b"], ".2.tmp": ["c"]}.items():
        lines = [json.dumps({"path": f"file://{tmp_path}/{f}.parquet"}) for f in files]
        (log / name).write_text("\n".join(["v1", *lines]))
    (tmp_path / "c.parquet").touch()
    found = visible_files(tmp_path)
    assert found == {
        tmp_path / "a.parquet": (log / "0").stat().st_ctime_ns // 1000,
        tmp_path / "b.parquet": (log / "1.compact").stat().st_ctime_ns // 1000,
    }


def test_rows_are_read_once(tmp_path: Path) -> None:
    query = filters(1)[0]
    folder = tmp_path / query.name
    folder.mkdir()
    rows = readings(0, 5, created_us=7, rng=np.random.default_rng(1))
    pq.write_table(rows, folder / "a.parquet")
    delivered = Delivered(tmp_path, [query])
    assert (delivered.look(), delivered.look()) == (5, 5)
    ids, created, visible = delivered.of(query.name)
    assert ids.tolist() == list(range(5))
    assert created.tolist() == [7] * 5
    assert set(visible.tolist()) == {(folder / "a.parquet").stat().st_ctime_ns // 1000}


def test_the_page_changes_between_its_marks_only(tmp_path: Path) -> None:
    page = tmp_path / "spark.md"
    page.write_text(f"before\n\n{BEGIN}\n\nlast measurement\n\n{END}\n\nafter\n")
    once = write_page({}, {}, page).read_text()
    assert once.startswith(f"before\n\n{BEGIN}\n\n## Settings")
    assert once.endswith(f"\n\n{END}\n\nafter\n")
    assert "last measurement" not in once
    assert write_page({}, {}, page).read_text() == once


def test_tables_that_were_not_measured_again_stay(tmp_path: Path) -> None:
    page = tmp_path / "spark.md"
    settings = "## Settings of every side\n\nformerly"
    old = f"{settings}\n\n## Mine\n\nreplaced\n\n### Ratios\n\n## Other\n\nkept"
    page.write_text(f"{BEGIN}\n\n{old}\n\n{END}\n")
    manifest = {
        "cores": 2, "memory_gb": 1, "system": "Linux", "spark": "4", "java": "17",
        "python": "3", "load_before": 0.0, "command": "it",
    }  # fmt: skip
    timing = {"seconds": 1, "warmup_s": 1}
    study = {"title": "Mine", "manifest": manifest, "timing": timing, "results": []}
    text = write_page({"overload": study}, {}, page).read_text()
    assert "formerly" not in text
    assert "replaced" not in text
    assert "### Ratios" not in text
    assert text.index("## Mine\n\n2 cores") < text.index("## Other\n\nkept")
    assert text.endswith(f"kept\n\n{END}\n")


def test_utility_is_per_row_and_not_per_class() -> None:
    classes = {
        "critical": {"rows": 1, "missing": 0, "mean_utility": 1.0},
        "archive": {"rows": 10, "missing": 2, "mean_utility": 0.5},
    }
    critical, archive = CLASSES["critical"], CLASSES["archive"]
    expected = (critical * 1 + archive * 12 * 0.5) / (critical * 1 + archive * 12)
    assert utility(classes) == pytest.approx(expected)
