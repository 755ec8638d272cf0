"""What a Kafka source or sink declares: checked without a broker and without a JVM."""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Mapping

from daybreak.model.errors import ConfigError

FORMAT = "kafka"
#: Spark's connector, without its version, which is Spark's own or the nearest that is published.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13"
SERVERS = "kafka.bootstrap.servers"
#: Which topics a source reads: exactly one of them.
CHOICES = ("subscribe", "subscribePattern", "assign")
#: For all addresses of a cluster together.
REACHED_WITHIN_S = 5.0
_PREFIX = "kafka."
_ADDRESS = re.compile(r"(?:[A-Za-z_]+://)?(\[[0-9A-Fa-f:.]+\]|[^\s:/,]+):(\d{1,5})")


def client_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that Kafka's own clients take: ``kafka.NAME`` without the prefix."""
    return {k.removeprefix(_PREFIX): v for k, v in options.items() if k.startswith(_PREFIX)}


def servers(options: Mapping[str, str], place: str) -> tuple[tuple[str, int], ...]:
    """Host and port of each bootstrap server; ``ConfigError`` if there is none or no such thing."""
    text = options.get(SERVERS, "")
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts:
        raise ConfigError(
            place,
            f"option {SERVERS} is missing",
            f'give it, such as "{SERVERS}" = "localhost:9092"',
        )
    found = []
    for part in parts:
        match = _ADDRESS.fullmatch(part)
        if match is None or not 0 < int(match[2]) < 65536:
            raise ConfigError(place, f"{SERVERS} has {part!r}", "give HOST:PORT between commas")
        found.append((match[1].strip("[]"), int(match[2])))
    return tuple(found)


def topics(options: Mapping[str, str], place: str) -> tuple[str, ...] | None:
    """The topics that a source names; None if it gives a pattern."""
    given = [choice for choice in CHOICES if options.get(choice, "").strip()]
    if len(given) != 1:
        raise ConfigError(
            place,
            f"names {' and '.join(given) or 'no topic'}",
            'give exactly one of the options subscribe = "TOPIC,TOPIC", subscribePattern and '
            "assign",
        )
    text = options[given[0]]
    if given[0] == "subscribePattern":
        return None
    if given[0] == "subscribe":
        return tuple(t.strip() for t in text.split(",") if t.strip())
    try:
        assigned = json.loads(text)
    except ValueError:
        assigned = None
    if not isinstance(assigned, dict) or not assigned:
        remedy = """give { "TOPIC": [0, 1] } as JSON"""
        raise ConfigError(place, f"assign {text!r} names no partitions", remedy)
    return tuple(assigned)


def shown_servers(options: Mapping[str, str]) -> str:
    return options.get(SERVERS, "").strip()


def unreachable(addresses: tuple[tuple[str, int], ...], within_s: float) -> str | None:
    """Why no server accepts a connection; None as soon as one does."""
    end_s = time.monotonic() + within_s
    why = "no answer"
    for host, port in addresses:
        left_s = max(end_s - time.monotonic(), 0.2)
        try:
            socket.create_connection((host, port), timeout=left_s).close()
        except OSError as error:
            why = error.strerror or str(error)
        else:
            return None
    return why


def reach(options: Mapping[str, str], place: str) -> None:
    """``ConfigError`` within ``REACHED_WITHIN_S`` unless a bootstrap server answers."""
    why = unreachable(servers(options, place), REACHED_WITHIN_S)
    if why is not None:
        raise ConfigError(
            place,
            f"no Kafka broker answers at {shown_servers(options)} ({why})",
            f"start it, or correct {SERVERS}; nothing was read or written",
        )
