"""Lists the internals of Spark behind direct ingest, as a part of the manifest."""

from __future__ import annotations

from daybreak.spark.java.capability import Capability, listed

DIRECT = Capability(
    "direct ingest",
    "reading streams without a Spark job",
    "a StreamingQuery reads each stream",
    listed("""
org.apache.spark.deploy
    SparkHadoopUtil: get globPathIfNecessary
org.apache.spark.paths
    SparkPath: fromPath toPath
org.apache.spark.sql.classic
    Dataset: queryExecution schema sparkSession
    Dataset$: MODULE$ ofRows
    SparkSession: clearActiveSession getActiveSession internalCreateDataFrame read sessionState
    SparkSession: setActiveSession sparkContext
org.apache.spark.sql.internal
    SQLConf: arrowUseLargeVarTypes disabledV2StreamingMicroBatchReaders
    SessionState: conf newHadoopConf newHadoopConfWithOptions
org.apache.spark.sql.catalyst
    FileSourceOptions: <init> ignoreMissingFiles
    InternalRow$: MODULE$ empty
org.apache.spark.sql.catalyst.expressions
    AttributeReference:
org.apache.spark.sql.catalyst.plans.logical
    LogicalPlan: children nodeName output withNewChildren
org.apache.spark.sql.catalyst.streaming
    StreamingRelationV2: extraOptions source sourceName table
org.apache.spark.sql.catalyst.util
    CaseInsensitiveMap: apply contains removed updated
    CaseInsensitiveMap$: MODULE$ apply
org.apache.spark.sql.util
    CaseInsensitiveStringMap:
org.apache.spark.sql.execution
    QueryExecution: analyzed toRdd
org.apache.spark.sql.execution.datasources
    DataSource: className options providingInstance sourceInfo
    DataSource$SourceInfo: partitionColumns schema
    FileFormat: OPTION_RETURNING_BATCH buildReaderWithPartitionValues
    FileFormat: fileConstantMetadataExtractors
    FilePartition: <init>
    FileIndex:
    FileScanRDD: <init> compute
    FileStatusCache:
    HadoopFsRelation: dataSchema location partitionSchema
    InMemoryFileIndex: <init> allFiles
    LogicalRelation: relation
    NoopCache$: MODULE$
    PartitionPath: path values
    PartitionSpec: partitions
    PartitionedFile: <init> filePath fileSize modificationTime toPath
    PartitioningAwareFileIndex: partitionSpec
org.apache.spark.sql.execution.datasources.v2
    DataSourceRDD: <init>
org.apache.spark.sql.execution.streaming.runtime
    StreamingRelation: dataSource
"""),
)

FOLDERS = Capability(
    "folders",
    "listing the files of file sources",
    "a StreamingQuery reads every file source",
    listed("""
org.apache.spark.sql.execution.streaming.runtime
    FileStreamOptions: <init> cleanSource latestFirst maxBytesPerTrigger maxFileAgeMs
    FileStreamOptions: maxFilesPerTrigger
org.apache.spark.api.python
    PythonUtils: toScalaMap
org.apache.hadoop.fs
    GlobPattern: <init> compiled
"""),
)
