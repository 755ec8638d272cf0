"""Queries are checked before anything runs: does the SQL hold, and may it run on any cut?

A query is analysed over empty frames in a clone of the session, so no job starts and nothing is
registered where the user works. SQL and functions on DataFrames face the same rules. Which
operators are allowed, and why, is in ``allowlist``; which expressions, in ``determinism``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Literal

import pyarrow as pa
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
)
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from daybreak.model import ConfigError
from daybreak.model.errors import suggestion
from daybreak.model.specs import MODES, Mode
from daybreak.spark.event_time import ANCHORS, Band, Windowing
from daybreak.spark.failures import one_line
from daybreak.spark.log.tables import ARRIVAL
from daybreak.spark.sql.allowlist import (
    Refused,
    Shape,
    shape_of,
    streams_in,
    subqueries_read,
)
from daybreak.spark.sql.catalyst import Catalyst, Plan, listed, views_in
from daybreak.spark.sql.columns import check_columns
from daybreak.spark.sql.composite import plain_schema, quoted, take_apart
from daybreak.spark.sql.determinism import OPTIMIZER, Determinism, moving
from daybreak.spark.sql.forms import (
    Body,
    Composable,
    Form,
    FunctionBody,
    OverRetained,
    OverRows,
    OverState,
    OverWindows,
    PanedAggregate,
    SqlBody,
    WindowAggregate,
)
from daybreak.spark.sql.functions import AnotherPlan, Function, Repeatable, called
from daybreak.spark.sql.lexer import moving_literal, without_semicolons
from daybreak.spark.sql.messages import first_line, position_in
from daybreak.spark.sql.plan_nodes import Node, parse_plan
from daybreak.spark.sql.streaming import StreamingChecker
from daybreak.spark.sql.windows.aggregate import take_apart as take_aggregate
from daybreak.spark.sql.windows.check import windowing_of
from daybreak.spark.sql.windows.pane_plans import panes_of
from daybreak.spark.sql.windows.parsed import window_fault, with_anchors, without_join_windows

#: "filter": conditions and expressions over one stream, at most one row out per row in.
#: "stateless": also joins with static tables, unions, generators, subqueries.
#: "window": aggregates, joins and set operations over windows of event time.
#: "function": a Python function on DataFrames whose rows stand alone.
#: "stateful": a streaming query of Spark's; "complete": any query, over all that is retained.
Kind = Literal["filter", "stateless", "window", "function", "stateful", "complete"]


@dataclass(frozen=True)
class CheckedQuery:
    """A query that may run."""

    name: str
    #: The streams it reads, sorted; static tables are not among them.
    reads: tuple[str, ...]
    #: The columns of its result.
    schema: StructType
    kind: Kind
    body: Body
    #: How its rows are computed, and with which others.
    form: Form = field(default_factory=OverRows)

    def arrow_schema(self) -> pa.Schema:
        """What its result looks like as Arrow."""
        return plain_schema(to_arrow_schema(self.schema, timezone="UTC"))

    @property
    def windows(self) -> Windowing | None:
        """Its windows; None where each row stands alone."""
        return self.form.windowing if isinstance(self.form, OverWindows) else None

    @property
    def sink_mode(self) -> Mode | None:
        """What its sink is given; None: rows that are added, each once."""
        match self.form:
            case OverState(mode="update"):
                return "update"
            case OverRetained():
                return "complete"
        return None

    @property
    def is_whole(self) -> bool:
        """Whether each result replaces the one before: complete mode."""
        return isinstance(self.form, OverRetained)

    @property
    def reads_through(self) -> tuple[str, ...]:
        """The views that it reads through to their streams."""
        return tuple(v for v, _ in self.body.through) if isinstance(self.body, SqlBody) else ()


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
        self._times = times or {}
        self._with_panes = panes
        # Spark logs each analysis error with its whole stack; ours report the same in one line.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        self._streams = {name.lower(): name for name in streams}
        if len(self._streams) < len(streams):
            raise ConfigError("streams", "two names differ only in case", "rename one of them")
        # newSession() would lose the temporary views and functions; a clone has its own copies.
        self._session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        self._catalyst = Catalyst(self._session)
        self._determinism = Determinism(self._catalyst)
        self._frames: dict[str, DataFrame] = {}
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
        self._streams[name.lower()] = name
        self._times = {**self._times, **({name: time} if time is not None else {})}
        self._add_frame(name, schema)

    def sql(self, name: str, sql: str, place: str = "", mode: Mode | None = None) -> CheckedQuery:
        """Refuses the query with a ``ConfigError`` at ``place``, or tells what it reads."""
        place = place or f"query {name!r}"
        _refuse_surrogates(sql, place)
        text = without_semicolons(self._session, sql)
        with self._explaining(place):
            parsed = self._parsed(text)
            frame = self._analysed(parsed)
            literal = moving_literal(self._session, text)
            if literal:
                raise moving(literal)
            if mode == "complete":
                read, whole = tuple(sorted(self._any(frame))), OverRetained()
                body = SqlBody(text, parsed)
                return CheckedQuery(name, read, frame.schema, "complete", body, whole)
            body = SqlBody(text, parsed)
            if mode == "update":
                return self._stateful(name, body, mode)
            try:
                plan, shape, windowing = self._allowed(frame)
            except Refused as refused:
                if mode == "append":
                    with suppress(Refused):
                        return self._stateful(name, body, mode)
                raise self._with_hint(refused, frame, body) from None
        reads = tuple(sorted(shape.reads))
        if windowing is not None:
            parsed = self._anchored(place, plan, parsed, windowing)
            over = self._over_windows(plan, reads, windowing)
            return CheckedQuery(name, reads, frame.schema, "window", SqlBody(text, parsed), over)
        kind: Kind = "filter" if shape.is_filter else "stateless"
        alone = len(reads) > 1 or plan.subqueriesAll().size()
        form = OverRows() if alone else self._over_rows(plan, reads[0], parsed)
        return CheckedQuery(name, reads, frame.schema, kind, SqlBody(text, parsed), form)

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
        kept, parsed = self._streams, {}
        self._streams = {k: v for k, v in kept.items() if v not in views}
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
            self._streams = kept
            for view in parsed:
                self._frames[view].createOrReplaceTempView(quoted(view))

    def _allowed(self, frame: DataFrame) -> tuple[Plan, Shape, Windowing | None]:
        """The analysed plan of a frame, what it does and its windows; ``Refused`` if it may not."""
        plan = frame._jdf.queryExecution().analyzed()
        inner = listed(plan.subqueriesAll())
        trees = [parse_plan(part.toJSON()) for part in (plan, *inner)]
        try:
            shape = shape_of(trees[0], trees[1:], self._streams, self._times)
        except Refused as refused:
            joins = self._as_joins(plan, trees)
            if joins is None:
                raise
            try:
                shape = shape_of(joins[0], joins[1:], self._streams, self._times)
            except Refused:
                raise refused from None
        if not shape.reads:
            raise Refused("reads no stream", suggestion("", self._streams.values()))
        self._determinism.check([plan, *inner], trees)
        check_columns(frame.schema)
        return plan, shape, windowing_of(shape, frame.schema.names, self._times)

    def _as_joins(self, plan: Plan, trees: list[Node]) -> list[Node] | None:
        """The plan with IN and EXISTS over streams as the semi and anti joins that Spark makes.

        None where no subquery reads a stream. Whether such joins keep to windows is then asked as
        of any other; what runs is the query as written.
        """
        if not subqueries_read(trees[0], trees[1:], self._streams):
            return None
        try:
            for rule in ("PullupCorrelatedPredicates", "RewritePredicateSubquery"):
                plan = self._catalyst.scala_object(f"{OPTIMIZER}.{rule}").apply(plan)
        except (PySparkException, Py4JError):
            return None
        inner = listed(plan.subqueriesAll())
        return [parse_plan(part.toJSON()) for part in (plan, *inner)]

    def _stateful(
        self, name: str, body: Body, mode: Mode, reads: tuple[str, ...] = ()
    ) -> CheckedQuery:
        """A query that Spark's state store takes in this mode; ``Refused`` if it does not."""
        schemas = {stream: frame.schema for stream, frame in self._frames.items()}
        frame = self._streaming.frame(body, mode, schemas, reads)
        read = self._any(frame)
        others = sorted(read - set(reads)) if reads else []
        if others:
            raise _undeclared(others[0])
        found = reads or tuple(sorted(read))
        form = OverState(mode, self._streaming.watermarks_of(found))
        return CheckedQuery(name, found, frame.schema, "stateful", body, form)

    def _with_hint(
        self, refused: Refused, frame: DataFrame, body: Body, reads: tuple[str, ...] = ()
    ) -> Refused:
        """A refusal that names the first mode that would take the query."""
        for mode in MODES:
            with suppress(Refused, PySparkException, Py4JError):
                if mode == "complete":
                    self._any(frame)
                else:
                    self._stateful("", body, mode, reads)
                return Refused(refused.finding, f'{refused.remedy}; or declare mode = "{mode}"')
        return refused

    def _any(self, frame: DataFrame) -> frozenset[str]:
        """The streams that any deterministic query reads; ``Refused`` if it is not one."""
        trees = self._repeatable(frame)
        reads = streams_in(trees[0], trees[1:], self._streams)
        if not reads:
            raise Refused("reads no stream", suggestion("", self._streams.values()))
        return reads

    def _repeatable(self, frame: DataFrame) -> list[Node]:
        """The plan and its subqueries; ``Refused`` if they give other rows each time."""
        plan = frame._jdf.queryExecution().analyzed()
        inner = listed(plan.subqueriesAll())
        trees = [parse_plan(part.toJSON()) for part in (plan, *inner)]
        self._determinism.check([plan, *inner], trees)
        check_columns(frame.schema)
        return trees

    @contextmanager
    def _explaining(self, place: str) -> Iterator[None]:
        """What is not allowed, and what Spark refuses, as errors of the user's."""
        try:
            yield
        except Refused as refused:
            raise ConfigError(place, refused.finding, refused.remedy) from None
        except (AnalysisException, ParseException, IllegalArgumentException) as error:
            raise self._explained(place, error) from None
        except Py4JJavaError as error:  # not all of Spark's errors have a class in Python
            raise ConfigError(
                place, f"is refused by Spark, {one_line(error)}", "correct it"
            ) from None

    def _analysed(self, parsed: Plan) -> DataFrame:
        try:
            return self._catalyst.frame(parsed, self._session)
        except (PySparkException, Py4JJavaError):
            fault = window_fault(parsed)
            if fault is None:
                raise
            raise Refused(*fault) from None

    def _over_rows(self, plan: Plan, stream: str, parsed: Plan) -> OverRows:
        """The query taken apart, if it can run together with others."""

        def analyse(read: Plan) -> Plan:
            return self._catalyst.frame(read, self._session)._jdf.queryExecution().analyzed()

        try:
            parts = take_apart(self._catalyst, plan, stream, parsed, analyse)
        except (PySparkException, Py4JError):  # what it reads is no query by itself
            return OverRows()
        return OverRows() if parts is None else Composable(parts)

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
        with self._explaining(place):
            schemas = {stream: self._frames[stream].schema for stream in reads}
            if mode == "update" or (mode == "append" and not self._accepts(function, reads)):
                return self._stateful(name, FunctionBody(function, None), mode, reads)
            frame = called(function, self._session, schemas, place)
            plan, windowing = frame._jdf.queryExecution().analyzed(), None
            if mode == "complete":
                found = self._any(frame)
            else:
                try:
                    plan, shape, windowing = self._allowed(frame)
                except Refused as refused:
                    body = FunctionBody(function, None)
                    raise self._with_hint(refused, frame, body, reads) from None
                found = shape.reads
            unused = [stream for stream in reads if stream not in found]
            if unused:
                raise Refused(
                    f"its function returns a frame that does not read stream {unused[0]!r}",
                    "build the result from the frames it is given, or leave that parameter out",
                )
            others = sorted(found - set(reads))
            if others:
                raise _undeclared(others[0])
            if windowing is not None and _is_self_band(windowing):
                raise Refused(
                    "its function joins a stream with itself by a band of times",
                    "write this query in SQL",
                )
        frames = {s: self._frames[s] for s in reads}
        frames |= {t: self._session.table(quoted(t)) for t in self._tables}
        leaves = {s: frame._jdf.queryExecution().analyzed() for s, frame in frames.items()}
        repeatable = Repeatable.of(self._catalyst, plan, leaves)
        try:
            repeatable.confirm(self._catalyst, called(function, self._session, schemas, place))
        except AnotherPlan:
            raise ConfigError(
                place,
                "its function gives another plan when it is called again",
                "let it depend on nothing but its parameters; make frames of static rows outside",
            ) from None
        body = FunctionBody(function, repeatable)
        if mode == "complete":
            return CheckedQuery(name, reads, frame.schema, "complete", body, OverRetained())
        kind: Kind = "function" if windowing is None else "window"
        form = OverRows() if windowing is None else OverWindows(windowing)
        return CheckedQuery(name, reads, frame.schema, kind, body, form)

    def _accepts(self, function: Function, reads: tuple[str, ...]) -> bool:
        """Whether a function needs no state."""
        try:
            self.function("", function, reads)
        except ConfigError:
            return False
        return True

    def _over_windows(
        self, plan: Plan, reads: tuple[str, ...], windowing: Windowing
    ) -> OverWindows:
        """The query as an aggregate over windows, and as one of panes, if it is such a one."""
        alone = OverWindows(windowing)
        # A subquery over a static table is resolved for each job.
        if len(reads) > 1 or plan.subqueriesAll().size():
            return alone
        try:
            aggregate = take_aggregate(self._catalyst, plan, reads[0], windowing)
            if aggregate is None:
                return alone
            alone = WindowAggregate(windowing, aggregate)
            if not self._with_panes:
                return alone
            row = self._frames[reads[0]].schema
            panes = panes_of(aggregate, self._catalyst, self._session, row)
        except (PySparkException, Py4JError):  # not made of parts that stand alone: over rows
            return alone
        if panes is None:
            return alone
        return PanedAggregate(replace(windowing, pane_us=panes.width_us), aggregate, panes)

    def _anchored(self, place: str, plan: Plan, parsed: Plan, windowing: Windowing) -> Plan:
        """The query to run: a stream that is joined with itself by a band needs two names."""
        band = windowing.over
        if not isinstance(band, Band) or not _is_self_band(windowing):
            return parsed
        view = f"{ANCHORS}{band.anchor}"
        self._frames[band.anchor].createOrReplaceTempView(quoted(view))
        new = with_anchors(self._catalyst, parsed, band.anchor, view, on_right=band.on_right)
        again = None if new is None else self._catalyst.frame(new, self._session)
        if again is None or not plan.sameResult(again._jdf.queryExecution().analyzed()):
            raise ConfigError(
                place,
                f"joins stream {band.anchor!r} with itself in a way that cannot be taken apart",
                "name the stream on both sides of the one join: FROM s a JOIN s b ON ...",
            )
        return new

    def _parsed(self, text: str) -> Plan:
        """What Spark's parser makes of the text, with windows in joins spelt out.

        Parsed as a query: a command would run as soon as it is analysed.
        """
        parser = self._session._jsparkSession.sessionState().sqlParser()
        try:
            parsed = parser.parseQuery(text)
        except ParseException as error:
            command = re.match(r"\s*(\w+)", text)
            word = command[1].upper() if command else ""
            if position_in(str(error)) == (1, 1) and word not in ("SELECT", "WITH", "FROM", ""):
                raise Refused(
                    f"does not begin as a query but with {word!r}", "write a SELECT"
                ) from error
            raise
        plain = without_join_windows(self._catalyst, parsed, parser)
        if plain is None:
            raise Refused(
                "has window(...) in a join's condition, with more than a column and a length",
                "select it on both sides, (SELECT *, window(...) AS w FROM a) x, and join on x.w",
            )
        return plain

    def _explained(self, place: str, error: PySparkException) -> ConfigError:
        message = first_line(str(error))
        at = position_in(str(error))
        where = f"line {at[0]}, column {at[1]}: " if at else ""
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            named = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
            return ConfigError(
                place,
                f"{where}unknown stream {named!r}",
                suggestion(named, self._streams.values()),
            )
        named = (error.getMessageParameters() or {}).get("objectName", "")
        remedy = "correct it"
        if named.startswith("`window`"):  # what it does not resolve is the call of window(...)
            remedy += "; window(...) takes a TIMESTAMP and literal durations"
        return ConfigError(place, f"its SQL is refused by Spark, {where}{message}", remedy)


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


def _empty_frame(session: SparkSession, schema: StructType) -> DataFrame:
    """As ``createDataFrame([], schema)``, which would make the session the thread's active one."""
    java = session._jsparkSession
    rows = getattr(session.sparkContext._jvm, "java.util.ArrayList")()
    return DataFrame(java.createDataFrame(rows, java.parseDataType(schema.json())), session)


def _refuse_surrogates(sql: str, place: str) -> None:
    try:
        sql.encode()
    except UnicodeEncodeError as error:
        raise ConfigError(
            place, f"character {error.start + 1} of its SQL is half of one", "correct it"
        ) from None


def _undeclared(stream: str) -> Refused:
    return Refused(
        f"its function reads stream {stream!r}, which is none of its parameters",
        f"add a parameter {stream!r}",
    )


def _is_self_band(windowing: Windowing) -> bool:
    band = windowing.over
    return isinstance(band, Band) and band.anchor == band.partner
