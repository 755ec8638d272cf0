"""Spark's own expressions over a few rows, without the planning and scheduling of a Spark job.

A composite of filters is one projection. Its plan is analysed, optimised and compiled to byte
code once; for a small input the compiled projection is then applied to the rows where they
are, in the driver's JVM. Spark does the same with a local relation, but parses, analyses, plans
and starts a job each time, which takes ten times as long as the rows themselves.

This reaches into classes that Spark does not promise to keep. So nothing depends on it: where a
piece is missing, or a plan is anything but projections over one stream, or an evaluation fails,
the ordinary path runs instead and its verdict counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from daybreak.spark.jobs.inmemory import MemoryFolder
from daybreak.spark.sql.catalyst import Catalyst, Plan, ids, listed, positions
from daybreak.spark.sql.composite import typed

#: Where a job on two cores begins to be faster than one thread of the driver with ten queries; with
#: a hundred that is at 128 000 rows already (benchmarks/without_a_job.py), but trains are cut below
#: that. It cannot be cancelled, so not much further anyway.
MOST_ROWS = 500_000
_ZONE = "UTC"
#: What a piece that is missing, or an expression that fails, comes as.
_FAILURES = (OSError, Py4JError, PySparkException, pa.ArrowException)


@dataclass(frozen=True)
class Projection:
    """A compiled text. Its JVM objects keep state: one thread at a time may apply it."""

    #: The positions of the columns it reads, and these as Arrow and as Spark has them.
    reads: list[int]
    layout: pa.Schema
    columns: Any
    #: A list in the JVM, innermost first.
    steps: Any
    schema: Any


class Direct:
    """Compiles and applies projections for one worker thread, in its session."""

    def __init__(self, session: SparkSession, schemas: Mapping[str, StructType]) -> None:
        self._session = session
        self._catalyst = Catalyst(session)
        self._schemas = schemas
        self._folder: MemoryFolder | None = None
        self._jvm: _Jvm | None = None
        with suppress(TypeError, *_FAILURES):
            self._folder = MemoryFolder()
            self._jvm = _Jvm(session)

    def close(self) -> None:
        if self._folder is not None:
            self._folder.close()

    def compile(self, over: Callable[[Plan], Plan], stream: str) -> Projection | None:
        """A plan over the one stream it reads; None if it is not for this way."""
        if self._jvm is None:
            return None
        try:
            schema = self._schemas[stream]
            empty = self._session.createDataFrame(self._session.sparkContext.emptyRDD(), schema)
            rows = empty._jdf.queryExecution().analyzed()
            frame = self._catalyst.frame(over(rows), self._session)._jdf
            with _active(self._session):
                compiled = self._jvm.projections(frame.queryExecution().optimizedPlan())
            if compiled is None:
                return None
            read, steps = compiled
            # A projection that reads nothing still needs to know how many rows there are.
            reads = [positions(listed(rows.output()))[number] for number in read] or [0]
            columns = StructType([schema.fields[at] for at in reads])
            return Projection(
                reads,
                to_arrow_schema(columns, timezone=_ZONE),
                self._session._jsparkSession.parseDataType(columns.json()),
                steps,
                frame.schema(),
            )
        except _FAILURES:
            return None

    def apply(self, projection: Projection, table: pa.Table) -> pa.Table | None:
        """The projection of each row; None if it failed, for whatever reason."""
        assert self._jvm is not None
        assert self._folder is not None
        try:
            source, target = self._folder.path / "in", self._folder.path / "out"
            _write(source, typed(table.select(projection.reads), projection.layout))
            self._jvm.apply(projection, source, target)
            found = list(_read(target))
            return pa.concat_tables(found) if found else None
        except _FAILURES:
            return None


@contextmanager
def _active(session: SparkSession) -> Iterator[None]:
    """Spark compiles expressions by the settings of the thread's active session."""
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


class _Jvm:
    """The few calls into Spark that all this takes. Rows pass through files in memory.

    (Through the gateway's own socket a reply of over 8 KB waits 40 ms for an acknowledgement.)
    """

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        jvm = context._jvm
        self._unsafe = _module(jvm, "org.apache.spark.sql.catalyst.expressions.UnsafeProjection")
        self._new_list = jvm.java.util.ArrayList
        with _compiling:
            if context._gateway not in _appliers:
                _appliers[context._gateway] = _compiled(context)
            self._applier = _appliers[context._gateway]

    def projections(self, plan: Plan) -> tuple[list[int], Any] | None:
        """Compiles an optimised plan; also the ids of the columns it reads, in order.

        None unless the plan is projections over one leaf.
        """
        if not plan.deterministic() or not plan.subqueriesAll().isEmpty():
            return None
        steps, read = self._new_list(), None
        while plan.nodeName() == "Project":
            below = plan.child()
            read = plan.references().toSeq() if below.nodeName() == "LogicalRDD" else below.output()
            steps.add(0, self._unsafe.create(plan.projectList(), read))
            plan = below
        if read is None or plan.nodeName() != "LogicalRDD":
            return None
        return ids(listed(read)), steps

    def apply(self, projection: Projection, source: Path, target: Path) -> None:
        self._applier.apply(
            projection.steps, projection.columns, projection.schema, _ZONE, str(source), str(target)
        )


#: What happens to the rows, in one call: a dozen calls through the gateway would take longer than
#: the rows of a small job. Compiled by the compiler that Spark compiles its own expressions with.
_APPLIER = """
import java.io.*;
import org.apache.spark.api.python.PythonRDD$;
import org.apache.spark.sql.execution.arrow.ArrowConverters$;
import org.apache.spark.sql.types.StructType;
import scala.Function1;
import scala.collection.Iterator;

public void apply(
    java.util.List steps, StructType columns, StructType schema, String zone,
    String source, String target
) throws Exception {
    FileInputStream in = new FileInputStream(source);
    try {
        ArrowConverters$ arrow = ArrowConverters$.MODULE$;
        Iterator rows = arrow.fromBatchIterator(
            arrow.getBatchesFromStream(in.getChannel()), columns, zone, true, false, null);
        for (int i = 0; i < steps.size(); i++) {
            rows = rows.map((Function1) steps.get(i));
        }
        Iterator batches = arrow.toBatchWithSchemaIterator(
            rows, schema, 0L, 1L << 62, zone, true, false);
        DataOutputStream out = new DataOutputStream(new FileOutputStream(target));
        try {
            PythonRDD$.MODULE$.writeIteratorToStream(batches, out);
        } finally {
            out.close();
        }
    } finally {
        in.close();
    }
}
"""


#: One for each JVM. It keeps no state; and the gateway takes classes of one name for one class, so
#: that a second one could not be called from the same thread.
_appliers: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_compiling = threading.Lock()


def _compiled(context: Any) -> Any:
    jvm = context._jvm
    compiler = jvm.org.codehaus.janino.ClassBodyEvaluator()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_APPLIER)
    make = compiler.getClazz().getDeclaredConstructor(_none(context, jvm.java.lang.Class))
    return make.newInstance(_none(context, jvm.java.lang.Object))


def _module(jvm: Any, name: str) -> Any:
    """A Scala object."""
    return getattr(getattr(jvm, f"{name}$"), "MODULE$")


def _none(context: Any, kind: Any) -> Any:
    """An array of nothing, for a constructor without arguments."""
    return context._gateway.new_array(kind, 0)


def _write(path: Path, table: pa.Table) -> None:
    with path.open("wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
        writer.write_table(table)


def _read(path: Path) -> Iterator[pa.Table]:
    """Arrow streams one after the other, each behind its length."""
    content = memoryview(path.read_bytes())
    while content:
        end = 4 + int.from_bytes(content[:4], "big")
        yield pa.ipc.open_stream(content[4:end]).read_all()
        content = content[end:]
