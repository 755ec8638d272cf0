"""What Spark documents: what these classes declare may be used without being listed."""

from __future__ import annotations

from typing import Any

from pyspark import SparkContext, errors
from pyspark.sql import Column, DataFrame, SparkSession, functions, types
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter
from pyspark.sql.streaming.query import StreamingQuery, StreamingQueryManager
from pyspark.sql.streaming.readwriter import DataStreamReader, DataStreamWriter


def _named(text: str) -> frozenset[str]:
    """Full names of classes that stand below their packages."""
    found, package = set(), ""
    for line in filter(None, text.splitlines()):
        if line.startswith(" "):
            found |= {f"{package}.{name}" for name in line.split()}
        else:
            package = line
    return frozenset(found)


#: Classes in the JVM that our Java, or our Python through Py4J, uses.
PUBLIC = _named("""
org.apache.spark
    Dependency InterruptibleIterator Partition SparkContext TaskContext TaskKilledException
org.apache.spark.api.java
    JavaSparkContext
org.apache.spark.rdd
    RDD
org.apache.spark.scheduler
    SparkListener SparkListenerApplicationEnd SparkListenerEvent
org.apache.spark.sql
    DataFrameReader Dataset SQLContext SparkSession
org.apache.spark.sql.connector.catalog
    SupportsRead Table TableCapability
org.apache.spark.sql.connector.read
    InputPartition PartitionReader PartitionReaderFactory Scan ScanBuilder
org.apache.spark.sql.connector.read.streaming
    AcceptsLatestSeenOffset MicroBatchStream Offset ReadAllAvailable ReadLimit ReadMaxFiles
    ReadMaxRows SparkDataStream SupportsAdmissionControl
org.apache.spark.sql.sources
    BaseRelation Filter StreamSourceProvider
org.apache.spark.sql.streaming
    OutputMode SinkProgress SourceProgress StateOperatorProgress StreamingQueryListener
    StreamingQueryListener$QueryIdleEvent StreamingQueryListener$QueryProgressEvent
    StreamingQueryListener$QueryStartedEvent StreamingQueryListener$QueryTerminatedEvent
    StreamingQuery StreamingQueryManager StreamingQueryProgress Trigger
org.apache.spark.sql.types
    DataType DataType$ StructField StructType
org.apache.spark.sql.vectorized
    ColumnarBatch
org.apache.spark.util
    AccumulatorV2 TaskCompletionListener
""")

_PYTHON: tuple[Any, ...] = (
    Column, DataFrame, DataFrameReader, DataFrameWriter, DataStreamReader, DataStreamWriter,
    SparkContext, SparkSession, SparkSession.Builder, StreamingQuery, StreamingQueryManager,
    errors.PySparkException, functions, types, *vars(types).values(),
)  # fmt: skip
#: Names in PySpark's API.
PUBLIC_IN_PYTHON = frozenset(
    {name for one in _PYTHON for name in dir(one) if name[0] != "_"}
    | {"dataType", "elementType", "keyType", "valueType"}  # of objects, not of their classes
)
#: Names in the JDK, in Scala, in Kafka's clients, and in public classes of Spark's JVM.
ELSEWHERE = frozenset({
    "availableProcessors", "currentThread", "getCause", "getClass", "getConstructors",
    "getContextClassLoader", "getLogger", "getMessage", "getMethod", "getName", "getRuntime",
    "getSimpleName", "isInstance", "loadClass", "maxMemory", "newInstance", "ofMillis",
    "setContextClassLoader",
    "isDefined", "isEmpty", "toSeq",
    "listOffsets", "listTopics", "partitionResult",
    "addSparkListener", "cancelJobGroup", "hadoopConfiguration", "removeSparkListener",
})  # fmt: skip
