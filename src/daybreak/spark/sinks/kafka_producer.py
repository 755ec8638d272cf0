"""Writes records through Kafka's own producer, in the driver's JVM.

A producer stays open: a Spark job for each delivery would take longer than the job whose rows it
delivers. The rows of a delivery cross to the JVM in one call; a few lines of Java, compiled by the
compiler that Spark generates code with, unpack and send them. Where that compiler refuses, records
are sent one by one from here: slower, with the same result.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from daybreak.spark.failures import SinkUnavailable, one_line
from daybreak.spark.kafka.cluster import jvm, properties
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

_SENDER = """
import java.io.ByteArrayInputStream;
import java.io.DataInputStream;
import java.util.ArrayList;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;

public void send(
    Object producer, String topic, byte[] rows, String query, String job, int first
) throws Exception {
    KafkaProducer to = (KafkaProducer) producer;
    DataInputStream in = new DataInputStream(new ByteArrayInputStream(rows));
    ArrayList sent = new ArrayList();
    for (int row = first; in.available() > 0; row++) {
        ProducerRecord record = new ProducerRecord(topic, (Object) take(in), (Object) take(in));
        record.headers().add("daybreak-query", query.getBytes("UTF-8"));
        record.headers().add("daybreak-job", job.getBytes("UTF-8"));
        record.headers().add("daybreak-row", Integer.toString(row).getBytes("UTF-8"));
        sent.add(to.send(record));
    }
    to.flush();
    for (int i = 0; i < sent.size(); i++) {
        ((Future) sent.get(i)).get();
    }
}

private static byte[] take(DataInputStream in) throws Exception {
    int length = in.readInt();
    if (length < 0) {
        return null;
    }
    byte[] bytes = new byte[length];
    in.readFully(bytes);
    return bytes;
}
"""


class Record(NamedTuple):
    key: bytes | None
    value: bytes


class Producer:
    """An open producer of one cluster. Methods may be called from any thread."""

    def __init__(self, options: Mapping[str, str], place: str) -> None:
        self._options = {**DEFAULTS, **client_options(options), **_FIXED}
        self._shown = shown_servers(options)
        self._addresses = servers(options, place)
        self._guard = threading.Lock()
        self._producer: Any = None
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
            self._producer = None  # of a JVM that is gone
            raise
        self._failed = False

    def close(self) -> None:
        """What is under way is given up, of all threads; a later ``send`` opens it again."""
        with self._guard:
            producer, self._producer = self._producer, None
        if producer is not None:
            producer.close(jvm().java.time.Duration.ofMillis(0))

    def _send(self, topic: str, records: Sequence[Record], query: str, job: str) -> None:
        java = jvm()
        with self._guard:
            if self._producer is None:
                make = getattr(java, "org.apache.kafka.clients.producer.KafkaProducer")
                self._producer = make(properties(java, self._options))
            producer = self._producer
        sender = sender_of(java)
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


_compiling = threading.Lock()
_senders: list[tuple[Any, Any]] = []


def sender_of(java: Any) -> Any:
    """The compiled lines, once for each JVM; None where they cannot be compiled."""
    with _compiling:
        for of, sender in _senders:
            if of is java:
                return sender
        try:
            sender = _compiled(java)
        except Py4JError:
            sender = None
        _senders[:] = [(java, sender)]
        return sender


def _compiled(java: Any) -> Any:
    context = SparkContext._active_spark_context
    assert context is not None
    assert context._gateway is not None
    compiler = java.org.codehaus.janino.ClassBodyEvaluator()
    # The gateway takes classes of one name for one class, whatever loader they come from.
    compiler.setClassName("daybreak.KafkaSender")
    compiler.setParentClassLoader(java.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(_SENDER)
    new_array = context._gateway.new_array
    constructor = compiler.getClazz().getDeclaredConstructor(new_array(java.java.lang.Class, 0))
    return constructor.newInstance(new_array(java.java.lang.Object, 0))


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
