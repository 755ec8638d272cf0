"""Names of local files as Spark takes them, whatever characters they hold and whatever its default
file system is.

Hadoop takes the percent signs of a URI literally. What Spark reads is a pattern to it: ``run[12]``
would be the folders ``run1`` and ``run2`` of other runs. (Its option that turns patterns off reads
each of several such files several times.)
"""

from __future__ import annotations

import re
from pathlib import Path

_SPECIAL = re.compile(r"([\[\]{}*?\\])")


def to_write(path: Path) -> str:
    """A file or folder that Spark makes."""
    return f"file://{path.absolute()}"


def to_read(path: Path) -> str:
    """A file or folder that Spark finds: the one of this name and no other.

    ``toRead`` of java/stateful/FeedSource.java, which runs in the JVM, does the same.
    """
    return "file://" + _SPECIAL.sub(r"\\\1", str(path.absolute()))
