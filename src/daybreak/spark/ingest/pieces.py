"""Divides a large batch, so that queries have their turn between two parts of it.

A Spark job cannot be interrupted, and Spark's pools have weights but no preemption: a file of a
gigabyte, read as one job, keeps all cores for as long as it takes. So it is read as several jobs,
each over some partitions of the same plan and each in a step of its own (``gate``), and one core
stays free of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from daybreak.spark.ingest.gate import SourceStep
from daybreak.spark.java.loader import JavaPackage

#: Bytes of a file that a task of ingest reads: about 0.1 s of JSON on one core. Twice as many, and
#: the most urgent class waits up to twice as long for a core; half, and a backfill pays for twice
#: as many tasks (about 5 ms each).
TASK_BYTES = 4 << 20


def finely_parted(session: SparkSession) -> SparkSession:
    """Lets a session of a source's own divide files into partitions that make short tasks."""
    session.conf.set("spark.sql.files.maxPartitionBytes", TASK_BYTES)
    return session


def in_pieces(frame: DataFrame, step: SourceStep, expected_bytes: int) -> Iterator[DataFrame]:
    """Yields the rows of a batch as several frames, each to be read in a step of its own.

    ``expected_bytes``: what the whole batch counts in the unit of the steps.
    """
    spark = frame.sparkSession
    context = spark.sparkContext
    try:
        made = JavaPackage(context._gateway, "ingest").new("Pieces", frame._jdf)
        count = int(made.count())
    except Py4JError:  # without our Java it is read as a whole
        count = 0
    if count == 0:
        yield frame
        return
    # At least one, and one core for everybody else.
    tasks = max(1, context.defaultParallelism - 1)
    each, most, done = max(1, expected_bytes // count), step.most, 0
    while done < count:
        until = min(count, done + max(tasks, most // each))
        yield DataFrame(made.piece(done, until, tasks), spark)
        if until < count:
            most = step.again((until - done) * each, (count - until) * each)
        done = until
