"""Sinks: where a query's rows go, without loss and, where a sink can, exactly once.

Every sink works in two steps around the commit of a job. ``stage`` writes the rows to a file
that nobody looks at; the commit log then lists that file in the transaction that moves the
cursors; ``deliver`` brings it to its place. A crash before the transaction leaves a file that is
not listed, which ``delivery`` deletes. A crash after it leaves one that is listed, which
``delivery`` delivers (again).

A large file is durable when it is staged. Of a small one the log keeps the content until
``file_sync`` has made it durable at its place, after readers could see it: a job waits for the disk
once, in its transaction, however many files it leaves. A crash of the process loses no file; what
a crash of the machine loses of it, ``restore`` writes again.
"""

from __future__ import annotations

import io
import os
import queue
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.model import ConfigError, EngineBug
from daybreak.model.environment import resolved
from daybreak.model.errors import suggestion
from daybreak.model.overlaps import STAGING
from daybreak.model.specs import SinkSpec
from daybreak.spark.log.durable import (
    file_name,
    make_folder,
    move_durably,
    refuse_long_name,
    same_folder,
    write_durably,
)
from daybreak.spark.log.rows import CommittedFile, StagedFile
from daybreak.spark.sinks.text_formats import plain_rows, write_csv, write_json_lines

#: Up to this size the log keeps a result's content until its file is durable.
SMALL_BYTES = 2**18

Writer: TypeAlias = Callable[[pa.Table, BinaryIO], None]
#: A user's function: rows, and a key that is the same if the same rows are given again.
Callback: TypeAlias = Callable[[pa.Table, str], object]


class Sink(Protocol):
    """What the engine asks of a sink. Methods may be called from any thread."""

    query: str
    #: False: after a crash the same rows may be delivered again, with the same key.
    exactly_once: bool

    def stage(self, job: str, table: pa.Table) -> StagedFile | None:
        """Writes the rows durably where no reader looks; None if there are none.

        Called once per job, before its commit.
        """

    def owns(self, file: CommittedFile) -> bool:
        """Whether this sink staged the file: a query's earlier sink may have been another one."""

    def deliver(self, file: CommittedFile) -> bool:
        """Brings a committed file to its place; called again after a crash, then harmless.

        False if the staged file is gone: an earlier call has taken it, or somebody else did.
        """

    def has(self, file: CommittedFile) -> bool:
        """Whether a file that is not staged is known to have been delivered.

        False where the sink cannot know: a function was called, or was not.
        """

    def target(self, file: CommittedFile) -> Path | None:
        """Where a delivered file lies, to be made durable; None if the sink keeps none."""

    def restore(self, file: CommittedFile) -> None:
        """Stages a committed file again from its content, as far as the log holds that.

        For one that the machine's crash lost or tore, or that somebody tidied away.
        """

    def staged(self) -> Iterable[Path]:
        """All files that ``stage`` has written and ``deliver`` has not taken."""


class _Staging:
    """A folder of staged files of one query."""

    def __init__(self, query: str, folder: Path, extension: str, write: Writer) -> None:
        self.query = query
        self._staging = folder
        self._suffix = f".{extension}"
        self._write = write

    def stage(self, job: str, table: pa.Table) -> StagedFile | None:
        if table.num_rows == 0:
            return None
        path = make_folder(self._staging) / f"{job}-{file_name(self.query)}{self._suffix}"
        encoded = io.BytesIO()
        self._write(table, encoded)
        content = encoded.getvalue()
        if len(content) > SMALL_BYTES:
            write_durably(path, lambda out: out.write(content))
            return StagedFile(self.query, path, table.num_rows)
        path.write_bytes(content)
        return StagedFile(self.query, path, table.num_rows, content)

    def has(self, _file: CommittedFile) -> bool:
        return False

    def owns(self, file: CommittedFile) -> bool:
        return same_folder(file.path.parent, self._staging) and file.path.suffix == self._suffix

    def target(self, _file: CommittedFile) -> Path | None:
        return None

    def restore(self, file: CommittedFile) -> None:
        content = file.content
        if content is not None:
            make_folder(file.path.parent)
            write_durably(file.path, lambda out: out.write(content))

    def staged(self) -> list[Path]:
        return sorted(self._staging.iterdir()) if self._staging.is_dir() else []


class FileSink(_Staging):
    """One file per job in a folder: ``<path>/<job>-<query>.<ext>``, exactly once."""

    exactly_once = True

    def __init__(self, query: str, path: Path, extension: str, write: Writer) -> None:
        super().__init__(query, path / STAGING, extension, write)
        self.path = path

    def deliver(self, file: CommittedFile) -> bool:
        target = self.target(file)
        if not file.path.exists():
            return False
        if target.exists():
            raise EngineBug(f"{target} exists already: job id {file.job} was used twice")
        if file.content is None:
            move_durably(file.path, target)
        else:
            file.path.rename(target)
        return True

    def has(self, file: CommittedFile) -> bool:
        return self.target(file).exists()

    def target(self, file: CommittedFile) -> Path:
        return self.path / file.path.name

    def restore(self, file: CommittedFile) -> None:
        if file.content is not None:
            self.target(file).unlink(missing_ok=True)
        super().restore(file)


class _CallingSink(_Staging):
    """Gives the rows to a function, then removes the staged file: at least once.

    Nobody else reads that file, so it is of the kind that is written and read soonest.
    """

    exactly_once = False

    def __init__(self, query: str, staging: Path, call: Callback) -> None:
        super().__init__(query, staging / file_name(query), "arrow", _write_arrow)
        self._call = call

    def owns(self, file: CommittedFile) -> bool:
        # Earlier versions staged in another format.
        return same_folder(file.path.parent, self._staging)

    def deliver(self, file: CommittedFile) -> bool:
        if not file.path.exists():
            return False
        self._call(_read_staged(file), f"{file.job}/{file.query}")
        file.path.unlink()
        return True


def _write_arrow(table: pa.Table, out: BinaryIO) -> None:
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table)


def _read_staged(file: CommittedFile) -> pa.Table:
    if file.path.suffix == ".parquet":  # as it was in earlier run directories
        return pq.read_table(file.path, partitioning=None)
    content = file.path.read_bytes() if file.content is None else file.content
    return pa.ipc.open_stream(content).read_all()


class SinkTimeout(Exception):
    """A sink's function did not return in time."""


class _Caller:
    """A thread that calls functions for another one, which need not wait for ever.

    It ends with whoever it called for: nobody refers to it then.
    """

    def __init__(self) -> None:
        calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._calls = calls
        threading.Thread(target=_make_calls, args=(calls,), name="sinks", daemon=True).start()

    def call(self, function: Callable[[], object]) -> Future[object]:
        outcome: Future[object] = Future()
        self._calls.put((function, outcome))
        return outcome

    def __del__(self) -> None:
        self._calls.put(None)


_Call: TypeAlias = tuple[Callable[[], object], Future[object]]
#: The caller of each thread that delivers: a new thread for every call would cost more than the
#: call, all the more where many threads share Python's lock.
_callers = threading.local()


def _make_calls(calls: queue.SimpleQueue[_Call | None]) -> None:
    while (call := calls.get()) is not None:
        function, outcome = call
        try:
            outcome.set_result(function())
        except BaseException as error:
            outcome.set_exception(error)
        del call, function, outcome  # rows are not kept until the next ones come


class CallbackSink(_CallingSink):
    """A Python function, called with the rows and a key to recognise a repetition by.

    It has ``limit_s`` to return. Then it is left behind, so that others need not wait for it; it
    is not called again before it has returned, and after that with the same key.
    """

    def __init__(self, query: str, staging: Path, call: Callback, limit_s: float) -> None:
        super().__init__(query, staging, self._within)
        self._function = call
        self._limit_s = limit_s
        self._left: Future[object] | None = None

    def _within(self, table: pa.Table, key: str) -> None:
        if self._left is not None and not self._left.done():
            raise SinkTimeout("its sink has not returned from an earlier call yet")
        caller: _Caller | None = getattr(_callers, "mine", None)
        if caller is None:
            caller = _callers.mine = _Caller()
        outcome = caller.call(partial(self._function, table, key))
        try:
            failure = outcome.exception(self._limit_s)
        except TimeoutError:
            self._left = outcome
            del _callers.mine  # it is at this call until that returns
            late = f"its sink took longer than job_timeout = {self._limit_s:g} s"
            raise SinkTimeout(late) from None
        if failure is not None:
            raise failure


class ConsoleSink(_CallingSink):
    """Prints rows as ``query: column=value ...``, at most ``most`` of one job."""

    def __init__(
        self, query: str, staging: Path, most: int = 20, show: Callable[[str], object] = print
    ) -> None:
        super().__init__(query, staging, self._print)
        self._most = most
        self._show = show

    def _print(self, table: pa.Table, _key: str) -> None:
        for row in plain_rows(table.slice(0, self._most)):
            cells = " ".join(f"{name}={_shown(value)}" for name, value in row.items())
            self._show(f"{self.query}: {cells}")
        if table.num_rows > self._most:
            self._show(f"{self.query}: ... and {table.num_rows - self._most} more rows")


def _shown(value: object) -> object:
    return "null" if value is None else value


class MemorySink(_CallingSink):
    """Keeps all rows of this process's life, for tests and notebooks."""

    def __init__(self, query: str, staging: Path) -> None:
        super().__init__(query, staging, self._keep)
        self._guard = threading.Lock()
        self._tables: list[pa.Table] = []

    def _keep(self, table: pa.Table, _key: str) -> None:
        with self._guard:
            self._tables.append(table)

    def table(self) -> pa.Table | None:
        """Everything delivered so far, in order; None before the first row."""
        with self._guard:
            return pa.concat_tables(self._tables) if self._tables else None


_COMPRESSIONS = ("snappy", "zstd", "lz4", "gzip", "none")
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "parquet": ("compression",),
    "json": (),
    "csv": ("header", "delimiter"),
    "console": ("rows",),
    "memory": (),
    "kafka": ("topic", "key"),
    "python": (),
}


def make_sink(
    query: str,
    spec: SinkSpec,
    folder: Path,
    staging: Path,
    *,
    place: str = "",
    callback: Callback | None = None,
    limit_s: float = 600.0,
    columns: Sequence[str] = (),
) -> Sink:
    """The sink a query declares. Checks everything and writes nothing.

    ``folder``: what a relative path is relative to. ``staging``: the run directory's, for sinks
    that are not files. ``callback``: the function of a ``python`` sink, which has ``limit_s``.
    ``columns``: those of the query, where they are known.
    """
    place = place or f"query {query!r}"
    make = _SinkMaker(query, replace(spec, options=resolved(spec.options, place)), place)
    make.check()
    match spec.format:
        case "parquet" | "json" | "csv":
            return FileSink(query, make.path(folder), spec.format, make.writer())
        case "console":
            return ConsoleSink(query, staging, make.whole_number("rows", 20))
        case "memory":
            return MemorySink(query, staging)
        case "kafka":
            from daybreak.spark.sinks.kafka_sink import kafka_writer

            write = kafka_writer(make.spec.options, place, columns)
            return CallbackSink(query, staging, write, limit_s)
        case _:
            if callback is None:
                raise make.error("a python sink has no function", "give it through the API")
            return CallbackSink(query, staging, callback, limit_s)


@dataclass(frozen=True)
class _SinkMaker:
    """Reads a declaration and says what is wrong with it."""

    query: str
    spec: SinkSpec
    place: str

    def error(self, finding: str, remedy: str) -> ConfigError:
        return ConfigError(self.place, f"sink: {finding}", remedy)

    def check(self) -> None:
        refuse_long_name(self.query, self.place)
        known = _OPTIONS.get(self.spec.format)
        if known is None:
            raise self.error(
                f"unknown format {self.spec.format!r}", suggestion(self.spec.format, _OPTIONS)
            )
        for option in self.spec.options:
            if self.spec.format == "kafka" and option.startswith("kafka."):
                continue  # Kafka's own
            if option not in known:
                raise self.error(
                    f"unknown option {option!r} of {self.spec.format}",
                    suggestion(option, known) if known else "it has no options",
                )
        if self.spec.path is not None and self.spec.format not in ("parquet", "json", "csv"):
            raise self.error(f"a {self.spec.format} sink has no path", "leave path out")

    def path(self, folder: Path) -> Path:
        if not self.spec.path:
            raise self.error("path is missing", 'give a folder, such as path = "out/fire"')
        if "://" in self.spec.path:
            raise self.error(
                f"path {self.spec.path!r} is not on a file system of this machine",
                "give a folder here, or use a python sink",
            )
        path = Path(os.path.abspath(folder / self.spec.path))  # noqa: PTH100  # keeps links
        above = next(p for p in (path, *path.parents) if p.exists() or p.is_symlink())
        if not above.is_dir():
            raise self.error(f"{above} is not a folder", "choose another path")
        if not os.access(above, os.W_OK | os.X_OK):
            raise self.error(f"{above} cannot be written to", "choose another path or allow it")
        return path

    def writer(self) -> Writer:
        match self.spec.format:
            case "parquet":
                chosen = self.choice("compression", _COMPRESSIONS)
                return lambda table, out: pq.write_table(table, out, compression=chosen)
            case "json":
                return write_json_lines
            case _:
                header = self.choice("header", ("true", "false")) == "true"
                delimiter = self.spec.options.get("delimiter", ",")
                if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
                    raise self.error(f"delimiter {delimiter!r}", "give one ASCII character")
                return lambda table, out: write_csv(table, out, header=header, delimiter=delimiter)

    def choice(self, option: str, valid: tuple[str, ...]) -> str:
        found = self.spec.options.get(option, valid[0])
        if found not in valid:
            raise self.error(f"{option} {found!r}", suggestion(found, valid))
        return found

    def whole_number(self, option: str, default: int) -> int:
        text = self.spec.options.get(option, str(default))
        if not text.isdecimal():
            raise self.error(f"{option} {text!r}", "give a whole number, 0 or more")
        return int(text)
