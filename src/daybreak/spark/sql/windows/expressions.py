"""Expressions of an analysed plan, read from Spark's JSON: which columns, windows and bands."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any
from zoneinfo import ZoneInfo

from daybreak.spark.log.event_time import Grid

DAY_US = 86_400_000_000
_WEEK = timedelta(days=7)
#: Offsets change at most this often, and lasting rules repeat within this many years.
_FROM, _UNTIL = datetime(1900, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_FIXED = re.compile(r"Z|(?:UTC|GMT|UT)?(?:[+-]\d\d?(?::?\d\d){0,2})?")


@dataclass(frozen=True)
class Expression:
    """One expression with its children."""

    kind: str
    fields: Mapping[str, Any]
    children: tuple[Expression, ...]

    @property
    def id(self) -> int:
        """What tells a column from every other one."""
        return int(self.fields["exprId"]["id"])

    def walk(self) -> Iterator[Expression]:
        yield self
        for child in self.children:
            yield from child.walk()


def parse_expression(nodes: Sequence[Mapping[str, Any]]) -> Expression:
    """The tree of an expression, which JSON lists in pre-order."""
    rest = iter(nodes)

    def build() -> Expression:
        fields = next(rest)
        children = tuple(build() for _ in range(fields["num-children"]))
        kind = fields["class"].rsplit(".", 1)[-1]
        if kind == "With":  # names for expressions that occur twice, as in BETWEEN
            named = {_common(d): d.children[0] for d in children[1:]}
            return _spelt_out(children[0], named)
        return Expression(kind, fields, children)

    return build()


def _common(expression: Expression) -> str:
    return str(expression.fields["id"])


def _spelt_out(expression: Expression, named: Mapping[str, Expression]) -> Expression:
    if expression.kind == "CommonExpressionRef":
        return named.get(_common(expression), expression)
    children = tuple(_spelt_out(child, named) for child in expression.children)
    return replace(expression, children=children)


def parse_list(lists: Sequence[Sequence[Mapping[str, Any]]]) -> list[Expression]:
    return [parse_expression(one) for one in lists]


def conjuncts(condition: Expression) -> Iterator[Expression]:
    """The parts of a condition that must all hold."""
    plain = bare(condition)
    if plain.kind == "And":
        for child in plain.children:
            yield from conjuncts(child)
    else:
        yield plain


#: What stands for its only child: names for other expressions, and casts between equal types.
_STAND_INS = frozenset({"Between", "DatetimeSub", "KnownNullable", "KnownNotNull"})
_TIMES = ("timestamp", "timestamp_ntz")


def bare(expression: Expression) -> Expression:
    while expression.kind in _STAND_INS or _is_idle_cast(expression):
        expression = expression.children[0]
    return expression


def _is_idle_cast(expression: Expression) -> bool:
    """A cast to the type it has. One between TIMESTAMP and TIMESTAMP_NTZ changes the number."""
    if expression.kind != "Cast" or expression.fields["dataType"] not in _TIMES:
        return False
    return _time_type(expression.children[0]) == str(expression.fields["dataType"])


def _time_type(expression: Expression) -> str | None:
    """The type of a time, or of one shifted by an interval; None for anything else."""
    plain = bare(expression)
    while plain.kind == "TimestampAddInterval":
        plain = bare(plain.children[0])
    kind = plain.fields.get("dataType") if plain.kind in ("AttributeReference", "Cast") else None
    return kind if kind in _TIMES else None


def window_of(expression: Expression) -> tuple[Grid, Expression] | None:
    """The grid and the time of what ``window(time, ...)`` was analysed to; None for others.

    The analyser writes start = t - (t - offset) mod slide - i x slide, end = start + length, on
    microseconds, with a conversion that no SQL can name.
    """
    if expression.kind != "CreateNamedStruct" or len(expression.children) != 4:
        return None
    start, end = (bare(expression.children[i]) for i in (1, 3))
    if start.kind != "PreciseTimestampConversion" or end.kind != "PreciseTimestampConversion":
        return None
    sums, moduli = end.children[0], [e for e in start.walk() if e.kind == "Remainder"]
    if sums.kind != "Add" or not moduli:  # a session window has neither
        return None
    shifted, slide = moduli[0].children
    time, offset = shifted.children
    grid = Grid(_number(sums.children[1]), _number(slide), _number(offset))
    return grid, bare(time.children[0])


def window_start(expression: Expression) -> tuple[int, int] | None:
    """``unix_micros(t) - pmod(unix_micros(t), length)`` as the id of t and the length.

    What ``rewrite`` makes of a window in a join's condition.
    """
    if expression.kind != "Subtract":
        return None
    micros, rest = expression.children
    if micros.kind != "UnixMicros" or rest.kind != "Pmod":
        return None
    again, length = rest.children
    time, same = bare(micros.children[0]), again.children[:1]
    if time.kind != "AttributeReference" or again.kind != "UnixMicros" or length.kind != "Literal":
        return None
    is_same = bare(same[0]).kind == "AttributeReference" and bare(same[0]).id == time.id
    return (time.id, _number(length)) if is_same else None


def _number(literal: Expression) -> int:
    return int(literal.fields["value"])


@dataclass(frozen=True)
class Shifted:
    """A column plus ``us``, give or take ``drift_us``: days are not always of 24 hours."""

    column: int
    us: int = 0
    drift_us: int = 0


def shifted_time(expression: Expression) -> Shifted | None:
    """``column + interval``; None for anything else."""
    plain = bare(expression)
    if plain.kind == "AttributeReference":
        return Shifted(plain.id)
    if plain.kind != "TimestampAddInterval":
        return None
    start, by = bare(plain.children[0]), plain.children[1]
    sign = 1
    while by.kind == "UnaryMinus":
        sign, by = -sign, by.children[0]
    kind = by.fields.get("dataType")
    is_literal = by.kind == "Literal" and isinstance(kind, str) and kind.startswith("interval ")
    if not is_literal or not str(by.fields["value"]).lstrip("-").isdecimal():
        return None
    inner, us = shifted_time(start), sign * int(by.fields["value"])
    if inner is None:
        return None
    drift = 0
    if abs(us) >= DAY_US and _time_type(start) == "timestamp":
        drift = drift_us(str(plain.fields.get("timeZoneId")))
    return Shifted(inner.column, inner.us + us, inner.drift_us + drift)


def differences(condition: Expression) -> Iterator[tuple[int, int, int]]:
    """Every ``a <= b + us`` between two columns that the condition implies, as (a, b, us)."""
    for part in conjuncts(condition):
        if part.kind in ("LessThanOrEqual", "LessThan"):
            small, large = part.children
        elif part.kind in ("GreaterThanOrEqual", "GreaterThan"):
            large, small = part.children
        else:
            continue
        left, right = shifted_time(small), shifted_time(large)
        if left is not None and right is not None:
            drift = left.drift_us + right.drift_us
            yield left.column, right.column, right.us - left.us + drift


@lru_cache
def drift_us(zone: str) -> int:
    """By how much n days of local time differ at most from n times 24 hours.

    Spark adds days to a TIMESTAMP on the calendar of the session's time zone: the day on which
    clocks go forward has 23 hours. The difference is one of two UTC offsets of the zone.
    """
    if _FIXED.fullmatch(zone):
        return 0
    try:
        rules = ZoneInfo(zone)
    except (LookupError, ValueError, OSError):  # a name that only Java knows
        return DAY_US
    weeks = (_UNTIL - _FROM) // _WEEK
    offsets = {(_FROM + n * _WEEK).astimezone(rules).utcoffset() for n in range(weeks)}
    known = [offset for offset in offsets if offset is not None]
    return (max(known) - min(known)) // timedelta(microseconds=1)
