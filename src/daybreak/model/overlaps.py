"""Folders that sinks, sources and the run directory must not share.

A sink owns its folder: it deletes from the staging folder inside, and readers take every file for a
result. Paths are compared as the file system resolves them, links included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote, urlsplit

from daybreak.model.errors import ConfigError
from daybreak.model.specs import QuerySpec, StreamSpec
from daybreak.model.texts import refuse_surrogates

#: Folder of a sink in which results wait for their commit.
STAGING = "_staging"
#: The file in it that the run holds locked whose results these are.
LOCK = "lock"
_GLOB = frozenset("*?[{")


def refuse_overlaps(
    queries: Iterable[QuerySpec],
    streams: Iterable[StreamSpec],
    folder: Path,
    run_dir: Path | None = None,
    store: Path | None = None,
) -> None:
    """``ConfigError`` if a sink's folder is, holds or lies in one that is used otherwise.

    Others are the folders of sinks and file sources, and the run directory. ``folder``: what
    relative paths are relative to. ``run_dir`` and ``store`` are left out where they are not known.
    """
    claimed = _Claims()
    if run_dir is not None:
        claimed.add(_resolved(run_dir, "run directory"), "the run directory")
    if store is not None:
        claimed.add(_resolved(store, "App.store"), "the store")
    for stream in streams:
        path = source_folder(stream, folder)
        if path is not None:
            claimed.add(path, f"the source of stream {stream.name!r}")
    for query in queries:
        path = _sink(query, folder)
        if path is None:
            continue
        finding = f"is named {STAGING}" if STAGING in path.parts else claimed.conflict(path)
        if finding is not None:
            assert query.sink is not None
            raise ConfigError(
                query.place or f"query {query.name!r}",
                f"sink {query.sink.path!r} {finding}",
                "give each query a folder of its own, outside of all others",
            )
        claimed.add(path, f"that of query {query.name!r}")


class _Claims:
    """Who uses which folder; looked up by the folder itself and by all above it."""

    def __init__(self) -> None:
        self._owners: dict[Path, str] = {}
        self._above: dict[Path, str] = {}

    def add(self, path: Path, owner: str) -> None:
        self._owners.setdefault(path, owner)
        for parent in path.parents:
            self._above.setdefault(parent, owner)

    def conflict(self, path: Path) -> str | None:
        """How a folder overlaps with one that is claimed, if it does."""
        if path in self._owners:
            return f"is already {self._owners[path]}"
        for parent in path.parents:
            if parent in self._owners:
                return f"lies in {self._owners[parent]}"
        return f"holds {self._above[path]}" if path in self._above else None


def _sink(query: QuerySpec, folder: Path) -> Path | None:
    path = query.sink.path if query.sink is not None else None
    if not path or "://" in path:  # refused by the sink itself
        return None
    return _resolved(folder / path, query.place or f"query {query.name!r}")


def source_folder(stream: StreamSpec, folder: Path) -> Path | None:
    """The folder a stream is read from, if its source has one on this machine."""
    options: Mapping[str, str] = {key.lower(): value for key, value in stream.options.items()}
    path = options.get("path")
    if not path:
        return None
    if path.startswith("file:"):
        path = unquote(urlsplit(path).path)
    elif "://" in path:
        return None
    found = _resolved(folder / path, f"stream {stream.name!r}")
    if found.exists():
        return found
    return Path(*takewhile(lambda part: not _GLOB & set(part), found.parts))


def _resolved(path: Path, place: str) -> Path:
    refuse_surrogates(str(path), place, "its path")
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a null character
        raise ConfigError(place, f"path {str(path)!r}: {error}", "choose another path") from error
