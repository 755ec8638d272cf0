"""All checks, in the order in which their causes lie: this machine, Spark, the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from daybreak.doctor.check_result import CheckResult, CheckStatus, failure, failures, warning
from daybreak.doctor.machine_checks import check_memory, check_port, check_scratch
from daybreak.doctor.package_checks import check_packages
from daybreak.doctor.pipeline_checks import check_pipeline, read_pipeline
from daybreak.doctor.spark_checks import (
    check_address,
    check_internals,
    check_java,
    check_kafka_connector,
    check_python,
    check_spark_home,
)
from daybreak.model.errors import ConfigError


def examine(
    pipeline: Path | None = None,
    *,
    run_dir: Path | None = None,
    dashboard: str | None = None,
    default_dashboard: str = "127.0.0.1:8265",
) -> Iterator[CheckResult]:
    """Yields each result as it is found. Starts no JVM, writes nothing and raises no ConfigError.

    ``dashboard``: the address a dashboard must get; left out, a taken default is a warning.
    """
    declared, about_file = (None, []) if pipeline is None else read_pipeline(pipeline)
    conf = declared.spark.conf if declared is not None else {}
    yield check_python()
    yield from check_java()
    yield from check_packages(needed=frozenset({"spark"}))
    spark_home = list(check_spark_home())
    yield from spark_home
    if all(result.status is CheckStatus.OK for result in spark_home):
        yield from check_internals()
    yield check_kafka_connector()
    yield check_address()
    yield from check_memory(conf)
    yield from check_scratch(conf)
    yield from _dashboard(dashboard, default_dashboard)
    yield from about_file
    if declared is not None:
        complete = all(result.status is CheckStatus.OK for result in about_file)
        yield from check_pipeline(declared, run_dir, complete=complete)


def _dashboard(chosen: str | None, default: str) -> Iterator[CheckResult]:
    if find_spec("starlette") is None:  # reported as an extra
        return
    from daybreak.dashboard.guard import parse_address

    remedy = "choose another: --dashboard-address 127.0.0.1:0 takes a free one"
    try:
        host, port = parse_address(chosen or default)
    except ConfigError as error:
        yield from failures("dashboard port", error)
        return
    report = failure if chosen else warning
    yield check_port("dashboard port", host, port, remedy, report)
