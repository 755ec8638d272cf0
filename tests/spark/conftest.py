"""One Spark session for all tests that need one, and one Kafka broker."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from benchmarks.soaking.quick_jvm import quick_jvm
from examples.kafka.broker import REMEDY, Broker, can_start, connector_jars

from daybreak.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if {"spark", "broker"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("spark")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Their jobs are many, small and all different: what the second compiler makes is hardly used.
    # Children inherit it unless they are given their own.
    os.environ.setdefault("SPARK_SUBMIT_OPTS", quick_jvm())
    jars = {"spark.jars": ",".join(map(str, connector_jars()))} if connector_jars() else {}
    # On a busy machine a Python worker may take longer than Spark's 15 s to connect.
    conf = {**jars, "spark.python.authenticate.socketTimeout": "120s"}
    session = local_session("daybreak tests", cores=2, extra_conf=conf)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Broker]:
    """A real broker; skipped where its jars could not be fetched, and red where a build decides."""
    if not can_start():
        missing = f"KAFKA IS NOT TESTED: its jars are missing; {REMEDY}"
        if os.environ.get("CI") == "true":
            pytest.fail(missing)
        plugins = request.config.pluginmanager
        with plugins.getplugin("capturemanager").global_and_fixture_disabled():
            # A skip alone is a letter among many.
            plugins.getplugin("terminalreporter").write_line(f"\n{missing}")
        pytest.skip(missing)
    with Broker(tmp_path_factory.mktemp("kafka")) as running:
        yield running
