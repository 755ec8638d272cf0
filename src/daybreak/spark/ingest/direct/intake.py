"""Reads a source's rows in the driver's JVM, without a Spark job (``spark/java/ingest``).

The rows are those that a micro-batch of a StreamingQuery would have, since the same readers read
them: types, modes, malformed records, time zones and encodings are Spark's.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any, Literal, cast

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from daybreak.model.errors import DaybreakError
from daybreak.spark.failures import one_line, one_line_of_java
from daybreak.spark.ingest.direct.found import FoundFile
from daybreak.spark.java.loader import JavaPackage
from daybreak.spark.tasks.prepared.jvm import active
from daybreak.spark.tasks.prepared.trains import MemoryFolder, read_result

#: Bytes of Arrow that one read may give, in memory that Python and the JVM share. Ten times what a
#: stream reads at once by default (``driver_batch_bytes``), for batches that were estimated too
#: small. Half as many: more of those are read twice. Twice as many: two streams that do so at once
#: fill the 1 GB that a small machine has there.
MOST_BYTES = 256 << 20
_INTERRUPTED, _TOO_LARGE = -1, -2
#: Reasons of ours in Java, which are whole sentences without a prefix.
_UNREAD = "daybreak.ingest.Unread"


class NoIntake(Exception):
    """A source that cannot be read directly; the text is the reason, for users."""


class IntakeFailed(DaybreakError):
    """A direct read failed. The text is Spark's: it names the file and what its reader says."""


class IntakeInterrupted(Exception):
    """A direct read ended early because ``Intake.interrupt`` was called."""


class IntakeTooLarge(Exception):
    """A direct read gave more bytes than it may: its rows have to be read by executors."""


class Intake:
    """Reads one stream's source. One thread reads; ``interrupt`` may be called from any."""

    def __init__(self, spark: SparkSession, frame: DataFrame, folder: Path) -> None:
        """Raises ``NoIntake`` for a source that needs a StreamingQuery.

        ``frame``: the streaming frame. ``folder``: where a source of offsets keeps what it has to
        know at its next start; it must last as long as the stream's position.
        """
        self._spark = spark
        self._schema = _arrow_schema(spark, frame)
        context: Any = spark.sparkContext
        try:
            tasks = JavaPackage(context._gateway, "tasks").new("LocalTasks")
            package = JavaPackage(context._gateway, "ingest")
            with active(spark):
                self._java = package.new("Intake", tasks, frame._jdf, f"file://{folder.resolve()}")
            self.way = cast(Literal["files", "offsets"], str(self._java.way()))
        except (Py4JError, PySparkException) as error:
            raise NoIntake(_reason(error)) from None
        except TypeError as error:  # a class that is missing is called as if it were a package
            raise NoIntake(f"Spark's classes are not as expected: {error}") from None
        self._file = _memory().path / f"intake-{next(_NUMBERS)}"

    def read_files(self, files: Sequence[FoundFile], most_bytes: int = MOST_BYTES) -> pa.Table:
        """The rows of some files, in the order of the files."""
        return self._read(self._java.readFiles, most_bytes, _lines(files))

    def read_range(self, start: str, end: str, most_bytes: int = MOST_BYTES) -> pa.Table:
        """The rows after one offset up to another, partition by partition."""
        return self._read(self._java.readRange, most_bytes, start, end)

    def initial(self) -> str:
        """The offset at which a new stream starts."""
        with _failing():
            return str(self._java.initial())

    def latest(self, start: str) -> str | None:
        """The offset up to which to read next, within the user's limits; None: nothing is new."""
        with _failing():
            found = self._java.latest(start)
        return None if found is None else str(found)

    def commit(self, offset: str) -> None:
        """Allows the source to forget what lies before this offset."""
        with _failing():
            self._java.commit(offset)

    def seen(self, offset: str) -> None:
        """Names the stored position once at a start, for readers that ask for it."""
        with _failing(), active(self._spark):
            self._java.seen(offset)

    def frame_of_files(self, files: Sequence[FoundFile]) -> DataFrame:
        """The rows of some files as a batch frame, which executors read."""
        with _failing(), active(self._spark):
            return DataFrame(self._java.frameOfFiles(_lines(files)), self._spark)

    def frame_of_range(self, start: str, end: str) -> DataFrame:
        """The rows between two offsets as a batch frame, which executors read."""
        with _failing(), active(self._spark):
            return DataFrame(self._java.frameOfRange(start, end), self._spark)

    def interrupt(self) -> None:
        """Ends the read that is under way; it raises ``IntakeInterrupted``."""
        self._java.interrupt()

    def stop(self) -> None:
        """Closes the source. Nothing may be read after it."""
        self._file.unlink(missing_ok=True)
        with _failing():
            self._java.stop()

    def _read(self, method: Callable[..., int], most_bytes: int, *what: str) -> pa.Table:
        try:
            with _failing():
                written = method(*what, str(self._file), most_bytes)
            if written == _INTERRUPTED:
                raise IntakeInterrupted("the read was interrupted")
            if written == _TOO_LARGE:
                raise IntakeTooLarge("its rows take more memory than a direct read may")
            table = read_result(self._file, self._schema)
            return table if table.schema.equals(self._schema) else table.cast(self._schema)
        finally:
            self._file.unlink(missing_ok=True)  # it takes memory


_NUMBERS = count()


@cache
def _memory() -> MemoryFolder:
    """The folder of all streams of this process: making one looks at those of all processes."""
    folder = MemoryFolder()
    atexit.register(folder.close)
    return folder


def _arrow_schema(spark: SparkSession, frame: DataFrame) -> pa.Schema:
    """The schema of ``frame.toArrow()`` in a micro-batch."""
    large = spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes") == "true"
    try:
        return to_arrow_schema(
            frame.schema,
            error_on_duplicated_field_names_in_struct=True,
            timezone="UTC",
            prefers_large_types=large,
        )
    except PySparkException as error:
        raise NoIntake(one_line(error)) from None


def _lines(files: Sequence[FoundFile]) -> str:
    """Files as one text for the JVM: an array would cross to it element by element."""
    return "\n".join(f"{_escaped(f.path)}\t{f.size}\t{f.mtime_ms}" for f in files)


def _escaped(path: str) -> str:
    if not {"\\", "\t", "\n"} & set(path):
        return path
    return path.replace("\\", "\\b").replace("\t", "\\t").replace("\n", "\\n")


@contextmanager
def _failing() -> Iterator[None]:
    """Turns what the JVM raises into ``IntakeFailed``."""
    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise IntakeFailed(one_line(error)) from error


def _reason(error: Exception) -> str:
    """Why there is no intake, in one line."""
    cause = error.java_exception if isinstance(error, Py4JJavaError) else None
    while cause is not None:
        if cause.getClass().getName() == _UNREAD:
            return str(cause.getMessage())
        cause = cause.getCause()
    if isinstance(error, Py4JJavaError):
        return one_line_of_java(error.java_exception)
    return one_line(error)
