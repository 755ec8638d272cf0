"""Verdicts: every claim has a rule, no experiment writes its own verdict."""

import ast
import json
from dataclasses import fields
from inspect import isfunction
from pathlib import Path
from typing import Any, cast

import pytest

from daybreak.model.errors import EngineBug
from daybreak_experiments import rules
from daybreak_experiments.core import Claim, Note
from daybreak_experiments.pages import write_pages
from daybreak_experiments.registry import PAGES, SOURCES, all_experiments
from daybreak_experiments.rules import Rule, at_most, close, in_range, near, required

ROOT = Path(__file__).parents[2]
SOURCE_FILES = sorted((ROOT / "experiments/src/daybreak_experiments").glob("*/*.py"))
RULES = {
    name
    for name, made in vars(rules).items()
    if isfunction(made) and made.__module__ == rules.__name__ and not name.startswith("_")
}


def test_a_claim_cannot_be_made_without_a_rule() -> None:
    with pytest.raises(TypeError, match="no rule"):
        Claim("it is faster", "published", "12 %", "65 %", cast(Any, True))
    with pytest.raises(TypeError):
        Claim("it is faster", "published", "12 %", "65 %")  # type: ignore[call-arg]
    with pytest.raises(EngineBug):
        Rule(" ", met=True)


def test_a_note_has_no_place_for_a_number_of_the_text() -> None:
    assert Note.paper == "-"
    assert [f.name for f in fields(Note)] == ["claim", "ours"]


def test_rules_judge_by_their_tolerance() -> None:
    assert close(100, 109.9).met
    assert not close(100, 110.1).met
    assert not close([12, 24], [12, 65]).met
    assert near(0.12, [0.2], by=0.1).met
    assert not near(0.12, [0.2, 0.65], by=0.1).met
    assert in_range(2.0, 3.0, [1.81, 3.29]).met
    assert not in_range(2.0, 3.0, [1.7]).met
    assert not at_most(0, 0.0, 2.09).met
    assert not close(1.0, float("nan")).met


def test_a_rule_that_nothing_was_measured_for_is_not_met() -> None:
    assert not required("with every seed").met
    assert not at_most(1).met


@pytest.mark.parametrize("path", SOURCE_FILES, ids=lambda p: f"{p.parent.name}/{p.name}")
def test_no_experiment_writes_its_verdict(path: Path) -> None:
    """Each rule is given something measured: no constant alone, and no ``Rule`` made by hand."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        assert node.func.id != "Rule", f"{path.name}:{node.lineno} makes a rule by hand"
        if node.func.id in RULES:
            given = [a for a in node.args if not isinstance(a, ast.Constant)]
            assert given, f"{path.name}:{node.lineno} judges a constant"
            assert not any(
                isinstance(a, ast.Constant) and isinstance(a.value, bool) for a in node.args
            ), f"{path.name}:{node.lineno} is given its verdict"


@pytest.mark.parametrize("source", SOURCES)
def test_every_published_verdict_has_its_rule_on_the_page(source: str) -> None:
    page = ROOT / "docs/results" / f"{PAGES.get(source, source)}.md"
    judged = 0
    for line in page.read_text(encoding="utf-8").splitlines():
        cells = [c.strip() for c in line.replace("\\|", "/").strip("|").split("|")]
        if len(cells) < 2 or cells[1] not in ("robust", "published", "note", "skipped"):
            continue
        verdict, kind, claim, text, _ours, rule = cells
        judged += 1
        if kind in ("robust", "published"):
            assert verdict in ("holds", "fails"), claim
            assert rule not in ("", "-"), claim
        else:
            assert rule == "-", claim
        if kind == "note":
            assert (verdict, text) == ("-", "-"), claim
    assert judged


def record(name: str, *claims: tuple[str, bool | None]) -> str:
    lines = [
        {
            "claim": f"claim {i}", "kind": kind, "paper": "1", "ours": "2",
            "rule": None if holds is None else "below 3", "holds": holds,
        }
        for i, (kind, holds) in enumerate(claims)
    ]  # fmt: skip
    return json.dumps(
        {"experiment": name, "title": "t", "seeds": [101, 102], "claims": lines, "table": [],
         "notes": [], "figure": None}
    )  # fmt: skip


def test_the_overview_counts_verdicts_and_keeps_rows_it_has_no_record_for(tmp_path: Path) -> None:
    records, docs = tmp_path / "records", tmp_path / "docs"
    records.mkdir()
    (records / "links-fig1.json").write_text(
        record("links/fig1", ("robust", True), ("published", False), ("note", None))
    )
    written = write_pages(records, docs)
    assert [p.name for p in written] == ["links.md", "README.md"]
    overview = (docs / "README.md").read_text()
    assert "| 2 (101-102) | 1 | 0 | 0 | 1 |" in overview
    assert overview.count("\n| [") == len(all_experiments())
    (records / "links-fig1.json").unlink()
    (records / "aurora-table3.1.json").write_text(record("aurora/table3.1", ("robust", False)))
    write_pages(records, docs)
    overview = (docs / "README.md").read_text()
    assert "| 2 (101-102) | 1 | 0 | 0 | 1 |" in overview
    assert "| total |  |  | 1 | 1 | 0 | 1 |" in overview


def test_a_page_keeps_the_sections_it_has_no_record_for(tmp_path: Path) -> None:
    records, docs = tmp_path / "records", tmp_path / "docs"
    records.mkdir()
    both = [records / "links-fig1.json", records / "links-fig9.json"]
    both[0].write_text(record("links/fig1", ("robust", True), ("published", False)))
    both[1].write_text(record("links/fig9", ("robust", True)))
    write_pages(records, docs)
    whole = (docs / "links.md").read_text()
    assert "2 of 2 robust claims hold, and 0 of 1 published ones." in whole
    both[0].unlink()
    both[1].write_text(record("links/fig9", ("robust", False)))
    write_pages(records, docs)
    again = (docs / "links.md").read_text()
    assert again.index("## links/fig1") < again.index("## links/fig9")
    assert "1 of 2 robust claims hold, and 0 of 1 published ones." in again
