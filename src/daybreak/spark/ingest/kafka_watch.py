"""How far Kafka sources are behind: per topic and partition, asked of the brokers themselves.

Spark reports its offsets when a micro-batch ends. A source that waits for room in the log, or for
a broker, ends none; so this asks on a thread of its own, and notices an outage before Spark does.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping

from py4j.protocol import Py4JError

from daybreak.model.errors import ConfigError
from daybreak.runtime.eventlog import Emit, silent
from daybreak.runtime.snapshot import OffsetRow
from daybreak.spark.failures import one_line
from daybreak.spark.ingest.kafka_source import KafkaPosition
from daybreak.spark.kafka.cluster import Cluster, Offsets
from daybreak.spark.kafka.options import servers, unreachable

EVERY_S = 2.0
_PROBE_S = 2.0
_CLOSE_S = 3.0


class KafkaWatch:
    """The offsets of a run's Kafka sources. ``status`` may be called from any thread."""

    def __init__(
        self, positions: Callable[[], Mapping[str, KafkaPosition]], emit: Emit = silent
    ) -> None:
        self._positions = positions
        self._emit = emit
        self._clusters: dict[str, Cluster] = {}
        self._ends: dict[str, Offsets] = {}
        #: Streams whose broker does not answer, with why.
        self.troubles: dict[str, str] = {}
        self._stopping = threading.Event()
        self._polling = threading.Lock()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begins to watch if there is something to watch. Idempotent."""
        if self._thread is not None or not self._positions():
            return
        self._thread = threading.Thread(target=self._watch, name="kafka-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Idempotent; does not wait for a broker that does not answer."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(_CLOSE_S)
        for cluster in self._clusters.values():
            cluster.close()
        self._clusters.clear()

    def status(self) -> tuple[OffsetRow, ...]:
        """Every partition that a source has read from; ``end`` and ``lag`` None in an outage."""
        rows = []
        for stream, position in self._positions().items():
            ends = self._ends.get(stream, {})
            for topic, partitions in sorted(position.read.items()):
                for partition, read in sorted(partitions.items()):
                    end = ends.get(topic, {}).get(partition)
                    # The source may have read on since the broker was asked.
                    lag = None if end is None else max(0, end - read)
                    rows.append(OffsetRow(stream, topic, partition, read, end, lag))
        return tuple(rows)

    def poll(self) -> None:
        """Asks the brokers of all sources once."""
        with self._polling:
            for stream, position in self._positions().items():
                self._poll(stream, position)

    def _watch(self) -> None:
        wait_s = EVERY_S
        while not self._stopping.wait(wait_s):
            began_s = time.monotonic()
            self.poll()
            # A tenth of a thread at most, however many partitions there are.
            wait_s = max(EVERY_S, 9 * (time.monotonic() - began_s))

    def _poll(self, stream: str, position: KafkaPosition) -> None:
        why = unreachable(servers(position.options, f"stream {stream!r}"), _PROBE_S)
        ends: Offsets = {}
        try:
            if why is None and position.read:
                cluster = self._clusters.setdefault(stream, Cluster(position.options))
                ends = cluster.ends(position.read)
        except (Py4JError, ConfigError, OSError) as error:  # the JVM may be about to end
            why = one_line(error)
        if self._stopping.is_set():
            return
        self._ends[stream] = ends
        self._note(stream, position, why)

    def _note(self, stream: str, position: KafkaPosition, why: str | None) -> None:
        """One event when a broker stops answering, and one when it answers again."""
        if why is not None and stream not in self.troubles:
            text = (
                f"no answer from {position.servers} ({why}); start the broker again. The stream "
                "resumes where it was, nothing is lost"
            )
            self.troubles = {**self.troubles, stream: text}
            self._emit("broker-lost", text, level=logging.WARNING, stream=stream)
        elif why is None and stream in self.troubles:
            self.troubles = {s: w for s, w in self.troubles.items() if s != stream}
            self._emit("broker-back", f"{position.servers} answers again", stream=stream)
