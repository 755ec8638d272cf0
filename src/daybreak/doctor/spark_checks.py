"""Java, PySpark, the Python of its workers, and the address that the driver binds to."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from daybreak.doctor.check_result import CheckResult, failure, failures, optional, passed, warning
from daybreak.model.errors import ConfigError
from daybreak.spark.java.lookup import missing_internals
from daybreak.spark.java.manifest import INTERNALS, SPARK
from daybreak.spark.kafka.options import CONNECTOR
from daybreak.spark.session import require_java

_CORE_JAR = re.compile(r"spark-core_[\d.]+-(\d[\w.]*)\.jar")
CONNECTOR_JAR = CONNECTOR.partition(":")[2]


def check_python() -> CheckResult:
    """Workers run on PYSPARK_PYTHON, whose minor version must be the driver's."""
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    chosen = os.environ.get("PYSPARK_PYTHON")
    if not chosen:
        return passed("python", f"{sys.version.split()[0]} ({sys.executable})")
    remedy = f"unset PYSPARK_PYTHON, or export PYSPARK_PYTHON={sys.executable}"
    program = shutil.which(chosen)
    if program is None:
        return failure("python", f"PYSPARK_PYTHON {chosen!r} is not a program", remedy)
    theirs = _python_version(program)
    if theirs != ours:
        found = f"is Python {theirs}" if theirs else "does not start"
        return failure(
            "python", f"PYSPARK_PYTHON {chosen!r} {found}; this process runs Python {ours}", remedy
        )
    return passed("python", f"{sys.version.split()[0]} ({sys.executable}), workers on {program}")


def _python_version(program: str) -> str:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(  # noqa: S603  # the user's own Python
            [program, "-c", code], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def check_java() -> Iterator[CheckResult]:
    """The Java that Spark's launcher runs: JAVA_HOME's, or that on the PATH."""
    try:
        java = require_java()
    except ConfigError as error:
        yield from failures("java", error)
    else:
        yield passed("java", f"{java.version} ({java.path})")


def check_spark_home() -> Iterator[CheckResult]:
    """Another Spark in SPARK_HOME would run PySpark's commands; nothing where it is not set."""
    home = os.environ.get("SPARK_HOME")
    if not home:
        return
    remedy = "unset SPARK_HOME"
    found = [m[1] for jar in _jars(Path(home)) if (m := _CORE_JAR.fullmatch(jar.name))]
    if not found:
        yield failure("spark home", f"SPARK_HOME {home!r} holds no Spark", remedy)
        return
    ours = pyspark_version()
    if ours is not None and found[0] != ours:
        yield failure(
            "spark home", f"SPARK_HOME {home!r} is Spark {found[0]}, but PySpark is {ours}", remedy
        )
        return
    yield passed("spark home", f"Spark {found[0]} ({home})")


def pyspark_version() -> str | None:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return None


def check_internals() -> Iterator[CheckResult]:
    """Looks up in the jars what Daybreak uses of Spark beyond its API; nothing without jars."""
    jars, spec = _spark_folder() / "jars", find_spec("pyspark")
    if not _jars(jars.parent):
        return
    pyspark = Path(spec.origin).parent if spec is not None and spec.origin else None
    missing = missing_internals(jars, pyspark)
    for capability, names in missing.items():
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        report = failure if capability.vital else warning
        yield report(
            "spark internals",
            f"{names[0]}{more} is missing; lost: {capability.lost}; instead: {capability.fallback}",
            f"pip install pyspark=={SPARK}, with which Daybreak is tested",
        )
    if not missing:
        count = sum(1 + len(i.members) for capability in INTERNALS for i in capability.internals)
        yield passed("spark internals", f"all {count} names that Daybreak uses are there")


def check_address() -> CheckResult:
    """The driver binds to SPARK_LOCAL_IP or to the address of the host's name."""
    remedy = "export SPARK_LOCAL_IP=127.0.0.1"
    given = os.environ.get("SPARK_LOCAL_IP")
    name = given or socket.gethostname()
    what = f"SPARK_LOCAL_IP {name!r}" if given else f"host name {name!r}"
    try:
        family, kind, _, _, address = socket.getaddrinfo(name, 0, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        return failure("address", f"{what} does not resolve ({error.strerror or error})", remedy)
    try:
        with socket.socket(family, kind) as probe:
            probe.bind(address)
    except OSError as error:
        reason = error.strerror or str(error)
        return failure(
            "address", f"{what} is {address[0]}, which cannot be bound ({reason})", remedy
        )
    return passed("address", f"{what} is {address[0]}")


def connector_installed() -> bool:
    """Whether Spark's own folder of jars holds the Kafka connector."""
    return any(jar.name.startswith(CONNECTOR_JAR) for jar in _jars(_spark_folder()))


def check_kafka_connector() -> CheckResult:
    """Optional: a pipeline brings it by its packages."""
    if connector_installed():
        return passed("kafka", "the connector is among Spark's jars")
    return optional("kafka", "the connector is not among Spark's jars", kafka_remedy())


def kafka_remedy() -> str:
    release = pyspark_version() or SPARK
    return f'add packages = ["{CONNECTOR}:{release}"] to [spark] (see docs/kafka.md)'


def _spark_folder() -> Path:
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    spec = find_spec("pyspark")
    return Path(spec.origin).parent if spec is not None and spec.origin else Path("no-spark")


def _jars(folder: Path) -> list[Path]:
    return sorted((folder / "jars").glob("*.jar"))
