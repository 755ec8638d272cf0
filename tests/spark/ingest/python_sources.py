"""Data sources in Python. Their classes are made in functions, so that they go to workers whole."""

# ruff: noqa: N802  # methods are named by Spark

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

COLUMNS = "n INT, t STRING, at TIMESTAMP"


def register(spark: SparkSession) -> None:
    """Makes ``numbers_simple``, ``numbers_ranged`` and ``numbers_limited`` formats of a session.

    Each counts up to its option ``rows``, at most 4 a batch, in two partitions where it has such,
    and adds what it is told to commit to the file of its option ``commits``.
    """

    def row(n: int) -> tuple[Any, ...]:
        from datetime import datetime

        text = None if n % 3 == 0 else f"é{n}"
        return n, text, datetime.fromtimestamp(1_767_225_600 + n / 8, UTC)

    def note(path: str, end: dict[str, int]) -> None:
        with Path(path).open("a") as file:
            file.write(f"{end['n']}\n")

    class Simple(SimpleDataSourceStreamReader):
        def __init__(self, options: Any) -> None:
            self.rows, self.commits = int(options["rows"]), options["commits"]

        def initialOffset(self) -> dict[str, int]:
            return {"n": 0}

        def read(self, start: dict[str, int]) -> tuple[Iterator[tuple[Any, ...]], dict[str, int]]:
            end = {"n": min(self.rows, start["n"] + 4)}
            return self.readBetweenOffsets(start, end), end

        def readBetweenOffsets(
            self, start: dict[str, int], end: dict[str, int]
        ) -> Iterator[tuple[Any, ...]]:
            return iter([row(n) for n in range(start["n"], end["n"])])

        def commit(self, end: dict[str, int]) -> None:
            note(self.commits, end)

    class Part(InputPartition):
        def __init__(self, first: int, last: int) -> None:
            self.first, self.last = first, last

    class Counting(DataSourceStreamReader):
        def __init__(self, options: Any) -> None:
            self.rows, self.commits = int(options["rows"]), options["commits"]
            self.fails, self.endless = "fails" in options, options.get("endless")

        def initialOffset(self) -> dict[str, int]:
            return {"n": 0}

        def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[Part]:
            middle = (start["n"] + end["n"]) // 2
            return [Part(start["n"], middle), Part(middle, end["n"])]

        def read(self, partition: Any) -> Iterator[tuple[Any, ...]]:
            from pyspark import TaskContext

            context = TaskContext.get()
            assert context is not None
            assert context.cpus() == 1
            if self.fails and partition.first:
                raise ValueError("the meter does not answer")
            if self.endless:
                return self.forever(self.endless)
            return iter([row(n) for n in range(partition.first, partition.last)])

        def forever(self, started: str) -> Iterator[tuple[Any, ...]]:
            while True:
                yield row(1)
                Path(started).touch()

        def commit(self, end: dict[str, int]) -> None:
            note(self.commits, end)

    #: As readers were before they knew limits: it says how far there is something.
    ranged = type("Ranged", (Counting,), {"latestOffset": lambda self: {"n": self.rows}})

    class Limited(Counting):
        """As readers are that know what a batch may have."""

        def getDefaultReadLimit(self) -> Any:
            from pyspark.sql.streaming.datasource import ReadMaxRows

            return ReadMaxRows(4)

        def latestOffset(self, start: dict[str, int], limit: Any) -> dict[str, int]:
            most = getattr(limit, "max_rows", self.rows)
            return {"n": min(self.rows, start["n"] + most)}

    def source(kind: type, format_name: str) -> type[DataSource]:
        class Numbers(DataSource):
            @classmethod
            def name(cls) -> str:
                return format_name

            def schema(self) -> str:
                return COLUMNS

            def streamReader(self, schema: Any) -> DataSourceStreamReader:
                made: DataSourceStreamReader = kind(self.options)
                return made

            def simpleStreamReader(self, schema: Any) -> SimpleDataSourceStreamReader:
                made: SimpleDataSourceStreamReader = kind(self.options)
                return made

        if kind is Simple:
            del Numbers.streamReader
        return Numbers

    for kind, name in ((Simple, "simple"), (ranged, "ranged"), (Limited, "limited")):
        spark.dataSource.register(source(kind, f"numbers_{name}"))
