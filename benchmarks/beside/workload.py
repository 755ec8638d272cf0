"""Twenty-five critical filters over one stream, and a history whose queries may wait."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from benchmarks.versus.sides.common import MEMORY
from benchmarks.versus.workload import CLASSES, QOS, SCHEMA, STREAM, Filter, filters

from daybreak import App
from daybreak.model.specs import IngestWay
from daybreak.spark.run import Run

CRITICAL = 25
HISTORY, HISTORY_SCHEMA = "history", "id BIGINT, reading INT, text STRING"
#: Of ten readings, those that each query of the history keeps.
KEPT = (1, 2, 3)
LOWEST = min(CLASSES, key=CLASSES.__getitem__)
#: So long is a row's text that 1.5 million rows are a gigabyte.
_TEXT = "x" * 620


@dataclass(frozen=True)
class Beside:
    """One measurement, as its child process is told it."""

    work: str
    ingest: IngestWay = "direct"
    cores: str = "*"

    @property
    def input(self) -> Path:
        return Path(self.work) / "in"

    @property
    def history(self) -> Path:
        return Path(self.work) / "history"

    @property
    def output(self) -> Path:
        return Path(self.work) / "out"

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def critical() -> list[Filter]:
    """Filters of the critical class, no two alike."""
    made = [query for query in filters(5 * CRITICAL) if query.cls == "critical"]
    return [replace(query, name=f"critical-{i:03d}") for i, query in enumerate(made)]


def write_history(folder: Path, rows: int, files: int) -> None:
    """JSON files of a history, where no source looks."""
    folder.mkdir(parents=True)
    for number in range(files):
        first, end = (rows * at // files for at in (number, number + 1))
        with (folder / f"{number:06d}.json").open("w", encoding="ascii") as out:
            for at in range(first, end):
                out.write(f'{{"id": {at}, "reading": {at % 10}, "text": "{_TEXT}"}}\n')


def wanted_of_history(rows: int, kept: int) -> int:
    """Rows that a query of the history gives."""
    return len(range(kept, rows, 10))


def release(prepared: Path, into: Path) -> None:
    """Lets the source see the history: files are renamed, one by one, as fast as that is."""
    for file in sorted(prepared.iterdir()):
        file.rename(into / file.name)
    shutil.rmtree(prepared)


@contextmanager
def running(task: Beside) -> Iterator[Run]:
    app = App.local("ingest-beside", cores=task.cores, **MEMORY)
    for name, priority in CLASSES.items():
        app.query_class(name, priority, qos=QOS[name])
    app.stream(STREAM, format="parquet", path=str(task.input), schema=SCHEMA, ingest=task.ingest)
    app.stream(
        HISTORY, format="json", path=str(task.history), schema=HISTORY_SCHEMA, ingest=task.ingest
    )
    for query in critical():
        sink = {"format": "parquet", "path": str(task.output / query.name)}
        app.query(query.name, sql=query.sql, cls="critical", sink=sink)
    for kept in KEPT:
        sql = f"SELECT id, reading FROM {HISTORY} WHERE reading = {kept}"
        sink = {"format": "parquet", "path": str(task.output / f"{HISTORY}-{kept}")}
        app.query(f"{HISTORY}-{kept}", sql=sql, cls=LOWEST, sink=sink)
    with app.run(run_dir=Path(task.work) / "run") as run:
        yield run
