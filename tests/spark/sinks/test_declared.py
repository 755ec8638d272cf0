"""Sinks are checked when they are declared, before anything is written."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.sinks.staging import make

from daybreak.model import ConfigError
from daybreak.model.specs import SinkSpec
from daybreak.spark.log.rows import CommittedFile
from daybreak.spark.sinks.make import make_sink


@pytest.mark.parametrize(
    ("spec", "finding"),
    [
        (SinkSpec(format="parqet", path="x"), "unknown format 'parqet'; did you mean 'parquet'"),
        (SinkSpec(format="parquet"), "path is missing"),
        (SinkSpec(format="console", path="x"), "console sink has no path"),
        (SinkSpec(format="json", path="x", options={"gzip": "1"}), "unknown option 'gzip' of json"),
        (SinkSpec(format="csv", path="x", options={"heder": "1"}), "did you mean 'header'"),
        (SinkSpec(format="csv", path="x", options={"delimiter": "||"}), "one ASCII character"),
        (SinkSpec(format="csv", path="x", options={"header": "yes"}), "header 'yes'"),
        (SinkSpec(format="parquet", path="x", options={"compression": "zip"}), "'zip'.*gzip"),
        (SinkSpec(format="console", options={"rows": "-1"}), "whole number"),
        (SinkSpec(format="parquet", path="s3://bucket/x"), "not on a file system"),
        (SinkSpec(format="parquet", path="a-file"), "a-file is not a folder"),
        (SinkSpec(format="parquet", path="a-file/below"), "a-file is not a folder"),
        (SinkSpec(format="python"), "has no function"),
    ],
)
def test_a_sink_that_cannot_work_is_refused_before_anything_is_written(
    tmp_path: Path, spec: SinkSpec, finding: str
) -> None:
    (tmp_path / "a-file").write_text("x")
    with pytest.raises(ConfigError, match=rf"p\.toml:3: sink: .*{finding}"):
        make_sink("fire", spec, tmp_path, tmp_path / "staging", place="p.toml:3")
    assert [p.name for p in tmp_path.iterdir()] == ["a-file"]


def test_a_folder_without_permission_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    if os.geteuid() == 0:  # root may write anywhere: give the answer a user would get
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != locked)
    with pytest.raises(ConfigError, match="locked cannot be written to"):
        make_sink(
            "fire", SinkSpec(format="csv", path="locked/deep/x"), tmp_path, tmp_path / "staging"
        )


@pytest.mark.parametrize("name", ["n" * 201, "é" * 34], ids=["long", "long in a file name"])
def test_a_name_that_no_file_can_have_is_refused_when_it_is_declared(
    tmp_path: Path, name: str
) -> None:
    spec = SinkSpec(format="parquet", path="out")
    with pytest.raises(ConfigError, match=r"its name takes 20[14] bytes .* more than 200; shorten"):
        make_sink(name, spec, tmp_path, tmp_path / "staging")


@pytest.mark.parametrize("format", ["parquet", "memory"])
def test_the_longest_name_can_be_delivered(tmp_path: Path, format: str) -> None:  # noqa: A002
    path = "out" if format == "parquet" else None
    name = "n" * 200
    sink = make_sink(name, SinkSpec(format=format, path=path), tmp_path, tmp_path / "staging")
    large = pa.table({"n": pa.array(range(200_000)).cast(pa.string())})  # synced as a .partial
    [staged] = sink.stage("01234567-9999-99999999", large)
    assert sink.deliver(CommittedFile(1, "j", name, staged.path, staged.rows, staged.content))


def test_declaring_a_sink_writes_nothing(tmp_path: Path) -> None:
    for format in ("parquet", "json", "csv", "console", "memory"):  # noqa: A001
        make(tmp_path, format)
    assert list(tmp_path.iterdir()) == []
