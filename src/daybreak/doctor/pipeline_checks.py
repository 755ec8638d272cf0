"""What a pipeline needs from this machine: folders, connectors, servers and ports."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from daybreak.doctor.check_result import CheckResult, failure, failures, passed, refused
from daybreak.doctor.machine_checks import check_folder, check_port
from daybreak.doctor.spark_checks import (
    CONNECTOR_JAR,
    connector_installed,
    kafka_remedy,
    pyspark_version,
)
from daybreak.extras import need_package
from daybreak.model.environment import resolved
from daybreak.model.errors import ConfigError, Findings
from daybreak.model.overlaps import source_folder
from daybreak.model.pipeline import Pipeline
from daybreak.model.specs import QuerySpec
from daybreak.policies.registry import make_policy
from daybreak.runtime.display import plural
from daybreak.spark.kafka.options import FORMAT as KAFKA
from daybreak.spark.kafka.options import reach, servers, unreachable

#: A server that does not accept a connection within it is taken for unreachable.
REACHED_WITHIN_S = 3.0
#: Formats of sinks that write files, and of those that need neither a folder nor a server.
_IN_FOLDERS = ("parquet", "json", "csv", "delta")
_PLAIN = (*_IN_FOLDERS, "console", "memory", "python", KAFKA)
_PORT = re.compile(r"spark\.[\w.]*[pP]ort")
_UI_PORT, _UI = "spark.ui.port", "spark.ui.enabled"


def read_pipeline(path: Path) -> tuple[Pipeline | None, list[CheckResult]]:
    """A pipeline as far as it can be read, and what is wrong with the file itself."""
    declared, findings = None, Findings()
    try:
        declared = Pipeline.read(path, findings)
        with findings.gathering():
            make_policy(declared.policy, declared.policy_table, place=f"{path}: [app]")
        findings.raise_any()
    except ConfigError as error:
        return declared, list(failures("pipeline", error))
    queries, streams = len(declared.queries), len(declared.streams)
    count = f"{plural(queries, 'query', 'queries')} on {plural(streams, 'stream')}"
    return declared, [passed("pipeline", f"{path} declares {count}")]


def check_pipeline(
    pipeline: Pipeline, run_dir: Path | None, *, complete: bool
) -> Iterator[CheckResult]:
    """Everything but the file itself; nothing is started or written.

    ``complete``: the whole file could be read, so what it does not declare is missing.
    """
    yield from _folders(pipeline, run_dir or Path("runs") / pipeline.name)
    yield from _sources(pipeline)
    if complete:
        yield from _connectors(pipeline)
    yield from _servers(pipeline)
    yield from _ports(pipeline)


def _folders(pipeline: Pipeline, run_dir: Path) -> Iterator[CheckResult]:
    yield check_folder("run directory", run_dir, "choose another with --run-dir")
    if pipeline.store is not None:
        yield check_folder("store", pipeline.store, "choose another store in [app]")
    for query in pipeline.queries:
        sink = query.sink
        if sink is not None and sink.format in _IN_FOLDERS and sink.path:
            if "://" in sink.path:
                continue  # refused by the sink itself
            remedy = "choose another path, or give yourself the right to write there"
            yield check_folder(f"sink of {query.name}", pipeline.folder / sink.path, remedy)


def _sources(pipeline: Pipeline) -> Iterator[CheckResult]:
    for stream in pipeline.streams:
        check = f"stream {stream.name}"
        try:
            folder = source_folder(stream, pipeline.folder)
        except ConfigError as error:
            yield from failures(check, error)
            continue
        if folder is None:
            continue
        try:
            next(folder.iterdir() if folder.is_dir() else iter([folder.stat()]), None)
        except FileNotFoundError:
            yield failure(check, f"{folder} does not exist", f"mkdir -p {folder}")
        except OSError as error:
            yield failure(
                check, f"{folder} cannot be read ({error.strerror})", f"chmod -R u+rX {folder}"
            )
        else:
            yield passed(check, f"{folder} can be read")


def _connectors(pipeline: Pipeline) -> Iterator[CheckResult]:
    formats = {s.format for s in pipeline.streams} | {t.format for t in pipeline.tables}
    sinks = {q.sink.format for q in pipeline.queries if q.sink is not None}
    if KAFKA in formats | sinks:
        given = (*pipeline.spark.packages, *pipeline.spark.jars)
        if any(CONNECTOR_JAR in item for item in given) or connector_installed():
            yield passed("connector kafka", "the pipeline or Spark brings it")
        else:
            yield failure("connector kafka", "nothing brings Spark's connector", kafka_remedy())
    if "delta" in sinks:
        yield from _package("connector delta", "deltalake", "delta")
    if "postgres" in sinks or pipeline.log is not None:
        yield from _package("connector postgres", "psycopg", "postgres")
    if pyspark_version() is not None:  # reported by itself; sinks of third parties need it
        for name in sorted(sinks - {*_PLAIN, "postgres"}):
            yield from _third_party(name)


def _package(check: str, module: str, extra: str) -> Iterator[CheckResult]:
    missing = list(refused(check, partial(need_package, module, extra, check)))
    yield from missing or [passed(check, f"{module} is installed")]


def _third_party(name: str) -> Iterator[CheckResult]:
    from daybreak.spark.sinks.registry import destination_names, find_destination

    check = f"connector {name}"
    try:
        found = find_destination(name)
    except ConfigError as error:
        yield from failures(check, error)
        return
    if found is None:
        known = ", ".join(sorted({*_PLAIN, *destination_names()}))
        yield failure(check, "no installed package offers this sink", f"choose from {known}")
    else:
        yield passed(check, f"{found.__module__}.{found.__qualname__}")


def _servers(pipeline: Pipeline) -> Iterator[CheckResult]:
    """Every server that sources, sinks and the log name; each is asked once."""
    asked: set[object] = set()
    places = [(f"stream {s.name}", s.options) for s in pipeline.streams if s.format == KAFKA]
    places += [(f"sink of {q.name}", q.sink.options) for q in _with_sink(pipeline, KAFKA) if q.sink]
    for check, raw in places:
        if (options := _resolved(raw)) is None:
            continue
        try:
            addresses = servers(options, check)
        except ConfigError as error:
            yield from failures(check, error)
            continue
        if addresses not in asked:
            asked.add(addresses)
            silent = list(refused(check, partial(reach, options, check)))
            shown = ", ".join(f"{host}:{port}" for host, port in addresses)
            yield from silent or [passed(check, f"a Kafka broker answers at {shown}")]
    urls = [] if pipeline.log is None else [("log", pipeline.log.url)]
    for query in _with_sink(pipeline, "postgres"):
        assert query.sink is not None
        if (options := _resolved(query.sink.options)) is not None:
            urls.append((f"sink of {query.name}", options.get("url", "")))
    for check, url in urls:
        address = _postgres_address(url)
        if address is not None and address not in asked:
            asked.add(address)
            yield _postgres(check, *address)


def _resolved(options: Mapping[str, str]) -> dict[str, str] | None:
    """None if a variable is not set, which is a finding about the file itself."""
    try:
        return resolved(options, "")
    except ConfigError:
        return None


def _with_sink(pipeline: Pipeline, name: str) -> list[QuerySpec]:
    return [q for q in pipeline.queries if q.sink is not None and q.sink.format == name]


def _postgres_address(url: str) -> tuple[str, int] | None:
    """None where the client chooses it: a local socket, several hosts, or no URL at all."""
    try:
        parts = urlsplit(url)
        return (parts.hostname, parts.port or 5432) if parts.hostname else None
    except ValueError:
        return None


def _postgres(check: str, host: str, port: int) -> CheckResult:
    reason = unreachable(((host, port),), REACHED_WITHIN_S)
    if reason is None:
        return passed(check, f"a server answers at {host}:{port}")
    finding = f"no PostgreSQL server answers at {host}:{port} ({reason})"
    return failure(check, finding, f"start it (pg_isready -h {host} -p {port}), or correct the URL")


def _ports(pipeline: Pipeline) -> Iterator[CheckResult]:
    """Ports of this machine that ``[spark.conf]`` names."""
    conf = pipeline.spark.conf
    host = conf.get("spark.driver.bindAddress", "127.0.0.1")
    for key, text in conf.items():
        unused = key == _UI_PORT and conf.get(_UI, "false").lower() != "true"
        if _PORT.fullmatch(key) and text.isdecimal() and 0 < int(text) < 65536 and not unused:
            yield check_port(key, host, int(text), f"choose another {key}, or leave it out")
