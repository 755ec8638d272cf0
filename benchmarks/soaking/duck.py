"""Queries that DuckDB answers, in a process of its own: at its end it lists what it leaked."""

from __future__ import annotations

import pickle
import subprocess
import sys
from typing import Any

_PROGRAM = """
import os, pickle, sys, duckdb
rows = duckdb.connect().sql(sys.stdin.read()).fetchall()
sys.stdout.buffer.write(pickle.dumps(rows))
sys.stdout.flush()
os._exit(0)
"""


def duck_rows(query: str) -> list[tuple[Any, ...]]:
    answer = subprocess.run(
        [sys.executable, "-c", _PROGRAM], input=query.encode(), stdout=subprocess.PIPE, check=True
    )
    rows: list[tuple[Any, ...]] = pickle.loads(answer.stdout)
    return rows
