"""Masters are checked before a JVM starts; the driver announces an address that can be reached."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from daybreak.model import ConfigError
from daybreak.spark.master import REACHED_WITHIN_S, Master, driver_conf


@pytest.fixture(autouse=True)
def _no_addresses_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPARK_LOCAL_IP", "SPARK_LOCAL_HOSTNAME", "HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("text", ["local", "local[1]", "local[*]", "local[2,3]", "local[2, 3]"])
def test_local_masters_are_taken_as_spark_takes_them(text: str) -> None:
    """``local`` alone once became ``local[local]`` and a stack trace."""
    assert Master.parse(text) == Master(text, local=True)


def test_addresses_of_a_cluster_are_found() -> None:
    assert Master.parse("spark://a:7077,b:7078").addresses == (("a", 7077), ("b", 7078))
    assert Master.parse("spark://[::1]:7077").addresses == (("::1", 7077),)
    assert Master.parse("k8s://https://api:6443").addresses == (("api", 6443),)
    assert Master.parse("k8s://api").addresses == (("api", 443),)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("local[0]", "has no threads"),
        ("local[]", "is no Spark master"),
        ("local[two]", "is no Spark master"),
        ("local-cluster[2,1,1024]", "is for tests of Spark itself"),
        ("spark://", "names no host and port"),
        ("spark://host", "names no host and port"),
        ("spark://host:port", "names no host and port"),
        ("spark://a:7077,", "names no host and port"),
        ("mesos://host:5050", "is no Spark master"),
        ("yarn", "needs the cluster's configuration"),
        ("", "is no Spark master"),
    ],
)
def test_other_masters_are_refused_with_the_remedy(text: str, finding: str) -> None:
    with pytest.raises(ConfigError, match=finding) as caught:
        Master.parse(text)
    assert caught.value.place == "--master"


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def test_a_master_that_nobody_runs_is_refused_in_bounded_time() -> None:
    began_s = time.monotonic()
    url = f"spark://127.0.0.1:{closed_port()}"
    with pytest.raises(ConfigError, match=r"cannot be reached .*Connection refused"):
        driver_conf(Master.parse(url))
    assert time.monotonic() - began_s < REACHED_WITHIN_S + 5


def test_a_standby_master_is_found_behind_one_that_is_down() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"spark://127.0.0.1:{closed_port()},127.0.0.1:{server.getsockname()[1]}"
        assert Master.parse(url).reach() == "127.0.0.1"


def test_only_a_local_driver_hides_on_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a cluster it once announced 127.0.0.1, where no executor finds it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        cluster = Master("spark://cluster", False, (("127.0.0.1", server.getsockname()[1]),))
        # Our address as the master sees it: it happens to be on this machine.
        assert driver_conf(cluster) == {"spark.driver.host": "127.0.0.1"}
        assert driver_conf(cluster, "127.0.0.2") == {"spark.driver.host": "127.0.0.2"}
        # TEST-NET: an address that is not ours, of a gateway.
        assert driver_conf(cluster, "192.0.2.1") == {
            "spark.driver.host": "192.0.2.1",
            "spark.driver.bindAddress": "0.0.0.0",
        }
        monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.7")
        assert driver_conf(cluster) == {}
    monkeypatch.delenv("SPARK_LOCAL_IP")
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")  # put back what the next line sets
    local = driver_conf(Master.parse("local[2]"))
    assert set(local.values()) == {"127.0.0.1"}


PIPELINE = """
[app]
name = "tiny"
[streams.s]
format = "generator"
[queries.q]
sql = "SELECT reading FROM s"
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "master", ["local[", "local-cluster[2,1,1024]", "spark://127.0.0.1:1", "spark:/127.0.0.1:1"]
)
def test_a_command_ends_in_one_line(master: str, tmp_path: Path) -> None:
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    done = subprocess.run(
        [sys.executable, "-m", "daybreak", "check", "pipeline.toml", "--master", master],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: --master: ")
