"""Writes records through Kafka's own producer, in the driver's JVM.

A producer stays open: a Spark job for each delivery would take longer than the job whose rows it
delivers. The rows of a delivery cross to the JVM in one call; our Java, in ``spark/java/kafka``,
unpacks and sends them. Where it cannot be compiled, records are sent one by one from here: slower,
with the same result.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError

from daybreak.spark.failures import SinkUnavailable, one_line
from daybreak.spark.java.loader import JavaPackage
from daybreak.spark.kafka.cluster import gateway, jvm, properties
from daybreak.spark.kafka.options import client_options, servers, shown_servers, unreachable

#: Set by the declaration where others are wanted. An idempotent producer repeats a request without
#: writing it twice. Repetitions after a crash of the driver remain, which headers identify.
DEFAULTS = {
    "acks": "all",
    "enable.idempotence": "true",
    "linger.ms": "0",
    "compression.type": "lz4",
    # Kafka would hold a worker for two minutes; a delivery is tried again anyway.
    "request.timeout.ms": "5000",
    "delivery.timeout.ms": "10000",
    "max.block.ms": "10000",
}
_SERIALIZER = "org.apache.kafka.common.serialization.ByteArraySerializer"
_FIXED = {"key.serializer": _SERIALIZER, "value.serializer": _SERIALIZER}
#: Headers of each record, by which a consumer recognises a repetition.
QUERY, JOB, ROW = "daybreak-query", "daybreak-job", "daybreak-row"
_PROBE_S = 1.0
#: What crosses to the JVM in one call, roughly: the gateway copies it a few times.
_MOST_BYTES = 2**22
#: After these a producer refuses everything.
_FATAL = (
    "ProducerFencedException", "InvalidProducerEpochException", "OutOfOrderSequenceException",
    "AuthenticationException", "AuthorizationException", "UnsupportedVersionException",
)  # fmt: skip


class Record(NamedTuple):
    key: bytes | None
    value: bytes


class _Open(NamedTuple):
    """A ``KafkaProducer`` and the ``KafkaSender`` that fills it, if there is one, in the JVM."""

    producer: Any
    sender: Any


class Producer:
    """An open producer of one cluster. Methods may be called from any thread."""

    def __init__(self, options: Mapping[str, str], place: str) -> None:
        self._options = {**DEFAULTS, **client_options(options), **_FIXED}
        self._shown = shown_servers(options)
        self._addresses = servers(options, place)
        self._guard = threading.Lock()
        self._open: _Open | None = None
        self._failed = False

    def send(self, topic: str, records: Sequence[Record], query: str, job: str) -> None:
        """Returns when the broker has acknowledged all records. ``SinkUnavailable`` in an outage.

        After a failure some may have been written; the next attempt writes all of them again.
        """
        if self._failed and (why := unreachable(self._addresses, _PROBE_S)) is not None:
            raise self._unavailable(topic, why)  # without holding a worker for Kafka's time limit
        try:
            self._send(topic, records, query, job)
        except Py4JJavaError as error:
            self._failed = True
            if _is(error, "RetriableException"):
                raise self._unavailable(topic, one_line(error)) from None
            if _is(error, *_FATAL):
                self.close()
            raise
        except Py4JError:
            self._open = None  # of a JVM that is gone
            raise
        self._failed = False

    def close(self) -> None:
        """What is under way is given up, of all threads; a later ``send`` opens it again."""
        with self._guard:
            given_up, self._open = self._open, None
        if given_up is not None:
            given_up.producer.close(jvm().java.time.Duration.ofMillis(0))

    def _send(self, topic: str, records: Sequence[Record], query: str, job: str) -> None:
        java = jvm()
        with self._guard:
            if self._open is None:
                make = getattr(java, "org.apache.kafka.clients.producer.KafkaProducer")
                producer = make(properties(java, self._options))
                self._open = _Open(producer, sender_of(gateway()))
            producer, sender = self._open
        if sender is None:
            send_one_by_one(java, producer, topic, records, query, job)
        else:
            for first, part in _parts(records):
                sender.send(producer, topic, packed(part), query, job, first)

    def _unavailable(self, topic: str, why: str) -> SinkUnavailable:
        return SinkUnavailable(
            f"topic {topic!r} at {self._shown} takes no records ({why}); start the broker or "
            "create the topic again: results are kept and sent then"
        )


def _parts(records: Sequence[Record]) -> Iterator[tuple[int, Sequence[Record]]]:
    """Slices that cross to the JVM in one call, each with the number of its first record."""
    first, size = 0, 0
    for n, (key, value) in enumerate(records):
        if size > _MOST_BYTES:
            yield first, records[first:n]
            first, size = n, 0
        size += len(key or b"") + len(value)
    yield first, records[first:]


def packed(records: Sequence[Record]) -> bytes:
    """Keys and values, each behind its length; -1 for none."""
    parts = []
    for field in (field for record in records for field in record):
        parts += [struct.pack(">i", -1 if field is None else len(field)), field or b""]
    return b"".join(parts)


def send_one_by_one(
    java: Any, producer: Any, topic: str, records: Sequence[Record], query: str, job: str
) -> None:
    make = getattr(java, "org.apache.kafka.clients.producer.ProducerRecord")
    sent = []
    for row, (key, value) in enumerate(records):
        record = make(topic, key, value)
        for name, text in ((QUERY, query), (JOB, job), (ROW, str(row))):
            record.headers().add(name, text.encode())
        sent.append(producer.send(record))
    producer.flush()
    for future in sent:
        future.get()


def sender_of(gateway: Any) -> Any:
    """A ``KafkaSender`` in the JVM; None where it cannot be compiled."""
    try:
        return JavaPackage(gateway, "kafka").new("KafkaSender")
    except Py4JError:
        return None


def _is(error: Py4JJavaError, *kinds: str) -> bool:
    """Whether the error or a cause of it is of one of these of Kafka's classes."""
    loader = jvm().java.lang.Thread.currentThread().getContextClassLoader()
    classes = [loader.loadClass(f"org.apache.kafka.common.errors.{kind}") for kind in kinds]
    cause: Any = error.java_exception
    while cause is not None:
        if any(kind.isInstance(cause) for kind in classes):
            return True
        cause = cause.getCause()
    return False
