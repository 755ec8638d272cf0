"""A Kafka cluster as the driver sees it: which topics it has and where they end.

Asked through the clients' jar in the driver's JVM, which the Spark connector brings along.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from daybreak.model.errors import ConfigError
from daybreak.spark.failures import one_line
from daybreak.spark.kafka.options import CONNECTOR, SERVERS, client_options, reach, shown_servers

#: A class of each jar that is needed, and the jar. The first brings the others along as a package.
_JARS = {
    "org.apache.spark.sql.kafka010.KafkaSourceProvider": "spark-sql-kafka-0-10",
    "org.apache.spark.kafka010.KafkaConfigUpdater": "spark-token-provider-kafka-0-10",
    "org.apache.kafka.clients.admin.AdminClient": "kafka-clients",
    "org.apache.commons.pool2.impl.GenericKeyedObjectPool": "commons-pool2",
}
#: Beyond it a broker is taken for unreachable. Kafka's own limits are a minute.
TIMEOUTS = {"request.timeout.ms": "5000", "default.api.timeout.ms": "10000"}

Offsets = dict[str, dict[int, int]]


def jvm() -> Any:
    """The JVM of the one Spark application of this process."""
    return gateway().jvm


def gateway() -> Any:
    """The gateway to that JVM."""
    context = SparkContext._active_spark_context
    if context is None:
        raise ConfigError("kafka", "there is no Spark session", "start one first")
    return context._gateway


def need_jars(place: str) -> None:
    """``ConfigError`` with the setting that brings them, unless Spark has Kafka's jars."""
    loader = jvm().java.lang.Thread.currentThread().getContextClassLoader()
    missing = []
    for name, jar in _JARS.items():
        try:
            loader.loadClass(name)
        except Py4JJavaError:
            missing.append(jar)
    if missing:
        context = SparkContext._active_spark_context
        version = "4.3.0" if context is None else context.version
        raise ConfigError(
            place,
            f"Spark runs without the Kafka connector: {', '.join(missing)} missing",
            f'add packages = ["{CONNECTOR}:{version}"] to [spark] or give it with --packages, or '
            "the nearest version that is published (docs/kafka.md); for a session of your own set "
            "spark.jars.packages before it starts",
        )


class Cluster:
    """One cluster, asked with one set of options. Methods may be called from any thread."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {**TIMEOUTS, **client_options(options)}
        self._guard = threading.Lock()
        self._admin: Any = None

    def topics(self) -> set[str]:
        """Raises Py4JError."""
        return set(self._open().listTopics().names().get())

    def ends(self, wanted: Mapping[str, Iterable[int]]) -> Offsets:
        """The offset that the next record of each partition will have. Raises Py4JError."""
        java = jvm()
        partition_of = getattr(java, "org.apache.kafka.common.TopicPartition")
        latest = getattr(java, "org.apache.kafka.clients.admin.OffsetSpec").latest()
        asked = java.java.util.HashMap()
        pairs = [(topic, p, partition_of(topic, p)) for topic in wanted for p in wanted[topic]]
        for _, _, partition in pairs:
            asked.put(partition, latest)
        answer = self._open().listOffsets(asked)
        found: Offsets = {}
        for topic, p, partition in pairs:
            end = answer.partitionResult(partition).get().offset()
            found.setdefault(topic, {})[p] = int(end)
        return found

    def close(self) -> None:
        """Idempotent."""
        with self._guard:
            admin, self._admin = self._admin, None
        if admin is not None:
            admin.close(jvm().java.time.Duration.ofMillis(200))

    def _open(self) -> Any:
        with self._guard:
            if self._admin is None:
                java = jvm()
                make = getattr(java, "org.apache.kafka.clients.admin.AdminClient")
                self._admin = make.create(properties(java, self._options))
            return self._admin


def properties(java: Any, options: Mapping[str, str]) -> Any:
    made = java.java.util.Properties()
    for key, value in options.items():
        made.put(key, value)
    return made


#: The topics that clusters had lately, and when.
_listed: dict[tuple[tuple[str, str], ...], tuple[float, set[str]]] = {}
_FRESH_S = 5.0


def check_topics(options: Mapping[str, str], wanted: Collection[str] | None, place: str) -> None:
    """``ConfigError`` unless a broker answers and has these topics. ``None``: any will do."""
    need_jars(place)
    # Many sinks have one cluster: what was there a moment ago is not asked for again.
    which = tuple(sorted(client_options(options).items()))
    at_s, known = _listed.get(which, (0.0, set()))
    if wanted is not None and time.monotonic() - at_s < _FRESH_S and known.issuperset(wanted):
        return
    reach(options, place)
    cluster = Cluster(options)
    try:
        found = cluster.topics()
        _listed[which] = (time.monotonic(), found)
    except Py4JError as error:
        raise ConfigError(
            place,
            f"the Kafka broker at {shown_servers(options)} refuses to list its topics: "
            f"{one_line(error)}",
            f"check {SERVERS}, kafka.security.protocol and the credentials",
        ) from None
    finally:
        cluster.close()
    missing = [topic for topic in wanted or () if topic not in found]
    if missing:
        raise ConfigError(
            place,
            f"the Kafka broker at {shown_servers(options)} has no topic {', '.join(missing)}",
            f"create it (kafka-topics.sh --bootstrap-server {shown_servers(options)} --create "
            f"--topic {missing[0]}), or correct the name",
        )
