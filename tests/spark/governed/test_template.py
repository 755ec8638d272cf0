"""``daybreak init --template governed``: the program runs as it was written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from daybreak.cli.main import app

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def own_logging() -> Iterator[None]:
    """A command sends its events to a standard error that ends with it."""
    logger = logging.getLogger("daybreak")
    before = logger.handlers[:], logger.level, logger.propagate
    yield
    logger.handlers[:], logger.level, logger.propagate = before


def test_its_queries_are_governed_in_the_classes_of_its_file(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make = ["init", "mine", "--template", "governed"]
    assert CliRunner().invoke(app, make, catch_exceptions=False).exit_code == 0
    monkeypatch.chdir("mine")
    command = ["run-script", "streams.py", "--classes", "classes.toml", "--", "--seconds", "4"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    for name in ("alarm", "averages", "distinct"):
        assert f"{name}: " in done.stdout
        spark.catalog.dropTempView(name)
    # How many rows that are depends on how busy the machine is.
    assert "3 queries were governed under planned, 0 ran free" in done.stderr
    assert "watch" in done.stderr
