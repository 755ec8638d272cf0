"""Chooses who reads a stream, once at its start: this driver's threads or a StreamingQuery.

Whichever it is goes on where the other one has left off.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from daybreak.model.environment import resolved
from daybreak.model.errors import ConfigError, DaybreakError
from daybreak.model.specs import StreamSpec
from daybreak.spark.ingest.direct.checkpoints import (
    StreamFolders,
    files_read,
    finish,
    go_direct,
    go_to_spark,
    keep_start,
    left_off,
)
from daybreak.spark.ingest.direct.direct_source import DirectSource
from daybreak.spark.ingest.direct.inotify import Inotify
from daybreak.spark.ingest.direct.intake import Intake, NoIntake
from daybreak.spark.ingest.direct.listing import FolderListing
from daybreak.spark.ingest.direct.listing_options import ListingOptions, is_folder, why_not
from daybreak.spark.ingest.direct.spark_listing import SparkListing, files_by_spark
from daybreak.spark.ingest.direct.supply import (
    AskingPace,
    FilesPlace,
    FileSupply,
    FoldedFiles,
    Listing,
    OffsetSupply,
    Supply,
)
from daybreak.spark.ingest.kafka_source import KafkaPosition, positions
from daybreak.spark.ingest.parts import IngestParts
from daybreak.spark.ingest.stream_source import read_stream, source_path, source_session
from daybreak.spark.kafka.options import FORMAT as KAFKA
from daybreak.spark.kafka.options import topics
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.event_time import duration_us
from daybreak.spark.log.positions import Position, PositionKind, ReadFile
from daybreak.spark.log.rundir import RunDirectory

#: Sources that read the files of a folder.
FILE_FORMATS = ("json", "csv", "text", "xml", "parquet", "orc", "avro")
#: How soon, and how rarely, a source is asked that answers at once. Half of the former, and an idle
#: stream costs twice as much; twice as much is added to the latency of rows.
_SWIFT = {KAFKA: (0.005, 0.05), "rate": (0.002, 0.05), "rate-micro-batch": (0.002, 0.05),
          "socket": (0.002, 0.05)}  # fmt: skip
#: Where a folder's changes are not reported, and where asking takes long, unless ``trigger`` says.
POLL_S = 0.1


@dataclass
class DirectStreams:
    """Makes the direct sources of one run."""

    spark: SparkSession
    folder: Path
    rundir: RunDirectory
    log: CommitLog
    parts: IngestParts
    _inotify: Inotify | None = None
    _opened: bool = False
    #: Streams that were made before: a commit of theirs may have failed only seemingly.
    _made: set[str] = field(default_factory=set)

    def make(self, spec: StreamSpec) -> DirectSource:
        """A source that goes on where the stream was; ``NoIntake`` if it cannot be read so."""
        stream = spec.name
        if stream in self._made:
            self._settle(stream)
        folders = self.folders(stream)
        position = finish(self.log, stream, folders)
        session = source_session(self.spark)
        frame = read_stream(session, spec, self.folder)
        path = source_path(spec, self.folder)
        listing = self._listing_options(session, spec, path)
        if listing is None:
            keep_start(folders)
        intake = Intake(session, frame, folders.kept)
        try:
            if (intake.way == "files") != (listing is not None):
                raise NoIntake(f"format {spec.format!r} is not read as its name says")
            opening = _Opening(self, spec, session, intake, path, folders, listing)
            place = opening.begin(position)
            kafka = _kafka(spec, place)
        except BaseException:
            intake.stop()
            raise
        self._made.add(stream)
        return DirectSource(
            stream, spec.format, session, frame.schema, intake, opening.open, self.parts,
            duration_us(spec.trigger, f"stream {stream!r}", "trigger") / 1e6, kafka,
        )  # fmt: skip

    def to_spark(self, stream: str) -> None:
        """Lets a StreamingQuery go on where the stream was."""
        folders = self.folders(stream)
        position = finish(self.log, stream, folders)
        if position is not None:
            go_to_spark(self.log, position, folders)

    def folders(self, stream: str) -> StreamFolders:
        return StreamFolders(self.rundir.checkpoint(stream))

    def inotify(self) -> Inotify | None:
        """The one of this run; None where the kernel has none to give."""
        if not self._opened:
            self._inotify, self._opened = Inotify.opened(self.parts.emit), True
        return self._inotify

    def close(self) -> None:
        """Call it when all sources have stopped."""
        if self._inotify is not None:
            self._inotify.close()

    def _settle(self, stream: str) -> None:
        """What the log has counts, whatever became known of it."""
        if not self.log.settle():
            raise DaybreakError(f"the log cannot tell yet how far stream {stream!r} was read")
        self.parts.store.catch_up(stream, self.parts.on_segment)

    def _listing_options(
        self, session: SparkSession, spec: StreamSpec, path: str | None
    ) -> ListingOptions | None:
        """None if the source is none of files."""
        if spec.format not in FILE_FORMATS:
            return None
        if path is None:
            raise NoIntake("it has no path")
        options = resolved(spec.options, f"stream {spec.name!r}")
        reason = why_not(session, path, options)
        if reason is not None:
            raise NoIntake(reason)
        return ListingOptions.of(session, options)


@dataclass
class _Opening:
    """The beginning of one source."""

    streams: DirectStreams
    spec: StreamSpec
    session: SparkSession
    intake: Intake
    path: str | None
    folders: StreamFolders
    listing: ListingOptions | None
    #: As the log has it, or will have it once the place is known.
    position: Position | None = None
    files: list[ReadFile] = field(default_factory=list)

    def begin(self, stored: Position | None) -> str:
        """Decides where to go on, and stores it where no broker has to be asked; the place."""
        stream, log = self.spec.name, self.streams.log
        kind: PositionKind = self.intake.way
        source = source_name(self.spec, self.path)
        if stored is not None:
            _refuse_other_source(stored, kind, source)
            self.position = stored
            return stored.place
        left = left_off(log, stream, self.folders)
        checkpoint_id, batch_id, place = str(uuid4()), -1, ""
        if left is not None:
            checkpoint_id, batch_id, place = left.checkpoint_id, left.batch_id, left.offset or ""
            self.streams.parts.dead_letters.forget_from(stream, batch_id + 1)
        if kind == "files":
            self.files = [] if left is None else files_read(self.folders, left)
            place = FilesPlace(max((ms for _, ms, _ in self.files), default=0)).text()
        self.position = Position(
            stream=stream, kind=kind, source=source, checkpoint_id=checkpoint_id,
            batch_id=batch_id, place=place,
        )  # fmt: skip
        if place:
            go_direct(log, self.position, self.folders, self.files)
        return place

    def open(self) -> tuple[Position, Supply]:
        """Called on the source's thread."""
        position = self.position
        assert position is not None
        log = self.streams.log
        if not position.place:  # durable before anything is asked: what came since is to be read
            position = replace(position, place=self.intake.initial())
            go_direct(log, position, self.folders)
        if self.listing is None:
            self.intake.seen(position.place)
            if position.batch_id >= 0:
                self.intake.commit(position.place)  # a crash may have come before
            return position, OffsetSupply(self.intake, position.place, pace_of(self.spec))
        folded = FoldedFiles(log, position.stream)
        return position, FileSupply(
            position.stream, self.intake, self._files(position, folded), log, folded,
            position.place, trigger_s(self.spec) or 0.0,
        )  # fmt: skip

    def _files(self, position: Position, folded: FoldedFiles) -> Listing:
        """Lists what the source has, and the log has not."""
        assert self.path is not None
        assert self.listing is not None
        log, streams = self.streams.log, self.streams

        def known(paths: Sequence[str]) -> set[str]:
            return log.known_files(position.stream, paths) | set(folded.among(paths))

        options = resolved(self.spec.options, f"stream {self.spec.name!r}")
        given: Any = {
            "newest_ms": FilesPlace.of(position.place).newest_ms, "emit": streams.parts.emit,
            "poll_s": trigger_s(self.spec) or POLL_S, "stream": position.stream,
        }  # fmt: skip
        if is_folder(self.path, options):
            return FolderListing(self.path, self.listing, streams.inotify(), known, **given)
        files = files_by_spark(self.session, self.path, options)
        return SparkListing(files, self.listing, known, **given)


def source_name(spec: StreamSpec, path: str | None) -> str:
    """What a stream is read from, in a few words: another source has another name."""
    if spec.format == KAFKA:
        place = f"stream {spec.name!r}"
        named = topics(resolved(spec.options, place), place)
        return f"{KAFKA} {named}"
    return f"{spec.format} {path}" if path is not None else str(spec.format)


def trigger_s(spec: StreamSpec) -> float | None:
    """The trigger in seconds; None where the declaration gives none."""
    if spec.trigger == StreamSpec(name="").trigger:
        return None
    return duration_us(spec.trigger, f"stream {spec.name!r}", "trigger") / 1e6


def pace_of(spec: StreamSpec) -> AskingPace:
    """How often a source of offsets is asked."""
    least_s, most_s = _SWIFT.get(spec.format or "", (POLL_S, POLL_S))
    declared_s = trigger_s(spec)
    return AskingPace(least_s, most_s) if declared_s is None else AskingPace(declared_s, declared_s)


def _kafka(spec: StreamSpec, place: str) -> KafkaPosition | None:
    if spec.format != KAFKA:
        return None
    options = resolved(spec.options, f"stream {spec.name!r}")
    return KafkaPosition(options, positions(place) if place else {})


def _refuse_other_source(stored: Position, kind: PositionKind, source: str) -> None:
    if (stored.kind, stored.source) != (kind, source):
        raise ConfigError(
            f"stream {stored.stream!r}",
            f"was read from {stored.source!r} so far, and is {source!r} now",
            "correct it, give the other source a stream of its own, or choose a new run directory",
        )
