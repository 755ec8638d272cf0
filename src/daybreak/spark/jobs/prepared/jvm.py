"""The few lines of Java behind prepared plans, compiled in the driver's JVM."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

#: Proxies of objects in the JVM, of our classes there; and Spark's ``RDD``.
TrainPlan: TypeAlias = Any
Runs: TypeAlias = Any
Preparation: TypeAlias = Any
Rdd: TypeAlias = Any

_SOURCES = ("TrainPlan.java", "Preparation.java")

#: One class loader for each JVM: the gateway takes classes of one name for one class, so that a
#: second one could not be called from the same thread.
_loaders: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_compiling = threading.Lock()


class Unfit(Exception):
    """A plan that has to run as an ordinary job, and why."""


class Java:
    """Makes objects of our Java classes in the JVM of a session."""

    def __init__(self, session: SparkSession) -> None:
        self._context: Any = session.sparkContext
        self._jvm: Any = self._context._jvm
        with _compiling:
            gateway = self._context._gateway
            if gateway not in _loaders:
                _loaders[gateway] = _compiled(self._jvm)
            self._loader = _loaders[gateway]

    def runs(self) -> Runs:
        """What runs plans; it belongs to the present Spark context."""
        return self._new("Runs")

    def heap_bytes(self) -> int:
        """As large as the driver's heap may become."""
        return int(self._jvm.java.lang.Runtime.getRuntime().maxMemory())

    def processors(self) -> int:
        """Cores that the driver's JVM may use."""
        return int(self._jvm.java.lang.Runtime.getRuntime().availableProcessors())

    def train(self, number: int, columns: Any) -> Rdd:
        """A leaf: the rows of the file with this number."""
        return self._new("Train", self._context._jsc.sc(), number, columns)

    def preparation(self, frame: Any, streams: list[Any]) -> Preparation:
        """Plans a query over these streams; ``Unfit`` if it has to be an ordinary job."""
        schemas = self.array(self._jvm.org.apache.spark.sql.types.StructType, streams)
        try:
            return self._new("Preparation", frame, schemas)
        except Py4JJavaError as error:
            cause = error.java_exception.getCause()  # of the call by reflection
            if cause is not None and cause.getClass().getName() == "daybreak.Unfit":
                raise Unfit(str(cause.getMessage())) from None
            raise

    def array(self, kind: Any, items: list[Any]) -> Any:
        made = self._context._gateway.new_array(kind, len(items))
        for at, item in enumerate(items):
            made[at] = item
        return made

    def _new(self, name: str, *arguments: Any) -> Any:
        made = self._loader.loadClass(f"daybreak.{name}").getConstructors()[0]
        return made.newInstance(self.array(self._jvm.java.lang.Object, list(arguments)))


def _compiled(jvm: Any) -> Any:
    """The class loader of the last source; the classes of the first are those of its parent."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    for source in _SOURCES:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(loader)
        compiler.cook(files(__package__).joinpath(source).read_text(encoding="utf-8"))
        loader = compiler.getClassLoader()
    return loader


@contextmanager
def active(session: SparkSession) -> Iterator[None]:
    """Spark plans and compiles by the settings of the thread's active session."""
    known: Any = session.sparkContext._jvm
    sessions = known.SparkSession
    before = sessions.getActiveSession()
    sessions.setActiveSession(session._jsparkSession)
    try:
        yield
    finally:
        if before.isDefined():
            sessions.setActiveSession(before.get())
        else:
            sessions.clearActiveSession()
