"""Many queries over the same rows as one SQL text: one scan, one bit per query.

A query ``SELECT e, ... FROM s WHERE c`` is taken apart once, when it is checked. A group of them
becomes

    SELECT mask, columns, CASE WHEN mask & bits <> 0 THEN e END, ...
    FROM (SELECT *, IF(c1, 1, 0) + IF(c2, 2, 0) + ... AS mask FROM s)

and each query's rows are cut out of the one result by its bit. Plain columns and equal
expressions are computed once for all. An expression is only computed for rows that one of its
queries keeps, as in the query itself, where it might fail on others.

What they read is a stream, or the same join of it with static tables: then the join is made once,
and only rows that one of them keeps leave it. There the text is of one level,

    SELECT IF(c1, 1, 0) + ... AS mask, columns, CASE WHEN c1 OR c2 THEN e END, ...
    FROM s JOIN t ... WHERE c1 OR c2 OR ...

since names of columns are clear only next to the join.

Whether taking apart and putting together again means the same is not argued but asked: Spark
must say that the plan of the rebuilt query gives the same result as that of the original
(``sameResult``). If not, the query runs by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from daybreak.runtime.compositing import MOST

#: Bits of one mask column; the sign bit and one more stay free.
BITS = 62
MASK = "__mask"
_NAME = r"(?:[A-Za-z_]\w*|`(?:[^`]|``)+`)"
#: A column with its qualifiers, or a field of it: nothing that could fail.
_PATH = re.compile(rf"{_NAME}(?:\.{_NAME})*", re.ASCII)


@dataclass(frozen=True)
class Parts:
    """A query taken apart: ``SELECT columns FROM stream or source WHERE condition``.

    Expressions are SQL over the bare columns of its stream, or over a source's qualified ones.
    """

    stream: str
    #: None where it keeps every row.
    condition: str | None
    #: Name and expression of each result column.
    columns: tuple[tuple[str, str], ...]
    #: The text behind FROM where that is more than the stream: a join with static tables.
    source: str | None = None

    @property
    def kin(self) -> str:
        """What queries that can run as one job have in common."""
        return self.source or self.stream

    def sql(self) -> str:
        """The query put together again: the same plan, down to which columns have an alias."""
        selected = ", ".join(
            text if self._is_named(text, name) else f"{text} AS {quoted(name)}"
            for name, text in self.columns
        )
        where = "" if self.condition is None else f" WHERE {self.condition}"
        return f"SELECT {selected} FROM {self.source or quoted(self.stream)}{where}"

    def _is_named(self, text: str, name: str) -> bool:
        """Whether a column has this name without being told so."""
        if self.source is None:
            return text == _column(name)
        return _PATH.fullmatch(text) is not None and f".{text}".endswith(f".{_column(name)}")


def take_apart(plan: Any, stream: str, source: str | None = None) -> Parts | None:
    """The parts of an analysed ``Project [Filter] stream``; None for any other plan.

    With a ``source``, of ``Project [Filter]`` over whatever that text is.
    """
    if plan.nodeName() != "Project":
        return None
    below = plan.child()
    condition = None
    if below.nodeName() == "Filter":
        condition, below = below.condition(), below.child()
    aliases = []
    while below.nodeName() == "SubqueryAlias":
        aliases.append(below.alias())
        below = below.child()
    if source is None and (below.nodeName() != "View" or stream not in aliases):
        return None

    def written(expression: Any) -> str:
        text: str = expression.sql()
        return bare_columns(text, aliases[0]) if source is None else text

    listed = plan.projectList()
    columns = []
    for i in range(listed.size()):
        named = listed.apply(i)
        inner = named.child() if named.getClass().getSimpleName() == "Alias" else named
        columns.append((named.name(), written(inner)))
    kept = None if condition is None else written(condition)
    return Parts(stream, kept, tuple(columns), source)


def bare_columns(text: str, alias: str) -> str:
    """Drops the qualifier from column names; texts in quotes stay as they are."""
    pieces = re.split(r"('(?:[^'\\]|\\.|'')*')", text)
    pattern = re.compile(rf"(?<![\w`.])(?:{re.escape(alias)}|`{re.escape(alias)}`)\.")
    return "".join(p if i % 2 else pattern.sub("", p) for i, p in enumerate(pieces))


class Composite:
    """A group of queries of one kin as one query."""

    def __init__(self, parts: Sequence[Parts]) -> None:
        assert 1 <= len(parts) <= MOST
        self._parts = parts
        self.stream, self.source = parts[0].stream, parts[0].source
        #: Result column that holds each expression.
        self._holder: dict[str, str] = {}
        #: Gives all rows, whether or not a query keeps them: with a WHERE, Spark would compute
        #: every condition twice. And the same without the stream's own columns, for whoever has
        #: them in the same order (``beside``): "" for a join, whose rows are others.
        self.sql, self.sql_beside = self._texts() if self.source is None else self._joined()
        #: The stream's own columns, by their names in lower case, and what holds them.
        self._plain = [
            (_bare_name(text).lower(), holder)
            for text, holder in self._holder.items()
            if _is_column(text)
        ]

    def _mask_texts(self) -> dict[str, str]:
        """Each mask column and its expression."""
        return {
            f"{MASK}{first // BITS}": " + ".join(
                f"IF({part.condition or 'TRUE'}, {1 << bit}L, 0L)"
                for bit, part in enumerate(self._parts[first : first + BITS])
            )
            for first in range(0, len(self._parts), BITS)
        }

    def _hold(self) -> dict[str, list[int]]:
        """Gives each expression a column; tells which queries want it."""
        wanted: dict[str, list[int]] = {}
        for at, part in enumerate(self._parts):
            for _, text in part.columns:
                wanted.setdefault(text, []).append(at)
        self._holder = {text: f"__e{i}" for i, text in enumerate(wanted)}
        return wanted

    def _joined(self) -> tuple[str, str]:
        """The text over a join."""

        def kept_by(users: Iterable[int]) -> str:
            conditions = dict.fromkeys(self._parts[at].condition or "TRUE" for at in users)
            return " OR ".join(f"({condition})" for condition in conditions)

        columns = [f"{mask} AS {name}" for name, mask in self._mask_texts().items()]
        for text, users in self._hold().items():
            safe = text if _PATH.fullmatch(text) else f"CASE WHEN {kept_by(users)} THEN {text} END"
            columns.append(f"{safe} AS {self._holder[text]}")
        where = kept_by(range(len(self._parts)))
        return f"SELECT {', '.join(columns)} FROM {self.source} WHERE {where}", ""

    def _texts(self) -> tuple[str, str]:
        masks = self._mask_texts()
        plain, computed = [], []
        for i, (text, users) in enumerate(self._hold().items()):
            if _is_column(text):
                plain.append(f"{text} AS __e{i}")
            else:
                computed.append(f"CASE WHEN {_any(users)} THEN {text} END AS __e{i}")
        inner = ", ".join(f"{mask} AS {name}" for name, mask in masks.items())
        stream = quoted(self.stream)
        source = f"FROM (SELECT *, {inner} FROM {stream})"
        beside = [*masks, *computed]
        return (
            f"SELECT {', '.join([*beside, *plain])} {source}",
            f"SELECT {', '.join(beside)} {source}",
        )

    def beside(self, result: pa.Table, rows: pa.Table) -> pa.Table | None:
        """Completes a result without the stream's own columns by those of the rows it is of.

        None if a name does not tell one column.
        """
        names = [name.lower() for name in rows.column_names]
        columns, holders = result.columns, result.column_names
        for name, holder in self._plain:
            if names.count(name) != 1:
                return None
            columns.append(rows.column(names.index(name)))
            holders.append(holder)
        return pa.Table.from_arrays(columns, holders)

    def cut(self, result: pa.Table, schemas: Mapping[int, pa.Schema]) -> list[pa.Table]:
        """The rows of these of its queries, by their place, typed as their own result would be."""
        masks = self._masks(result)
        result = result.combine_chunks()  # once, not for every query
        found = []
        for at, schema in schemas.items():
            part = self._parts[at]
            rows = np.flatnonzero(masks[at // BITS] & np.int64(1 << at % BITS))
            mine = result.select([self._holder[text] for _, text in part.columns])
            mine = mine.take(pa.array(rows)) if len(rows) < len(result) else mine
            found.append(typed(mine, schema))
        return found

    def earliest(
        self, result: pa.Table, stamps: NDArray[np.int64], places: Iterable[int]
    ) -> list[int | None]:
        """When the first row had arrived that each of these queries keeps; None without one.

        ``stamps`` has the arrival of each row of the result. They are few, rows came in batches:
        what a batch has for whom is looked up in one number, whatever its length.
        """
        if not len(stamps):
            return [None for _ in places]
        begins = np.flatnonzero(np.diff(stamps, prepend=stamps[0] - 1))
        arrived = stamps[begins].tolist()
        kept = [np.bitwise_or.reduceat(mask, begins).tolist() for mask in self._masks(result)]
        return [
            min(
                (t for t, k in zip(arrived, kept[at // BITS], strict=True) if k >> at % BITS & 1),
                default=None,
            )
            for at in places
        ]

    def _masks(self, result: pa.Table) -> list[NDArray[np.int64]]:
        count = (len(self._parts) + BITS - 1) // BITS
        return [result.column(f"{MASK}{i}").to_numpy() for i in range(count)]


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns, all of them nullable: alone or in a group, a result looks the same."""
    return pa.schema([field.with_nullable(True) for field in schema])


def typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table's columns, in their order, with other names and types where they differ."""
    pairs = zip(table.columns, schema.types, strict=True)
    columns = [column if column.type == kind else column.cast(kind) for column, kind in pairs]
    return pa.Table.from_arrays(columns, schema=schema)


def quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))


def _column(name: str) -> str:
    """A column's name as Spark writes it."""
    return name if re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) else quoted(name)


def _is_column(text: str) -> bool:
    return re.fullmatch(r"\w+|`(?:[^`]|``)+`", text) is not None and not text[0].isdigit()


def _bare_name(text: str) -> str:
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


def _any(users: Sequence[int]) -> str:
    """True for rows that one of these queries keeps."""
    masks: dict[int, int] = {}
    for at in users:
        masks[at // BITS] = masks.get(at // BITS, 0) | 1 << at % BITS
    return " OR ".join(f"({MASK}{i} & {bits}L) <> 0L" for i, bits in masks.items())
