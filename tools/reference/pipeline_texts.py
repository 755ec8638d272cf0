"""What the keys of a pipeline file mean. ``pipeline.py`` fails if one is missing, or gone."""

from __future__ import annotations

from tools.reference.doc_comments import toml

from daybreak.model.app_table import DEFAULT_POLICY
from daybreak.model.limits import Limits
from daybreak.model.network import BOX_KINDS, DEFAULT_CLASS, SERVICES
from daybreak.model.overheads import OVERHEADS
from daybreak.model.pipeline import DEFAULT_COST_US
from daybreak.model.specs import MODES, StreamSpec

#: One of every table, so that everything is asked for.
PROBE = """
[app]
[policy]
[spark]
conf = { spark.x = "1" }
[classes]
default = 1
probe = { priority = 1 }
[streams.probe]
arrivals = { rate_per_s = 1, phases = [{ factor = 1, duration_s = 1 }] }
options = { a = "b" }
[tables.static]
format = "parquet"
options = { a = "b" }
[boxes.operator]
inputs = ["probe"]
[views.averages]
sql = "SELECT 1 FROM probe"
[queries.asked]
sql = "SELECT 1 FROM averages"
sink = { format = "memory", options = { a = "b" } }
[queries.chained]
from = "probe"
chain = [{ cost_us = 1 }]
[queries.boxed]
box = "operator"
[log]
[limits]
[simulation]
[shedding]
"""

INTRODUCTION = f"""\
A pipeline is a TOML file. Unknown keys are errors, with the nearest valid one. Relative paths are
relative to the file. Durations are texts such as `"10 seconds"`.

```toml
[app]
policy = "{DEFAULT_POLICY}"
[classes]
alarm = {{ priority = 60, qos = [[0, 1.0], [1.0, 1.0], [2.0, 0.0]] }}
archive = 10
[streams.readings]
format = "json"
path = "in/readings"
schema = "station STRING, humidity INT, temperature INT, at TIMESTAMP"
[queries.fire]
class = "alarm"
sql = "SELECT station FROM readings WHERE temperature > 35 AND humidity < 20"
sink = {{ format = "parquet", path = "out/fire" }}
```
"""

#: The tables in the order of the page.
TABLES = {
    "app": "The application as a whole.",
    "policy": "Parameters of the chosen policy; each has them on [its page](policies.md).",
    "classes": "`NAME = 60` gives a class its priority, a number above 0; "
    "`NAME = { priority = 60, qos = [...] }` gives it a QoS graph as well. Without the table "
    f'there is one class, `"{DEFAULT_CLASS}"`.',
    "classes.NAME": "",
    "streams.NAME": "What arrives: a source of Structured Streaming, read once for all queries.",
    "streams.NAME.arrivals": "The arrival process in simulation, and the rate of a generator.",
    "streams.NAME.arrivals.phases": "A list of tables; give `duration_s` or `tuples`. "
    "The list repeats.",
    "tables.NAME": "[Static tables](../sinks.md#static-tables) that queries join with.",
    "views.NAME": "A [view](../windows.md#views) is computed once for all queries that read it. It "
    "reads streams and the views declared before it.",
    "queries.NAME": "What is asked. Exactly one of `sql`, `sql_file`, `chain` and `box`.",
    "queries.NAME.sink": "Where the rows go; without it they stay in memory ([sinks](../sinks.md)).",
    "queries.NAME.chain": "Boxes in a row over the stream `from`: a list of tables, for the "
    "simulator.",
    "boxes.NAME": "Operators of a network that queries share, for the simulator.",
    "log": "What may wait for queries.",
    "limits": "How far a run may go before it gives way; see [operations](../operations.md).",
    "shedding": "[Load shedding](../shedding.md); without the table nothing is dropped.",
    "simulation": f"For `daybreak simulate`; `overheads` is one of "
    f"{', '.join(f'`{toml(name)}`' for name in OVERHEADS)}.",
    "spark": "What Spark is started with. The options of the command line take precedence.",
}

_BOX = {
    "kind": ('`"filter"`', f"{', '.join(f'`{k}`' for k in BOX_KINDS)}."),
    "cost_us": (f"`{DEFAULT_COST_US:g}`", "Work per tuple."),
    "call_us": ("`0`", "Work per call, whatever the number of tuples."),
    "wait_us": ("`0`", "How long the results of a call take beyond its work, without the CPU."),
    "selectivity": ("`1`", "Rows out per row in."),
    "service": ('`"constant"`', f"{', '.join(f'`{k}`' for k in SERVICES)}."),
    "tuple_bytes": ("`100`", "Size of a tuple, where memory is measured."),
}

#: By key: its default, and what it means.
MEANINGS: dict[str, tuple[str, str]] = {
    "app.name": ("the file's name", "Name of the application, and of the run directory."),
    "app.policy": (f'`"{DEFAULT_POLICY}"`', "A registered [policy](policies.md)."),
    "app.max_window": ('`"1 hour"`', "The longest window that is allowed "
                       "([windows](../windows.md))."),
    "app.timezone": ("that of the Spark session", "In which local times are read and written, such "
                     'as `"Europe/Berlin"` ([time zones](../windows.md#time-zones)).'),
    "app.log": ("SQLite in the run directory", "The commit log in PostgreSQL, "
                '`"postgresql://user@host:5432/database"` ([log and store](../log.md)).'),
    "app.store": ("the run directory", "The folder of segments, checkpoints and staged results, "
                  '`"file:///shared/app"`.'),
    "spark.master": ('`"local[*]"`', "Where Spark runs; `--master` takes precedence."),
    "spark.packages": ("", '`"group:artifact:version"`, resolved by Spark with what they depend '
                       "on; `--packages` adds to them."),
    "spark.jars": ("", "Paths or URLs of jars."),
    "spark.conf": ("", 'Any setting of Spark, `{ spark.driver.memory = "2g" }`, over Daybreak\'s '
                   "own; `--conf` takes precedence."),
    "classes.NAME.priority": ("required", "Relative importance, above 0."),
    "classes.NAME.qos": ("", "QoS graph of the queries of the class that declare none."),
    "streams.NAME.format": ("", 'A source of Structured Streaming; `"generator"` is built in, with '
                            'options `rows`, `seed`, `limit`; `"kafka"`: see [Kafka](../kafka.md).'),
    "streams.NAME.path": ("", "What a file source reads."),
    "streams.NAME.schema": ("", "Columns and types, as in Spark's DDL."),
    "streams.NAME.options": ("", "Options of the source."),
    "streams.NAME.trigger": (f"`{toml(StreamSpec(name='').trigger)}`", "How often the source is "
                             "polled."),
    "streams.NAME.ingest": (f"`{toml(StreamSpec(name='').ingest)}`", '`"direct"`: Spark\'s readers '
                            'run on a thread of the driver, without a Spark job; `"spark"`: a '
                            'StreamingQuery reads the source; `"auto"`: direct where the source '
                            "allows it ([how](../design/spark.md))."),
    "streams.NAME.time": ("arrival time", "The event-time column, a `TIMESTAMP` or "
                          "`TIMESTAMP_NTZ`."),
    "streams.NAME.watermark": ('`"0 seconds"`', "How late a row may be behind the largest event "
                               "time seen ([windows](../windows.md#time))."),
    "streams.NAME.idle_timeout": ("never", "After so long without a row, the event time of the "
                                  "stream follows the clock."),
    "streams.NAME.retain": ("what queries need", "How long segments are kept for "
                            "[`daybreak query`](commands.md#daybreak-query)."),
    "tables.NAME.format": ("required", 'A batch source of Spark, or `"delta"`.'),
    "tables.NAME.path": ("", "Its place."),
    "tables.NAME.schema": ("", "Columns and types, where the source needs them."),
    "tables.NAME.options": ("", "Options of the source."),
    "tables.NAME.refresh": ("never", 'How often it is read again, such as `"10 minutes"`.'),
    "views.NAME.sql": ("", "Its SQL; or"),
    "views.NAME.sql_file": ("", "a file that holds it."),
    "views.NAME.time": ("", "For a view over windows: the column that windows over it take for "
                        "event time."),
    "queries.NAME.class": (f'`"{DEFAULT_CLASS}"`', "A declared class."),
    "queries.NAME.qos": ("that of the class", "QoS graph, `[[latency_s, utility], ...]`. It starts "
                         "at `[0, 1.0]`, never rises and has at most 100 points."),
    "queries.NAME.weight": ("`1`", "Freshness weight in (0, 1]."),
    "queries.NAME.subscribers": ("", "In place of `weight`: how many registered the query. Its "
                                 "weight is its share of the largest such number."),
    "queries.NAME.sql": ("", "Spark SQL over streams, views and static tables; "
                         "[what is allowed](#sql-on-spark)."),
    "queries.NAME.sql_file": ("", "A file that holds the SQL."),
    "queries.NAME.on_full": ('`"block"` in the top class, else `"skip"`', "When the log is full: "
                             '`"skip"` gives up the oldest rows of the query, `"block"` makes the '
                             "sources wait. Windows are skipped whole."),
    "queries.NAME.mode": (
        "each row once, without state beyond windows",
        "What reaches the sink: `"
        + "`, `".join(f'"{mode}"' for mode in MODES)
        + "` ([modes](../modes.md)).",
    ),
    "queries.NAME.box": ("", "In place of SQL: the name of an output box."),
    "queries.NAME.from": ("", "The stream of a chain, or of SQL in simulation."),
    "queries.NAME.cost_us": (f"`{DEFAULT_COST_US:g}`", "Work per tuple in simulation."),
    "queries.NAME.call_us": ("`0`", "Work per call in simulation."),
    "queries.NAME.selectivity": ("`1`", "Rows out per row in, in simulation."),
    "queries.NAME.sink.format": ("required", "`parquet`, `json`, `csv`, `delta`, `postgres`, "
                                 "`kafka`, `console`, `memory`, or one of [another "
                                 "package](../sinks.md#a-sink-of-your-own)."),
    "queries.NAME.sink.path": ("", "Folder of a file sink, which must be its own."),
    "queries.NAME.sink.partition_by": ("", "Columns whose values divide the rows into folders."),
    "queries.NAME.sink.options": ("", "Options of the sink."),
    **{f"queries.NAME.chain.{key}": value for key, value in _BOX.items()},
    **{f"boxes.NAME.{key}": value for key, value in _BOX.items()},
    **{f"views.NAME.{key}": (default, f"In simulation. {text}")
       for key, (default, text) in _BOX.items()},
    "boxes.NAME.inputs": ("", "Streams or other boxes."),
    "log.max_bytes": (f"`{Limits().log_max_bytes}` (8 GiB)", "Segments that wait for queries may "
                      "take so much room ([a full log](../operations.md#a-full-log))."),
}  # fmt: skip

AFTER = """\
## Sinks and folders

Every file sink needs a folder of its own. A sink is refused if its folder is, contains or lies in the
folder of another sink, the `path` of a stream, the run directory or the store, if it is named
`_staging`, or if it holds something else ([sinks](../sinks.md#files)). Paths are compared as the file
system resolves them, so links and `..` make no difference. `daybreak check`, `run` and `register`
refuse the same. To read a query's rows in another query, declare a view.

## Values from the environment

`${NAME}` in a value stands for the environment variable `NAME`, everywhere but in SQL; `$${NAME}`
stands for the text itself. A variable that is not set is an error with its line. The tables `options`
and `conf` keep `${NAME}` until a source, a sink or Spark takes them, so what describes a pipeline (the
record, the commit log, the dashboard) holds the name and not the value.

Daybreak hides a value as `***` in every message, event, error and record if

- its option, setting or variable is named like a secret (password, secret, token, credential, jaas,
  access key and the like), whether it comes from the environment or stands in the file, or
- it comes from the environment into `options` or `conf`, has 8 characters or more, and the option is
  not one that never holds a secret, such as `path`, `topic` or `kafka.bootstrap.servers`.

The passwords within a compound value such as a JAAS line are hidden as well. What Spark itself writes
to its log is up to Spark (`spark.redaction.regex`), and the JVM's command line holds the settings of
`conf`, as with `spark-submit`: give credentials as `options` of a source or sink where you can.

## SQL on Spark

Allowed: filters, projections, deterministic expressions and UDFs, generators such as `explode`,
`UNION ALL`, joins with static tables, subqueries over static tables; over
[windows](../windows.md#what-may-be-written) of event time also aggregates, joins of two streams,
`DISTINCT`, `EXCEPT` and `INTERSECT`.

Refused, because the rows may be others from one job to the next: a path in `FROM`, tables and views of
a catalog, and temporary views over files; declare a [static table](../sinks.md#static-tables). So is
`TRANSFORM ... USING`, which runs a program.

Refused by name, because the result would depend on how tuples were batched: `LIMIT`, `ORDER BY`,
aggregates and `DISTINCT` without a window, `rand()`, `current_timestamp()` and the like. `RANK` and
`DENSE_RANK` are allowed where `PARTITION BY` names the window; other window functions (`OVER`) are
refused because rows may tie. `IN` and `EXISTS` over a stream are allowed where they compare the
windows of both sides. The remedy names the [mode](../modes.md) that takes what is refused here.
Functions on DataFrames face the same rules.

Columns of a stream may be of any type that Arrow holds. `INTERVAL YEAR TO MONTH`, `VARIANT`,
`GEOMETRY` and `GEOGRAPHY` are refused: declare such a column as a `STRING` and parse it in the query.
A stream cannot have a column `_arrival_ns`.

The name of a query, stream or view takes at most 200 bytes as part of a file name; letters other than
a-z, digits and blanks take three or more. The sinks `json`, `csv` and `console` write instants beyond
the year 9999 with a sign (`+10000-01-01T00:00:00Z`), and keys of maps as texts.
"""
