"""Reads the text of a query, and explains in the user's terms what is wrong with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from py4j.protocol import Py4JJavaError
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    PySparkException,
)
from pyspark.sql import DataFrame, SparkSession

from daybreak.model.errors import ConfigError, suggestion
from daybreak.spark.failures import first_line, one_line, position_in
from daybreak.spark.sql.allowlist import Refused
from daybreak.spark.sql.catalyst import Catalyst, Plan
from daybreak.spark.sql.leaves import DECLARE
from daybreak.spark.sql.windows.parsed import window_fault, without_join_windows


def parsed_query(session: SparkSession, catalyst: Catalyst, text: str) -> Plan:
    """What Spark's parser makes of the text, with windows in joins spelt out.

    Parsed as a query: a command would run as soon as it is analysed.
    """
    parser = session._jsparkSession.sessionState().sqlParser()
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
    plain = without_join_windows(catalyst, parsed, parser)
    if plain is None:
        raise Refused(
            "has window(...) in a join's condition, with more than a column and a length",
            "select it on both sides, (SELECT *, window(...) AS w FROM a) x, and join on x.w",
        )
    return plain


def analysed_frame(session: SparkSession, catalyst: Catalyst, parsed: Plan) -> DataFrame:
    """The rows of a parsed query; ``Refused`` where a duration of a window is at fault."""
    try:
        return catalyst.frame(parsed, session)
    except (PySparkException, Py4JJavaError):
        fault = window_fault(parsed)
        if fault is None:
            raise
        raise Refused(*fault) from None


@contextmanager
def explaining(place: str, streams: Iterable[str]) -> Iterator[None]:
    """What is not allowed, and what Spark refuses, as errors of the user's."""
    try:
        yield
    except Refused as refused:
        raise ConfigError(place, refused.finding, refused.remedy) from None
    except (AnalysisException, ParseException, IllegalArgumentException) as error:
        raise _explained(place, error, streams) from None
    except Py4JJavaError as error:  # not all of Spark's errors have a class in Python
        raise ConfigError(place, f"is refused by Spark, {one_line(error)}", "correct it") from None


def _explained(place: str, error: PySparkException, streams: Iterable[str]) -> ConfigError:
    message = first_line(str(error))
    at = position_in(str(error))
    where = f"line {at[0]}, column {at[1]}: " if at else ""
    parameters = error.getMessageParameters() or {}
    if error.getCondition() == "TABLE_OR_VIEW_NOT_FOUND":
        return _unknown(place, where, parameters.get("relationName", ""), streams)
    remedy = "correct it"
    if parameters.get("objectName", "").startswith("`window`"):
        # What it does not resolve is the call of window(...).
        remedy += "; window(...) takes a TIMESTAMP and literal durations"
    return ConfigError(place, f"its SQL is refused by Spark, {where}{message}", remedy)


def _unknown(place: str, where: str, quoted: str, streams: Iterable[str]) -> ConfigError:
    named = quoted.replace("`", "")
    if "`.`" in quoted:  # a path, or a table of a catalog: no stream has a name of two parts
        return ConfigError(place, f"{where}unknown table {named!r}", DECLARE)
    return ConfigError(place, f"{where}unknown stream {named!r}", suggestion(named, streams))
