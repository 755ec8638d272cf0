"""``daybreak`` that ends itself by SIGKILL at a stage of its work; see kills.py.

    python life.py STAGE COUNT MOMENT run pipeline.toml ...

dies in the COUNT-th call of the stage, before it or after it as MOMENT says.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

#: Module, class ("" for a function of the module) and method of each stage.
STAGES = {
    "ingest": ("daybreak.spark.log.segments", "SegmentStore", "append"),
    "segment listed": ("daybreak.spark.log.commitlog", "CommitLog", "add_segment"),
    "stage": ("daybreak.spark.sinks.sink", "Staging", "_staged"),
    "commit": ("daybreak.spark.log.commitlog", "CommitLog", "commit"),
    "deliver": ("daybreak.spark.sinks.files", "FileSink", "deliver"),
    "sync": ("daybreak.spark.log.commitlog", "CommitLog", "mark_delivered"),
    "remove segments": ("daybreak.spark.log.commitlog", "CommitLog", "forget_segments"),
    "recover": ("daybreak.spark.start.startup", "", "recover"),
    "register": ("daybreak.spark.log.commitlog", "CommitLog", "accept"),
    "write record": ("daybreak.runtime.record", "RecordParts", "write"),
    "prune": ("daybreak.spark.log.commitlog", "CommitLog", "prune"),
}
#: Stages of an application with Kafka sinks; see kafka_kills.py.
KAFKA_STAGES = {"send": ("daybreak.spark.sinks.kafka_producer", "Producer", "send")}
#: Stages of an application with tables as sinks; see table_kills.py.
TABLE_STAGES = {
    "insert": ("daybreak.spark.sinks.postgres_sink", "PostgresDestination", "_insert"),
    "write": ("daybreak.spark.sinks.postgres_sink", "PostgresDestination", "write"),
    "append": ("daybreak.spark.sinks.delta_sink", "DeltaSink", "_append"),
    "write part": ("daybreak.spark.sinks.delta_sink", "DeltaSink", "_write_part"),
    "gather": ("daybreak.spark.sinks.delta_sink", "DeltaSink", "deliver"),
}
#: Stages of an application whose executors write segments and results; see large_kills.py.
LARGE_STAGES = {
    "write files": ("daybreak.spark.ingest.direct.direct_source", "", "write_files"),
    "list files": ("daybreak.spark.log.segments", "SegmentStore", "_listed_files"),
    "stage by tasks": ("daybreak.spark.tasks.executors", "Executors", "_write"),
    "deliver view": ("daybreak.spark.sinks.views", "ViewSink", "deliver"),
}
#: Stages of a stream that is read directly; see large_kills.py.
DIRECT_STAGES = {
    "read": ("daybreak.spark.ingest.direct.reading", "PieceReader", "read"),
    "keep malformed": ("daybreak.spark.ingest.dead_letters", "DeadLetters", "prepare"),
    "move position": ("daybreak.spark.log.segment_log", "", "move_source"),
    "pass": ("daybreak.spark.ingest.direct.supply", "FileSupply", "passed"),
    "place malformed": ("daybreak.spark.ingest.dead_letters", "DeadLetters", "_place"),
}
#: Any rename of a file, wherever it happens.
RENAME = "rename"
#: Stages that come seldom in a life, and how often they are sure to.
RARE = {"recover": 1, "write record": 1, "prune": 1, "register": 1}


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def fatal(call: Callable[..., Any], count: int, moment: str) -> Callable[..., Any]:
    """The same function; its ``count``-th call is the last thing this process does."""
    calls = itertools.count(1)

    def counted(*args: Any, **kwargs: Any) -> Any:
        number = next(calls)  # of this thread's call, whatever others do meanwhile
        if number == count and moment == "before":
            die()
        result = call(*args, **kwargs)
        if number == count:
            die()
        return result

    return counted


def holder_of(stage: str) -> tuple[Any, str]:
    """What has the function of a stage, a class or a module, and the function's name."""
    every = STAGES | KAFKA_STAGES | TABLE_STAGES | LARGE_STAGES | DIRECT_STAGES
    module, cls, name = every[stage]
    found: Any = import_module(module)
    return (getattr(found, cls) if cls else found), name


def arm(stage: str, count: int, moment: str) -> None:
    if stage == RENAME:
        renames = itertools.count(1)

        def audit(event: str, _arguments: tuple[Any, ...]) -> None:
            if event == "os.rename" and next(renames) == count:
                die()

        sys.addaudithook(audit)
        return
    holder, name = holder_of(stage)
    setattr(holder, name, fatal(getattr(holder, name), count, moment))


if __name__ == "__main__":
    chosen, times, when = sys.argv[1:4]
    arm(chosen, int(times), when)
    sys.argv[1:4] = []
    from daybreak.cli.main import main

    main()
