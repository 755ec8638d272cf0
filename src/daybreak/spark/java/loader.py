"""Compiles our Java in the driver's JVM, so that there is no jar to build, ship or match to Spark.

Each folder here is a Java package, ``daybreak.FOLDER``. The compiler is Janino, by which Spark
compiles the code that it generates. It takes Java 8 without lambdas, try-with-resources and
catching of several types at once, and ignores type arguments: what comes out of a collection needs
a cast. A test lets ``javac -Xlint:all`` read the same files.

A package is compiled when one of its classes is first asked for, as a whole, with a class loader of
its own: one that needs jars which are missing (Kafka's) takes no other along. It may import classes
of one other package of ours, whose class loader is then above its own.
"""

from __future__ import annotations

import re
import threading
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

#: Class files that Janino writes: of Java 8, whose interfaces have static methods, as Spark's have.
TARGET = 8


class _Package:
    """A package in one JVM."""

    def __init__(self) -> None:
        self.compiling = threading.Lock()
        #: The class loader; None before it has been compiled.
        self.loader: Any = None


#: The packages of each JVM, by the gateway to it: they are forgotten with that gateway. The gateway
#: takes classes of one name for one class, so a package must not be compiled again.
_packages: WeakKeyDictionary[Any, dict[str, _Package]] = WeakKeyDictionary()
_guard = threading.Lock()


class JavaPackage:
    """One of our packages in the JVM behind a gateway. Any thread may use it.

    Raises what Py4J raises where the package cannot be compiled against this Spark.
    """

    def __init__(self, gateway: Any, folder: str) -> None:
        self._gateway = gateway
        self._name = f"daybreak.{folder}"
        with _guard:
            package = _packages.setdefault(gateway, {}).setdefault(folder, _Package())
        with package.compiling:
            if package.loader is None:
                package.loader = _compiled(gateway, folder)
        #: The class loader that has the classes of the package.
        self.loader: Any = package.loader

    def load(self, name: str) -> Any:
        """A class, as ``java.lang.Class``."""
        return self.loader.loadClass(f"{self._name}.{name}")

    def new(self, name: str, *arguments: Any) -> Any:
        """An object of a class, by its one public constructor."""
        kind = self._gateway.jvm.java.lang.Object
        made = array(self._gateway, kind, arguments)
        return self.load(name).getConstructors()[0].newInstance(made)

    def call(self, name: str, method: str) -> Any:
        """The result of a public static method without arguments."""
        java = self._gateway.jvm.java.lang
        found = self.load(name).getMethod(method, array(self._gateway, java.Class, ()))
        return found.invoke(None, array(self._gateway, java.Object, ()))


def array(gateway: Any, kind: Any, items: Any) -> Any:
    """A Java array of these items."""
    made = gateway.new_array(kind, len(items))
    for at, item in enumerate(items):
        made[at] = item
    return made


def sources(folder: str) -> dict[str, str]:
    """The texts of a package, by the names of their files."""
    found = (files(__package__) / folder).iterdir()
    texts = {f.name: f.read_text(encoding="utf-8") for f in found if f.name.endswith(".java")}
    return dict(sorted(texts.items()))


def unit(folder: str) -> str:
    """A package as one compilation unit: below all imports, what the files declare.

    Janino looks up the imports of each unit by themselves, which takes 50 ms more for 12 of them.
    In all files of a package a name stands for the same class.
    """
    lines = [line for text in sources(folder).values() for line in text.splitlines()]
    imports = sorted({line for line in lines if line.startswith("import ")})
    declared = (line for line in lines if not line.startswith(("import ", "package ")))
    return "\n".join([f"package daybreak.{folder};", *imports, *declared])


def _compiled(gateway: Any, folder: str) -> Any:
    """A class loader with the classes of a package, below that of Spark and its jars."""
    return cooked(gateway, folder).getClassLoader()


def cooked(gateway: Any, folder: str) -> Any:
    """A compiler that has compiled a package."""
    # By its full name: after each dot of ``jvm.org...`` Py4J would look through all jars.
    compiler = getattr(gateway.jvm, "org.codehaus.janino.SimpleCompiler")()
    compiler.setTargetVersion(TARGET)
    text = unit(folder)
    above = sorted(set(re.findall(r"^import daybreak\.(\w+)\.", text, re.MULTILINE)))
    if above:
        [package] = above
        compiler.setParentClassLoader(JavaPackage(gateway, package).loader)
    else:
        thread = gateway.jvm.java.lang.Thread.currentThread()
        compiler.setParentClassLoader(thread.getContextClassLoader())
    compiler.cook(text)
    return compiler
