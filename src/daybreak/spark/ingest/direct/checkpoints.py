"""Takes streams from a StreamingQuery's checkpoint to a position in the log, and back.

Either way the batches go on with the next number, of the same checkpoint id: to the log it is one
story. A crash in between leaves a state that the next start finishes, whichever way it goes.

::

    checkpoints/STREAM                 of a StreamingQuery; not there while the log has a position
    checkpoints/STREAM@before-direct   as it was left when the stream was read directly
    checkpoints/STREAM@direct          what a source of offsets keeps for itself, such as its start
    checkpoints/STREAM@to-spark        a checkpoint that is being written from a position
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from daybreak.model import ConfigError
from daybreak.runtime.clock import CLOCK
from daybreak.spark.ingest.direct.paths import path_of, uri_of
from daybreak.spark.log.commitlog import CommitLog
from daybreak.spark.log.durable import make_folder, move_durably, sync_files
from daybreak.spark.log.positions import Position, ReadFile

_RESTORE = "put it back as it was, or start with a new run directory"
#: Text of an offset of a source that had none yet.
_NO_OFFSET = "-"


class StreamFolders(NamedTuple):
    """The folders of one stream."""

    checkpoint: Path

    def beside(self, mark: str) -> Path:
        # No stream has such a file name: @ is quoted there.
        return self.checkpoint.with_name(f"{self.checkpoint.name}@{mark}")

    @property
    def kept(self) -> Path:
        """The folder of a source of offsets that is read directly, as Spark gives it one."""
        return self.beside("direct") / "sources" / "0"


class LeftOff(NamedTuple):
    """Where a StreamingQuery has stopped."""

    checkpoint_id: str
    #: The last batch that is done; -1: none is.
    batch_id: int
    #: The source's offset after it; None where there is none.
    offset: str | None


def finish(log: CommitLog, stream: str, folders: StreamFolders) -> Position | None:
    """Finishes what a crash has interrupted; gives the position if the log has it.

    Afterwards the stream has a position or a checkpoint, not both.
    """
    position = log.position(stream)
    written = folders.beside("to-spark")
    if position is None:
        if written.exists():  # it is complete: the position goes after it
            move_durably(written, folders.checkpoint)
            shutil.rmtree(folders.beside("direct"), ignore_errors=True)
        return None
    shutil.rmtree(written, ignore_errors=True)
    if folders.checkpoint.exists():
        found = _id_of(folders.checkpoint, stream)
        if found != position.checkpoint_id:
            raise ConfigError(
                f"stream {stream!r}",
                f"is read directly, and {folders.checkpoint} is another checkpoint ({found})",
                "move it away, or start with a new run directory",
            )
        _set_aside(folders)
    return position


def left_off(log: CommitLog, stream: str, folders: StreamFolders) -> LeftOff | None:
    """Where a StreamingQuery has left off; None if the stream is new.

    ``ConfigError`` if the log has rows of the stream and the checkpoint is gone.
    """
    newest = log.segments(stream)[-1:]
    if not (folders.checkpoint / "metadata").exists():
        if newest:
            raise ConfigError(
                f"stream {stream!r}",
                f"its segments end with batch {newest[0].batch_id} of checkpoint "
                f"{newest[0].checkpoint_id}, which was deleted or replaced",
                _RESTORE,
            )
        return None
    checkpoint_id = _id_of(folders.checkpoint, stream)
    if newest and newest[0].checkpoint_id != checkpoint_id:
        raise ConfigError(
            f"stream {stream!r}",
            f"its segments end with batch {newest[0].batch_id} of checkpoint "
            f"{newest[0].checkpoint_id}, but {folders.checkpoint} is checkpoint {checkpoint_id}",
            _RESTORE,
        )
    batch_id = max(_numbers(folders.checkpoint / "commits"), default=-1)
    following = batch_id + 1 in _numbers(folders.checkpoint / "offsets")
    if following and log.find_batch(stream, checkpoint_id, batch_id + 1) is not None:
        batch_id += 1
    if newest and newest[0].batch_id > batch_id:
        raise ConfigError(
            f"stream {stream!r}",
            f"its segments go on to batch {newest[0].batch_id}, but {folders.checkpoint} ends "
            f"with batch {batch_id}: the checkpoint was set back",
            _RESTORE,
        )
    offset = None if batch_id < 0 else _offset(folders.checkpoint, batch_id, stream)
    return LeftOff(checkpoint_id, batch_id, offset)


def files_read(folders: StreamFolders, left: LeftOff) -> list[ReadFile]:
    """The files that a StreamingQuery has read up to where it left off."""
    if left.offset is None:
        return []
    last = int(json.loads(left.offset)["logOffset"])
    found: dict[str, ReadFile] = {}
    for path in sorted((folders.checkpoint / "sources" / "0").iterdir()):
        if path.name.removesuffix(".compact").isdigit():
            for entry in _entries(path):
                if entry["batchId"] <= last:
                    name = path_of(entry["path"])
                    found[name] = (name, entry["timestamp"], 0)
    return list(found.values())


def keep_start(folders: StreamFolders) -> None:
    """Copies what a source of offsets keeps for itself to where direct reads expect it."""
    source, target = folders.checkpoint / "sources" / "0", folders.kept
    if source.is_dir():
        shutil.rmtree(folders.beside("direct"), ignore_errors=True)
        make_folder(target.parent)
        shutil.copytree(source, target)
        sync_files(target.rglob("*"))
    make_folder(target)


def go_direct(
    log: CommitLog, position: Position, folders: StreamFolders, files: Iterable[ReadFile] = ()
) -> None:
    """From now on the log has the position; the checkpoint is set aside."""
    log.begin_position(position, files)
    if folders.checkpoint.exists():
        _set_aside(folders)


def go_to_spark(log: CommitLog, position: Position, folders: StreamFolders) -> None:
    """From now on a StreamingQuery reads the stream, from a checkpoint at its position."""
    written = folders.beside("to-spark")
    shutil.rmtree(written, ignore_errors=True)
    make_folder(written)
    files = position.kind == "files"
    (written / "metadata").write_text(json.dumps({"id": position.checkpoint_id}))
    last, offset = position.batch_id, '{"logOffset":0}' if files else position.place
    if not files:
        last = max(0, last)  # so that it goes on from the start that is known
        if folders.kept.is_dir():
            shutil.copytree(folders.kept, written / "sources" / "0")
    elif last >= 0:
        _write(written / "sources" / "0" / "0", _file_lines(log.read_files(position.stream)))
    for batch_id in range(max(0, last - 1), last + 1):  # a restart reads both
        began = {"batchWatermarkMs": 0, "batchTimestampMs": CLOCK.now_ns() // 10**6, "conf": {}}
        _write(written / "offsets" / str(batch_id), [json.dumps(began), offset])
        _write(written / "commits" / str(batch_id), [json.dumps({"nextBatchWatermarkMs": 0})])
    sync_files(path for path in written.rglob("*") if path.is_file())
    log.end_position(position.stream)
    finish(log, position.stream, folders)


def _file_lines(files: Iterable[ReadFile]) -> Iterator[str]:
    for path, mtime_ms, _ in files:
        yield json.dumps({"path": uri_of(path), "timestamp": mtime_ms, "batchId": 0})


def _set_aside(folders: StreamFolders) -> None:
    before = folders.beside("before-direct")
    shutil.rmtree(before, ignore_errors=True)
    move_durably(folders.checkpoint, before)


def _write(path: Path, lines: Iterable[str]) -> None:
    """A file of one of Spark's metadata logs."""
    make_folder(path.parent)
    with path.open("w", encoding="utf-8") as out:
        out.write("v1")
        out.writelines(f"\n{line}" for line in lines)


def _id_of(checkpoint: Path, stream: str) -> str:
    try:
        return str(json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))["id"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _damaged(checkpoint / "metadata", stream, error) from None


def _offset(checkpoint: Path, batch_id: int, stream: str) -> str | None:
    path = checkpoint / "offsets" / str(batch_id)
    try:
        [offset] = path.read_text(encoding="utf-8").splitlines()[2:]
    except (OSError, ValueError) as error:
        raise _damaged(path, stream, error) from None
    return None if offset == _NO_OFFSET else offset


def _numbers(folder: Path) -> set[int]:
    found = folder.iterdir() if folder.is_dir() else ()
    return {int(path.name) for path in found if path.name.isdigit()}


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines()[1:]
    return (json.loads(line) for line in lines if line)


def _damaged(path: Path, stream: str, error: Exception) -> ConfigError:
    finding = f"{path} cannot be read ({str(error).splitlines()[0]})"
    return ConfigError(f"stream {stream!r}", finding, _RESTORE)
