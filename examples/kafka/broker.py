"""A Kafka broker of our own: one node on this machine, from its jars, without ZooKeeper or Docker.

For this example and for the tests. ``make kafka`` fetches the jars into ``.kafka``.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Self

JARS = Path(__file__).resolve().parents[2] / ".kafka"
#: Any will do: it names the cluster.
CLUSTER_ID = "ZGF5YnJlYWstZXhhbXBsZQ"
START_S = 60.0
REMEDY = "fetch its jars with: make kafka"


def connector_jars() -> list[Path]:
    """Spark's Kafka connector; empty if it has not been fetched."""
    return sorted((JARS / "connector").glob("*.jar"))


def can_start() -> bool:
    return bool(connector_jars()) and any((JARS / "broker").glob("kafka_*.jar"))


class Broker:
    """One node in KRaft mode on the loopback; all it keeps is in ``folder``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, controller = free_port(), free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = folder / "server.properties"
        folder.mkdir(parents=True, exist_ok=True)
        self._settings.write_text(
            "process.roles=broker,controller\n"
            "node.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}\n"
            "controller.listener.names=CONTROLLER\n"
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n"
            f"log.dirs={folder / 'data'}\n"
            "offsets.topic.replication.factor=1\n"
            "transaction.state.log.replication.factor=1\n"
            "transaction.state.log.min.isr=1\n"
            "auto.create.topics.enable=false\n"
        )

    @property
    def servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> Self:
        """Returns when it accepts connections; after ``stop`` it has the same port and data."""
        if not (self.folder / "data").exists():
            self._java("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c").wait(START_S)
        self._process = self._java("kafka.Kafka")
        end_s = time.monotonic() + START_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError(f"the broker did not start: {self._log.read_text()[-2000:]}")
            time.sleep(0.05)
        return self

    def stop(self) -> None:
        """As if its machine failed: what it has acknowledged is on disk."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _log(self) -> Path:
        return self.folder / "broker.log"

    def _java(self, *command: str) -> subprocess.Popen[bytes]:
        home = os.environ.get("JAVA_HOME")
        java = str(Path(home) / "bin" / "java") if home else shutil.which("java") or "java"
        # Small and quick to start: it lives for minutes.
        tuned = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        classpath = ["-cp", str(JARS / "broker" / "*")]
        with self._log.open("ab") as log:
            return subprocess.Popen(
                [java, *tuned, *classpath, *command, str(self._settings)],
                stdout=log, stderr=log, stdin=subprocess.DEVNULL,
            )  # fmt: skip

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
