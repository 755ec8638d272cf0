"""What our sources use of Spark: read from class files that Janino has made, and from texts."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import py4j.java_gateway

from daybreak.spark.java.classfile import ClassFile
from daybreak.spark.java.loader import cooked, sources

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

SRC = Path(__file__).parents[3] / "src" / "daybreak"
JAVA = SRC / "spark" / "java"
MANIFEST = (JAVA / "manifest.py", JAVA / "manifest_ingest.py")
PACKAGES = sorted({path.parent.name for path in JAVA.glob("*/*.java")})
#: Calls of reflection, and comparisons of a class by its name.
_REFLECTED = (
    r'(?:call|field)\([^"()]*(?:\([^()]*\))?[^"()]*"([\w$]+)"\)',
    r'field\(\s*"[\w.$]+\.([\w$]+)",\s*"([\w$]+)"',
    r'getDeclaredField\("([\w$]+)"\)',
    r'getMethod\("([\w$]+)"',
    r'getName\(\)\.equals\("([\w$]+)"\)',
    r'equals\("([A-Z][\w$]+)"\)',
    r'endsWith\("\.([A-Z]\w+)"\)',
)


def compiled(spark: SparkSession, package: str) -> Iterator[ClassFile]:
    """The classes of one of our packages, as Janino compiles them."""
    context: Any = spark.sparkContext
    yield from map(ClassFile.read, cooked(context._gateway, package).getBytecodes().values())


def reflected(package: str) -> set[str]:
    """Names of Spark's classes and members that a package reaches by a text.

    Not those in lists of operators: one that Spark does not have there takes an ordinary job.
    """
    text = "\n".join(sources(package).values())
    operators = re.findall(r'"(\w+)"', "".join(re.findall(r"OPERATORS =.*?;", text, re.S)))
    found = {n for pattern in _REFLECTED for m in re.finditer(pattern, text) for n in m.groups()}
    found -= {"MODULE$", *operators}
    return {simple(name) if name[0].isupper() else name for name in found}


def simple(name: str) -> str:
    """The name of a class as sources write it."""
    return re.split(r"[.$]", name.rstrip("$"))[-1]


@cache
def modules() -> dict[str, ast.Module]:
    """Our Python that may import PySpark, without the manifest itself, by paths of files."""
    paths = sorted((SRC / "spark").rglob("*.py"))
    kept = (path for path in paths if path not in MANIFEST)
    return {str(path.relative_to(SRC)): ast.parse(path.read_text()) for path in kept}


class Calls:
    """What our Python calls through the gateway while it records."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        #: Full names of classes, each with a member.
        self.found: set[tuple[str, str]] = set()
        self._classes: dict[str, str] = {}
        self._patch = monkeypatch

    @contextmanager
    def recorded(self) -> Iterator[None]:
        member = py4j.java_gateway.JavaMember
        call, make = member.__call__, py4j.java_gateway.JavaClass.__call__

        def called(this: Any, *arguments: Any) -> Any:
            if _from_our_code():
                self.found.add((self._class_of(this, call), this.name))
            return call(this, *arguments)

        def made(this: Any, *arguments: Any) -> Any:
            if _from_our_code():
                self.found.add((this._fqn, "<init>"))
            return make(this, *arguments)

        with self._patch.context() as patch:
            patch.setattr(member, "__call__", called)
            patch.setattr(py4j.java_gateway.JavaClass, "__call__", made)
            yield

    def _class_of(self, member: Any, call: Any) -> str:
        number = str(member.target_id)
        if number.startswith("z:"):  # a static method
            return number.removeprefix("z:")
        if number not in self._classes:
            self._classes[number] = str(call(call(member.container.getClass).getName))
        return self._classes[number]


def _from_our_code() -> bool:
    return str(SRC) in sys._getframe(2).f_code.co_filename
