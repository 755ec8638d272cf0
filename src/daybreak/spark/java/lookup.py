"""Looks up, in an installed Spark, the internals that Daybreak uses. Starts no JVM."""

from __future__ import annotations

import re
from pathlib import Path

from daybreak.spark.java.capability import Capability, Internal
from daybreak.spark.java.jars import Jars
from daybreak.spark.java.manifest import INTERNALS


def missing_internals(jars: Path, pyspark: Path | None) -> dict[Capability, list[str]]:
    """What each capability lacks, of the jars in a folder and of PySpark's own sources.

    Those that lack nothing are left out, and so are those whose jar is not there. ``pyspark``: its
    folder; None: only the jars count.
    """
    files = sorted(jars.glob("*.jar"))
    found: dict[Capability, list[str]] = {}
    with Jars(files) as classes:
        for capability in INTERNALS:
            if capability.jar and not any(file.name.startswith(capability.jar) for file in files):
                continue
            lacking = [
                name
                for internal in capability.internals
                for name in _lacking(internal, classes, pyspark)
            ]
            if lacking:
                found[capability] = lacking
    return found


def _lacking(internal: Internal, classes: Jars, pyspark: Path | None) -> list[str]:
    """Names of a class, or of the members that it lacks."""
    if internal.name.startswith("pyspark."):
        return [] if pyspark is None else _lacking_in_python(internal, pyspark)
    there = next((name for name in internal.names if classes.find(name)), None)
    if there is None:
        return [internal.name]
    return [f"{there}.{m}" for m in internal.members if not classes.has(there, m)]


def _lacking_in_python(internal: Internal, pyspark: Path) -> list[str]:
    """As of a class; what is looked at is the text of its module, which is not imported."""
    module, _, name = internal.name.removeprefix("pyspark.").rpartition(".")
    folder = pyspark / Path(*module.split("."))
    file = folder / f"{name}.py" if folder.is_dir() else folder.with_suffix(".py")
    if not file.is_file():
        return [internal.name]
    text = file.read_text(encoding="utf-8")
    return [f"{internal.name}.{m}" for m in internal.members if not _defines(text, m)]


def _defines(text: str, name: str) -> bool:
    """Whether a function or an attribute of this name is defined there."""
    pattern = rf"^\s*(?:def |self\.|cls\.)?{re.escape(name)}\b\s*[:=(]"
    return re.search(pattern, text, re.MULTILINE) is not None
