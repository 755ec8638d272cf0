"""``daybreak freshen keep`` as a process: killed in the middle, started again, asked, stopped."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pa_parquet
import pytest
from tests.freshness.keep.servers import Pages, http_server
from tests.until import until
from typer.testing import CliRunner

from daybreak.cli.main import app
from daybreak.freshness.keep import Store
from daybreak.model import ConfigError


def start(path: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "daybreak", "freshen", "keep", str(path), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["freshen", "keep", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.slow
def test_killed_restarted_asked_and_stopped(tmp_path: Path) -> None:
    pages = Pages(content={f"/{k}": b"first" for k in range(8)})
    path = tmp_path / "mirror.toml"
    with http_server(pages) as site:
        urls = [f"{site}/{k}" for k in range(8)]
        path.write_text(
            "[mirror]\nperiod_s = 2\nbandwidth = 40\nreplan_s = 0.5\nhost_gap_s = 0\n"
            f'[sources.web]\nkind = "http"\nurls = {json.dumps(urls)}\n'
        )
        process = start(path)
        until(lambda: len({p for p, _ in pages.log}) == 8, "all pages to be copied")
        process.kill()
        process.communicate()
        seen = len(pages.log)
        pages.content["/3"] = b"second"
        process = start(path)
        # Stored before the host gets the next request; before that, a signal may prevent it.
        until(lambda: ("/3", 200) in pages.log[seen:-1], "the change to be stored")
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=30)
        assert process.returncode == 0
        assert json.loads(out)["visits"] >= 1
    # The copies survived the kill: only the changed page was sent again (the one being visited
    # when the process died may be, too).
    assert [p for p, s in pages.log[seen:] if s == 200].count("/3") == 1
    assert len([1 for _, s in pages.log[seen:] if s == 200]) <= 2
    store = Store(tmp_path / "mirror.db")
    assert store.content("web", f"{site}/3") == b"second"
    store.close()
    _ask(path, tmp_path / "copies.parquet")


def _ask(path: Path, copies: Path) -> None:
    found = json.loads(run(str(path), "--status", "--json"))
    assert len(found) == 8
    assert all(f["why"] and f["last_visit_s_ago"] > 0 for f in found)
    assert "next visit" in run(str(path), "--status")
    run(str(path), "--export", str(copies))
    assert pa_parquet.read_table(copies).num_rows == 8


def test_for_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("x")
    path = tmp_path / "mirror.toml"
    path.write_text('[mirror]\nbandwidth = 1000\n[sources.docs]\nkind = "files"\npath = "docs"\n')
    assert "1 visits" in run(str(path), "--for", "0.3")


def test_asking_before_there_is_a_mirror_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mirror.toml"
    path.write_text('[mirror]\nbandwidth = 1\n[sources.a]\nkind = "http"\nurls = ["http://x"]\n')
    with pytest.raises(ConfigError, match="no mirror yet"):
        run(str(path), "--status")
