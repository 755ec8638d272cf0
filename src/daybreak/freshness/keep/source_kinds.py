"""The declared sources: HTTP (in `http_source`), a SQL table, files. One small adapter each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from daybreak.freshness.keep.config import KeepConfig, SourceConfig
from daybreak.freshness.keep.http_source import HttpSource
from daybreak.freshness.keep.mirror_source import Fetched, Listed, MirrorSource, SourceError
from daybreak.model.errors import ConfigError
from daybreak.model.redaction import redacted

if TYPE_CHECKING:
    from sqlalchemy import Engine


def make_sources(config: KeepConfig) -> dict[str, MirrorSource]:
    """The declared sources by name."""
    return {name: _make(config, source, name) for name, source in config.sources.items()}


def _make(config: KeepConfig, source: SourceConfig, name: str) -> MirrorSource:
    mirror = config.mirror
    if source.kind == "http":
        urls = _urls(config, source, f"sources.{name}")
        return HttpSource(urls, mirror.timeout_s, mirror.max_bytes)
    if source.kind == "sql":
        return SqlSource(str(source.url), str(source.table), str(source.key), mirror.max_bytes)
    return FileSource(config.path(str(source.path)), source.pattern, mirror.max_bytes)


def _urls(config: KeepConfig, source: SourceConfig, place: str) -> list[str]:
    urls = list(source.urls)
    if source.urls_file is not None:
        path = config.path(source.urls_file)
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                place, f"{path} cannot be read ({error})", "correct urls_file"
            ) from error
        for line in lines:
            if not line.lstrip().startswith("#"):
                urls += line.split()
    return urls


class SqlSource:
    """Objects are the rows of one table; a row's content is its columns as JSON."""

    def __init__(self, url: str, table: str, key: str, max_bytes: int) -> None:
        try:
            import sqlalchemy as sa
        except ImportError as error:
            raise ConfigError(
                "sources", "sqlalchemy is missing", "pip install 'daybreak[mirror]'"
            ) from error
        self.sa: Any = sa
        try:
            self.engine: Engine = sa.create_engine(url, pool_pre_ping=True)
            self.table = sa.Table(table, sa.MetaData(), autoload_with=self.engine)
            self.key = self.table.c[key]
        except KeyError as error:
            raise ConfigError("sources", f"{table} has no column {key}", "correct key") from error
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            reason = redacted(str(error).splitlines()[0], url)
            raise ConfigError("sources", f"{table}: {reason}", "correct url or table") from None
        self.url, self.max_bytes = url, max_bytes
        self.host = self.engine.url.host or "local database"
        self.keys: dict[str, Any] = {}

    def objects(self) -> Iterable[Listed]:
        try:
            with self.engine.connect() as connection:
                rows = connection.execute(self.sa.select(self.key).order_by(self.key)).scalars()
                self.keys = {f"{self.table.name}/{value}": value for value in rows}
        except self.sa.exc.SQLAlchemyError as error:
            raise self._failure(error) from None
        return [Listed(name, self.host) for name in self.keys]

    def fetch(self, name: str, version: str | None) -> Fetched:
        statement = self.sa.select(self.table).where(self.key == self.keys.get(name))
        try:
            with self.engine.connect() as connection:
                row = connection.execute(statement).mappings().first()
        except self.sa.exc.SQLAlchemyError as error:
            raise self._failure(error) from None
        if row is None:
            raise SourceError("the row is gone")
        content = json.dumps(dict(row), default=str, sort_keys=True).encode()
        if len(content) > self.max_bytes:
            raise SourceError(f"the row has {len(content)} bytes, more than max_bytes")
        return _by_hash(content, version)

    def _failure(self, error: Exception) -> SourceError:
        return SourceError(redacted(str(error).splitlines()[0], self.url))

    def close(self) -> None:
        self.engine.dispose()


class FileSource:
    """Objects are files; unchanged while size and time of change are the same."""

    def __init__(self, folder: Path, pattern: str, max_bytes: int) -> None:
        if not folder.is_dir():
            raise ConfigError("sources", f"{folder} is no folder", "correct path")
        self.folder, self.pattern, self.max_bytes = folder, pattern, max_bytes
        self.paths: dict[str, Path] = {}

    def objects(self) -> Iterable[Listed]:
        try:
            found = sorted(p for p in self.folder.glob(self.pattern) if p.is_file())
            self.paths = {_name(p.relative_to(self.folder)): p for p in found}
        except (OSError, ValueError, NotImplementedError) as error:
            raise SourceError(f"{self.pattern} cannot be listed ({error})") from error
        return [Listed(name, "files") for name in self.paths]

    def fetch(self, name: str, version: str | None) -> Fetched:
        path = self.paths.get(name, self.folder / name)
        try:
            stat = path.stat()
            seen = f"{stat.st_size}/{stat.st_mtime_ns}"
            if seen == version:
                return Fetched(seen, None)
            with path.open("rb") as file:
                content = file.read(self.max_bytes + 1)
        except OSError as error:
            raise SourceError(f"cannot be read ({error.strerror})") from error
        if len(content) > self.max_bytes:
            raise SourceError(f"is longer than max_bytes = {self.max_bytes}")
        return Fetched(seen, content)

    def close(self) -> None:
        pass


def _name(path: Path) -> str:
    """A file's name as a text that can be stored; file systems allow bytes that are none."""
    return str(path).encode("utf-8", "backslashreplace").decode()


def _by_hash(content: bytes, version: str | None) -> Fetched:
    seen = hashlib.sha256(content).hexdigest()
    return Fetched(seen, None if seen == version else content)
