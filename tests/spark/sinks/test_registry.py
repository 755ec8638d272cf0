"""Sinks of third parties, by entry point."""

from __future__ import annotations

from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from daybreak.model import ConfigError
from daybreak.model.specs import SinkSpec
from daybreak.spark.sinks import registry
from daybreak.spark.sinks.conformance import DestinationUnderTest, check_all
from daybreak.spark.sinks.destination import DeclaredSink, DeliveryId, Destination
from daybreak.spark.sinks.make import make_sink


class Lists(Destination):
    """Appends to a list of the test's."""

    options = ("name",)
    exactly_once = True
    lists: dict[str, list[int]] = {}  # noqa: RUF012  # what outlives a process here
    seen: dict[str, int] = {}  # noqa: RUF012

    def write(self, rows: pa.Table, delivery: DeliveryId) -> None:
        if not self.has(delivery):
            name = self.declared.options.get("name", "")
            self.lists.setdefault(name, []).extend(rows["number"].to_pylist())
            self.seen[delivery.source] = delivery.number

    def has(self, delivery: DeliveryId) -> bool:
        return self.seen.get(delivery.source, -1) >= delivery.number


class Forgetful(Lists):
    """Promises what it does not do."""

    def has(self, delivery: DeliveryId) -> bool:
        return False


class Mine(DestinationUnderTest):
    def __init__(self, kind: type[Lists]) -> None:
        self.kind = kind

    def destination(self, limit_s: float = 30.0) -> Destination:
        return self.kind(DeclaredSink(query="conformance"))

    def rows(self) -> list[int]:
        return self.kind.lists.get("", [])

    def renew(self) -> None:
        self.kind.lists.clear()


def offer(monkeypatch: pytest.MonkeyPatch, *values: str) -> None:
    def found(group: str, **which: str) -> list[EntryPoint]:
        assert group == "daybreak.sinks"
        offered = [EntryPoint(v.split("=")[0], v.split("=")[1], group) for v in values]
        return [e for e in offered if e.name == which.get("name", e.name)]

    monkeypatch.setattr(registry, "entry_points", found)


def make(format: str, tmp_path: Path, **options: str) -> Any:  # noqa: A002
    return make_sink(
        "q", SinkSpec(format=format, options=options), tmp_path, tmp_path, place="p.toml:3"
    )


def test_a_sink_of_ones_own_is_found_by_its_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    offer(monkeypatch, f"lists={__name__}:Lists")
    assert make("lists", tmp_path, name="x").exactly_once
    with pytest.raises(ConfigError, match="unknown option 'nmae' of lists; did you mean 'name'"):
        make("lists", tmp_path, nmae="x")
    with pytest.raises(ConfigError, match="unknown format 'list'; did you mean 'lists'"):
        make("list", tmp_path)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["mine=nowhere:X"], "its package cannot be loaded"),
        (["mine=pathlib:Path"], "is not a subclass of Destination; see docs/sinks.md"),
        (["mine=a:A", "mine=b:B"], "is defined again by b:B"),
        (["postgres=a:A"], "is defined again by a:A"),
    ],
)
def test_a_sink_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, values: list[str], expected: str
) -> None:
    offer(monkeypatch, *values)
    with pytest.raises(ConfigError, match=expected):
        make(values[0].split("=", maxsplit=1)[0], tmp_path)


def test_the_laws_tell_a_good_destination_from_one_that_promises_too_much(tmp_path: Path) -> None:
    check_all(Mine(Lists), tmp_path / "good")
    with pytest.raises(AssertionError, match="more than once"):
        check_all(Mine(Forgetful), tmp_path / "bad")
