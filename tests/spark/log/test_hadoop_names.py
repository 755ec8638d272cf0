"""Names of files for Spark: each is that of one file, whatever characters it holds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from daybreak.spark.log.hadoop_names import to_read, to_write
from daybreak.spark.stateful.stateful_queries import feed_source

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_spark_reads_what_it_wrote_and_no_folder_that_a_name_would_match(
    spark: SparkSession, tmp_path: Path
) -> None:
    names = ("run[12]", "run1", "run {a,b} %20*", "run a %20")
    for at, name in enumerate(names):
        spark.range(at, at + 1).coalesce(1).write.parquet(to_write(tmp_path / name))
        assert (tmp_path / name).is_dir()
    for chosen in ((0,), (2,), (0, 2), (0, 1, 2, 3)):
        read = spark.read.parquet(*(to_read(tmp_path / names[at]) for at in chosen))
        assert sorted(row.id for row in read.collect()) == list(chosen)


@pytest.mark.parametrize(
    "name",
    ["a b", "run[12]", "{a,b}", "*?", "back\\slash", "%20 %", "größe ✓", "$1", "a:b=c&d#e", "'\""],
)
def test_stateful_queries_name_files_to_spark_as_others_do(spark: SparkSession, name: str) -> None:
    path = Path("/folder") / name
    assert feed_source(spark).toRead(str(path)) == to_read(path)
