"""Files that a listing of a source's folder has found."""

from __future__ import annotations

from typing import NamedTuple


class FoundFile(NamedTuple):
    """A file that holds rows of a stream, as it was when it was listed."""

    #: An absolute path, or a whole URI, as Spark's ``SparkPath`` takes it.
    path: str
    mtime_ms: int
    size: int
