"""Our own sinks obey the laws of sinks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from benchmarks.servers import PostgresServer
from tests.spark.sinks.places import Calls, DeltaTables, Files, PostgresTable

from daybreak.spark.sinks.conformance import LAWS, Law, SinkUnderTest, check

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


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"key": "number"}], ids=["append", "upsert"])
def test_laws_of_postgres(
    postgres: PostgresServer, tmp_path: Path, options: dict[str, str]
) -> None:
    place = PostgresTable(postgres.dsn, **options)
    for law in LAWS:
        check(law, place, tmp_path)
