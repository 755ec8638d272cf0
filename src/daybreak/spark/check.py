"""Queries are checked before anything runs: does the SQL hold, and may it run on any cut?

The SQL is analysed over empty frames in a clone of the session, so no job starts and nothing is
registered where the user works. Which operators are allowed, and why, is in ``allowlist``; here
are the expressions: each must give the same value for the same row, whenever and wherever it is
computed. Spark knows that of most (``deterministic``). Three kinds it folds to a constant when a
job is planned, so it calls them deterministic, but another job gets another constant: the clock
and the session (``CURRENT_LIKE`` in Spark's words), texts such as 'now' that are cast to a time,
and ``aes_encrypt`` with its random vector.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from daybreak.model import ConfigError
from daybreak.model.errors import suggestion
from daybreak.spark.allowlist import Node, Refused, parse_plan, shape_of
from daybreak.spark.composite import Parts, quoted, take_apart
from daybreak.spark.fromclause import from_clause
from daybreak.spark.windows.aggregate import Aggregate
from daybreak.spark.windows.aggregate import take_apart as take_aggregate
from daybreak.spark.windows.check import windowing_of
from daybreak.spark.windows.panes import Panes, panes_of
from daybreak.spark.windows.rewrite import with_anchors, without_join_windows
from daybreak.spark.windows.times import ANCHORS, Band, Windowing

#: "filter": conditions and expressions over one stream, at most one row out per row in.
#: "stateless": also joins with static tables, unions, generators, subqueries.
#: "window": aggregates, joins and set operations over windows of event time.
#: "function": a Python function on DataFrames, opaque.
Kind = Literal["filter", "stateless", "window", "function"]

_CATALYST = "org.apache.spark.sql.catalyst"
_SAME_ROW = "the same row would give another result in another job"
#: A typed literal is a constant already when the text is parsed.
_MOVING_LITERAL = re.compile(
    r"\b(?:date|timestamp(?:_[ln]tz)?)\s*['\"]\s*(now|today|tomorrow|yesterday)\b", re.IGNORECASE
)
_POSITION = re.compile(r"line (\d+),? pos (\d+)")


@dataclass(frozen=True)
class CheckedQuery:
    """A query that may run."""

    name: str
    #: The streams it reads, sorted; static tables are not among them.
    reads: tuple[str, ...]
    #: The columns of its result.
    schema: StructType
    kind: Kind
    #: Its text without a closing semicolon, fit to be put in parentheses on lines of its own.
    sql: str | None = None
    #: For a filter, or a join with static tables, that can run together with others.
    parts: Parts | None = None
    #: For a query over windows.
    windowing: Windowing | None = None
    #: For an aggregate over windows that can run together with others.
    aggregate: Aggregate | None = None
    #: For one that is computed from partial aggregates.
    panes: Panes | None = None

    @property
    def kin(self) -> str | None:
        """What queries that can run as one job have in common; None for one that runs alone."""
        if self.parts is not None:
            return self.parts.kin
        if self.aggregate is None:
            return None
        return self.aggregate.kin + (" from panes" if self.panes is not None else "")


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
    ) -> None:
        """``times``: the column with the event time, of each stream that declares one.

        ``panes``: whether long and overlapping windows are computed from partial aggregates.
        """
        self._times = times or {}
        self._with_panes = panes
        # Spark logs each analysis error with its whole stack; ours say the same in one line.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        self._streams = {name.lower(): name for name in streams}
        if len(self._streams) < len(streams):
            raise ConfigError("streams", "two names differ only in case", "rename one of them")
        # newSession() would lose the temporary views and functions; a clone has its own copies.
        self._session = SparkSession(spark.sparkContext, spark._jsparkSession.cloneSession())
        jvm: Any = spark.sparkContext._jvm
        rules = f"{_CATALYST}.optimizer"
        self._replace_expressions = _scala_object(jvm, f"{rules}.ReplaceExpressions")
        self._special_values = _scala_object(jvm, f"{rules}.SpecialDatetimeValues")
        self._current_like = getattr(jvm, f"{_CATALYST}.trees.TreePattern").CURRENT_LIKE()
        self._frames = {
            name: _empty_frame(self._session, schema) for name, schema in streams.items()
        }
        for name, frame in self._frames.items():
            frame.createOrReplaceTempView(quoted(name))

    def add_stream(self, name: str, schema: StructType, time: str | None) -> None:
        """Makes the rows of a view known under its name."""
        self._streams[name.lower()] = name
        self._times = {**self._times, **({name: time} if time is not None else {})}
        self._frames[name] = _empty_frame(self._session, schema)
        self._frames[name].createOrReplaceTempView(quoted(name))

    def sql(self, name: str, sql: str, place: str = "") -> CheckedQuery:
        """Refuses the query with a ``ConfigError`` at ``place``, or tells what it reads."""
        place = place or f"query {name!r}"
        text = re.sub(r"[\s;]+$", "", sql)
        try:
            text, parsed = self._parsed(text)
            frame = self._session.sql(text)
            plan = frame._jdf.queryExecution().analyzed()
            inner = _scala_list(plan.subqueriesAll())
            trees = [parse_plan(part.toJSON()) for part in (plan, *inner)]
            shape = shape_of(trees[0], trees[1:], self._streams, self._times)
            if not shape.reads:
                raise Refused("reads no stream", suggestion("", self._streams.values()))
            self._check_expressions(text, [plan, *inner], trees)
            _check_columns(frame.schema)
            windowing = windowing_of(shape, frame.schema.names, self._times)
        except Refused as refused:
            raise ConfigError(place, refused.finding, refused.remedy) from None
        except (AnalysisException, ParseException) as error:
            raise self._explained(place, error) from None
        if windowing is not None:
            reads = tuple(sorted(shape.reads))
            text = self._anchored(place, text, plan, parsed, windowing)
            aggregate, panes = self._aggregate(plan, reads, windowing)
            if panes is not None:
                windowing = replace(windowing, pane_us=panes.width_us)
            return CheckedQuery(
                name, reads, frame.schema, "window", text,
                windowing=windowing, aggregate=aggregate, panes=panes,
            )  # fmt: skip
        kind: Kind = "filter" if shape.is_filter else "stateless"
        reads = tuple(sorted(shape.reads))
        parts = None
        if len(reads) == 1 and not inner:
            parts = self._parts(plan, reads[0]) if shape.is_filter else None
            parts = parts or self._parts(plan, reads[0], from_clause(text, parsed))
        return CheckedQuery(name, reads, frame.schema, kind, text, parts)

    def _parts(self, plan: Any, stream: str, source: str | None = None) -> Parts | None:
        """The query taken apart, if Spark agrees that the parts mean the same."""
        parts = take_apart(plan, stream, source)
        if parts is None:
            return None
        try:
            again = self._session.sql(parts.sql())._jdf.queryExecution().analyzed()
        except PySparkException:
            return None
        return parts if plan.sameResult(again) else None

    def function(
        self, name: str, function: Callable[..., object], reads: tuple[str, ...], place: str = ""
    ) -> CheckedQuery:
        """Calls a query function with an empty frame of each stream; it must give a frame.

        What it does inside is not looked at: it answers for being linear itself.
        """
        place = place or f"query {name!r}"
        for stream in reads:
            if stream not in self._frames:
                raise ConfigError(
                    place, f"unknown stream {stream!r}", suggestion(stream, self._frames)
                )
        try:
            result = function(*(self._frames[stream] for stream in reads))
        except Exception as error:
            shown = str(error).strip().split("\n")[0]
            raise ConfigError(
                place,
                f"its function fails on empty input ({type(error).__name__}: {shown})",
                "let it take one DataFrame per stream and return one, without running a job",
            ) from error
        if not isinstance(result, DataFrame):
            raise ConfigError(
                place, f"its function returns {type(result).__name__}", "return a DataFrame"
            )
        try:
            _check_columns(result.schema)
        except Refused as refused:
            raise ConfigError(place, refused.finding, refused.remedy) from None
        return CheckedQuery(name, reads, result.schema, "function")

    def _aggregate(
        self, plan: Any, reads: tuple[str, ...], windowing: Windowing
    ) -> tuple[Aggregate | None, Panes | None]:
        """The query as an aggregate over windows, and as one of panes, if it is such a one."""
        if len(reads) > 1:
            return None, None

        def analyse(text: str, tables: Mapping[str, StructType]) -> DataFrame:
            for name, schema in tables.items():
                _empty_frame(self._session, schema).createOrReplaceTempView(quoted(name))
            return self._session.sql(text)

        aggregate = None
        try:
            aggregate = take_aggregate(plan, reads[0], windowing, analyse)
            if aggregate is None or not self._with_panes:
                return aggregate, None
            return aggregate, panes_of(aggregate, self._frames[reads[0]].schema, analyse)
        except PySparkException:  # its parts are no SQL by themselves: it runs over rows
            return aggregate, None

    def _anchored(self, place: str, text: str, plan: Any, parsed: Any, windowing: Windowing) -> str:
        """The text to run: a stream that is joined with itself by a band needs two names."""
        band = windowing.over
        if not isinstance(band, Band) or band.anchor != band.partner:
            return text
        view = f"{ANCHORS}{band.anchor}"
        self._frames[band.anchor].createOrReplaceTempView(quoted(view))
        new = with_anchors(text, parsed, band.anchor, view, on_right=band.on_right)
        again = None if new is None else self._session.sql(new)._jdf.queryExecution().analyzed()
        if new is None or not plan.sameResult(again):
            raise ConfigError(
                place,
                f"joins stream {band.anchor!r} with itself in a way that cannot be taken apart",
                "name the stream on both sides of the one join: FROM s a JOIN s b ON ...",
            )
        return new

    def _parsed(self, text: str) -> tuple[str, Any]:
        """The text as Spark understands it, and what its parser makes of it.

        Parsed as a query first: spark.sql() would run a command at once.
        """
        parser = self._session._jsparkSession.sessionState().sqlParser()
        try:
            parsed = parser.parseQuery(text)
        except ParseException as error:
            command = re.match(r"\s*(\w+)", text)
            word = command[1].upper() if command else ""
            if _position(str(error)) == (1, 1) and word not in ("SELECT", "WITH", "FROM", ""):
                raise Refused(
                    f"does not begin as a query but with {word!r}", "write a SELECT"
                ) from error
            raise
        plain = without_join_windows(text, parsed)
        if plain is None:
            raise Refused(
                "has window(...) in a join's condition, with more than a column and a length",
                "select it on both sides, (SELECT *, window(...) AS w FROM a) x, and join on x.w",
            )
        return (text, parsed) if plain == text else (plain, parser.parseQuery(plain))

    def _check_expressions(self, text: str, plans: list[Any], trees: list[Node]) -> None:
        literal = _MOVING_LITERAL.search(text)
        if literal:
            raise _moving(f"'{literal[1]}'")
        for plan in reversed(plans):  # innermost first: it names the culprit
            if not plan.deterministic():
                name = _first(plan, lambda e: not e.deterministic()) or "an expression"
                raise _moving(name)
            if plan.containsPattern(self._current_like):
                name = _first(plan, lambda e: e.containsPattern(self._current_like)) or "the clock"
                raise _moving(name)
            replaced = self._replace_expressions.apply(plan)
            if not replaced.fastEquals(self._special_values.apply(replaced)):
                raise _moving("a text such as 'now' or 'today' cast to a time")
        if any("AesEncrypt" in node.expressions() for tree in trees for node in tree.walk()):
            raise _moving("aes_encrypt()")

    def _explained(self, place: str, error: PySparkException) -> ConfigError:
        message = _one_line(str(error))
        at = _position(str(error))
        where = f"line {at[0]}, column {at[1]}: " if at else ""
        if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
            named = (error.getMessageParameters() or {}).get("relationName", "").replace("`", "")
            return ConfigError(
                place,
                f"{where}unknown stream {named!r}",
                suggestion(named, self._streams.values()),
            )
        return ConfigError(place, f"its SQL is refused by Spark, {where}{message}", "correct it")


def check_sql(
    spark: SparkSession, name: str, sql: str, streams: Mapping[str, StructType], place: str = ""
) -> CheckedQuery:
    """Checks one query; for many over the same streams keep a ``Checker``."""
    return Checker(spark, streams).sql(name, sql, place)


def check_function(
    spark: SparkSession,
    name: str,
    function: Callable[..., object],
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


def _moving(name: str) -> Refused:
    return Refused(
        f"uses {name}, and {_SAME_ROW}",
        "use columns of the row, such as its event time or a key of its own",
    )


def _check_columns(schema: StructType) -> None:
    seen: set[str] = set()
    for column in schema.names:
        if column.lower() in seen:
            raise Refused(f"has two columns {column!r}", "name them apart with AS")
        seen.add(column.lower())
    if not seen:
        raise Refused("has no columns", "select at least one")
    for field in schema.fields:
        if "void" in field.dataType.simpleString():
            raise Refused(f"column {field.name!r} has no type", "cast its NULL to one")
    try:
        to_arrow_schema(schema, timezone="UTC")
    except PySparkException as error:
        raise Refused(
            f"has a column no sink can hold ({_one_line(str(error))})", "cast it to a text"
        ) from error


def _first(plan: Any, matches: Callable[[Any], bool]) -> str | None:
    """The name of an innermost expression that matches, in this plan or below."""
    for expression in _scala_list(plan.expressions()):
        if matches(expression):
            return _innermost(expression, matches)
    for child in _scala_list(plan.children()):
        found = _first(child, matches)
        if found:
            return found
    return None


def _innermost(expression: Any, matches: Callable[[Any], bool]) -> str:
    for child in _scala_list(expression.children()):
        if matches(child):
            return _innermost(child, matches)
    kind = expression.getClass().getSimpleName()
    name = expression.name() if kind == "PythonUDF" else expression.prettyName()
    return f"{name}()"


def _scala_object(jvm: Any, name: str) -> Any:
    return getattr(getattr(jvm, f"{name}$"), "MODULE$")


def _scala_list(seq: Any) -> list[Any]:
    return [seq.apply(i) for i in range(seq.size())]


def _position(text: str) -> tuple[int, int] | None:
    """Line and column from 1, as editors count."""
    match = _POSITION.search(text)
    return (int(match[1]), int(match[2]) + 1) if match else None


def _one_line(text: str) -> str:
    """Spark's message without its error class, SQLSTATE, position and plan."""
    first = text.strip().split("\n")[0]
    first = re.sub(r"^\[[A-Z0-9_.]+\] ", "", first)
    return re.split(r"\s*SQLSTATE:", first)[0].rstrip(" .;")
