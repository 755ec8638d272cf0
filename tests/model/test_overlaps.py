"""Sinks, sources and the run directory keep to themselves, however their paths are written."""

from __future__ import annotations

from pathlib import Path

import pytest

from daybreak.model.errors import ConfigError
from daybreak.model.overlaps import refuse_overlaps
from daybreak.model.pipeline import Pipeline
from daybreak.model.specs import QuerySpec, SinkSpec, StreamSpec


def queries(*paths: str) -> list[QuerySpec]:
    return [
        QuerySpec(name=f"q{n}", sink=SinkSpec(format="json", path=path), place=f"p.toml:{n}")
        for n, path in enumerate(paths)
    ]


def source(path: str, key: str = "path") -> list[StreamSpec]:
    return [StreamSpec(name="readings", format="json", options={key: path})]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "a")
    (tmp_path / "in").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("second", "finding"),
    [
        ("a", "is already that of query 'q0'"),
        ("./b/../a", "is already that of query 'q0'"),
        ("link", "is already that of query 'q0'"),
        ("{}/a", "is already that of query 'q0'"),
        ("a/_staging", "is named _staging"),
        ("link/_staging/x", "is named _staging"),
        ("a/b", "lies in that of query 'q0'"),
        ("link/b/c", "lies in that of query 'q0'"),
        (".", "holds "),
        ("in", "is already the source of stream 'readings'"),
        ("in/out", "lies in the source of stream 'readings'"),
        ("run/out", "lies in the run directory"),
        ("run", "is already the run directory"),
        ("run/..", "holds the run directory"),
    ],
)
def test_a_sink_that_overlaps_is_refused(folder: Path, second: str, finding: str) -> None:
    declared = queries("a", second.format(folder))
    with pytest.raises(ConfigError, match=finding) as caught:
        refuse_overlaps(declared, source("in"), folder, folder / "run")
    assert caught.value.place == "p.toml:1"
    # The order of declaration decides only which of the two is named.
    with pytest.raises(ConfigError):
        refuse_overlaps(declared[::-1], source("in"), folder, folder / "run")


@pytest.mark.parametrize("path", ["{}/in", "file:{}/in", "file://{}/in/*.json", "./a/../in"])
@pytest.mark.parametrize("key", ["path", "Path"])
def test_a_source_is_found_however_it_is_written(folder: Path, path: str, key: str) -> None:
    for sink in ("in", "in/below", "."):
        with pytest.raises(ConfigError, match="source of stream 'readings'"):
            refuse_overlaps(queries(sink), source(path.format(folder), key), folder)


def test_neighbours_are_allowed(folder: Path) -> None:
    declared = queries("a", "ab", "out/a", "out/b", "run2")
    memory = QuerySpec(name="m", sink=SinkSpec(format="memory"))
    elsewhere = StreamSpec(name="s", format="kafka", options={"subscribe": "a"})
    remote = StreamSpec(name="t", format="json", options={"path": "s3://bucket/out"})
    streams = [*source("in"), elsewhere, remote]
    refuse_overlaps([*declared, memory, QuerySpec(name="n")], streams, folder, folder / "run")


def test_paths_that_nothing_resolves_are_refused(folder: Path) -> None:
    with pytest.raises(ConfigError, match="choose another path"):
        refuse_overlaps(queries("a\0b"), [], folder)


def test_a_pipeline_is_read_with_its_folder(folder: Path) -> None:
    text = """
    [streams.readings]
    format = "json"
    path = "in"
    schema = "t INT"
    [queries.q]
    sql = "SELECT t FROM readings"
    sink = {{ format = "json", path = "{}" }}
    """
    (folder / "fine.toml").write_text(text.format("out"))
    Pipeline.read(folder / "fine.toml")
    (folder / "wrong.toml").write_text(text.format("in/out"))
    with pytest.raises(ConfigError, match=r"wrong\.toml:6: .*lies in the source of stream"):
        Pipeline.read(folder / "wrong.toml")
