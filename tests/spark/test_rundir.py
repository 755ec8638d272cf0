"""One process owns a run directory; a foreign or unknown one is refused, never misread."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from daybreak.model import ConfigError
from daybreak.spark.log.durable import file_name
from daybreak.spark.log.rundir import LAYOUT, RunDirectory
from daybreak.version import __version__

HOLDER = """
import sys, time
from pathlib import Path
from daybreak.spark.log.rundir import LAYOUT, RunDirectory
run = RunDirectory.open(Path(sys.argv[1]), "fires")
if len(sys.argv) > 2:
    run.name_jvm(int(sys.argv[2]))
print("open", flush=True)
time.sleep(600)
"""


@contextmanager
def holder(root: Path, *jvm: int) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the directory open."""
    arguments = [sys.executable, "-c", HOLDER, str(root), *map(str, jvm)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture
def jvm(tmp_path: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose program is called java, as a JVM that outlives its driver."""
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()
    shutil.copy(shutil.which("sleep") or "", program)
    with subprocess.Popen([program, "600"]) as process:
        yield process
        process.kill()


def test_it_is_created_and_reopened_with_everything_in_place(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "run"
    with RunDirectory.open(root, "fires") as run:
        created = run.created
        (run.segments / "kept").write_text("x")
    assert sorted(p.name for p in root.iterdir()) == [
        "checkpoints", "daybreak.json", "lock", "record", "segments", "staging",
    ]  # fmt: skip
    assert json.loads((root / "daybreak.json").read_text())["layout"] == LAYOUT
    with RunDirectory.open(root, "fires") as run:
        assert run.created == created
        assert (run.segments / "kept").read_text() == "x"


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    with holder(tmp_path / "run") as process:
        with pytest.raises(ConfigError, match=f"in use by process {process.pid}"):
            RunDirectory.open(tmp_path / "run", "fires")
        process.send_signal(signal.SIGKILL)
        process.wait()
    RunDirectory.open(tmp_path / "run", "fires").close()


def test_the_same_process_cannot_open_it_twice(tmp_path: Path) -> None:
    first = RunDirectory.open(tmp_path, "fires")
    with pytest.raises(ConfigError, match=f"in use by process {os.getpid()}"):
        RunDirectory.open(tmp_path, "fires")
    first.close()
    first.close()
    RunDirectory.open(tmp_path, "fires").close()


def test_the_jvm_of_a_killed_driver_is_refused_by_pid(
    tmp_path: Path, jvm: subprocess.Popen[bytes]
) -> None:
    with holder(tmp_path / "run", jvm.pid) as driver:
        driver.kill()
    with pytest.raises(ConfigError, match=f"JVM, process {jvm.pid}, still runs"):
        RunDirectory.open(tmp_path / "run", "fires", jvm_wait_s=0)


@pytest.mark.slow
def test_the_jvm_of_a_killed_driver_is_waited_for(
    tmp_path: Path, jvm: subprocess.Popen[bytes]
) -> None:
    with holder(tmp_path / "run", jvm.pid) as driver:
        driver.kill()
    opened: list[RunDirectory] = []
    opening = threading.Thread(
        target=lambda: opened.append(RunDirectory.open(tmp_path / "run", "fires", jvm_wait_s=60))
    )
    opening.start()
    opening.join(0.3)
    assert not opened
    jvm.kill()  # a zombie until the fixture reaps it: dead all the same
    opening.join(30)
    assert len(opened) == 1
    opened[0].close()


def test_a_pid_that_belongs_to_something_else_now_does_not_matter(
    tmp_path: Path, jvm: subprocess.Popen[bytes]
) -> None:
    RunDirectory.open(tmp_path / "run", "fires").close()
    lock = tmp_path / "run" / "lock"
    for owner in (
        {"driver": 1, "jvm": os.getpid()},
        {"driver": 1, "jvm": jvm.pid, "jvm_started": "1"},
        {"driver": 1, "jvm": 2**22 + 1},
    ):
        lock.write_text(json.dumps(owner))
        RunDirectory.open(tmp_path / "run", "fires", jvm_wait_s=0).close()


def test_a_clean_close_forgets_the_jvm(tmp_path: Path, jvm: subprocess.Popen[bytes]) -> None:
    with RunDirectory.open(tmp_path / "run", "fires") as run:
        run.name_jvm(jvm.pid)
        assert json.loads((tmp_path / "run" / "lock").read_text())["jvm"] == jvm.pid
    RunDirectory.open(tmp_path / "run", "fires", jvm_wait_s=0).close()


@pytest.mark.parametrize(
    "content",
    [
        '{"layout": 1}',
        '{"layout": 99}',
        '{"layout": 2}',
        '{"layout": true}',
        "{}",
        "not json",
        "[]",
        "",
    ],
)
def test_an_unknown_layout_is_refused_and_left_alone(tmp_path: Path, content: str) -> None:
    (tmp_path / "daybreak.json").write_text(content)
    with pytest.raises(ConfigError, match="layout"):
        RunDirectory.open(tmp_path, "fires")
    assert (tmp_path / "daybreak.json").read_text() == content
    assert not (tmp_path / "segments").exists()


def test_another_pipelines_directory_is_refused(tmp_path: Path) -> None:
    RunDirectory.open(tmp_path, "fires").close()
    with pytest.raises(ConfigError, match="belongs to application 'fires', not 'floods'"):
        RunDirectory.open(tmp_path, "floods")
    RunDirectory.open(tmp_path, "fires").close()


def test_another_time_zone_is_refused_and_one_is_recorded_where_none_was(tmp_path: Path) -> None:
    RunDirectory.open(tmp_path, "fires").close()
    RunDirectory.open(tmp_path, "fires", "Asia/Tokyo").close()
    with pytest.raises(ConfigError, match=r"made in time zone 'Asia/Tokyo'.*'UTC'.*timezone ="):
        RunDirectory.open(tmp_path, "fires", "UTC")
    RunDirectory.open(tmp_path, "fires").close()
    RunDirectory.open(tmp_path, "fires", "Asia/Tokyo").close()
    assert json.loads((tmp_path / "daybreak.json").read_text())["timezone"] == "Asia/Tokyo"


def test_a_folder_with_other_things_in_it_is_refused_untouched(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    with pytest.raises(ConfigError, match=r"thesis\.tex"):
        RunDirectory.open(tmp_path, "fires")
    assert [p.name for p in tmp_path.iterdir()] == ["thesis.tex"]
    with pytest.raises(ConfigError, match="is a file"):
        RunDirectory.open(tmp_path / "thesis.tex", "fires")


def test_a_creation_cut_short_is_finished(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text('{"driver": 1}')
    (tmp_path / "daybreak.json.partial").write_text('{"lay')
    RunDirectory.open(tmp_path, "fires").close()
    assert json.loads((tmp_path / "daybreak.json").read_text())["pipeline"] == "fires"


def test_names_become_single_path_components() -> None:
    names = ["readings", "a/b", "a%2Fb", "..", ".", "_x", "héron", "a b"]
    made = [file_name(name) for name in names]
    assert len(set(made)) == len(names)
    assert all("/" not in name and not name.startswith(".") for name in made)
    assert made[0] == "readings"


def test_an_older_layout_is_made_the_present_one(tmp_path: Path) -> None:
    old = {"layout": 2, "pipeline": "p", "created": "2026-11-01T00:00:00+00:00"}
    (tmp_path / "daybreak.json").write_text(json.dumps(old))
    with RunDirectory.open(tmp_path, "p") as opened:
        assert opened.created == old["created"]
    assert json.loads((tmp_path / "daybreak.json").read_text()) == {
        **old, "layout": LAYOUT, "daybreak": __version__,
    }  # fmt: skip


def test_removing_the_lock_file_lets_no_second_driver_in(tmp_path: Path) -> None:
    with holder(tmp_path / "run"):
        (tmp_path / "run" / "lock").unlink()
        with pytest.raises(ConfigError, match="is in use by process"):
            RunDirectory.open(tmp_path / "run", "fires")
    with RunDirectory.open(tmp_path / "run", "fires") as run:
        assert (run.root / "lock").exists()
