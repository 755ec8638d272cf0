"""Patterns, sub-folders and URIs: Spark's own listing, and the same files as a StreamingQuery."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyspark.sql import SparkSession
from tests.until import until

from daybreak.spark.ingest.direct.found import FoundFile
from daybreak.spark.ingest.direct.listing_options import ListingOptions, is_folder
from daybreak.spark.ingest.direct.spark_listing import ListingFailed, SparkListing, files_by_spark

OLD_S = 1_700_000_000
FIRST = ("b.json", "one/a.json", "one/deep/c.json", "two/é d.json", "_no/e.json", "one/.f.json")
SECOND = ("two/deep/g.json", "h.json", "one/i.txt")


def fill(root: Path, names: tuple[str, ...]) -> None:
    for at, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        made = root.parent / "new"
        made.write_text("1\n")
        os.utime(made, (OLD_S + at, OLD_S + at))
        made.rename(root / name)


def chosen_by_spark(
    spark: SparkSession, root: Path, path: str, options: Mapping[str, str]
) -> list[list[str]]:
    """What a StreamingQuery has read after each filling, by its own log."""
    checkpoint = root.parent / "checkpoint"
    frame = spark.readStream.format("text").options(**options).load(path)
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    found = []
    for names in (FIRST, SECOND):
        fill(root, names)
        query = writer.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        found.append(_logged(checkpoint / "sources" / "0"))
    return found


def _logged(log: Path) -> list[str]:
    files = (file for file in log.iterdir() if not file.name.startswith("."))
    lines = (line for file in files for line in file.read_text("utf-8").splitlines()[1:])
    return sorted({unquote(json.loads(line)["path"]).removeprefix("file://") for line in lines})


def listing_of(spark: SparkSession, path: str, options: Mapping[str, str]) -> SparkListing:
    def known(_paths: object) -> list[str]:
        return []

    files = files_by_spark(spark, path, options)
    return SparkListing(files, ListingOptions.of(spark, options), known, poll_s=0.01)


@pytest.mark.parametrize(
    ("pattern", "options"),
    [
        ("file://{}/one", {}),
        ("file://{}", {"recursiveFileLookup": "true"}),
        ("file://{}/*", {}),
        ("file://{}/{{one,two}}/*.json", {}),
        ("file://{}/*/deep", {"pathGlobFilter": "c*"}),
    ],
    ids=["flat", "recursive", "folders", "files", "filter"],
)
def test_the_same_files_as_a_streaming_query(
    spark: SparkSession, tmp_path: Path, pattern: str, options: dict[str, str]
) -> None:
    expected = []
    for way in ("spark", "daybreak"):
        root = tmp_path / way / "in"
        fill(root, FIRST[:3])  # a query wants its path to be there
        path = pattern.format(root)
        if way == "spark":
            expected = chosen_by_spark(spark, root, path, options)
            continue
        listing, read = listing_of(spark, path, options), list[str]()
        for names, wanted in zip((FIRST, SECOND), expected, strict=True):
            fill(root, names)
            listing.list_again()
            files = listing.discover().files
            assert list(files) == sorted(files, key=lambda f: (f.mtime_ms, f.path))
            listing.taken(files)
            read += [file.path for file in files]
            assert [p.replace("/daybreak/", "/spark/") for p in sorted(read)] == wanted
    assert any(expected)


def test_a_folder_of_partitions_is_one_that_only_spark_lists(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    assert is_folder(str(tmp_path), {})
    assert is_folder(f"file://{tmp_path}", {})
    assert not is_folder(str(tmp_path), {"RECURSIVEFILELOOKUP": "True"})
    (tmp_path / "day=1").mkdir()
    assert not is_folder(str(tmp_path), {})


class Files:
    """What is there to be listed."""

    def __init__(self) -> None:
        self.there: list[FoundFile] = []
        self.listed = 0
        self.read: set[str] = set()

    def __call__(self) -> list[FoundFile]:
        self.listed += 1
        return list(self.there)

    def put(self, path: str, mtime_ms: int, size: int = 1) -> None:
        self.there = [f for f in self.there if f.path != path]
        self.there.append(FoundFile(path, mtime_ms, size))


def names(listing: SparkListing, files: Files) -> list[str]:
    listing.list_again()
    found = listing.discover().files
    listing.taken(found)
    files.read |= {file.path for file in found}
    return [file.path for file in found]


def test_files_are_read_once_and_not_when_they_are_too_old() -> None:
    files, events = Files(), list[str]()

    def emit(event: str, message: str, **_fields: object) -> None:
        events.append(event)

    options = ListingOptions(max_age_ms=100)
    listing = SparkListing(files, options, files.read.intersection, emit=emit)
    files.put("h://a", 1000)
    files.put("h://_hidden", 1000)
    assert names(listing, files) == ["h://a"]
    files.put("h://b", 899)
    files.put("h://c", 1200)
    assert names(listing, files) == ["h://c"]
    files.put("h://a", 1000, size=2)
    assert names(listing, files) == [], "it is too old by now"
    files.put("h://c", 1200, size=2)
    assert names(listing, files) == []
    assert (events, listing.changed) == (["file-changed"], 1)
    files.there.clear()
    assert names(listing, files) == []
    files.put("h://c", 1200, size=2)
    assert names(listing, files) == [], "the log knows it"
    files.read.remove("h://a")  # the log has forgotten it
    files.put("h://a", 1300)
    assert names(listing, files) == ["h://a"]
    assert listing.is_settled


def test_files_are_listed_when_that_is_due_or_asked_for() -> None:
    files, stopping = Files(), threading.Event()
    listing = SparkListing(files, ListingOptions(), lambda _paths: [], poll_s=3600)
    listing.discover()
    listing.discover()
    assert files.listed == 1
    thread = threading.Thread(target=lambda: listing.wait(3600, stopping))
    thread.start()
    listing.wake()
    thread.join()
    listing.discover()
    assert files.listed == 2
    soon = SparkListing(files, ListingOptions(), lambda _paths: [], poll_s=0.001)
    soon.discover()

    def is_listed_often() -> bool:
        soon.wait(3600, stopping)
        soon.discover()
        return files.listed > 4

    until(is_listed_often)


def test_a_listing_that_fails_says_what_spark_says(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="nowhere"):
        files_by_spark(spark, "nowhere://x/in", {})
    files = files_by_spark(spark, "file:///proc/self/map_files/../fd/*/x*", {})
    assert files() == []
    refused = files_by_spark(spark, "file:///in/{a", {})
    with pytest.raises(ListingFailed, match="Unclosed group"):
        refused()
