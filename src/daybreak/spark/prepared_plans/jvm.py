"""The few lines of Java behind prepared plans, compiled in the driver's JVM."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from pyspark.sql import SparkSession

#: Proxies of objects in the JVM: our ``TrainPlan`` and ``Runs``, Spark's ``RDD``.
TrainPlan: TypeAlias = Any
Runs: TypeAlias = Any
Rdd: TypeAlias = Any

#: One class loader for each JVM: the gateway takes classes of one name for one class, so that a
#: second one could not be called from the same thread.
_loaders: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_compiling = threading.Lock()


class Java:
    """Makes objects of our Java classes in the JVM of a session."""

    def __init__(self, session: SparkSession) -> None:
        self._context: Any = session.sparkContext
        self._jvm = self._context._jvm
        with _compiling:
            gateway = self._context._gateway
            if gateway not in _loaders:
                _loaders[gateway] = _compiled(self._jvm)
            self._loader = _loaders[gateway]

    def runs(self) -> Runs:
        """What runs plans; it belongs to the present Spark context."""
        return self._new("Runs")

    def with_stages(self, plan: Any) -> Any:
        """A physical plan with generated code."""
        return getattr(self._new("Stages"), "in")(plan)

    def train(self, number: int, columns: Any) -> Rdd:
        """A leaf: the rows of the file with this number."""
        return self._new("Train", self._context._jsc.sc(), number, columns)

    def train_plan(self, rdd: Rdd, schema: Any, settings: Any, statuses: Any) -> TrainPlan:
        hadoop = self._context._jsc.sc().hadoopConfiguration()
        array = self.array(self._jvm.org.apache.hadoop.fs.FileStatus, statuses)
        return self._new("TrainPlan", rdd, schema, settings, array, hadoop)

    def array(self, kind: Any, items: list[Any]) -> Any:
        made = self._context._gateway.new_array(kind, len(items))
        for at, item in enumerate(items):
            made[at] = item
        return made

    def _new(self, name: str, *arguments: Any) -> Any:
        made = self._loader.loadClass(f"daybreak.{name}").getConstructors()[0]
        return made.newInstance(self.array(self._jvm.java.lang.Object, list(arguments)))


def is_train(rdd: Rdd) -> bool:
    """Whether it is a leaf of ours."""
    return bool(rdd.getClass().getName() == "daybreak.Train")


def _compiled(jvm: Any) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(files(__package__).joinpath("TrainPlan.java").read_text(encoding="utf-8"))
    return compiler.getClassLoader()


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
