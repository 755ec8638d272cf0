"""What a user declares to keep a mirror: a TOML file, checked strictly."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from daybreak.model.errors import ConfigError
from daybreak.model.tables import Document, Table, params_from

Kind = Literal["http", "sql", "files"]

MOST_TIMEOUT_S = 3600
#: A SQLite file holds no values above 1 GB.
MOST_BYTES = 1 << 29
#: Each is a thread and a connection.
MOST_HOSTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceConfig:
    """One place the mirror copies from."""

    kind: Kind
    #: http: the objects are URLs, listed here or in a file, one a line.
    urls: tuple[str, ...] = ()
    urls_file: str | None = None
    #: sql: the objects are the rows of a table, told apart by a column.
    url: str | None = None
    table: str | None = None
    key: str | None = None
    #: files: the objects are the files below a folder that match a pattern.
    path: str | None = None
    pattern: str = "**/*"


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorParams:
    """How the mirror is kept. Rates count per period."""

    store: str = "mirror.db"
    period_s: float = 86_400.0
    #: Refreshes per period, over all sources.
    bandwidth: float
    #: How often rates are estimated and the plan is recomputed.
    replan_s: float = 600.0
    #: What is believed of a new object: changes per period, and how firmly (in changes seen).
    prior_rate: float = 1.0
    prior_weight: float = 1.0
    #: Objects with fewer visits than trusted are visited at least every so many periods.
    trusted_visits: int = 3
    explore_periods: float = 5.0
    #: Every object at least this fresh; 0 leaves it to the plan.
    least_freshness: float = 0.0
    #: Time between two requests to one host.
    host_gap_s: float = 1.0
    #: For one request as a whole: connecting, the answer's headers and its body.
    timeout_s: float = 10.0
    #: A longer object is not copied.
    max_bytes: int = 16_777_216
    #: Hosts visited at the same time.
    parallel_hosts: int = 16
    #: A CSV or Parquet file with columns id and access; left out, all objects count the same.
    access: str | None = None

    def __post_init__(self) -> None:
        for name in ("period_s", "bandwidth", "replan_s", "prior_rate", "prior_weight",
                     "explore_periods", "timeout_s"):  # fmt: skip
            if not getattr(self, name) > 0:
                raise ConfigError("mirror", f"{name} is {getattr(self, name)}", "give more than 0")
        if self.timeout_s > MOST_TIMEOUT_S:
            raise ConfigError(
                "mirror", f"timeout_s is {self.timeout_s}", f"give at most {MOST_TIMEOUT_S}"
            )
        if not 1 <= self.max_bytes <= MOST_BYTES:
            raise ConfigError(
                "mirror", f"max_bytes is {self.max_bytes}", f"give 1 to {MOST_BYTES} (512 MiB)"
            )
        if not 1 <= self.parallel_hosts <= MOST_HOSTS:
            raise ConfigError(
                "mirror", f"parallel_hosts is {self.parallel_hosts}", f"give 1 to {MOST_HOSTS}"
            )
        if not (0 <= self.least_freshness < 1 and self.host_gap_s >= 0 and self.trusted_visits > 0):
            raise ConfigError(
                "mirror",
                f"least_freshness {self.least_freshness}, host_gap_s {self.host_gap_s}, "
                f"trusted_visits {self.trusted_visits}",
                "give [0, 1), 0 or more, and 1 or more",
            )


@dataclass(frozen=True, slots=True)
class KeepConfig:
    """The whole file; relative paths are meant from the file's folder."""

    mirror: MirrorParams
    sources: dict[str, SourceConfig] = field(default_factory=dict)
    folder: Path = Path()

    def path(self, name: str) -> Path:
        return self.folder / name


#: Which keys a source of each kind must have.
_NEEDED = {"http": (), "sql": ("url", "table", "key"), "files": ("path",)}


def read_config(path: Path) -> KeepConfig:
    """Reads and checks ``mirror.toml``; every mistake names its place."""
    top = Document.read(path).table()
    mirror = top.child("mirror")
    if mirror is None or "bandwidth" not in mirror.data:
        raise top.error(
            "no bandwidth is declared", "add [mirror] with bandwidth = refreshes per period"
        )
    params = params_from(mirror, MirrorParams)
    sources = {name: _source(table) for name, table in top.children("sources")}
    top.done()
    if not sources:
        raise top.error("no source is declared", "add a table [sources.NAME]")
    return KeepConfig(params, sources, path.parent)


def _source(table: Table) -> SourceConfig:
    urls = table.strings("urls") or ()
    texts = {name: table.get(name, str) for name in
             ("kind", "urls_file", "url", "table", "key", "path", "pattern")}  # fmt: skip
    table.done()
    kind = texts["kind"]
    if kind not in _NEEDED:
        raise table.error(f"kind is {kind!r}", f"choose from {', '.join(_NEEDED)}", "kind")
    for name in _NEEDED[kind]:
        if texts[name] is None:
            raise table.error(f"{name} is missing", f"a source of kind {kind} needs it")
    if kind == "http" and not urls and texts["urls_file"] is None:
        raise table.error("no URLs", 'give urls = ["http://..."] or urls_file')
    given = {name: value for name, value in texts.items() if value is not None}
    return SourceConfig(urls=urls, **given)  # type: ignore[arg-type]
