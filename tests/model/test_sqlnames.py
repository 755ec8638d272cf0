"""Names in a SQL text: those of tables and columns, not what texts and comments say."""

import pytest

from daybreak.model import Pipeline
from daybreak.model.sqlnames import names_in

#: A text and the names among a, b and c that it has.
TEXTS = {
    "SELECT a FROM b": "ab",
    "SELECT 'a', \"b\" FROM c": "c",
    "SELECT 'it''s a' AS x FROM c": "c",
    r"SELECT 'it\'s a' AS x FROM c": "c",
    r"SELECT 'ends in \\' AS x FROM c": "c",
    r"SELECT r'ends in \' AS x FROM c": "c",
    'SELECT "say ""a""" AS x FROM c': "c",
    "SELECT x -- a '\nFROM c": "c",
    "SELECT x /* a ' /* b */ a */ FROM c": "c",
    "SELECT x FROM c /* a": "c",
    "SELECT c.a, c . `b` FROM c": "c",
    "SELECT x.`a`, `b` FROM `C`": "bc",
    "SELECT '.' a, b": "ab",
}


@pytest.mark.parametrize("sql", TEXTS)
def test_names_are_found_outside_of_texts_and_comments(sql: str) -> None:
    assert names_in(sql) & set("abc") == set(TEXTS[sql])


@pytest.mark.parametrize("stream", ["fire-watch 1", "a.b", "tick`s", "select", "Größe #1 'x'"])
def test_a_pipeline_may_quote_the_name_of_a_stream(stream: str) -> None:
    sql = "SELECT n FROM `{}`".format(stream.replace("`", "``"))
    text = f'[streams."{stream}"]\nformat = "json"\n[queries.q]\nsql = "{sql}"\n'
    assert Pipeline.parse(text).network.boxes[0].inputs == (stream,)
