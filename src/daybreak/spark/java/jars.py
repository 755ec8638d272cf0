"""Looks classes up in Spark's jars, without a JVM."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from zipfile import BadZipFile, ZipFile

from daybreak.spark.java.classfile import ClassFile


class Jars:
    """The classes in some jars, which stay open until it is closed; damaged ones are left out."""

    def __init__(self, jars: Iterable[Path]) -> None:
        self._open = ExitStack()
        self._archives: dict[str, ZipFile] = {}
        self._read: dict[str, ClassFile | None] = {}
        for jar in jars:
            try:
                archive = self._open.enter_context(ZipFile(jar))
            except (OSError, BadZipFile):
                continue
            self._archives.update(dict.fromkeys(archive.namelist(), archive))

    def __enter__(self) -> Jars:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()

    def find(self, name: str) -> ClassFile | None:
        """Reads a class by its full name, ``Outer$Inner`` if it is nested; None: no jar has it."""
        if name not in self._read:
            entry = f"{name.replace('.', '/')}.class"
            archive = self._archives.get(entry)
            self._read[name] = None if archive is None else ClassFile.read(archive.read(entry))
        return self._read[name]

    def lineage(self, name: str) -> Iterator[ClassFile]:
        """A class and all that it inherits from, as far as it lies in these jars."""
        waiting, seen = [name], set()
        while waiting:
            one = waiting.pop()
            if one in seen:
                continue
            seen.add(one)
            found = self.find(one)
            if found is not None:
                yield found
                waiting += found.parents

    def has(self, name: str, member: str) -> bool:
        """Whether a class has a field or a method of this name, itself or inherited."""
        return any(member in found.members for found in self.lineage(name))
