"""Paths as direct reads name them, and URIs as Spark's log does."""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from daybreak.spark.ingest.direct.paths import local_path, path_of, uri_of

#: All of ASCII but the slash, and what lies beyond it.
NAMES = (
    "".join(chr(c) for c in range(1, 128) if chr(c) != "/"),
    "é 日本 a=1+b&c,d;e@f:g",
    "\u0085\u00a0\u2028\u2029\u3000x\U0001f600",
    "%41 100%",
)


@pytest.mark.parametrize("folder", ["", "hdfs://host:9000", "s3a://bucket"])
def test_escapes_are_those_of_spark(spark: SparkSession, folder: str) -> None:
    jvm: Any = spark.sparkContext._jvm
    for name in NAMES:
        path = f"{folder}/in/{name}"
        hadoop = jvm.org.apache.hadoop.fs.Path(path)
        expected = str(jvm.org.apache.spark.paths.SparkPath.fromPath(hadoop).urlEncoded())
        assert uri_of(path) == (expected if folder else f"file://{expected}")
        assert path_of(uri_of(path)) == path


def test_local_files_have_no_scheme() -> None:
    assert path_of("file:///a%20b") == path_of("file:/a%20b") == "/a b"
    assert local_path("file:///a%20b") == "/a%20b", "a declared path has no escapes"
    assert local_path("/a") == "/a"
    assert local_path("s3a://bucket/a") == "s3a://bucket/a"
