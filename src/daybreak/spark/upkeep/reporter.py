"""Writes the events of a run to its event log."""

from __future__ import annotations

import logging
import warnings
from contextlib import suppress
from dataclasses import dataclass

from daybreak.engine.engine import Engine
from daybreak.runtime.eventlog import EventLog
from daybreak.spark.declared.catalog import Catalog


@dataclass
class Reporter:
    """Adds to events of a query its class. Any thread may call it."""

    log: EventLog
    catalog: Catalog
    #: Whether a parked query or a stopped stream is a Python warning as well.
    warns: bool
    _engine: Engine | None = None

    def follow(self, engine: Engine) -> None:
        """From now on classes are those of an engine; before, as they are declared."""
        self._engine = engine

    def __call__(
        self,
        event: str,
        message: str,
        *,
        level: int = logging.INFO,
        query: str | None = None,
        **fields: object,
    ) -> None:
        about = {"query": query, "class": self._class_of(query), **fields}
        self.log.emit(event, message, level=level, fields=about)
        text = None
        if event == "parked":
            text = f"query {query!r} is parked: {fields.get('error')}; see run.failures"
        elif event == "stream-stopped":
            stream, error = fields.get("stream"), fields.get("error")
            text = f"stream {stream!r} stopped: {error}; see run.stopped_streams"
        if text is not None and self.warns:
            with suppress(RuntimeWarning):  # where warnings are errors, the end of the run raises
                warnings.warn(text, RuntimeWarning, stacklevel=2)

    def _class_of(self, query: str | None) -> str | None:
        network, engine = self.catalog.network, self._engine
        index = None if query is None else network.query_index.get(query)
        if index is not None and engine is None:
            return network.classes[network.class_of(index)].name
        classes = () if engine is None else engine.view.query_class
        # The catalog may be a moment ahead of the engine.
        if index is None or index >= len(classes):
            return None
        return network.classes[classes[index]].name
