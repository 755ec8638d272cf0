"""Options for JVMs that live for seconds and mostly start.

They compile lightly and load their classes from an archive (class data sharing), which takes less
than half the time. The archive is written once per checkout, by a short run of a pipeline. A JVM
that cannot use it, such as one of another version, starts without it.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import sys
import tempfile
import time
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from benchmarks.soaking.application import LOG, pipeline, start

from daybreak.spark.session import require_java

#: A JVM that compiles lightly reserves 48 MB for code, and ends when hundreds of queries need more.
LIGHT = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
FIRST_LIFE_LIMIT_S = 600.0


@cache
def quick_jvm() -> str:
    """The options; writes the archive if there is none. Processes that ask at once share it."""
    archive = _archive()
    archive.parent.mkdir(parents=True, exist_ok=True)
    with (archive.parent / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not archive.exists():
            _write(archive)
    return f"{LIGHT} -Xshare:auto -XX:SharedArchiveFile={archive}"


def _archive() -> Path:
    """In the virtual environment, which is as old as the jars that are archived."""
    java = require_java()
    release = f"{java.path.resolve()} {java.version} {version('pyspark')} {sys.prefix}"
    name = hashlib.sha256(release.encode()).hexdigest()[:12]
    home = Path(sys.prefix)
    folder = home if os.access(home, os.W_OK) else Path(tempfile.gettempdir())
    return folder / "daybreak-jvm" / f"classes-{name}.jsa"


def _await_group(group: int) -> None:
    """Returns when no process of the group is left."""
    end_s = time.monotonic() + FIRST_LIFE_LIMIT_S
    with suppress(ProcessLookupError):
        while time.monotonic() < end_s:
            os.killpg(group, 0)
            time.sleep(0.05)  # polls


def _write(archive: Path) -> None:
    with tempfile.TemporaryDirectory(dir=archive.parent) as temporary:
        folder, written = Path(temporary), Path(temporary) / "classes.jsa"
        (folder / "pipeline.toml").write_text(pipeline(300, 100))
        options = f"{LIGHT} -XX:ArchiveClassesAtExit={written}"
        first = start(folder, "--until-end", java_options=options)
        if first.wait(timeout=FIRST_LIFE_LIMIT_S) != 0:
            raise AssertionError(f"the first life failed: {(folder / LOG).read_text()[-3000:]}")
        _await_group(first.pid)  # the JVM outlives its driver: it writes the archive at its end
        if written.exists():
            written.rename(archive)
        else:  # this JVM writes none: an empty file is not tried again and not used
            archive.touch()
