"""Lists all of Spark that Daybreak reaches beyond the public API, and what happens without it.

`INTERNALS` names every class and member that our Java (``spark/java``) or our Python (through Py4J,
or in PySpark itself) uses although Spark's documentation promises nothing about it. ``daybreak
doctor`` looks each of them up in the installed Spark. Tests compare the list with the sources in
both directions: a name that is used and not listed fails, and so does one that is listed and not
used.

What is not listed: operators and expressions that the allow-list (``sql/allowlist.py``) and
prepared plans (``SinglePartition.java``) tell by name. There a name that Spark has changed is one
that is not known: the query is refused, or runs as an ordinary job.
"""

from __future__ import annotations

from daybreak.spark.java.capability import Capability, listed
from daybreak.spark.java.manifest_ingest import DIRECT, FOLDERS

#: The version that the list was made with, and that tests run on.
SPARK = "4.3.0"

_SESSIONS = Capability(
    "sessions",
    "plans and JVM of the user's session",
    "none: no pipeline runs",
    listed("""
pyspark.core.context
    SparkContext: _active_spark_context _gateway _jvm _jsc
pyspark.sql.session
    SparkSession: _jsparkSession
pyspark.sql.classic.dataframe
    DataFrame: _jdf
pyspark.sql.streaming.query
    StreamingQuery: _jsq
pyspark.sql.pandas
    types: from_arrow_schema from_arrow_type to_arrow_schema to_arrow_type
org.apache.spark.sql.classic
    SparkSession: cloneSession createDataFrame parseDataType sessionState sessionUUID
    Dataset: queryExecution
    Dataset$: MODULE$ ofRows
org.apache.spark.sql.execution
    QueryExecution: analyzed optimizedPlan
org.apache.spark.sql.execution.streaming.checkpointing
    FileSystemBasedCheckpointFileManager:
"""),
    vital=True,
)

_QUERIES = Capability(
    "queries",
    "checking and combining queries",
    "none: no query is accepted",
    listed("""
org.apache.spark.sql.internal
    SessionState: optimizer sqlParser
org.apache.spark.sql.execution
    ExplainMode$: MODULE$ fromString
    QueryExecution: explainString
org.apache.spark.sql.catalyst.rules
    RuleExecutor: execute
org.apache.spark.api.python
    PythonUtils: toSeq
org.apache.spark.sql.catalyst
    TableIdentifier: database table
org.apache.spark.sql.catalyst.catalog
    CatalogTable: identifier
org.apache.spark.sql.catalyst.parser
    ParserInterface: parseExpression parseQuery
    SqlBaseLexer: <init> getAllTokens
    UpperCaseCharStream: <init>
org.apache.spark.sql.catalyst.analysis
    UnresolvedFunction: arguments nameParts
    UnresolvedRelation: copy multipartIdentifier tableName
    UnsupportedOperationChecker$: MODULE$ checkForStreaming
org.apache.spark.sql.catalyst.optimizer
    PullupCorrelatedPredicates$: MODULE$ apply
    ReplaceExpressions$: MODULE$ apply
    RewritePredicateSubquery$: MODULE$ apply
    SpecialDatetimeValues$: MODULE$ apply
org.apache.spark.sql.catalyst.trees
    TreeNode: children collectLeaves containsPattern fastEquals nodeName productArity
    TreeNode: productElement toJSON withNewChildren
    TreePattern: AGGREGATE_EXPRESSION BINARY_ARITHMETIC CURRENT_LIKE PYTHON_UDF
org.apache.spark.sql.catalyst.plans
    QueryPlan: canonicalized expressions output references rewriteAttrs sameResult schema
    QueryPlan: semanticHash subqueriesAll
org.apache.spark.sql.catalyst.plans.logical
    Aggregate: aggregateExpressions child copy groupingExpressions
    CTERelationDef: child id
    CTERelationRef: cteId
    Except: isAll
    Expand: child
    Filter: <init> child condition
    GlobalLimit: child
    Intersect: isAll
    Join: condition copy joinType left right
    LocalLimit: child
    LogicalPlan: deterministic distinctKeys isStreaming maxRows stats
    Project: <init> child projectList
    Sort: global
    Statistics: sizeInBytes
    SubqueryAlias: child
    SubqueryAlias$: MODULE$ apply
    View: desc
    WithCTE: cteDefs plan
org.apache.spark.sql.catalyst.expressions
    Alias: <init> child toAttribute
    And: <init>
    AttributeMap$: MODULE$ apply
    AttributeSet: toSeq
    BindReferences$: MODULE$ bindReference
    BitwiseAnd: <init>
    BitwiseOr: <init>
    Cast: <init>
    CreateNamedStruct: valExprs
    Divide: <init>
    ExprId: id
    Expression: canonicalized dataType deterministic foldable prettyName semanticEquals semanticHash
    GreaterThan: <init>
    If: <init>
    KnownNullable: <init>
    Literal: value
    Literal$: FalseLiteral MODULE$ TrueLiteral create
    NamedExpression: exprId name
    NamedExpression$: MODULE$ newExprId
    Or: <init>
    PythonUDF: name
    package$AttributeSeq: <init>
org.apache.spark.sql.catalyst.expressions.aggregate
    AggregateExpression: aggregateFunction copy filter isDistinct mode resultId
    AggregateFunction: toAggregateExpression
    Count: <init>
    Max: <init>
    Min: <init>
    Sum: <init>
org.antlr.v4.runtime
    CharStreams: fromString
    Token: getChannel getStopIndex getText
org.apache.commons.lang3
    SerializationUtils: clone
"""),
    vital=True,
)

_COMPILER = Capability(
    "compiler",
    "compiling our Java in the driver",
    "every job is a Spark job, no query is governed, records go to Kafka one by one, and queries "
    "in mode append or update fail",
    listed("""
org.codehaus.janino
    SimpleCompiler: <init> cook getClassLoader setParentClassLoader setTargetVersion
"""),
)

_TASKS = Capability(
    "tasks on the driver's threads",
    "prepared plans, and direct ingest",
    "every job is a Spark job, and a StreamingQuery reads each stream",
    listed("""
org.apache.spark
    TaskContext$: MODULE$ setTaskContext unset
    TaskContextImpl: markInterrupted markTaskCompleted markTaskFailed
    SparkEnv: _memoryManager blockManager
    SparkEnv$: MODULE$ env
org.apache.spark.executor
    TaskMetrics: <init>
org.apache.spark.memory
    MemoryManager: executionMemoryUsed
    TaskMemoryManager: <init> cleanUpAllAllocatedMemory
org.apache.spark.storage
    BlockManager: blockInfoManager
    BlockInfoManager: registerTask releaseAllLocksForTask
org.apache.spark.sql.classic
    SparkSession: sessionState
org.apache.spark.sql.internal
    SQLConf: getAllConfs
    SessionState: conf
org.apache.spark.sql.catalyst
    InternalRow:
org.apache.spark.sql.catalyst.expressions
    Alias: <init>
    Attribute: exprId name
    ExprId:
    Expression:
    NamedExpression:
org.apache.spark.sql.catalyst.plans.logical
    LogicalPlan: output
    Project: <init>
org.apache.spark.sql.execution.arrow
    ArrowConverters$: MODULE$ toBatchWithSchemaIterator
    ArrowConverters$ArrowBatchWithSchemaIterator:
"""),
)

_PREPARED = Capability(
    "prepared plans",
    "running queries without a Spark job",
    "every job is a Spark job",
    listed("""
org.apache.spark.rdd
    ParallelCollectionRDD:
org.apache.spark.sql.classic
    Dataset: queryExecution schema sparkSession
    Dataset$: MODULE$ ofRows
    SparkSession: clearActiveSession getActiveSession internalCreateDataFrame
    SparkSession: setActiveSession sparkContext
org.apache.spark.sql.catalyst
    InternalRow: getLong
org.apache.spark.sql.catalyst.expressions
    Attribute:
    AttributeSet: toSeq
    ExprId: id
    Expression:
    UnsafeProjection: apply initialize
    UnsafeProjection$: MODULE$ create
    UnsafeRow:
org.apache.spark.sql.catalyst.planning
    ExtractEquiJoinKeys$: MODULE$ unapply
org.apache.spark.sql.catalyst.plans
    JoinType:
    RightOuter$: MODULE$
org.apache.spark.sql.catalyst.plans.logical
    Aggregate:
    BROADCAST$: MODULE$
    Filter:
    HintInfo: <init>
    Join: <init> condition hint joinType left right
    JoinHint: <init> leftHint rightHint
    JoinStrategyHint:
    LogicalPlan: children deterministic output references setAnalyzed withNewChildren
    Project: <init>
    SHUFFLE_HASH$: MODULE$
org.apache.spark.sql.catalyst.plans.physical
    BroadcastDistribution:
    Distribution:
    UnspecifiedDistribution$:
org.apache.spark.sql.execution
    CoalesceExec: <init>
    CollapseCodegenStages: <init> apply
    InputAdapter:
    LogicalRDD: rdd
    ProjectExec: projectList
    QueryExecution: analyzed executedPlan optimizedPlan
    RDDScanExec: rdd
    RangeExec:
    SparkPlan: children execute metrics requiredChildDistribution requiredChildOrdering subqueries
    SparkPlan: withNewChildren
    WholeStageCodegenExec:
org.apache.spark.sql.execution.arrow
    ArrowConverters$: MODULE$ fromBatchIterator getBatchesFromStream
org.apache.spark.sql.execution.columnar
    InMemoryRelation: cachedPlan
    InMemoryTableScanExec: relation
org.apache.spark.sql.execution.exchange
    BroadcastExchangeExec:
    ShuffleExchangeExec:
"""),
)

_STATEFUL = Capability(
    "stateful queries",
    "queries in mode append or update",
    "none: such a query fails",
    listed("""
org.apache.spark.sql.classic
    Dataset: queryExecution
    SparkSession: internalCreateDataFrame
org.apache.spark.sql.execution
    QueryExecution: toRdd
org.apache.spark.sql.execution.streaming
    Offset: <init> json
    Source:
"""),
)

#: The package of running queries: of Spark 4.3, and of those before 4.2.
_RUNTIME = "org.apache.spark.sql.execution.streaming"

_GATES = Capability(
    "gates",
    "governing queries, and a gate before each stateful query",
    "all queries run free",
    listed(f"""
pyspark.sql.streaming.query
    StreamingQueryManager: _jsqm
org.apache.spark.util
    Clock:
org.apache.spark.unsafe
    Platform: throwException
{_RUNTIME}
    ProcessingTimeTrigger: intervalMs
{_RUNTIME}.runtime or {_RUNTIME}
    MicroBatchExecution: triggerExecutor
    ProcessingTimeExecutor: clock
    StreamExecution: committedOffsets lastProgress sources sparkSession trigger triggerClock
    StreamProgress:
    StreamingQueryWrapper: streamingQuery
"""),
)

_LIMITS = Capability(
    "limits of micro-batches",
    "limiting what a governed query's micro-batch reads",
    "it reads all that waits",
    listed(f"""
{_RUNTIME}.runtime or {_RUNTIME}
    StreamExecution: uniqueSources uniqueSources_$eq
"""),
)

_BACKLOG = Capability(
    "backlog of governed queries",
    "seeing what waits for a governed query",
    "a grant every idle_grant_s",
    listed(f"""
org.apache.spark.paths
    SparkPath: toPath
{_RUNTIME}.runtime or {_RUNTIME}
    FileStreamSource: fetchAllFiles fs options qualifiedBasePath seenFiles
    FileStreamSource$FileEntry: path timestamp
    FileStreamSource$SeenFilesMap: isNewFile size
{_RUNTIME}.sources
    RateStreamMicroBatchStream: options
"""),
)

_AWAITED = Capability(
    "processAllAvailable",
    "noticing that a thread waits for a governed query in processAllAvailable",
    "it returns after the next grant of that kind",
    listed(f"""
{_RUNTIME}.runtime or {_RUNTIME}
    StreamExecution: awaitProgressLock awaitProgressLockCondition
"""),
)

_KAFKA = Capability(
    "kafka",
    "reading and writing Kafka, and seeing what waits in its topics",
    "none: a pipeline with Kafka is refused; a governed query gets a grant every idle_grant_s",
    listed("""
org.apache.spark.kafka010
    KafkaConfigUpdater:
org.apache.spark.sql.kafka010
    KafkaMicroBatchStream: options
    KafkaSourceProvider:
"""),
    jar="spark-sql-kafka-0-10",
)

INTERNALS = (
    _SESSIONS, _QUERIES, _COMPILER, _TASKS, _PREPARED, DIRECT, FOLDERS, _STATEFUL, _GATES,
    _LIMITS, _BACKLOG, _AWAITED, _KAFKA,
)  # fmt: skip
