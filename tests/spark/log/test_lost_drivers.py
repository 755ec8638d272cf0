"""The whole process: killed, its folder deleted, another one started elsewhere: every row once."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from benchmarks.servers import PostgresServer
from benchmarks.soaking.lost_drivers import lost_drivers

pytestmark = pytest.mark.spark


def test_a_driver_lost_with_its_disk_is_continued_elsewhere(
    tmp_path: Path, postgres: PostgresServer
) -> None:
    """The short form of the soak's twenty."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed {seed}")
    found = lost_drivers(2, seed, tmp_path, postgres.dsn, print)
    assert found["wrong"] == []
    assert found["kills"] == 2
