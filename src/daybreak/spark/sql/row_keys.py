"""The key of rows that replace each other, followed through the operators above an aggregate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from daybreak.spark.sql.catalyst import Expr, Plan, ids, kind, listed

#: Expression ids of columns.
Ids = frozenset[int]

_INTEGRALS = ("tinyint", "smallint", "int", "bigint")
#: Types whose literals differ in every sink if they differ here.
_TAGS = frozenset({*_INTEGRALS, "boolean", "date", "string"})
#: The mark that Spark puts on the columns that ``window(...)`` makes: start or end tell the other.
_WINDOW = "spark.timeWindow"


@dataclass(frozen=True, eq=False)
class KeyPart:
    """A part of a key, equal only to itself."""

    name: str


@dataclass(frozen=True)
class Keyed:
    """What is known of rows that replace each other."""

    key: frozenset[KeyPart]
    #: The parts of the key that a column tells, by its id.
    told: Mapping[int, frozenset[KeyPart]]
    #: Columns that never change in a row.
    lasting: Ids
    #: The literals that a column may hold, by its id, where nothing else is in it.
    literals: Mapping[int, frozenset[str]] = field(default_factory=dict)


def renamed(rows: Keyed, old: Sequence[int], new: Sequence[int]) -> Keyed:
    """The rows with new ids for their columns, in the same order."""
    if old == new:
        return rows
    pairs = list(zip(old, new, strict=True))
    return replace(
        rows,
        told={n: rows.told[o] for o, n in pairs if o in rows.told},
        lasting=frozenset(n for o, n in pairs if o in rows.lasting),
        literals={n: rows.literals[o] for o, n in pairs if o in rows.literals},
    )


def told_by(expression: Expr, part: Callable[[Expr], frozenset[KeyPart]]) -> frozenset[KeyPart]:
    """The parts of a key that follow from the value of an expression."""
    found = part(expression)
    if found:
        return found
    plain = without_casts(expression)
    match kind(plain):
        case "GetStructField" if _is_window(plain.child()):
            return told_by(plain.child(), part)
        case "CreateNamedStruct":
            return frozenset().union(*(told_by(e, part) for e in listed(plain.valExprs())))
    return frozenset() if plain is expression else told_by(plain, part)


def _is_window(expression: Expr) -> bool:
    is_column = kind(expression) == "AttributeReference"
    return is_column and bool(expression.metadata().contains(_WINDOW))


def literals_in(
    columns: Iterable[Expr], below: Mapping[int, frozenset[str]]
) -> dict[int, frozenset[str]]:
    """The literals that columns hold, by their ids; ``below``: those of the columns they name."""
    found: dict[int, frozenset[str]] = {}
    for column in columns:
        plain = without_casts(unnamed(column))
        if kind(plain) == "AttributeReference" and id_of(plain) in below:
            found[id_of(column)] = below[id_of(plain)]
        elif kind(plain) == "Literal" and type_of(plain) in _TAGS and plain.value() is not None:
            found[id_of(column)] = frozenset({str(plain.value())})
    return found


def without_casts(expression: Expr) -> Expr:
    """The expression without casts to wider integers."""
    while kind(expression) == "Cast":
        old, new = type_of(expression.child()), type_of(expression)
        if old not in _INTEGRALS or new not in _INTEGRALS[_INTEGRALS.index(old) :]:
            break
        expression = expression.child()
    return expression


def type_of(expression: Expr) -> str:
    return str(expression.dataType().simpleString())


def unnamed(column: Expr) -> Expr:
    return column.child() if kind(column) == "Alias" else column


def shown(expression: Expr) -> str:
    """An expression as the user may have written it."""
    if kind(expression) != "AttributeReference":
        return str(expression.sql())
    name = str(expression.name())
    return "grouping_id()" if name == "spark_grouping_id" else name


def id_of(column: Expr) -> int:
    return int(column.exprId().id())


def output_of(plan: Plan) -> list[int]:
    return ids(listed(plan.output()))


def ids_of(columns: Plan) -> Ids:
    return frozenset(ids(listed(columns)))


def references_of(of: Expr | Plan) -> Ids:
    return ids_of(of.references().toSeq())
