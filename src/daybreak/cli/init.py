"""``daybreak init``: a small project that runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from daybreak.cli.console import console
from daybreak.model.errors import ConfigError

PIPELINE = """\
# A pipeline: what arrives, what is asked, how much each answer matters.
# Try it:    daybreak check pipeline.toml
#            daybreak run pipeline.toml --duration-s 30
#            daybreak simulate pipeline.toml --compare round-robin,fcfs
[app]
policy = "planned"           # daybreak policies lists the others

[classes]                    # relative importance, and what a late answer is still worth
alarm = { priority = 60, qos = [[0, 1.0], [1.0, 1.0], [2.0, 0.0]] }
archive = { priority = 10 }

[streams.readings]           # a built-in generator; any Structured Streaming source will do:
format = "generator"         #   format = "json", path = "in/readings", schema = "station INT, ..."
options = { rows = "stations", seed = 1 }
arrivals = { process = "poisson", rate_per_s = 200 }

[queries.fire]
class = "alarm"
sql = "SELECT station, temperature, at FROM readings WHERE temperature > 40 AND humidity < 20"
sink = { format = "console" }

[queries.everything]
class = "archive"
sql_file = "everything.sql"
sink = { format = "parquet", path = "out/everything" }
"""
SQL = "SELECT reading, station, temperature, humidity, wind, at\nFROM readings\n"


def init(
    name: Annotated[Path, typer.Argument(help="Folder to make.")],
) -> None:
    """Makes a small project that runs as it is.

    Example: daybreak init watch && cd watch && daybreak run pipeline.toml --duration-s 30
    """
    if name.exists() and (not name.is_dir() or any(name.iterdir())):
        raise ConfigError(str(name), "exists already and is not empty", "choose another name")
    name.mkdir(parents=True, exist_ok=True)
    for file, text in (("pipeline.toml", PIPELINE), ("everything.sql", SQL)):
        (name / file).write_text(text, encoding="utf-8")
        console().print(f"wrote {name / file}")
    console().print(f"next: cd {name} && daybreak run pipeline.toml --duration-s 30")
