"""Declarations of static tables."""

from __future__ import annotations

import pytest

from daybreak.model import ConfigError
from daybreak.model.pipeline import Pipeline

PIPELINE = """
[streams.s]
arrivals = { rate_per_s = 1 }
[tables.t]
format = "parquet"
path = "t"
refresh = "10 minutes"
[queries.q]
sql = "SELECT * FROM s JOIN t USING (k)"
"""


def test_a_table_is_no_stream() -> None:
    pipeline = Pipeline.parse(PIPELINE)
    assert [(t.name, t.refresh) for t in pipeline.tables] == [("t", "10 minutes")]
    assert pipeline.network.boxes[0].inputs == ("s",)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"10 minutes"', '"often"', "refresh = 'often' is no duration"),
        ("refresh", "refesh", "unknown key 'refesh'; did you mean 'refresh'"),
        ('format = "parquet"', "", "give a format"),
        ("[tables.t]", "[tables.s]", "is also the name of a stream"),
    ],
)
def test_a_declaration_that_is_wrong_is_refused(old: str, new: str, expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Pipeline.parse(PIPELINE.replace(old, new))
