"""SIGKILL while rows pass from files to tables; twenty of them in ``make soak``."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.servers import PostgresServer
from benchmarks.soaking.table_kills import table_kills

pytestmark = [pytest.mark.spark, pytest.mark.slow]

KILLS = 2


def test_delta_and_postgres_hold_every_row_once(postgres: PostgresServer, tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    found = table_kills(KILLS, seed, tmp_path, postgres, print)
    assert found["wrong"] == [], (tmp_path / "log.txt").read_text()[-3000:]
    assert found["kills"] == KILLS
    assert found["versions"] < found["rows"] / 100, "results are gathered"
