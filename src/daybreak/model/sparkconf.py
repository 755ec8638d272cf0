"""What a pipeline or a command has Spark started with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from daybreak.model.errors import ConfigError
from daybreak.model.tables import Table, flat

#: ``group:artifact:version``, as Maven and Spark name a package.
_PACKAGE = re.compile(r"[\w.\-]+:[\w.\-]+:[\w.\-]+")
_KEY = re.compile(r"spark\.[\w.\-]+")
#: Settings that have a key of their own.
_OWN = {
    "spark.master": "give it as master, or with --master",
    "spark.jars.packages": "give them as packages, or with --packages",
    "spark.jars": "give them as jars",
    "spark.app.name": "give it as name in [app]",
}


@dataclass(frozen=True, kw_only=True)
class SparkSettings:
    """The ``[spark]`` table of a pipeline, and the options of the command line."""

    #: None: all cores of this machine.
    master: str | None = None
    #: ``group:artifact:version``; Spark resolves them, with what they depend on.
    packages: tuple[str, ...] = ()
    #: Paths or URLs of jars.
    jars: tuple[str, ...] = ()
    #: Anything else, over Daybreak's own settings. May hold ``${NAME}``.
    conf: Mapping[str, str] = field(default_factory=dict)
    #: Where a message points to, and one about the master.
    place: str = "[spark]"
    master_place: str = "--master"

    def over(self, other: SparkSettings) -> SparkSettings:
        """These settings before the other ones: packages and jars add up."""
        return replace(
            other,
            master=self.master or other.master,
            master_place=self.master_place if self.master else other.master_place,
            packages=tuple(dict.fromkeys((*other.packages, *self.packages))),
            jars=tuple(dict.fromkeys((*other.jars, *self.jars))),
            conf={**other.conf, **self.conf},
        )


def spark_settings(table: Table, folder: Path) -> SparkSettings:
    """Reads ``[spark]``; relative jars are relative to ``folder``."""
    place = table.document.place(table.path)
    master = table.get("master", str)
    packages = table.strings("packages") or ()
    jars = table.strings("jars") or ()
    raw = table.child("conf")
    table.done()
    conf = {} if raw is None else flat(raw, "setting")
    return SparkSettings(
        master=master,
        packages=check_packages(packages, table.document.place(table.path, "packages")),
        jars=check_jars(jars, folder, table.document.place(table.path, "jars")),
        conf=check_conf(conf, place if raw is None else raw.document.place(raw.path)),
        place=place,
        master_place=table.document.place(table.path, "master"),
    )


def check_packages(packages: Iterable[str], place: str) -> tuple[str, ...]:
    for package in packages:
        if not _PACKAGE.fullmatch(package):
            raise ConfigError(
                place,
                f"{package!r} names no package",
                'give "group:artifact:version", such as '
                '"org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"',
            )
    return tuple(packages)


def check_conf(conf: Mapping[str, str], place: str) -> dict[str, str]:
    for key in conf:
        if key in _OWN:
            raise ConfigError(place, f"{key} has a key of its own", _OWN[key])
        if not _KEY.fullmatch(key):
            raise ConfigError(place, f"{key!r} is no setting of Spark", "give spark.NAME = VALUE")
    return dict(conf)


def settings_of_command(
    master: str | None, conf: Iterable[str], packages: Iterable[str]
) -> SparkSettings:
    """The settings in ``--master``, ``--conf KEY=VALUE`` and ``--packages A,B``."""
    given: dict[str, str] = {}
    for text in conf:
        key, mark, value = text.partition("=")
        if not mark:
            raise ConfigError("--conf", f"{text!r} has no value", "give KEY=VALUE")
        given[key.strip()] = value
    named = [p.strip() for text in packages for p in text.split(",") if p.strip()]
    return SparkSettings(
        master=master,
        packages=check_packages(named, "--packages"),
        conf=check_conf(given, "--conf"),
        place="command line",
    )


def check_jars(jars: Iterable[str], folder: Path, place: str) -> tuple[str, ...]:
    """Full paths of the jars; URLs as they are."""
    found = []
    for jar in jars:
        path = jar if "://" in jar else str((folder / jar).resolve())
        if path is not jar and not Path(path).is_file():
            raise ConfigError(place, f"jar {jar!r} does not exist", "correct the path, or fetch it")
        found.append(path)
    return tuple(found)
