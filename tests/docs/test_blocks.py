"""What the documentation shows can be typed: commands exist and run, and so does Python."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet
import pytest
import typer.main
from tests.docs.code_blocks import ROOT, Block, Command, blocks, commands
from typer.testing import CliRunner

from daybreak.cli.main import app
from daybreak.model.pipeline import Pipeline

pytestmark = pytest.mark.slow

#: Commands that need neither Spark nor a run: typed here, as they are printed.
RUN_HERE = (
    "init", "completion", "simulate", "policies", "schedule", "report runs/simulation",
    "filters optimum", "freshen plan", "freshen simulate", "link simulate", "reproduce",
)  # fmt: skip
#: These take long; ``make soak`` types them.
LONG = (
    "reproduce aurora/table3.1 'links/*'",
    "reproduce planned/loads",
    "freshen simulate pages.parquet --bandwidth 250000 --rules plan,uniform,nutch",
)
#: Commands that are run by another test, on Spark or with another process.
RUN_ELSEWHERE = {
    "doctor": "tests/doctor/test_doctor.py",
    "check": "tests/spark/test_findings.py",
    "run": "tests/spark/test_eventlog.py",
    "run-script": "tests/cli/test_run_script.py",
    "query": "tests/spark/windows/test_window_runs.py",
    "queries": "tests/spark/test_docs_blocks.py",
    "top": "tests/cli/test_top.py",
    "pause": "tests/spark/test_docs_blocks.py",
    "resume": "tests/spark/test_docs_blocks.py",
    "drop": "tests/spark/test_docs_blocks.py",
    "register": "tests/spark/test_docs_blocks.py",
    "set": "tests/spark/test_docs_blocks.py",
    "whatif": "tests/spark/test_docs_blocks.py",
    "why": "tests/spark/test_why.py",
    "replay": "tests/recorded/test_recorded_runs.py",
    "dashboard": "tests/spark/test_dashboard.py",
    "report": "tests/cli/test_commands.py",
    "filters simulate": "tests/cli/test_filters.py",
    "freshen keep": "tests/cli/test_keep.py",
    "link serve": "tests/cli/test_link.py",
    "link send": "tests/cli/test_link.py",
}
#: Of the shell itself, or of the reader's machine.
SHELL = {"cat", "cd", "echo", "grep", "jq", "pip", "printf", "spark-submit"}
#: Pages whose Python needs Spark: ``tests/spark/test_docs_blocks.py``.
ON_SPARK = {"README.md", "docs/from-writestream.md", "docs/governed.md", "docs/tutorial.md"}
#: Pages whose Python a test of its own runs, with what it prints.
OWN_TEST = {"docs/links.md": "tests/links/test_docs.py"}


def daybreak_commands() -> list[Command]:
    return [c for c in commands() if c.program == "daybreak"]


def starts(command: Command, with_: str) -> bool:
    return f"{command.shown} ".startswith(f"daybreak {with_} ") or command.shown.startswith(
        f"daybreak {with_}/"
    )


def test_every_command_exists_with_its_options() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for command in commands():
        if command.program == "daybreak":
            parse(command)
        elif command.program == "make":
            assert re.search(rf"^{command.words[1]}:", makefile, re.MULTILINE), command
        elif command.program == "python":
            script_exists(command)
        else:
            assert command.program in SHELL, command


@cache
def the_command() -> Any:
    return typer.main.get_command(app)


def parse(command: Command) -> None:
    """As the command line does, without carrying it out."""
    found = the_command()
    words, name = list(command.words[1:]), "daybreak"
    while hasattr(found, "commands"):
        name = words.pop(0)
        assert name in found.commands, command
        found = found.commands[name]
    found.make_context(name, words)


def script_exists(command: Command) -> None:
    if command.words[1] == "-m":
        return
    script = ROOT / command.words[1]
    assert script.is_file(), command
    package = ROOT / "benchmarks" / script.stem.partition("_")[0]
    sources = [script, *(package.rglob("*.py") if package.is_dir() else ())]
    known = "\n".join(path.read_text(encoding="utf-8") for path in sources)
    for word in command.words[2:]:
        assert not word.startswith("--") or f'"{word}"' in known, (command, word)


def test_every_command_is_run_by_some_test() -> None:
    for command in daybreak_commands():
        if not any(starts(command, name) for name in RUN_HERE):
            where = [path for name, path in RUN_ELSEWHERE.items() if starts(command, name)]
            assert where, command
    for name, path in RUN_ELSEWHERE.items():
        place = ROOT / path
        files = [place] if place.is_file() else list(place.rglob("*.py"))
        texts = [file.read_text(encoding="utf-8") for file in files]
        assert any(name.split()[-1] in text for text in texts), (name, path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where commands are typed: with the examples, what ``init`` makes, and a small mirror."""
    here = tmp_path_factory.mktemp("docs")
    (here / "examples").symlink_to(ROOT / "examples")
    pages = pa.table({"change_rate": [1.0, 2.0, 3.0], "access": [3.0, 2.0, 1.0]})
    pa_parquet.write_table(pages, here / "pages.parquet")
    pa_csv.write_csv(pages, here / "pages.csv")
    CliRunner().invoke(app, ["init", str(here / "made")], catch_exceptions=False)
    shutil.copytree(here / "made", here, dirs_exist_ok=True)
    return here


def short_commands() -> list[str]:
    """Every command once; the pages of the policies differ in the policy's name alone."""
    found = [
        c.shown
        for c in daybreak_commands()
        if any(starts(c, name) for name in RUN_HERE)
        and not c.block.page.startswith("docs/policies")
    ]
    return [c for c in dict.fromkeys(found) if c.removeprefix("daybreak ") not in LONG]


def type_in(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    result = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", short_commands())
def test_commands_run_as_printed(
    command: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone = command.startswith("daybreak init ")  # several make the same project
    type_in(command, tmp_path if alone else folder, monkeypatch)


@pytest.mark.soak
@pytest.mark.parametrize("command", LONG)
def test_long_commands_run_as_printed(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    type_in(f"daybreak {command}", folder, monkeypatch)


def test_python_blocks_run_as_printed() -> None:
    """Those of a page one after the other, as a reader would."""
    names: dict[str, dict[str, object]] = {}
    for block in blocks("python"):
        code = compiled(block)
        if block.page in ON_SPARK or block.page in OWN_TEST or block.not_run is not None:
            continue
        exec(code, names.setdefault(block.page, {"__name__": "docs"}))
    for path in OWN_TEST.values():
        assert (ROOT / path).is_file()


def test_reasons_for_blocks_that_are_not_run_name_files_that_exist() -> None:
    for block in blocks("python", "toml", "sh", "console"):
        for path in re.findall(
            r"\b(?:tests|examples|experiments|benchmarks)/[\w./]+\w", block.not_run or ""
        ):
            assert (ROOT / path).exists(), block


def compiled(block: Block) -> Any:
    return compile(block.text, block.place, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_declarations_are_valid(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KAFKA_PASSWORD", "FIRE_PASSWORD", "PASSWORD"):
        monkeypatch.setenv(name, "x")
    for block in blocks("toml", "json"):
        if block.language == "json":
            for line in block.text.splitlines():
                json.loads(line)
        elif "[streams." in block.text and "[queries." in block.text and block.not_run is None:
            Pipeline.parse(block.text, block.place)
        else:
            tomllib.loads(block.text)
