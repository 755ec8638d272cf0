"""Runs a program that knows nothing of Daybreak, its queries governed."""

from __future__ import annotations

import logging
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from daybreak.spark.governed.governor import Governor

#: What a shell reports of a program that Ctrl-C has ended.
INTERRUPTED = 130


@contextmanager
def governing(make: Callable[[Any, Sequence[Governor]], Governor]) -> Iterator[list[Governor]]:
    """Sessions made inside by ``SparkSession.builder`` are governed until the end of the block.

    ``make`` is given a session, and the governors of others that still run.
    """
    from pyspark.sql import SparkSession

    builder: Any = SparkSession.Builder
    get_or_create = builder.getOrCreate
    governors: list[Governor] = []

    def governed(self: Any) -> Any:
        spark = get_or_create(self)
        if not hasattr(spark, "_jsparkSession"):
            log = logging.getLogger("daybreak.run")
            log.warning("a Spark Connect session cannot be governed: its queries run free")
        elif not any(g.spark is spark and not g.ended for g in governors):
            for ended in [g for g in governors if g.ended]:
                ended.stop()  # the next one may take over its run directory
            governors.append(make(spark, [g for g in governors if not g.ended]))
        return spark

    builder.getOrCreate = governed
    try:
        yield governors
    finally:
        builder.getOrCreate = get_or_create
        for governor in governors:
            governor.stop()


def run_program(script: Path, arguments: Sequence[str]) -> int:
    """As ``python SCRIPT ARGUMENTS`` would; returns its exit code."""
    before = sys.argv[:], sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        runpy.run_path(str(script), run_name="__main__")
    except SystemExit as end:
        return _code(end.code)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BaseException as error:
        _show(error, script)
        return 1
    finally:
        sys.argv, sys.path[:] = before
    return 0


def _code(given: object) -> int:
    if given is None:
        return 0
    if isinstance(given, int):
        return given
    print(given, file=sys.stderr)
    return 1


def _show(error: BaseException, script: Path) -> None:
    """The program's own part of the traceback."""
    frame = error.__traceback__
    while frame is not None and frame.tb_frame.f_code.co_filename != str(script):
        frame = frame.tb_next
    traceback.print_exception(type(error), error, frame or error.__traceback__)
