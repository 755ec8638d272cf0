"""``${NAME}`` in pipelines, and secrets that are shown nowhere."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from daybreak.model import secrets
from daybreak.model.environment import resolved
from daybreak.model.errors import ConfigError, ConfigErrors
from daybreak.model.pipeline import Pipeline
from daybreak.model.secrets import HIDDEN, keep, without_secrets
from daybreak.runtime.eventlog import EVENTS_FILE, EventLog
from daybreak.spark.failures import one_line

PIPELINE = """
[app]
name = "${TEAM}-alerts"
[spark]
master = "${MASTER}"
conf = { spark.hadoop.fs.s3a.secret.key = "${S3_KEY}", "spark.executor.cores" = 2 }
[streams.readings]
format = "kafka"
path = "${DATA}/in"
[streams.readings.options]
"kafka.bootstrap.servers" = "${BROKERS}"
kafka.sasl.jaas.config = 'Login required username="u" password="${PASSWORD}";'
[queries.fire]
sql = "SELECT '${TEAM}' AS team FROM readings"
sink = { format = "parquet", path = "$${DATA}/out" }
"""
VALUES = {
    "TEAM": "west", "MASTER": "local[2]", "S3_KEY": "s3-very-secret", "DATA": "/data",
    "BROKERS": "broker-1:9092", "PASSWORD": 'hunter"2',
}  # fmt: skip


@pytest.fixture(autouse=True)
def _own_secrets() -> Iterator[None]:
    yield
    secrets.forget_all()


def set_all(patch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        patch.setenv(name, value)


def test_variables_are_filled_in_everywhere_but_in_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch, **VALUES)
    pipeline = Pipeline.parse(PIPELINE)
    assert pipeline.name == "west-alerts"
    assert pipeline.spark.master == "local[2]"
    [stream], [query] = pipeline.streams, pipeline.queries
    assert stream.options["path"] == "/data/in"
    assert query.sql == "SELECT '${TEAM}' AS team FROM readings"
    assert query.sink is not None
    assert query.sink.path == "${DATA}/out", "two dollars stand for one"
    options = resolved(stream.options, "stream 'readings'")
    assert options["kafka.bootstrap.servers"] == "broker-1:9092"
    assert 'password="hunter"2"' in options["kafka.sasl.jaas.config"]


def test_a_declaration_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Options and settings keep their text until a source, a sink or Spark takes them."""
    set_all(monkeypatch, **VALUES)
    shown = repr(Pipeline.parse(PIPELINE))
    assert VALUES["PASSWORD"] not in shown
    assert VALUES["S3_KEY"] not in shown
    assert "${PASSWORD}" in shown


def test_every_variable_that_is_not_set_is_found_with_its_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    set_all(monkeypatch, **VALUES)
    monkeypatch.delenv("MASTER")
    monkeypatch.delenv("PASSWORD")
    with pytest.raises(ConfigErrors) as caught:
        Pipeline.parse(PIPELINE, "p.toml")
    first, second = caught.value.errors
    assert str(first) == (
        "p.toml:5: [spark]: environment variable MASTER is not set; "
        "set it, or write $${MASTER} for that text itself"
    )
    assert "PASSWORD is not set" in second.finding
    assert "[streams.readings.options" in second.place


def test_no_message_shows_a_secret_that_was_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    set_all(monkeypatch, **VALUES, ODD="plainly-odd")
    jaas = 'Login required username="u" password="${PASSWORD}";'
    resolved({"kafka.sasl.jaas.config": jaas, "extra": "${ODD}", "subscribe": "${TEAM}"}, "here")
    cause = ValueError(f"""cannot log in with {VALUES["PASSWORD"]} to topic west (plainly-odd)""")
    assert one_line(cause) == f"ValueError: cannot log in with {HIDDEN} to topic west ({HIDDEN})"
    error = ConfigError("stream 'x'", f"driver said {cause!r}", "see 'hunter\"2'")
    assert "hunter" not in str(error)
    assert "hunter" not in f"{error.finding}{error.remedy}"
    events = EventLog(tmp_path)
    events.emit("failed", str(cause), level=logging.ERROR, fields={"error": str(cause)})
    events.close()
    written = (tmp_path / EVENTS_FILE).read_text()
    assert "hunter" not in written
    assert json.loads(written)["message"].startswith(f"cannot log in with {HIDDEN}")


def test_a_password_that_stands_in_the_declaration_itself_is_hidden() -> None:
    resolved({"kafka.sasl.jaas.config": 'L required username="u" password="pony42";'}, "here")
    assert (
        without_secrets("user u, password pony42, ponytail")
        == f"user u, password {HIDDEN}, ponytail"
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kafka.ssl.keystore.location", "/etc/keys/client.jks"),
        ("key", "station"),
        ("delegation.token.enabled", "true"),
        ("sasl.mechanism", "SCRAM-SHA-512"),
        ("compression", "snappy"),
        ("hive.security.authorization.manager", "org.example.Manager"),
        ("path", "abfss://container@account.dfs.core.windows.net/readings"),
        ("url", "jdbc:postgresql://db:5432/d?currentSchema=fires&user=ann"),
        ("design", "signal"),
    ],
)
def test_what_is_no_secret_stays_readable(key: str, value: str) -> None:
    resolved({key: value}, "here")
    assert without_secrets(f"{key} is {value}") == f"{key} is {value}"


def test_a_secret_is_hidden_as_json_writes_it() -> None:
    keep('quo"te\nline')
    assert "quo" not in without_secrets(json.dumps({"error": 'at quo"te\nline'}))


@pytest.mark.parametrize(
    ("key", "value", "secrets_in_it"),
    [
        ("header.Authorization", "Bearer ey.J0.aa", ["ey.J0.aa"]),
        ("bearer", "ey.J0.aa", ["ey.J0.aa"]),
        ("basic.auth.user.info", "registry:pony42", ["pony42"]),
        ("eventhubs.connectionString", "Endpoint=sb://h/;SharedAccessKey=pony+42=", ["pony+42="]),
        ("url", "jdbc:sqlserver://h;user=u;password=pony42;encrypt=true", ["pony42"]),
        ("url", "jdbc:sqlserver://h;user=u;password={po;ny}}42};encrypt=true", ["po;ny}42"]),
        ("url", "jdbc:sqlserver://h;password=my little pony;encrypt=true", ["my little pony"]),
        ("url", "jdbc:postgresql://h/d?user=u&password=pony42&ssl=true", ["pony42"]),
        ("url", "jdbc:oracle:thin:u/x@h?password=po,ny42", ["po,ny42"]),
        ("path", "https://h/x;token=pony42", ["pony42"]),
        ("path", "https://acct/c?sv=2024&sig=po%2Bny42", ["po%2Bny42", "po+ny42"]),
        ("path", "wasbs://u:pony42@h/x", ["pony42"]),
        ("dsn", "host=h password=pony42 dbname=d", ["pony42"]),
        ("dsn", r"host=h password = 'it\'s a \\ pony' dbname=d", [r"it's a \ pony"]),
        ("dsn", r"host=h password=po\ ny dbname=d", ["po ny"]),
        ("headers", "X-Trace: 7, Authorization: Bearer pony42", ["pony42"]),
    ],
)
def test_a_secret_is_found_in_any_notation(key: str, value: str, secrets_in_it: list[str]) -> None:
    resolved({key: value}, "here")
    for secret in secrets_in_it:
        assert secret not in without_secrets(f"driver: cannot log in with {secret}, sorry")
        assert secret not in without_secrets(json.dumps({"error": f"{key} = {value}"}))
    assert without_secrets("driver: user u of host h") == "driver: user u of host h"
