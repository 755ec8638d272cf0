"""Options of file sources: the same files in the same batches as a StreamingQuery takes."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

import pytest
from pyspark.sql import SparkSession

from daybreak.spark.ingest.direct.listing import FolderListing
from daybreak.spark.ingest.direct.listing_options import ListingOptions, why_not

OLD_S = 1_700_000_000
DAY_S = 86_400
Batches = list[list[str]]

#: Name, days after the first one, and bytes.
FIRST = (("b.json", 0, 10), ("a.json", 1, 30), ("c.txt", 2, 20), ("d é%2 .json", 3, 0),
         ("e.json", 5, 25), ("_hidden.json", 5, 5), ("f.json._COPYING_", 5, 5), (".g", 5, 5),
         ("_k=v.json", 6, 5))  # fmt: skip
SECOND = (("h.json", -3, 10), ("i.json", 4, 10), ("j.json", 20, 10), ("k.json", 12, 10),
          ("l.txt", 21, 15))  # fmt: skip
THIRD = (("m.json", 13, 10), ("n.json", 15, 10), ("o.json", 22, 10))


def fill(folder: Path, files: tuple[tuple[str, int, int], ...]) -> None:
    for name, days, size in files:
        made = folder.parent / f"{folder.name} new"
        made.write_bytes(b"x" * max(0, size - 1) + b"\n" * min(size, 1))
        at_s = OLD_S + days * DAY_S
        os.utime(made, (at_s, at_s))
        made.rename(folder / name)


def of_spark(spark: SparkSession, folder: Path, options: Mapping[str, str]) -> list[Batches]:
    """The batches of a StreamingQuery, by its own log, after each filling of the folder.

    It is started again each time: it would see some of the files before the others.
    """
    checkpoint = folder.parent / "checkpoint"
    frame = spark.readStream.format("text").options(**options).load(str(folder))
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    found: list[Batches] = []
    for files in (FIRST, SECOND, THIRD):
        fill(folder, files)
        query = writer.start()
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        found.append(_logged(checkpoint / "sources" / "0", sum(map(len, found))))
    return found


def _logged(log: Path, begin: int) -> Batches:
    entries: dict[int, dict[str, int]] = {}
    for file in log.iterdir():
        if not file.name.startswith("."):
            for line in file.read_text(encoding="utf-8").splitlines()[1:]:
                entry = json.loads(line)
                name = unquote(entry["path"].rpartition("/")[2])
                entries.setdefault(entry["batchId"], {})[name] = entry["timestamp"]
    # Spark leaves the order of files of one time to the folder; here no two have the same.
    return [list(entries[number]) for number in sorted(entries) if number >= begin]


def of_daybreak(spark: SparkSession, folder: Path, options: Mapping[str, str]) -> list[Batches]:
    read: set[str] = set()
    chosen = ListingOptions.of(spark, options)
    listing = FolderListing(str(folder), chosen, None, read.intersection)
    found: list[Batches] = []
    for files in (FIRST, SECOND, THIRD):
        fill(folder, files)
        listing.list_again()
        batches: Batches = []
        while (next_one := listing.discover()).files:
            listing.taken(next_one.files)
            read.update(file.path for file in next_one.files)
            batches.append([Path(file.path).name for file in next_one.files])
        found.append(batches)
    return found


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"maxFilesPerTrigger": "2"},
        {"maxFilesPerTrigger": "1", "maxCachedFiles": "0"},
        {"maxBytesPerTrigger": "45"},
        {"MAXBYTESPERTRIGGER": "1"},
        {"latestFirst": "true"},
        {"latestFirst": "true", "maxFilesPerTrigger": "2"},
        {"latestFirst": "true", "maxBytesPerTrigger": "50", "maxFileAge": "1d"},
        {"maxFileAge": "3d"},
        {"maxFileAge": "3d", "maxFilesPerTrigger": "2"},
        {"maxFileAge": "30d", "discardCachedInputRatio": "0.5", "maxFilesPerTrigger": "3"},
        {"pathGlobFilter": "*.json"},
        {"pathGlobFilter": "[a-ce].{json,txt}"},
        {"pathGlobFilter": "[!b-d]?json"},
        {"fileNameOnly": "true", "ignoreMissingFiles": "true"},
    ],
    ids=lambda options: "-".join(f"{key}={value}" for key, value in options.items()) or "none",
)
def test_options_choose_as_spark_does(
    spark: SparkSession, tmp_path: Path, options: dict[str, str]
) -> None:
    chosen = []
    for way in (of_spark, of_daybreak):
        folder = tmp_path / way.__name__ / "in"
        folder.mkdir(parents=True)
        if way is of_daybreak:
            assert why_not(spark, str(folder), options) is None
        chosen.append(way(spark, folder, options))
    assert chosen[0] == chosen[1]
    assert any(chosen[0])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"cleanSource": "delete"}, "cleanSource"),
        ({"modifiedAfter": "2020-01-01T00:00:00"}, "not allowed in file stream sources"),
        ({"modifiedBefore": "2020-01-01T00:00:00"}, "not allowed in file stream sources"),
        ({"maxFilesPerTrigger": "0"}, "positive integer"),
        ({"maxFilesPerTrigger": "1", "maxBytesPerTrigger": "1"}, "can't be both set"),
        ({"maxFileAge": "soon"}, "Time must be specified"),
        ({"recursiveFileLookup": "true", "fileNameOnly": "true"}, "fileNameOnly"),
        ({"ignoredPathSegmentRegex": ""}, "'ignoredpathsegmentregex'"),
        ({"basePath": "/"}, "'basepath'"),
        ({"pathGlobFilter": "[^a]"}, "only Hadoop's globs"),
        ({"someNewOption": "1"}, "'somenewoption'"),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_options_that_only_spark_knows_say_why(
    spark: SparkSession, tmp_path: Path, options: dict[str, str], why: str
) -> None:
    assert why in (why_not(spark, str(tmp_path), options) or "")


def test_folders_that_only_spark_lists_say_why(spark: SparkSession, tmp_path: Path) -> None:
    def why(name: str) -> str | None:
        return why_not(spark, str(tmp_path / name), {})

    (tmp_path / "flat" / "sub").mkdir(parents=True)
    (tmp_path / "file").touch()
    (tmp_path / "days" / "day=1").mkdir(parents=True)
    (tmp_path / "sink" / "_spark_metadata").mkdir(parents=True)
    assert why("flat") is None
    assert why("days") is None, "Spark lists it"
    assert why_not(spark, f"file://{tmp_path}/flat", {}) is None
    assert "_spark_metadata" in str(why("sink"))
    assert "_spark_metadata" in str(why_not(spark, f"file://{tmp_path}/sink", {}))


def test_settings_that_hide_other_files_say_why(spark: SparkSession, tmp_path: Path) -> None:
    key = "spark.sql.files.ignoredPathSegmentRegex"
    spark.conf.set(key, "")
    try:
        assert key in str(why_not(spark, str(tmp_path), {}))
    finally:
        spark.conf.unset(key)
    assert why_not(spark, str(tmp_path), {}) is None
