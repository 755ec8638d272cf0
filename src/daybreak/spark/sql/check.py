"""Queries are checked before anything runs: does the SQL hold, and may it run on any cut?

A query is analysed over empty frames in a clone of the session, so no job starts and nothing is
registered where the user works. SQL and functions on DataFrames face the same rules
(``plan_rules``). Which operators are allowed, and why, is in ``allowlist``; which expressions, in
``determinism``.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from daybreak.model import ConfigError
from daybreak.model.errors import suggestion
from daybreak.model.specs import MODES, Mode
from daybreak.model.texts import refuse_surrogates
from daybreak.spark.log.event_time import Windowing
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.session import cloned
from daybreak.spark.sql.allowlist import Refused, Shape
from daybreak.spark.sql.catalyst import Catalyst, Plan, views_in
from daybreak.spark.sql.checked import CheckedQuery, Kind
from daybreak.spark.sql.composite import quoted
from daybreak.spark.sql.determinism import Determinism, moving
from daybreak.spark.sql.form_finder import FormFinder, self_band
from daybreak.spark.sql.forms import (
    Body,
    FunctionBody,
    OverRetained,
    OverRows,
    OverState,
    OverWindows,
    SqlBody,
)
from daybreak.spark.sql.functions import AnotherPlan, Function, Repeatable, called
from daybreak.spark.sql.lexer import moving_literal, without_semicolons
from daybreak.spark.sql.parser import analysed_frame, explaining, parsed_query
from daybreak.spark.sql.plan_rules import Analysed, PlanRules
from daybreak.spark.sql.streaming import StreamingChecker

#: What a mode asks of the rest of the pipeline, where the query is not the one to say.
_NEEDS: Mapping[Mode, str] = {
    "append": "",
    "update": ", with a sink that replaces rows by key",
    "complete": ", with retain on its streams",
}


class Checker:
    """Checks queries over one set of streams.

    Static tables and functions are those the session knows when the checker is made.
    """

    def __init__(
        self,
        spark: SparkSession,
        streams: Mapping[str, StructType],
        times: Mapping[str, str] | None = None,
        *,
        panes: bool = True,
        tables: Sequence[str] = (),
        watermarks: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        """``times``: the column with the event time, of each stream that declares one.

        ``panes``: whether long and overlapping windows are computed from partial aggregates.
        ``tables``: static ones whose rows may be replaced. ``watermarks``: the column with the
        event time and how late rows may be, of each stream that declares both.
        """
        self._streaming = StreamingChecker(spark, watermarks or {})
        self._tables = tables
        # Spark logs each analysis error with its whole stack; ours report the same in one line.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        names = {name.lower(): name for name in streams}
        if len(names) < len(streams):
            raise ConfigError("streams", "two names differ only in case", "rename one of them")
        self._session = cloned(spark)
        self._catalyst = Catalyst(self._session)
        self._rules = PlanRules(self._catalyst, Determinism(self._catalyst), names, times or {})
        self._frames: dict[str, DataFrame] = {}
        self._forms = FormFinder(self._session, self._catalyst, self._frames, panes)
        for name, schema in streams.items():
            self._add_frame(name, schema)

    def _add_frame(self, name: str, schema: StructType) -> None:
        if not name.isprintable():  # such names are for views of ours
            raise ConfigError(
                f"stream {name!r}", "has a control character in its name", "rename the stream"
            )
        if ARRIVAL in (column.lower() for column in schema.names):
            raise ConfigError(
                f"stream {name!r}", f"has a column {ARRIVAL}, which is ours", "rename that column"
            )
        self._frames[name] = _empty_frame(self._session, schema)
        self._frames[name].createOrReplaceTempView(quoted(name))

    def add_stream(self, name: str, schema: StructType, time: str | None) -> None:
        """Makes the rows of a view known under its name."""
        streams = {**self._rules.streams, name.lower(): name}
        times = self._rules.times if time is None else {**self._rules.times, name: time}
        self._rules = replace(self._rules, streams=streams, times=times)
        self._add_frame(name, schema)

    def sql(self, name: str, sql: str, place: str = "", mode: Mode | None = None) -> CheckedQuery:
        """Refuses the query with a ``ConfigError`` at ``place``, or tells what it reads."""
        place = place or f"query {name!r}"
        refuse_surrogates(sql, place, "its SQL")
        text = without_semicolons(self._session, sql)
        with explaining(place, self._rules.streams.values()):
            parsed = self._parsed(text)
            frame = analysed_frame(self._session, self._catalyst, parsed)
            literal = moving_literal(self._session, text)
            if literal:
                raise moving(literal)
            body = SqlBody(text, parsed)
            analysed = Analysed.of(frame)
            if mode == "complete":
                reads = tuple(sorted(self._rules.whole(analysed)))
                return CheckedQuery(name, reads, frame.schema, "complete", body, OverRetained())
            try:
                if mode == "update":
                    return self._stateful(name, body, mode)
                shape, windowing = self._rules.linear(analysed)
            except Refused as refused:
                if mode == "append":
                    try:
                        return self._stateful(name, body, mode)
                    except Refused as stateful:
                        refused = Refused(stateful.finding, stateful.remedy or refused.remedy)
                raise self._with_hint(refused, analysed, body, declared=mode) from None
            return self._linear(name, place, body, analysed, shape, windowing)

    def _linear(
        self,
        name: str,
        place: str,
        body: SqlBody,
        analysed: Analysed,
        shape: Shape,
        windowing: Windowing | None,
    ) -> CheckedQuery:
        """A query in SQL that any cut of rows or windows gives the same result of."""
        reads = tuple(sorted(shape.reads))
        if windowing is not None:
            anchored = self._forms.anchored(place, analysed.plan, body.parsed, windowing)
            body = replace(body, parsed=anchored)
            over = self._forms.over_windows(analysed, reads, windowing)
            return CheckedQuery(name, reads, analysed.schema, "window", body, over)
        kind: Kind = "filter" if shape.is_filter else "stateless"
        form = self._forms.over_rows(analysed, reads, body.parsed)
        return CheckedQuery(name, reads, analysed.schema, kind, body, form)

    def through(
        self,
        name: str,
        sql: str,
        place: str,
        views: Mapping[str, str],
        mode: Mode | None = None,
    ) -> CheckedQuery:
        """Checks a query over the streams below these views, each of which may name earlier ones.

        To the query a view is then a name for its SQL, no stream of its own.
        """
        kept, parsed = self._rules, {}
        below = {k: v for k, v in kept.streams.items() if v not in views}
        self._rules = replace(kept, streams=below)
        try:
            for view, text in views.items():
                parsed[view] = self._parsed(text)
                frame = self._catalyst.frame(parsed[view], self._session)
                frame.createOrReplaceTempView(quoted(view))
            checked = self.sql(name, sql, place, mode)
            body, form = checked.body, checked.form
            assert isinstance(body, SqlBody)
            analysed = self._catalyst.frame(body.parsed, self._session)
            used = views_in(analysed._jdf.queryExecution().analyzed())
            through = tuple((v, plan) for v, plan in parsed.items() if v.lower() in used)
            if isinstance(form, OverWindows):  # what runs with others reads the streams itself
                form = OverWindows(replace(form.windowing, pane_us=None))
            return replace(checked, body=replace(body, through=through), form=form)
        finally:
            self._rules = kept
            for view in parsed:
                self._frames[view].createOrReplaceTempView(quoted(view))

    def function(
        self,
        name: str,
        function: Function,
        reads: tuple[str, ...],
        place: str = "",
        mode: Mode | None = None,
    ) -> CheckedQuery:
        """Calls a query function with an empty frame of each stream; its plan faces all rules.

        ``mapInArrow`` and ``mapInPandas`` are taken as a promise: each row by itself.
        """
        place = place or f"query {name!r}"
        for stream in reads:
            if stream not in self._frames:
                raise ConfigError(
                    place, f"unknown stream {stream!r}", suggestion(stream, self._frames)
                )
        with explaining(place, self._rules.streams.values()):
            state = FunctionBody(function, None)
            if mode == "update" or (mode == "append" and not self._accepts(function, reads)):
                try:
                    return self._stateful(name, state, mode, reads)
                except Refused as refused:
                    with suppress(ConfigError):  # it may work on streaming frames alone
                        analysed = Analysed.of(self._called(function, reads, place))
                        refused = self._with_hint(refused, analysed, state, reads, mode)
                    raise refused from None
            analysed = Analysed.of(self._called(function, reads, place))
            windowing = None
            if mode == "complete":
                found = self._rules.whole(analysed)
            else:
                try:
                    shape, windowing = self._rules.linear(analysed)
                except Refused as refused:
                    raise self._with_hint(refused, analysed, state, reads) from None
                found = shape.reads
            _check_parameters(reads, found)
            if self_band(windowing) is not None:
                raise Refused(
                    "its function joins a stream with itself by a band of times",
                    "write this query in SQL",
                )
        body = FunctionBody(function, self._repeatable(function, reads, analysed.plan, place))
        if mode == "complete":
            return CheckedQuery(name, reads, analysed.schema, "complete", body, OverRetained())
        kind: Kind = "function" if windowing is None else "window"
        form = OverRows() if windowing is None else OverWindows(windowing)
        return CheckedQuery(name, reads, analysed.schema, kind, body, form)

    def _parsed(self, text: str) -> Plan:
        return parsed_query(self._session, self._catalyst, text)

    def _called(self, function: Function, reads: tuple[str, ...], place: str) -> DataFrame:
        schemas = {stream: self._frames[stream].schema for stream in reads}
        return called(function, self._session, schemas, place)

    def _repeatable(
        self, function: Function, reads: tuple[str, ...], plan: Plan, place: str
    ) -> Repeatable:
        """The plan that every call must give: a second one shows whether it does."""
        frames = {s: self._frames[s] for s in reads}
        frames |= {t: self._session.table(quoted(t)) for t in self._tables}
        leaves = {s: frame._jdf.queryExecution().analyzed() for s, frame in frames.items()}
        repeatable = Repeatable.of(self._catalyst, plan, leaves)
        try:
            repeatable.confirm(self._catalyst, self._called(function, reads, place))
        except AnotherPlan:
            raise ConfigError(
                place,
                "its function gives another plan when it is called again",
                "let it depend on nothing but its parameters; make frames of static rows outside",
            ) from None
        return repeatable

    def _accepts(self, function: Function, reads: tuple[str, ...]) -> bool:
        """Whether a function needs no state."""
        try:
            self.function("", function, reads)
        except ConfigError:
            return False
        return True

    def _stateful(
        self, name: str, body: Body, mode: Mode, reads: tuple[str, ...] = ()
    ) -> CheckedQuery:
        """A query that Spark's state store takes in this mode; ``Refused`` if it does not."""
        schemas = {stream: frame.schema for stream, frame in self._frames.items()}
        analysed = Analysed.of(self._streaming.frame(body, mode, schemas, reads))
        found = self._rules.reads(analysed)
        if reads:  # of a function
            _refuse_others(reads, found)
        reads = reads or tuple(sorted(found))
        form = OverState(mode, self._streaming.watermarks_of(reads))
        return CheckedQuery(name, reads, analysed.schema, "stateful", body, form)

    def _with_hint(
        self,
        refused: Refused,
        analysed: Analysed,
        body: Body,
        reads: tuple[str, ...] = (),
        declared: Mode | None = None,
    ) -> Refused:
        """A refusal that names the first mode that takes the query, or why complete does not."""
        for mode in MODES:
            if mode == declared:
                continue
            try:
                if mode == "complete":
                    self._rules.whole(analysed)
                else:
                    self._stateful("", body, mode, reads)
            except Refused as why:
                last = why
            else:
                remedy = f'declare mode = "{mode}"{_NEEDS[mode]}'
                return Refused(refused.finding, _either(refused.remedy, remedy))
        if last.finding == refused.finding:
            return last
        return Refused(
            f'{refused.finding}; mode = "complete" would not take it either: {last.finding}',
            _either(refused.remedy, f'{last.remedy}, and declare mode = "complete"'),
        )


def check_sql(
    spark: SparkSession, name: str, sql: str, streams: Mapping[str, StructType], place: str = ""
) -> CheckedQuery:
    """Checks one query; for many over the same streams keep a ``Checker``."""
    return Checker(spark, streams).sql(name, sql, place)


def check_function(
    spark: SparkSession,
    name: str,
    function: Function,
    streams: Mapping[str, StructType],
    place: str = "",
) -> CheckedQuery:
    """Checks one query function that takes a frame of each of ``streams``, in their order."""
    return Checker(spark, streams).function(name, function, tuple(streams), place)


def _either(one: str, other: str) -> str:
    return f"{one}; or {other}" if one else other


def _empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """As ``createDataFrame([], schema)``, which would make the session the thread's active one."""
    java = session._jsparkSession
    rows = getattr(session.sparkContext._jvm, "java.util.ArrayList")()
    return DataFrame(java.createDataFrame(rows, java.parseDataType(schema.json())), session)


def _check_parameters(reads: tuple[str, ...], found: frozenset[str]) -> None:
    """A function reads the streams that it is given: all of them, and no others."""
    unused = [stream for stream in reads if stream not in found]
    if unused:
        raise Refused(
            f"its function returns a frame that does not read stream {unused[0]!r}",
            "build the result from the frames it is given, or leave that parameter out",
        )
    _refuse_others(reads, found)


def _refuse_others(reads: tuple[str, ...], found: frozenset[str]) -> None:
    others = sorted(found - set(reads))
    if others:
        raise Refused(
            f"its function reads stream {others[0]!r}, which is none of its parameters",
            f"add a parameter {others[0]!r}",
        )
