"""The Java behind prepared plans (``spark/java/prepared``), as Python calls it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeAlias

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from daybreak.spark.java.loader import JavaPackage, array
from daybreak.spark.tasks.task import Unfit

#: Proxies of objects in the JVM, of our classes there; and Spark's ``RDD``.
TrainPlan: TypeAlias = Any
Runs: TypeAlias = Any
Preparation: TypeAlias = Any
Rdd: TypeAlias = Any


class Java:
    """Makes objects of our Java classes in the JVM of a session."""

    def __init__(self, session: SparkSession) -> None:
        self._context: Any = session.sparkContext
        self._jvm: Any = self._context._jvm
        self._gateway: Any = self._context._gateway
        self._package = JavaPackage(self._gateway, "prepared")

    def runs(self) -> Runs:
        """What runs plans; it belongs to the present Spark context."""
        return self._package.new("Runs")

    def heap_bytes(self) -> int:
        """As large as the driver's heap may become."""
        return int(self._jvm.java.lang.Runtime.getRuntime().maxMemory())

    def processors(self) -> int:
        """Cores that the driver's JVM may use."""
        return int(self._jvm.java.lang.Runtime.getRuntime().availableProcessors())

    def train(self, number: int, columns: Any) -> Rdd:
        """A leaf: the rows of the file with this number."""
        return self._package.new("Train", self._context._jsc.sc(), number, columns)

    def preparation(self, frame: Any, streams: list[Any]) -> Preparation:
        """Plans a query over these streams; ``Unfit`` if it has to be an ordinary job."""
        schemas = array(self._gateway, self._jvm.org.apache.spark.sql.types.StructType, streams)
        try:
            return self._package.new("Preparation", frame, schemas)
        except Py4JJavaError as error:
            cause = error.java_exception.getCause()  # of the call by reflection
            if cause is not None and cause.getClass().getName() == "daybreak.prepared.Unfit":
                raise Unfit(str(cause.getMessage())) from None
            raise


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
