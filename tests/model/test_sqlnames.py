"""Names in a SQL text: those of tables and columns, not what texts and comments say."""

import pytest

from daybreak.model import Pipeline
from daybreak.model.sqlnames import names_in, tokens_in

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


def test_layout_and_comments_are_no_tokens_but_texts_are() -> None:
    def same(one: str, other: str) -> bool:
        return list(tokens_in(one)) == list(tokens_in(other))

    assert same("SELECT a,b FROM s -- all", "SELECT a, b\n  FROM /* the */ s")
    assert not same("FROM a -- all\nWHERE v > 5", "FROM a -- all WHERE v > 5")
    assert not same("-- it's\nWHERE t = 'a  b'", "-- it's\nWHERE t = 'a b'")
    assert not same("r'c:\\' AND t = 'a  b'", "r'c:\\' AND t = 'a b'")
    assert not same("a b", "ab")
