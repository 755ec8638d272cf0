"""Classes of governed queries, from a file and from a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from daybreak.model.errors import ConfigError
from daybreak.spark.governed.class_book import Assignment, ClassBook, graph_of

EXAMPLE = Path(__file__).parents[3] / "examples/governed.toml"


def test_the_example_file_names_the_classes_of_its_queries() -> None:
    book = ClassBook.read(EXAMPLE)
    named = {"alarm": "alarm", "spells": "watch", "swings": "watch", "counts": "archive"}
    assert {name: book.of(name).cls for name in named} == named
    assert book.declared["alarm"].qos is not None


def test_queries_that_nothing_is_said_about_have_the_lowest_priority() -> None:
    book = ClassBook({"alarm": 60, "archive": 10})
    assert book.of("any").cls == "default"
    assert book.declared["default"].priority == 10


def test_an_assignment_goes_before_the_class_a_query_was_started_in() -> None:
    book = ClassBook({"alarm": 60, "archive": 10})
    assert book.of("fire", started_in="archive").cls == "archive"
    book.assign(Assignment("f*", "alarm"))
    assert book.of("fire", started_in="archive").cls == "alarm"
    book.assign(Assignment("fire", "archive"))
    assert book.of("fire").cls == "archive", "the newest counts"


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("classes = 3", "classes is 3"),
        ("[queries.a]\nclass = 'x'", "no [classes] table"),
        ("[classes]\na = -1", "priority -1"),
        ("[classes]\na = 1\n[queries.q]\nclass = 'b'", "class 'b' is not declared"),
        ("[classes]\na = 1\n[queries.q]\nclas = 'a'", "class is missing"),
        ("[classes]\na = 1\n[queries.q]\nclass = 'a'\nweight = 1", "unknown key 'weight'"),
        ("[classes]\na = { priority = 1, qos = [[1, 1]] }", "qos"),
        ("[classes", "not valid TOML"),
    ],
)
def test_a_bad_file_is_refused_with_its_place(tmp_path: Path, text: str, finding: str) -> None:
    path = tmp_path / "classes.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as refused:
        ClassBook.read(path)
    assert finding in str(refused.value)
    assert "classes.toml" in refused.value.place


def test_bad_declarations_are_refused() -> None:
    with pytest.raises(ConfigError, match="is not declared"):
        ClassBook({"alarm": 60}).assign(Assignment("q", "alrm"))
    with pytest.raises(ConfigError, match="priority True"):
        ClassBook({"alarm": True})
    with pytest.raises(ConfigError, match="qos graph"):
        graph_of([[0, 1], [2]])
