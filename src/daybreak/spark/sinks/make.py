"""Makes the sink that a query declares."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from daybreak.model import ConfigError
from daybreak.model.environment import resolved
from daybreak.model.errors import suggestion
from daybreak.model.secrets import keep_within
from daybreak.model.specs import Mode, SinkSpec
from daybreak.spark.log.durable import refuse_long_name
from daybreak.spark.sinks.calls import CallbackSink, DestinationSink
from daybreak.spark.sinks.console import ConsoleSink
from daybreak.spark.sinks.delta_sink import OPTIONS as DELTA_OPTIONS
from daybreak.spark.sinks.delta_sink import DeltaOptions, open_delta
from daybreak.spark.sinks.destination import DeclaredSink
from daybreak.spark.sinks.files import FileSink, refuse_foreign_folder
from daybreak.spark.sinks.kafka_sink import kafka_writer, refuse_unsendable
from daybreak.spark.sinks.memory import MemorySink
from daybreak.spark.sinks.partitioning import check_partition_by
from daybreak.spark.sinks.registry import destination_names, find_destination
from daybreak.spark.sinks.sink import Callback, Sink, Writer
from daybreak.spark.sinks.snapshots import (
    LatestMemory,
    SnapshotSink,
    WholeCallback,
    WholeConsole,
    refuse_other_content,
)
from daybreak.spark.sinks.text_formats import write_csv, write_json_lines

#: Parquet files of so many rows have dictionaries: a page of each column's distinct values. Half:
#: results of hundreds of rows take a fifth longer to encode. Double: texts that repeat take more
#: room in files of a thousand rows.
DICTIONARY_ROWS = 1000
#: Sinks that have a folder of their own.
IN_FOLDERS = ("parquet", "json", "csv", "delta")
_COMPRESSIONS = ("snappy", "zstd", "lz4", "gzip", "none")
_OPTIONS: Mapping[str, tuple[str, ...]] = {
    "parquet": ("compression",),
    "delta": DELTA_OPTIONS,
    "json": (),
    "csv": ("header", "delimiter"),
    "console": ("rows",),
    "memory": (),
    "kafka": ("topic", "key"),
    "python": (),
}


def make_sink(  # noqa: PLR0911  # one for each format
    query: str,
    spec: SinkSpec,
    folder: Path,
    staging: Path,
    *,
    place: str = "",
    callback: Callback | None = None,
    limit_s: float = 600.0,
    schema: pa.Schema | None = None,
    mode: Mode | None = None,
) -> Sink:
    """The sink a query declares. Checks everything and writes nothing.

    ``folder``: what a relative path is relative to. ``staging``: the run directory's, for sinks
    that are not files. ``callback``: the function of a ``python`` sink, which has ``limit_s``.
    ``schema``: of the query's rows, where it is known. ``mode``: of the query.
    """
    place = place or f"query {query!r}"
    make = _SinkMaker(query, replace(spec, options=resolved(spec.options, place)), place)
    make.check()
    if mode == "complete":
        return make.whole(folder, staging, callback, limit_s)
    if mode == "update" and spec.format in IN_FOLDERS:
        raise make.error(
            f"{spec.format} cannot replace rows, as update mode does",
            "use postgres or kafka with a key, memory, console or a python function",
        )
    destination = None if spec.format in _OPTIONS else find_destination(spec.format)
    if destination is not None:
        declared = DeclaredSink(
            query=query, options=make.spec.options, raw_options=spec.options, schema=schema,
            place=place, limit_s=limit_s,
        )  # fmt: skip
        made = destination(declared)
        made.check()
        return DestinationSink(query, staging, made, limit_s)
    match spec.format:
        case "parquet" | "json" | "csv":
            path, by = make.folder(folder, schema), spec.partition_by
            return FileSink(query, path, spec.format, make.writer(), by)
        case "delta":
            options = DeltaOptions.read(
                make.spec.options, place, make.choice("compression", _COMPRESSIONS)
            )
            path, by = make.folder(folder, schema), spec.partition_by
            return open_delta(query, path, staging, schema, by, options, place)
        case "console":
            return ConsoleSink(query, staging, make.whole_number("rows", 20))
        case "memory":
            return MemorySink(query, staging)
        case "kafka":
            write = kafka_writer(make.spec.options, place, schema.names if schema else ())
            key = make.spec.options.get("key")
            replaced_by = [key] if key is not None and mode == "update" else []
            accept = partial(refuse_unsendable, key=replaced_by)
            return CallbackSink(query, staging, write, limit_s, accept)
        case _:
            if callback is None:
                raise make.error("a python sink has no function", "give it through the API")
            return CallbackSink(query, staging, callback, limit_s)


def _write_parquet(compression: str, table: pa.Table, out: BinaryIO) -> None:
    with_dictionary = table.num_rows >= DICTIONARY_ROWS
    pq.write_table(table, out, compression=compression, use_dictionary=with_dictionary)


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
        known = self.known_options()
        for option in self.spec.options:
            if self.spec.format == "kafka" and option.startswith("kafka."):
                continue  # Kafka's own
            if option not in known:
                raise self.error(
                    f"unknown option {option!r} of {self.spec.format}",
                    suggestion(option, known) if known else "it has no options",
                )
        if self.spec.format not in IN_FOLDERS:
            for key, value in (("path", self.spec.path), ("partition_by", self.spec.partition_by)):
                if value:
                    raise self.error(f"a {self.spec.format} sink has no {key}", f"leave {key} out")

    def whole(self, folder: Path, staging: Path, callback: Callback | None, limit_s: float) -> Sink:
        """A sink of complete mode."""
        match self.spec.format:
            case "parquet" if not self.spec.partition_by:
                path = self.path(folder)
                refuse_other_content(path, self.place)
                return SnapshotSink(self.query, path, self.writer())
            case "console":
                return WholeConsole(self.query, staging, self.whole_number("rows", 20))
            case "memory":
                return LatestMemory(self.query, staging)
            case "python" if callback is not None:
                return WholeCallback(self.query, staging, callback, limit_s)
        raise self.error(
            f"{self.spec.shown} cannot replace a result as a whole, as complete mode does",
            "use parquet without partition_by, memory, console or a python function",
        )

    def known_options(self) -> tuple[str, ...]:
        name = self.spec.format
        if name in _OPTIONS:
            return _OPTIONS[name]
        destination = find_destination(name)
        if destination is None:
            formats = (*_OPTIONS, *destination_names())
            raise self.error(f"unknown format {name!r}", suggestion(name, formats))
        return destination.options

    def folder(self, base: Path, schema: pa.Schema | None) -> Path:
        """The folder of a sink of files, which must not hold anything else."""
        check_partition_by(self.spec.partition_by, schema, self.place)
        path = self.path(base)
        refuse_foreign_folder(path, self.spec.format, self.spec.partition_by, self.place)
        return path

    def path(self, folder: Path) -> Path:
        if not self.spec.path:
            raise self.error("path is missing", 'give a folder, such as path = "out/fire"')
        if "://" in self.spec.path:
            keep_within(self.spec.path)
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
                return partial(_write_parquet, chosen)
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
