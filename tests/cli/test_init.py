"""``daybreak init``: every template is a whole project."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from daybreak.cli.init import NEXT, TEMPLATES, Template
from daybreak.cli.main import app
from daybreak.model.errors import ConfigError
from daybreak.model.pipeline import Pipeline


@pytest.mark.parametrize("template", Template)
def test_a_template_becomes_a_project_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, template: Template
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KAFKA_SERVERS", "localhost:9092")
    done = CliRunner().invoke(app, ["init", "mine", "--template", template], catch_exceptions=False)
    assert done.exit_code == 0
    assert done.stdout.endswith(f"next: cd mine && {NEXT[template]}\n")
    made = {p.relative_to("mine") for p in Path("mine").rglob("*") if p.is_file()}
    kept = {p.relative_to(TEMPLATES / template) for p in (TEMPLATES / template).rglob("*.*")}
    assert made == {p for p in kept if p.suffix != ".pyc"}
    if (Path("mine") / "pipeline.toml").exists():
        assert Pipeline.read(Path("mine/pipeline.toml")).queries
    else:
        compile((Path("mine") / "streams.py").read_text(), "streams.py", "exec")


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").touch()
    with pytest.raises(ConfigError, match="exists already and is not empty"):
        CliRunner().invoke(app, ["init", str(tmp_path)], catch_exceptions=False)
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]
