"""The journal of a run on disk: a series of its record, written as it comes and read for replays.

The first row holds what the engine was made of, each other one an entry, as
``engine.journal_format`` writes them. Entries are numbered, so that a gap is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from daybreak.engine.journal import EngineOrigin, Journal
from daybreak.engine.journal_format import Reader, Recorded, entry_line, origin_line
from daybreak.model.errors import ConfigError
from daybreak.runtime.record import JOURNAL_FILE
from daybreak.runtime.starts import record_of

#: The number of the row before all entries.
_ORIGIN = -1


class JournalRecorder:
    """Turns entries into rows. ``collect`` and ``table`` are called by the thread that writes."""

    def __init__(self, journal: Journal, start_ns: int) -> None:
        """Before the engine's first event; ``start_ns`` is when that is."""
        self._journal = journal
        self._start_ns = start_ns
        self._rows: list[tuple[int, int, str]] = []
        self._began = False
        #: Why nothing more is written: an extension gave what has no JSON.
        self.stopped: str | None = None
        journal.record()

    def collect(self) -> None:
        """Encodes what came since the last call."""
        taken = self._journal.take()
        if self.stopped is not None:
            return
        try:
            if not self._began:
                line = origin_line(self._journal.origin)
                self._rows.append((_ORIGIN, self._start_ns, line))
                self._began = True
            self._rows += [(e.number, e.now_ns, entry_line(e.number, e)) for e in taken]
        except (TypeError, ValueError) as error:
            self.stopped = str(error)

    def table(self) -> dict[str, Any]:
        """What was collected since the last call, as an Arrow table by the name of its series."""
        import pyarrow as pa

        rows, self._rows = self._rows, []
        numbers, instants, lines = zip(*rows, strict=True) if rows else ((), (), ())
        columns = [pa.array(numbers, pa.int64()), pa.array(instants, pa.int64())]
        return {JOURNAL_FILE: pa.table([*columns, pa.array(lines, pa.string())], _COLUMNS)}


_COLUMNS = ["number", "at_ns", "line"]


@dataclass(frozen=True)
class RecordedJournal:
    """A journal that begins with the start of its run and has no gap."""

    place: str
    origin: EngineOrigin
    _lines: list[str]
    _reader: Reader

    def __len__(self) -> int:
        return len(self._lines)

    def entries(self) -> Iterator[Recorded]:
        """The entries in their order; once, since queries that came are remembered."""
        return map(self._reader.entry, self._lines)


def load_journal(run: Path) -> RecordedJournal:
    """The journal of a run directory, of its record, or of an earlier start in it.

    ``ConfigError`` if there is none, or if its beginning or a part of it is missing.
    """
    import pyarrow.parquet as pq

    record, place = record_of(run), str(run)
    if not (record / JOURNAL_FILE).exists():
        raise _nothing(run, record)
    try:
        table = pq.read_table(record / JOURNAL_FILE, partitioning=None).sort_by("number")
        numbers, instants, lines = (table[name].to_pylist() for name in _COLUMNS)
    except (OSError, ValueError, KeyError) as error:
        raise ConfigError(place, f"its journal cannot be read ({error})", "restore it") from error
    if not lines:
        raise ConfigError(place, "its journal holds nothing yet", "wait until it has run a while")
    if numbers[0] != _ORIGIN:
        finding = f"its journal begins at {_clock(instants[0])}, a replay needs the start"
        remedy = "its first part was removed to make room: raise limits.record_max_bytes"
        raise ConfigError(place, finding, remedy)
    for at, number in enumerate(numbers, _ORIGIN):
        if number != at:
            finding = f"its journal has a gap before {_clock(instants[at + 1])}"
            raise ConfigError(place, finding, "more came than was written; replay another run")
    reader = Reader(place)
    return RecordedJournal(place, reader.origin(lines[0]), lines[1:], reader)


def _nothing(run: Path, record: Path) -> ConfigError:
    if not run.exists():
        beside = sorted(p.name for p in _folders(run.parent))
        remedy = f"there is {', '.join(beside[:5])}" if beside else "name a run directory"
        return ConfigError(str(run), "is not there", remedy)
    report = record / "report.json"
    if not report.exists():
        return ConfigError(str(run), "holds no record of a run", "name a run directory")
    head: Mapping[str, Any] = {}
    with suppress(OSError, ValueError):
        head = json.loads(report.read_text(encoding="utf-8"))
    about = head.get("manifest", {})
    series = ", ".join(sorted(p.name for p in record.glob("*.parquet")))
    why = (
        about.get("journal_stopped") or f"version {about.get('daybreak', 'unknown')} wrote {series}"
    )
    return ConfigError(str(run), f"its record holds no journal ({why})", "replay another run")


def _folders(parent: Path) -> list[Path]:
    return [p for p in parent.glob("*") if p.is_dir()] if parent.is_dir() else []


def _clock(at_ns: int) -> str:
    return f"{datetime.fromtimestamp(at_ns / 1e9, UTC).astimezone():%H:%M:%S}"
