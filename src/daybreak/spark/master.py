"""Where Spark runs: the master's address checked before a JVM starts, and ours as it sees it.

Spark itself answers a misspelt or unreachable master with a minute of retries and a stack trace.
"""

from __future__ import annotations

import os
import re
import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from daybreak.model.errors import ConfigError

#: For all addresses of a master together.
REACHED_WITHIN_S = 10.0
FORMS = "local, local[N], local[*], spark://HOST:PORT, yarn or k8s://https://HOST:PORT"
_LOCAL = re.compile(r"local(\[(\*|\d+)(,\s*\d+)?\])?")
_LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class Master:
    """A Spark master that can be used."""

    url: str
    #: Whether driver and executors are one process on this machine.
    local: bool
    #: Host and port of each address that accepts applications; empty where Spark finds them.
    addresses: tuple[tuple[str, int], ...] = ()

    @classmethod
    def parse(cls, text: str, place: str = "--master") -> Master:
        """ConfigError, with the valid forms, for anything Spark would not understand."""
        if match := _LOCAL.fullmatch(text):
            if match[2] is not None and match[2] != "*" and int(match[2]) < 1:
                raise ConfigError(place, f"{text!r} has no threads", "give local[1] or more")
            return cls(text, local=True)
        if text.startswith("local-cluster"):
            raise ConfigError(
                place,
                f"{text!r} is for tests of Spark itself",
                "give local[N] or spark://HOST:PORT",
            )
        if text.startswith("spark://"):
            parts = text.removeprefix("spark://").split(",")
            return cls(
                text, False, tuple(_host_and_port(f"//{p}", None, text, place) for p in parts)
            )
        if text == "yarn":
            _check_yarn(place)
            return cls(text, local=False)
        if text.startswith("k8s://"):
            url = text.removeprefix("k8s://")
            url = url if "://" in url else f"https://{url}"
            port = 80 if url.startswith("http://") else 443
            return cls(text, False, (_host_and_port(url, port, text, place),))
        raise ConfigError(place, f"{text!r} is no Spark master", f"give {FORMS}")

    def reach(self, place: str = "--master") -> str | None:
        """Connects to the master; our address as it sees it. None where there is no address.

        ConfigError within ``REACHED_WITHIN_S`` if nothing answers.
        """
        end_s = time.monotonic() + REACHED_WITHIN_S
        failures = []
        for host, port in self.addresses:
            left_s = max(0.1, end_s - time.monotonic())
            try:
                with socket.create_connection((host, port), timeout=left_s) as sock:
                    ours: str = sock.getsockname()[0]
                    return ours
            except OSError as error:
                failures.append(f"{host}:{port}: {error.strerror or error}")
        if not failures:
            return None
        raise ConfigError(
            place,
            f"{self.url!r} cannot be reached ({'; '.join(failures)})",
            "check the address, and that the master runs; or give --master local[*]",
        )


def driver_conf(
    master: Master, driver_host: str | None = None, place: str = "--master"
) -> dict[str, str]:
    """Where executors find the driver. Raises ConfigError if the master cannot be reached.

    On this machine: loopback, so that nobody else can connect. Elsewhere: the given address, else
    what SPARK_LOCAL_IP or SPARK_LOCAL_HOSTNAME declare, else our address as the master sees it.
    """
    if master.local:
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
        return {"spark.driver.host": _LOOPBACK, "spark.driver.bindAddress": _LOOPBACK}
    seen = master.reach(place)
    if driver_host is None:
        # Loopback is what an earlier local session of this process has left there.
        declared = os.environ.get("SPARK_LOCAL_IP", _LOOPBACK) != _LOOPBACK
        if declared or os.environ.get("SPARK_LOCAL_HOSTNAME") or seen is None:
            return {}
        return {"spark.driver.host": seen}
    conf = {"spark.driver.host": driver_host}
    if not _is_ours(driver_host):
        # The address of a gateway or of a container's host, which forwards to us.
        conf["spark.driver.bindAddress"] = "0.0.0.0"  # noqa: S104
    return conf


def _host_and_port(url: str, default: int | None, text: str, place: str) -> tuple[str, int]:
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port or default
    except ValueError:
        host, port = None, None
    if not host or port is None:
        raise ConfigError(place, f"{text!r} names no host and port", f"give {FORMS}")
    return host, port


def _check_yarn(place: str) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR"):
        if os.environ.get(name):
            return
    raise ConfigError(
        place, "'yarn' needs the cluster's configuration", "set HADOOP_CONF_DIR or YARN_CONF_DIR"
    )


def _is_ours(host: str) -> bool:
    """Whether a socket of this machine can have the address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)[0]
        with socket.socket(family, kind, protocol) as sock:
            sock.bind(address)
    except OSError:
        return False
    return True
