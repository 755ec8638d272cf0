"""Where objects come from: HTTP with validators, a SQL table, files. One small adapter each."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

from daybreak.freshness.keep.config import KeepConfig, SourceConfig
from daybreak.model.errors import ConfigError, DaybreakError

if TYPE_CHECKING:
    from sqlalchemy import Engine


@dataclass(frozen=True, slots=True)
class Listed:
    """An object a source has, and the host that must not be asked too often for it."""

    name: str
    host: str


@dataclass(frozen=True, slots=True)
class Fetched:
    """What a visit found; ``content`` is None if it is the same as at the last visit."""

    version: str
    content: bytes | None


class SourceError(DaybreakError):
    """A visit that told nothing about the object: try again later."""

    def __init__(self, reason: str, retry_after_s: float | None = None) -> None:
        self.reason = reason
        #: The host's own wish, which holds for all its objects.
        self.retry_after_s = retry_after_s
        super().__init__(reason)


class Source(Protocol):
    """A place that objects are copied from. Called by one thread."""

    def objects(self) -> Iterable[Listed]:
        """All objects there are now; called at the start and before every new plan."""
        ...

    def fetch(self, name: str, version: str | None) -> Fetched:
        """Visits one object; ``version`` is what the last visit returned, None at the first.

        Raises SourceError if nothing could be learnt.
        """
        ...

    def close(self) -> None:
        """Lets go of connections; called once, last."""
        ...


def make_sources(config: KeepConfig) -> dict[str, Source]:
    """The declared sources by name."""
    return {name: _make(config, source, name) for name, source in config.sources.items()}


def _make(config: KeepConfig, source: SourceConfig, name: str) -> Source:
    if source.kind == "http":
        urls = list(source.urls)
        if source.urls_file is not None:
            path = config.path(source.urls_file)
            if not path.is_file():
                raise ConfigError(f"sources.{name}", f"{path} is no file", "mend urls_file")
            lines = path.read_text(encoding="utf-8").split()
            urls += [line for line in lines if not line.startswith("#")]
        return HttpSource(urls, config.mirror.timeout_s)
    if source.kind == "sql":
        return SqlSource(str(source.url), str(source.table), str(source.key))
    return FileSource(config.path(str(source.path)), source.pattern)


class HttpSource:
    """Objects are URLs. Asks with If-None-Match and If-Modified-Since; heeds Retry-After."""

    def __init__(self, urls: Iterable[str], timeout_s: float) -> None:
        self.urls = tuple(dict.fromkeys(urls))
        self.timeout_s = timeout_s
        for url in self.urls:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                raise ConfigError("urls", f"{url!r} is no http or https URL", "mend it")

    def objects(self) -> Iterable[Listed]:
        return [Listed(url, urlsplit(url).netloc) for url in self.urls]

    def fetch(self, name: str, version: str | None) -> Fetched:
        known: dict[str, str] = json.loads(version) if version else {}
        headers = {"User-Agent": "daybreak-mirror"}
        if "etag" in known:
            headers["If-None-Match"] = known["etag"]
        if "modified" in known:
            headers["If-Modified-Since"] = known["modified"]
        parts = urlsplit(name)
        kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        connection = kind(str(parts.hostname), parts.port, timeout=self.timeout_s)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request("GET", target, headers=headers)
            response = connection.getresponse()
            body = response.read()
        except (OSError, HTTPException) as error:
            raise SourceError(f"no answer ({type(error).__name__}: {error})") from error
        finally:
            connection.close()
        return self._judge(response, body, version)

    def close(self) -> None:
        pass

    @staticmethod
    def _judge(response: HTTPResponse, body: bytes, version: str | None) -> Fetched:
        if response.status == 304 and version:
            return Fetched(version, None)
        if response.status != 200:
            moved = response.headers.get("Location")
            reason = f"status {response.status}" + (f", moved to {moved}" if moved else "")
            raise SourceError(reason, _retry_after_s(response))
        seen = {"hash": hashlib.sha256(body).hexdigest()}
        for key, header in (("etag", "ETag"), ("modified", "Last-Modified")):
            if value := response.headers.get(header):
                seen[key] = value
        # Many servers send the same page with another validator: only the content counts.
        same = version is not None and json.loads(version)["hash"] == seen["hash"]
        return Fetched(json.dumps(seen), None if same else body)


def _retry_after_s(response: HTTPResponse) -> float | None:
    """Retry-After as seconds, whether given so or as a date (relative to the answer's Date)."""
    wish = response.headers.get("Retry-After")
    if wish is None:
        return None
    if wish.strip().isdigit():
        return float(wish)
    try:
        until = parsedate_to_datetime(wish)
        said = response.headers.get("Date")
        at = parsedate_to_datetime(said) if said else datetime.now(UTC)
    except (TypeError, ValueError):
        return None
    return max(0.0, (until - at).total_seconds())


class SqlSource:
    """Objects are the rows of one table; a row's content is its columns as JSON."""

    def __init__(self, url: str, table: str, key: str) -> None:
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
            raise ConfigError("sources", f"{table} has no column {key}", "mend key") from error
        except (sa.exc.SQLAlchemyError, ImportError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError("sources", f"{table}: {reason}", "mend url or table") from error
        self.host = self.engine.url.host or "local database"
        self.keys: dict[str, Any] = {}

    def objects(self) -> Iterable[Listed]:
        try:
            with self.engine.connect() as connection:
                rows = connection.execute(self.sa.select(self.key).order_by(self.key)).scalars()
                self.keys = {f"{self.table.name}/{value}": value for value in rows}
        except self.sa.exc.SQLAlchemyError as error:
            raise SourceError(str(error).splitlines()[0]) from error
        return [Listed(name, self.host) for name in self.keys]

    def fetch(self, name: str, version: str | None) -> Fetched:
        statement = self.sa.select(self.table).where(self.key == self.keys.get(name))
        try:
            with self.engine.connect() as connection:
                row = connection.execute(statement).mappings().first()
        except self.sa.exc.SQLAlchemyError as error:
            raise SourceError(str(error).splitlines()[0]) from error
        if row is None:
            raise SourceError("the row is gone")
        content = json.dumps(dict(row), default=str, sort_keys=True).encode()
        return _by_hash(content, version)

    def close(self) -> None:
        self.engine.dispose()


class FileSource:
    """Objects are files; unchanged while size and time of change are the same."""

    def __init__(self, folder: Path, pattern: str) -> None:
        if not folder.is_dir():
            raise ConfigError("sources", f"{folder} is no folder", "mend path")
        self.folder, self.pattern = folder, pattern

    def objects(self) -> Iterable[Listed]:
        found = sorted(p for p in self.folder.glob(self.pattern) if p.is_file())
        return [Listed(str(p.relative_to(self.folder)), "files") for p in found]

    def fetch(self, name: str, version: str | None) -> Fetched:
        path = self.folder / name
        try:
            stat = path.stat()
            seen = f"{stat.st_size}/{stat.st_mtime_ns}"
            return Fetched(seen, None if seen == version else path.read_bytes())
        except OSError as error:
            raise SourceError(f"cannot be read ({error.strerror})") from error

    def close(self) -> None:
        pass


def _by_hash(content: bytes, version: str | None) -> Fetched:
    seen = hashlib.sha256(content).hexdigest()
    return Fetched(seen, None if seen == version else content)
