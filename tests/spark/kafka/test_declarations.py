"""What is wrong with a Kafka declaration is found without a broker; outages are recognised."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from daybreak.model.errors import ConfigError
from daybreak.model.limits import Limits
from daybreak.model.pipeline import Pipeline
from daybreak.model.specs import SinkSpec, StreamSpec
from daybreak.spark.ingest.kafka_source import KafkaPosition, positions
from daybreak.spark.ingest.source_failure import SourceFailure
from daybreak.spark.ingest.sources import Sources
from daybreak.spark.kafka.options import servers, topics
from daybreak.spark.kafka.outage import explained, passes
from daybreak.spark.sinks.make import make_sink

SERVERS = "kafka.bootstrap.servers"
#: As Spark words it when the broker stays away.
LOST = """[STREAM_FAILED] Query [id = 1] terminated with exception: \
java.util.concurrent.ExecutionException: org.apache.kafka.common.errors.TimeoutException: \
Call(callName=listOffsets, tries=3) timed out at 17 after 3 attempt(s) SQLSTATE: XXKST
=== Streaming Query ===
"""


def test_addresses_are_read() -> None:
    assert servers({SERVERS: "a:1, SASL_SSL://b.org:9092,[::1]:3"}, "here") == (
        ("a", 1), ("b.org", 9092), ("::1", 3),
    )  # fmt: skip
    for text in ("", "a", "a:b", "a:99999", "a b:1"):
        with pytest.raises(ConfigError, match=r"here: .*kafka\.bootstrap\.servers"):
            servers({SERVERS: text}, "here")


def test_topics_are_read() -> None:
    assert topics({"subscribe": "a, b"}, "here") == ("a", "b")
    assert topics({"assign": '{"a": [0]}'}, "here") == ("a",)
    assert topics({"subscribePattern": "a.*"}, "here") is None
    for options in ({}, {"subscribe": "a", "assign": "{}"}, {"assign": "a"}):
        with pytest.raises(ConfigError, match=r"here: .*; give"):
            topics(options, "here")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({SERVERS: "a:1"}, "sink: option topic is missing"),
        ({"topic": "t"}, "option kafka.bootstrap.servers is missing"),
        ({"topic": "t", SERVERS: "a:1", "topics": "u"}, "unknown option 'topics' of kafka"),
        ({"topic": "t", SERVERS: "a:1", "kafka.transactional.id": "x"}, "is not yours to set"),
    ],
)
def test_a_sink_is_checked(options: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        make_sink("q", SinkSpec(format="kafka", options=options), tmp_path, tmp_path)
    assert message in str(caught.value)


def test_offsets_are_read_as_spark_writes_them(tmp_path: Path) -> None:
    assert positions('{"in":{"1":5,"0":7}}') == {"in": {0: 7, 1: 5}}
    (tmp_path / "commits").mkdir()
    (tmp_path / "offsets").mkdir()
    for batch in (9, 10):
        (tmp_path / "commits" / str(batch)).touch()
        (tmp_path / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"in":{{"0":{batch}}}}}')
    kafka = StreamSpec(name="s", format="kafka", options={SERVERS: "a:1"})
    position = KafkaPosition.of(kafka, tmp_path)
    assert position is not None
    assert position.read == {"in": {0: 10}}, "where the last start ended"
    assert KafkaPosition.of(StreamSpec(name="s", format="json"), tmp_path) is None


def test_an_outage_is_one_line_with_place_and_remedy() -> None:
    assert passes(LOST)
    told = explained(LOST, "a:1")
    assert told.startswith("Kafka outage: no answer from a:1 (TimeoutException: Call(callName=")
    assert told.endswith("nothing is lost")
    assert "\n" not in told
    assert explained(told, "a:1") == told
    assert passes(told)
    mistake = "[STREAM_FAILED] AnalysisException: no such column"
    assert explained(mistake, "a:1") == mistake
    assert not passes(mistake)


def test_the_pipeline_of_the_documentation_is_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "secret")
    text = (Path(__file__).parents[3] / "docs" / "kafka.md").read_text(encoding="utf-8")
    found = re.search(r"```toml\n(.*?)```", text, re.DOTALL)
    assert found is not None
    pipeline = Pipeline.parse(found[1])
    assert pipeline.spark.packages == ("org.apache.spark:spark-sql-kafka-0-10_2.13:4.3.0",)
    [stream], [query] = pipeline.streams, pipeline.queries
    assert topics(stream.options, "here") == ("readings",)
    assert query.sink is not None
    assert query.sink.options["key"] == "station"


class Failing:
    """A source that fails with this error as soon as it is started."""

    name = "s"

    def __init__(self, failure: SourceFailure) -> None:
        self._failure = failure

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def drain(self) -> None: ...
    def failure(self) -> SourceFailure:
        return self._failure


@pytest.mark.parametrize("outage", [True, False])
def test_a_source_in_an_outage_is_started_again_for_as_long_as_it_takes(*, outage: bool) -> None:
    starts = []

    def make(name: str) -> Failing:
        starts.append(name)
        return Failing(
            SourceFailure(explained(LOST, "a:1"), "outage") if outage else SourceFailure("a fault")
        )

    sources = Sources(make, Limits(retries=1, retry_s=1e-9))
    sources.start(["s"])
    for _ in range(20):
        sources.tend()
    assert (len(starts) > 5) == outage
    if outage:
        sources.check()
    else:
        with pytest.raises(ConfigError, match="its source failed: a fault"):
            sources.check()
