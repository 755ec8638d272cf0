"""A query as declared: its check with Spark, and what it declares beside its SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import getsource, signature
from pathlib import Path

from daybreak.model.declarations import MEMORY
from daybreak.model.errors import ConfigError, Findings, suggestion
from daybreak.model.network import DEFAULT_CLASS, QueryClass
from daybreak.model.specs import QuerySpec, StreamSpec, ViewSpec
from daybreak.spark.declared.views import Views
from daybreak.spark.sinks.make import make_sink
from daybreak.spark.sinks.sink import Callback
from daybreak.spark.sql.check import Checker
from daybreak.spark.sql.checked import CheckedQuery
from daybreak.spark.sql.fingerprints import fingerprint, query_fingerprint
from daybreak.spark.sql.functions import Function
from daybreak.spark.sql.streaming import check_mode

__all__ = ["Callback", "DeclaredQuery", "Function"]


@dataclass(frozen=True)
class DeclaredQuery:
    """A query as declared: its spec, and where it is one, its function."""

    spec: QuerySpec
    function: Function | None = None
    callback: Callback | None = None

    def check(
        self, checker: Checker, views: Views, streams: Mapping[str, StreamSpec]
    ) -> CheckedQuery:
        """The query as it may run; ``ConfigError`` if it may not."""
        spec = self.spec
        if self.function is not None:
            reads = tuple(signature(self.function).parameters)
            checked = checker.function(spec.name, self.function, reads, spec.place, spec.mode)
        else:
            checked = views.check(spec.name, spec.sql or "", spec.place, spec.mode)
        check_mode(checked, spec, {**streams, **views.streams})
        return checked

    def check_beside(
        self,
        checked: CheckedQuery | None,
        classes: Mapping[str, QueryClass],
        folder: Path,
        found: Findings,
    ) -> None:
        """Finds what is wrong with its class and its sink."""
        spec = self.spec
        known = list(classes) or [DEFAULT_CLASS]
        if spec.cls not in known:
            finding = f"class {spec.cls!r} is not declared"
            found.add(ConfigError(spec.place, finding, suggestion(spec.cls, known)))
        with found.gathering():
            make_sink(
                spec.name, spec.sink or MEMORY, folder, Path("staging"),
                place=spec.place, callback=self.callback,
                schema=None if checked is None else checked.arrow_schema(),
                mode=spec.mode,
            )  # fmt: skip

    def fingerprint(self, checked: CheckedQuery, views: Mapping[str, ViewSpec]) -> str:
        """Changes when the query's meaning may have: its SQL, or the text of its function."""
        spec = self.spec
        if self.function is not None:
            try:
                text = getsource(self.function)
            except OSError:  # typed into a console: no text to compare
                text = self.function.__qualname__
            return fingerprint(f"{spec.mode or ''}{text}")
        # A query that reads through views holds their SQL, too.
        return query_fingerprint(spec, *(views[name].sql for name in checked.reads_through))
