"""Our own sinks obey the laws of sinks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.servers import PostgresServer
from tests.spark.sinks.places import Calls, DeltaTables, Files, PostgresTable

from daybreak.spark.sinks.conformance import (
    LAWS,
    Law,
    SinkUnderTest,
    check,
    check_refusal_at_the_start,
)

pytestmark = pytest.mark.slow

PLACES: dict[str, Callable[[Path], SinkUnderTest]] = {
    "parquet": lambda folder: Files(folder, "parquet"),
    "json": lambda folder: Files(folder, "json"),
    "csv": lambda folder: Files(folder, "csv"),
    "csv without header": lambda folder: Files(folder, "csv", options={"header": "false"}),
    "partitioned": lambda folder: Files(folder, "parquet", partition_by=("text",)),
    "delta": DeltaTables,
    "memory": lambda _: Calls("memory"),
    "console": lambda _: Calls("console"),
    "python": lambda _: Calls("python"),
}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: law.__name__)
@pytest.mark.parametrize("place", PLACES)
def test_laws(place: str, law: Law, tmp_path: Path) -> None:
    check(law, PLACES[place](tmp_path), tmp_path / "laws")


#: Where files of a sink cannot be reached, large results are lost: these laws take them away.
_TAKES_FILES_AWAY = {check_refusal_at_the_start}


@pytest.mark.parametrize(
    "law", [law for law in LAWS if law not in _TAKES_FILES_AWAY], ids=lambda law: law.__name__
)
@pytest.mark.parametrize("place", ["parquet", "partitioned", "delta"])
def test_laws_where_results_are_staged_in_files(
    place: str, law: Law, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("daybreak.spark.sinks.sink.SMALL_BYTES", 0)
    check(law, PLACES[place](tmp_path), tmp_path / "laws")


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"key": "number"}], ids=["append", "upsert"])
def test_laws_of_postgres(
    postgres: PostgresServer, tmp_path: Path, options: dict[str, str]
) -> None:
    place = PostgresTable(postgres.dsn, **options)
    for law in LAWS:
        check(law, place, tmp_path)
