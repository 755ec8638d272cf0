"""``daybreak doctor`` finds real faults and names the command that fixes each."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest

from daybreak.doctor.check_result import CheckResult, CheckStatus
from daybreak.doctor.examination import examine
from daybreak.doctor.machine_checks import GIB, heap_bytes
from daybreak.doctor.package_checks import Requirement, parse_requirement

PIPELINE = """
[streams.readings]
format = "generator"
[queries.hot]
sql = "SELECT station FROM readings WHERE temperature > 40"
sink = {{ format = "parquet", path = "{path}" }}
"""


@pytest.fixture(autouse=True)
def good_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each test has one fault, whatever this machine has installed."""
    write_java(tmp_path / "good", "17.0.15")
    monkeypatch.setenv("PATH", f"{tmp_path / 'good'}{os.pathsep}{os.environ['PATH']}")
    for name in ("JAVA_HOME", "SPARK_HOME", "SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS", "PYSPARK_PYTHON"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen()
        yield server.getsockname()[1]


def write_java(folder: Path, version: str) -> None:
    """A program that answers ``java -version`` as this version does."""
    folder.mkdir(parents=True)
    (folder / "java").write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    (folder / "java").chmod(0o755)


def write_pipeline(folder: Path, text: str = "", path: str = "out") -> Path:
    file = folder / "pipeline.toml"
    file.write_text(PIPELINE.format(path=path) + text)
    return file


def not_writable(folder: Path) -> Path:
    """Root may write to any folder but those of the kernel."""
    if os.geteuid() == 0:
        return Path("/proc/daybreak/out")
    folder.mkdir(mode=0o500)
    return folder / "out"


def failed(pipeline: Path | None = None, dashboard: str | None = None) -> dict[str, CheckResult]:
    found = examine(pipeline, run_dir=Path("runs/r"), dashboard=dashboard)
    return {r.check: r for r in found if r.status is CheckStatus.FAILURE}


def test_a_sound_machine_and_pipeline_pass_and_nothing_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_pipeline(tmp_path)
    before = sorted(tmp_path.rglob("*"))
    assert failed(file) == {}
    assert sorted(tmp_path.rglob("*")) == before


def test_java_home_that_points_nowhere_is_to_be_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    java = failed()["java"]
    assert java.finding == "Spark needs Java 17, and JAVA_HOME '/nowhere' has none"
    assert java.remedy.startswith("unset JAVA_HOME (")


def test_an_old_java_on_the_path_is_to_be_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_java(tmp_path / "old", "1.8.0_392")
    monkeypatch.setenv("PATH", str(tmp_path / "old"))
    java = failed()["java"]
    assert java.finding.endswith("old/java is Java 8, but Spark needs 17 or newer")
    assert "apt-get install openjdk-17-jre-headless" in java.remedy


def test_a_python_for_workers_of_another_version_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho 3.8\n")
    other.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(other))
    python = failed()["python"]
    assert "is Python 3.8" in python.finding
    assert python.remedy == f"unset PYSPARK_PYTHON, or export PYSPARK_PYTHON={sys.executable}"
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "none"))
    assert "is not a program" in failed()["python"].finding


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lacking", "status", "finding"),
    [
        ("janino-", CheckStatus.WARNING, "instead: every job is a Spark job"),
        ("spark-catalyst_", CheckStatus.FAILURE, "instead: none: no query is accepted"),
    ],
)
def test_a_spark_that_lacks_internals_loses_what_needs_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    lacking: str,
    status: CheckStatus,
    finding: str,
) -> None:
    (tmp_path / "jars").mkdir()
    for jar in (Path(pyspark.__file__).parent / "jars").glob("*.jar"):
        if not jar.name.startswith(lacking):
            (tmp_path / "jars" / jar.name).symlink_to(jar)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    found = [r for r in examine() if r.check == "spark internals" and r.status is status]
    assert any(finding in result.finding for result in found)
    assert all(result.remedy.startswith("pip install pyspark==") for result in found)


def test_another_spark_in_spark_home_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert failed()["spark home"].finding.endswith("holds no Spark")
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark-core_2.12-3.5.1.jar").touch()
    assert "is Spark 3.5.1, but PySpark is" in failed()["spark home"].finding


def test_an_address_of_another_machine_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")  # reserved for documentation
    address = failed()["address"]
    assert "cannot be bound" in address.finding
    assert address.remedy == "export SPARK_LOCAL_IP=127.0.0.1"


def test_a_package_that_is_too_old_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "site" / "deltalake-0.9.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: deltalake\nVersion: 0.9.0\n")
    monkeypatch.syspath_prepend(info.parent)
    extra = failed()["extra delta"]
    assert extra.finding.startswith("deltalake 0.9.0 is installed, but >=1.6 is required")
    assert extra.remedy == "pip install --upgrade 'daybreak[delta]'"


def test_a_scratch_folder_that_cannot_be_written_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(not_writable(tmp_path / "locked")))
    assert "cannot write to" in failed()["scratch folder"].finding


def test_a_taken_dashboard_port_is_a_warning_unless_it_is_asked_for(taken_port: int) -> None:
    address = f"127.0.0.1:{taken_port}"
    taken = failed(dashboard=address)["dashboard port"]
    assert taken.finding == f"{address} is taken by another process"
    assert "--dashboard-address 127.0.0.1:0" in taken.remedy
    [default] = [r for r in examine(default_dashboard=address) if r.check == "dashboard port"]
    assert default.status is CheckStatus.WARNING


def test_a_pipelines_folder_that_cannot_be_written_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_pipeline(tmp_path, path=str(not_writable(tmp_path / "locked")))
    assert "cannot write to" in failed(file)["sink of hot"].finding
    (tmp_path / "runs").touch()
    assert "runs is not a folder" in failed(file)["run directory"].finding


def test_a_pipelines_ports_servers_and_memory_are_examined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, taken_port: int
) -> None:
    monkeypatch.chdir(tmp_path)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, and nobody listens
        silent = closed.getsockname()[1]
        text = f"""
            [streams.topic]
            format = "kafka"
            schema = "a INT"
            options = {{ "kafka.bootstrap.servers" = "127.0.0.1:{silent}", subscribe = "t" }}
            [queries.log]
            sql = "SELECT a FROM topic"
            [queries.log.sink]
            format = "postgres"
            options = {{ table = "t", url = "postgresql://u:s3cr3t-pw@127.0.0.1:{silent}/d" }}
            [spark.conf]
            "spark.blockManager.port" = {taken_port}
            "spark.driver.memory" = "9999g"
        """
        found = failed(write_pipeline(tmp_path, text))
    assert "is taken by another process" in found["spark.blockManager.port"].finding
    assert f"no Kafka broker answers at 127.0.0.1:{silent}" in found["stream topic"].finding
    assert "no PostgreSQL server answers" in found["sink of log"].finding
    assert "spark-sql-kafka-0-10" in found["connector kafka"].remedy
    assert "a driver takes 9999.5 GiB" in found["memory"].finding
    assert "s3cr3t" not in str(found)


def test_sources_that_are_missing_and_sinks_that_nobody_offers_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = """
        [streams.files]
        format = "json"
        path = "in/files"
        schema = "a INT"
        [queries.far]
        sql = "SELECT a FROM files"
        sink = { format = "iceberg" }
    """
    found = failed(write_pipeline(tmp_path, text))
    assert found["stream files"].remedy == f"mkdir -p {tmp_path / 'in/files'}"
    assert "no installed package offers this sink" in found["connector iceberg"].finding


def test_every_mistake_of_a_pipeline_is_reported_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = write_pipeline(tmp_path, '[queries.cold]\nsql = "SELECT 1"\n[app]\npolicy = "fcsf"\n')
    findings = [r.finding for r in examine(file) if r.check == "pipeline"]
    assert len(findings) == 2
    assert "names no declared stream" in findings[0]
    assert "'fcsf'" in findings[1]


def test_requirements_and_sizes_are_read_as_they_are_written() -> None:
    parsed = parse_requirement('psycopg[binary]<4,>=3.2; extra == "postgres"')
    assert parsed == Requirement("psycopg", "<4,>=3.2", "postgres")
    assert [parsed.admits(v) for v in ("3.2", "3.10.1", "3.1.9", "4.0", "4.0rc1")] == [
        True, True, False, False, False,
    ]  # fmt: skip
    assert parse_requirement("daybreak[spark,web]; extra == 'all'") is None
    sizes = [heap_bytes(text) for text in ("2g", "512m", "1024", "1073741824b", "")]
    assert sizes == [2 * GIB, GIB // 2, GIB, GIB, GIB]


@pytest.mark.slow
def test_the_command_exits_with_1_and_prints_json(tmp_path: Path) -> None:
    def call(*options: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "daybreak", "doctor", *options],
            cwd=tmp_path, env={**os.environ, **env},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    sound = call(env={})
    assert sound.returncode == 0, sound.stdout
    assert sound.stdout.splitlines()[-1].startswith("all checks passed")
    broken = call("missing.toml", "--json", env={"JAVA_HOME": "/nowhere"})
    assert (broken.returncode, broken.stderr) == (1, "")
    shown = json.loads(broken.stdout)
    assert not shown["ok"]
    wrong = [c["check"] for c in shown["checks"] if c["status"] == "failure"]
    assert wrong == ["java", "pipeline"]
