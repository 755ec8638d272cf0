"""The texts' class-aware dissemination module: results of many queries over one link.

An engine hands every query's results to one ``LinkSink``; the link decides which of them a
remote subscriber gets when not all fit. It knows nothing of Spark: rows are plain mappings.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from daybreak.links.counters import SenderCounters
from daybreak.model.errors import ConfigError, suggestion


class ResultRows(Protocol):
    """A table of results, such as one of pyarrow."""

    def to_pylist(self) -> list[dict[str, Any]]: ...


class Sender(Protocol):
    """What a sink needs of a `LinkSender`."""

    def offer(self, cls: str, payload: bytes, created_ns: int | None = None) -> None: ...

    def counters(self) -> dict[str, SenderCounters]: ...


class LinkSink:
    """Sends rows as JSON, each in the class of its query.

    ``write`` never waits for the network and never fails because of it: what the link cannot
    carry in time is dropped by its scheduler and shows in ``counters``.
    """

    def __init__(self, sender: Sender, class_of: Mapping[str, str]) -> None:
        known = sender.counters()
        for query, cls in class_of.items():
            if cls not in known:
                raise ConfigError(
                    f"query {query!r}",
                    f"link class {cls!r} is not declared",
                    suggestion(cls, known),
                )
        self._sender = sender
        self._class_of = dict(class_of)

    def of(self, query: str) -> Callable[[ResultRows, str], int]:
        """The sink of one query, as `daybreak.App` takes it: a function of rows and a key.

        The key travels with every row: an engine that repeats rows after a crash repeats it,
        so a subscriber can tell.
        """
        self._class(query)

        def deliver(rows: ResultRows, key: str) -> int:
            return self.write(query, rows.to_pylist(), key=key)

        return deliver

    def write(
        self,
        query: str,
        rows: Iterable[Mapping[str, Any]],
        created_ns: int | None = None,
        key: str | None = None,
    ) -> int:
        """Offers the rows of one result; deadlines count from ``created_ns``. Returns how many.

        ``created_ns`` is by the sender's clock, say when the newest input row arrived.
        """
        cls = self._class(query)
        about = {"query": query} if key is None else {"query": query, "key": key}
        count = 0
        for row in rows:
            text = json.dumps({**about, "row": dict(row)}, default=str, ensure_ascii=False)
            self._sender.offer(cls, text.encode(), created_ns)
            count += 1
        return count

    def _class(self, query: str) -> str:
        cls = self._class_of.get(query)
        if cls is None:
            raise ConfigError(
                f"query {query!r}", "has no link class", suggestion(query, self._class_of)
            )
        return cls

    def counters(self) -> dict[str, SenderCounters]:
        """Per class, what was delivered, dropped, and is on its way."""
        return self._sender.counters()
