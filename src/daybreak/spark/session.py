"""Starting Spark: the settings our jobs want, and a check that Java is there."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from daybreak.model import ConfigError
from daybreak.model.environment import resolved
from daybreak.model.sparkconf import SparkSettings
from daybreak.spark.master import Master, driver_conf

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Spark 4 does not start on anything older.
MIN_JAVA = 17

INSTALL_JAVA = {
    "Debian/Ubuntu": "apt-get install openjdk-17-jre-headless",
    "Fedora": "dnf install java-21-openjdk-headless",
    "macOS": "brew install openjdk@17",
}

_PACKAGES = "spark.jars.packages"
_JARS = "spark.jars"
_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
_TIMEZONE = "spark.sql.session.timeZone"

#: Small jobs, many of them: few shuffle partitions, no re-planning between stages, and a
#: checkpoint writer that does not fork ``chmod`` four times a micro-batch. On a file system
#: that is not local, give the default manager back through ``extra_conf``. The JVM never
#: compiles a method beyond 8000 bytes: a hundred conditions in one generated loop run
#: interpreted, six times slower than if Spark is told to cut such code into methods.
SESSION_CONF: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # A static table that queries join with is kept in pages, one at least for every plan. Spark
    # chooses up to 64 MB: a few dozen plans would fill the memory that is kept for them.
    "spark.buffer.pageSize": "2m",
    # Kept in memory even where nothing shows them: plans of a hundred queries are large.
    "spark.ui.retainedJobs": "50",
    "spark.ui.retainedStages": "50",
    "spark.ui.retainedTasks": "200",
    "spark.sql.ui.retainedExecutions": "20",
    "spark.sql.streaming.numRecentProgressUpdates": "10",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",
    _TIMEZONE: "UTC",
    "spark.sql.codegen.hugeMethodLimit": "8000",
    # What Spark shows of a source's options: Kafka's credentials are called by other names.
    "spark.sql.redaction.options.regex": "(?i)url|secret|password|token|jaas|credential",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing"
        ".FileSystemBasedCheckpointFileManager"
    ),
}

#: What queries need of the session that they run in, whatever the user's own has.
QUERY_CONF: Mapping[str, str] = {
    # An expression that occurs twice is computed first, even where AND or OR guards it.
    "spark.sql.subexpressionElimination.skipForShortcutExpr": "true",
    # A query reads what is declared: a path in FROM is not looked up, not even to refuse it.
    "spark.sql.runSQLOnFiles": "false",
}


def local_session(
    app_name: str,
    cores: int | str = "*",
    extra_conf: Mapping[str, str] | None = None,
    settings: SparkSettings | None = None,
) -> SparkSession:
    """A session on this machine; ``extra_conf`` and ``settings`` override ``SESSION_CONF``."""
    conf = dict(extra_conf or {})
    given = settings or SparkSettings()
    master = conf.pop("spark.master", f"local[{cores}]")
    return open_session(
        app_name, given.master or master, settings=replace(given, conf={**conf, **given.conf})
    )


def open_session(
    app_name: str,
    master: str,
    *,
    driver_host: str | None = None,
    settings: SparkSettings | None = None,
) -> SparkSession:
    """A session on this master. ConfigError, in bounded time, if Spark cannot be started there.

    ``driver_host`` is the address at which executors find this process, see `driver_conf`.
    """
    given = settings or SparkSettings()
    where = Master.parse(master, given.master_place)
    _refuse_late(given)
    require_java()
    conf = {**SESSION_CONF, **driver_conf(where, driver_host, given.master_place)}
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    if find_spec("pandas") is None:
        # Arrow UDFs want pandas; without it Spark warns at every udf() and pickles anyway.
        conf["spark.sql.execution.pythonUDF.arrow.enabled"] = "false"
    # Python workers must find what the driver finds; Spark would take any python3 on the PATH.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master(where.url).appName(app_name)
    for key, value in {**conf, **settings_for_spark(given)}.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except (Py4JError, PySparkRuntimeError) as error:
        raise _not_started(error, where, given) from error


def settings_for_spark(given: SparkSettings) -> dict[str, str]:
    """The settings as Spark takes them."""
    conf = resolved(given.conf, given.place)
    logging = (Path(__file__).parent / "log4j2.properties").as_uri()
    ours = f"-Dlog4j2.configurationFile={logging}"
    conf[_JAVA_OPTIONS] = f"{ours} {conf.get(_JAVA_OPTIONS, '')}".strip()
    if given.packages:
        conf[_PACKAGES] = ",".join(given.packages)
    if given.jars:
        conf[_JARS] = ",".join(given.jars)
    return conf


def _refuse_late(given: SparkSettings) -> None:
    """Packages and jars are taken when a JVM starts: one that runs would ignore them silently."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is None:
        return
    for key, wanted in ((_PACKAGES, given.packages), (_JARS, given.jars)):
        there = (context.getConf().get(key) or "").split(",")
        if missing := [item for item in wanted if item not in there]:
            raise ConfigError(
                given.place,
                f"Spark runs in this process without {', '.join(missing)}",
                f"stop that session first, or start it with {key}",
            )


def _not_started(error: Exception, where: Master, given: SparkSettings) -> ConfigError:
    finding = f"did not start with master {where.url!r} ({_first_line(error)})"
    if given.packages and "JAVA_GATEWAY_EXITED" in str(error):
        return ConfigError(
            given.place,
            f"Spark {finding}; it was to resolve {', '.join(given.packages)}, and reports above "
            "what it did not find",
            "check names and versions and that a Maven repository can be reached, or fetch the "
            "jars yourself and give them as jars",
        )
    return ConfigError("Spark", finding, "check the master and Spark's settings")


def _first_line(error: Exception) -> str:
    """What the JVM says went wrong, without its stack."""
    java = getattr(error, "java_exception", None)
    text = str(java.getMessage() if java is not None else error) or type(error).__name__
    if "stopped SparkContext" in text:  # what a master that never answers ends in, after a minute
        return "it does not accept applications"
    return text.strip().splitlines()[0]


def cloned(spark: SparkSession, conf: Mapping[str, str] | None = None) -> SparkSession:
    """A session for queries; neither changes the other. ``conf``: besides ``QUERY_CONF``.

    A clone, not ``newSession()``: it keeps the user's temporary views and functions.
    """
    from pyspark.sql import SparkSession

    clone = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
    for key, value in {**QUERY_CONF, **(conf or {})}.items():
        clone.conf.set(key, value)
    return clone


def timezone_of(spark: SparkSession) -> str:
    """The time zone that a session reads and writes local times in."""
    return str(spark.conf.get(_TIMEZONE))


def with_timezone(spark: SparkSession, timezone: str | None, place: str) -> SparkSession:
    """A clone of the session in this time zone; left out: in the session's own, for good."""
    from pyspark.errors import PySparkException

    clone = cloned(spark)
    try:
        clone.conf.set(_TIMEZONE, timezone or timezone_of(spark))
    except PySparkException:
        raise ConfigError(
            place,
            f"Spark does not know timezone {timezone!r}",
            'give a name such as "Europe/Berlin" or "UTC"',
        ) from None
    return clone


class FoundJava(NamedTuple):
    """The program that Spark's launcher runs, and its feature release."""

    path: Path
    version: int


def require_java() -> FoundJava:
    """The Java that Spark will run on.

    Raises ``ConfigError``, with the command that fixes it, unless that is Java 17 or newer.
    """
    java = _java()
    if java is None:
        where = f"JAVA_HOME {os.environ['JAVA_HOME']!r}" if _java_home() else "the PATH"
        raise ConfigError("java", f"Spark needs Java {MIN_JAVA}, and {where} has none", _remedy())
    found = java_version(_version_text(java))
    if found is None:
        raise ConfigError("java", f"{java} -version reports no version", _remedy())
    if found < MIN_JAVA:
        raise ConfigError(
            "java", f"{java} is Java {found}, but Spark needs {MIN_JAVA} or newer", _remedy()
        )
    return FoundJava(java, found)


def java_version(text: str) -> int | None:
    """The feature release in the output of ``java -version``; 8 for ``1.8.0_392``."""
    match = re.search(r'version "(?:1\.)?(\d+)', text)
    return int(match[1]) if match else None


def _java() -> Path | None:
    """The program Spark's launcher will run: JAVA_HOME goes before PATH."""
    home = _java_home()
    found = shutil.which("java", path=str(Path(home) / "bin")) if home else shutil.which("java")
    return Path(found) if found else None


def _java_home() -> str:
    return os.environ.get("JAVA_HOME", "")


def _version_text(java: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603  # the user's own Java
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stderr + done.stdout


def _remedy() -> str:
    commands = [f"{system}: {command}" for system, command in INSTALL_JAVA.items()]
    if platform.system() == "Darwin":
        commands.reverse()
    advice = "install it, " + "; ".join(commands)
    if not _java_home():
        return advice
    on_path = shutil.which("java")
    version = java_version(_version_text(Path(on_path))) if on_path else None
    if version is not None and version >= MIN_JAVA:
        return f"unset JAVA_HOME ({on_path} is Java {version}); or {advice}"
    return f"{advice}; or let JAVA_HOME point to one"


def jvm_pid(spark: SparkSession) -> int:
    """The process of the driver's JVM."""
    handle = getattr(spark.sparkContext._jvm, "java.lang.ProcessHandle")
    return int(handle.current().pid())
