"""``daybreak init``: a small project that runs."""

from __future__ import annotations

import shutil
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from daybreak.cli.console import console
from daybreak.model.errors import ConfigError

TEMPLATES = Path(__file__).with_name("templates")


class Template(StrEnum):
    """A folder of ``templates``, which is copied as it is."""

    GENERATOR = "generator"
    FILES = "files"
    KAFKA = "kafka"
    GOVERNED = "governed"


#: What to do next, in the new folder.
NEXT = {
    Template.GENERATOR: "daybreak run pipeline.toml --duration-s 30",
    Template.FILES: "daybreak run pipeline.toml --until-end",
    Template.KAFKA: "export KAFKA_SERVERS=localhost:9092 && daybreak doctor pipeline.toml",
    Template.GOVERNED: "daybreak run-script streams.py --classes classes.toml",
}


def init(
    name: Annotated[Path, typer.Argument(help="Folder to make.")],
    template: Annotated[
        Template,
        typer.Option(
            help="generator: a built-in source, needs nothing. files: files in, files out. "
            "kafka: topics in, topics and files out. governed: a Spark program of your own."
        ),
    ] = Template.GENERATOR,
) -> None:
    """Makes a small project that runs as it is.

    Example: daybreak init watch --template files
    """
    if name.exists() and (not name.is_dir() or any(name.iterdir())):
        raise ConfigError(str(name), "exists already and is not empty", "choose another name")
    source = TEMPLATES / template
    for file in sorted(path for path in source.rglob("*") if path.is_file()):
        if file.suffix == ".pyc":
            continue
        made = name / file.relative_to(source)
        made.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, made)
        console().print(f"wrote {made}", highlight=False)
    console().print(f"next: cd {name} && {NEXT[template]}", highlight=False, soft_wrap=True)
