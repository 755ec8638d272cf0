"""``daybreak link`` as a user runs it: processes, files, pipes."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from daybreak.cli.main import app
from daybreak.model import ConfigError

SCENARIO = """
scheduler = "hybrid"
bandwidth_bytes_per_s = 2600
duration_s = 50

[params]
margin = 0.0

[classes.alarms]
value = 2
deadline_ms = 1400
minimum = "6/10"
rate_per_s = 5

[classes.reports]
value = 1
deadline_ms = 1950
minimum = "6/10"
size_bytes = 400
rate_per_s = 3
"""


def daybreak(*args: str) -> list[str]:
    return [sys.executable, "-m", "daybreak", *args]


def test_simulate_compares_schedulers_and_accounts_for_every_tuple() -> None:
    result = CliRunner().invoke(
        app, ["link", "simulate", "--scheduler", "all", "--seconds", "50", "--json"]
    )
    assert result.exit_code == 0
    found = json.loads(result.stdout)["schedulers"]
    assert len(found) == 7
    for classes in found.values():
        for c in classes.values():
            assert c["arrived"] == sum(c[k] for k in ("delivered", "expired", "evicted", "queued"))


def test_simulate_reads_a_scenario(tmp_path: Path) -> None:
    file = tmp_path / "link.toml"
    file.write_text(SCENARIO)
    result = CliRunner().invoke(app, ["link", "simulate", str(file)])
    assert result.exit_code == 0
    assert "2600 bytes/s, 50 s, seed 1" in result.stdout
    assert "reports" in result.stdout


@pytest.mark.parametrize(
    ("change", "finding"),
    [
        (('"hybrid"', '"hybird"'), "hybird"),
        (("margin = 0.0", "margni = 0.0"), "margni"),
        (("margin = 0.0", 'margin = "much"'), "does not fit"),
        (('"6/10"', '"6 of 10"'), "6 of 10"),
        (("value = 1", "value = 2"), "same value"),
        (("rate_per_s = 5", "rate = 5"), "unknown key 'rate'"),
        (("deadline_ms = 1400", ""), "deadline_ms is missing"),
        (("= 2600", "= 0"), "bandwidth"),
    ],
)
def test_mistakes_in_a_scenario_are_named(
    tmp_path: Path, change: tuple[str, str], finding: str
) -> None:
    file = tmp_path / "link.toml"
    file.write_text(SCENARIO.replace(*change))
    result = CliRunner().invoke(app, ["link", "simulate", str(file)])
    assert isinstance(result.exception, ConfigError)
    assert finding in str(result.exception)
    assert "link.toml" in str(result.exception)


@pytest.mark.slow
def test_a_sender_and_a_receiver_as_two_processes(tmp_path: Path) -> None:
    out = tmp_path / "received.jsonl"
    with subprocess.Popen(
        daybreak("link", "serve", "--listen", "127.0.0.1:0", "--once", "--json", "--out", str(out)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stderr is not None
        address = serving.stderr.readline().split()[-1]
        sent = subprocess.run(
            daybreak(
                "link", "send", "--to", address, "--faster", "20", "--seconds", "20", "--json"
            ),
            capture_output=True,
            text=True,
            check=True,
        )
        received, _ = serving.communicate(timeout=30)
    assert serving.returncode == 0
    there, here = json.loads(received)["classes"], json.loads(sent.stdout)["classes"]
    for name, c in here.items():
        assert c["delivered"] == there[name]["on_time"] + there[name]["late"]
        assert c["arrived"] == c["delivered"] + c["expired"] + c["evicted"] + c["queued"]
        assert 0 <= c["simulated_share"] <= 1
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert len(lines) == sum(c["delivered"] for c in here.values())


@pytest.mark.slow
def test_lines_of_standard_input_are_sent_and_an_interrupted_receiver_reports(
    tmp_path: Path,
) -> None:
    patient = tmp_path / "patient.toml"
    patient.write_text(SCENARIO.replace("1400", "60000").replace("1950", "60000"))
    with subprocess.Popen(
        daybreak("link", "serve", "--listen", "127.0.0.1:0", "--json"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stderr is not None
        address = serving.stderr.readline().split()[-1]
        send = daybreak("link", "send", str(patient), "--lines", "--to", address, "--json")
        text = "alarms\tfire in the north\nreports\tall quiet\n"
        sent = subprocess.run(send, input=text, capture_output=True, text=True, check=True)
        wrong = subprocess.run(send, input="no tab\n", capture_output=True, text=True, check=False)
        serving.send_signal(signal.SIGTERM)
        received, _ = serving.communicate(timeout=30)
    assert [c["delivered"] for c in json.loads(sent.stdout)["classes"].values()] == [1, 1]
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "line 1: has no tab" in wrong.stderr
    assert serving.returncode == 0
    assert [c["on_time"] for c in json.loads(received)["classes"].values()] == [1, 1]


@pytest.mark.slow
def test_a_sender_without_a_receiver_says_so() -> None:
    send = daybreak("link", "send", "--to", "127.0.0.1:1", "--faster", "100", "--seconds", "20")
    result = subprocess.run(send, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (2, "")
    assert "no receiver answered at 127.0.0.1:1" in result.stderr
