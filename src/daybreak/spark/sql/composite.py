"""Many queries over the same rows as one plan: one scan, one bit per query.

A query ``SELECT e, ... FROM s WHERE c`` is taken apart once, when it is checked. A group of them
becomes the plan of

    SELECT mask, columns, IF(mask & bits <> 0, e, NULL), ...
    FROM (SELECT *, IF(c1, 1, 0) | IF(c2, 2, 0) | ... AS mask FROM s)

and each query's rows are cut out of the one result by its bit. Plain columns and equal
expressions are computed once for all. An expression is only computed for rows that one of its
queries keeps, as in the query itself, where it might fail on others.

What they read is a stream, or the same join of it with static tables: then the join is made once,
and only rows that one of them keeps leave it.

The plan is built of the conditions and expressions that Spark's analyser gave for each query, as
objects (``catalyst``). It has no text, so no text can be misread.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
from numpy.typing import NDArray

from daybreak.engine.compositing import MOST
from daybreak.spark.sql.catalyst import Catalyst, Expr, Plan, ids, kind, listed

#: Bits of one mask column; the sign bit and one more stay free.
BITS = 62
MASK = "mask"


@dataclass(frozen=True)
class Source:
    """What a query reads: a stream, or a join of it with static tables."""

    stream: str
    #: The columns that leave it, as attributes.
    output: tuple[Expr, ...]
    #: Their ids.
    numbers: tuple[int, ...]
    #: A join as the parser gave it, to be resolved where it runs; None for the stream itself.
    parsed: Plan | None = None
    #: Equal for joins that give the same rows, whatever their text.
    canonical: Plan | None = None
    #: Names and types of the columns, as JSON.
    schema: str = ""

    @property
    def share_key(self) -> str:
        """Equal for sources that can be read once for several queries."""
        if self.canonical is None:
            return json.dumps([self.stream])
        return json.dumps(
            [self.stream, "join", f"{self.canonical.semanticHash() & 0xFFFFFFFF:08x}"]
        )

    def same_as(self, other: Source) -> bool:
        if self.canonical is None or other.canonical is None:
            return self.canonical is other.canonical and self.stream == other.stream
        return bool(self.canonical.equals(other.canonical))


@dataclass(frozen=True)
class Column:
    """A result column."""

    name: str
    expression: Expr
    #: The position of the source's column that it is; None for one that is computed.
    at: int | None
    #: Equal in the JVM for equal expressions; see ``Catalyst.key``.
    key: object = None


@dataclass(frozen=True)
class Parts:
    """A query taken apart: ``SELECT columns FROM source WHERE condition``."""

    source: Source
    #: None where it keeps every row.
    condition: Expr | None
    columns: tuple[Column, ...]

    @property
    def stream(self) -> str:
        return self.source.stream

    @property
    def share_key(self) -> str:
        """What queries that can run as one job have in common."""
        return self.source.share_key


def take_apart(
    catalyst: Catalyst, plan: Plan, stream: str, parsed: Plan, analyse: Callable[[Plan], Plan]
) -> Parts | None:
    """The parts of an analysed ``Project [Filter] source``; None for any other plan.

    ``parsed`` is what the parser made of the query.
    """
    if plan.nodeName() != "Project":
        return None
    condition, below = None, plan.child()
    if below.nodeName() == "Filter":
        condition, below = below.condition(), below.child()
    source = _source(below, stream, parsed, analyse)
    if source is None or _in_python(catalyst, [plan, *([] if condition is None else [condition])]):
        return None
    place = {number: at for at, number in enumerate(source.numbers)}
    output = below.output()
    columns = []
    for named in listed(plan.projectList()):
        inner = catalyst.ordered(named.child()) if kind(named) == "Alias" else named
        at = place.get(ids([inner])[0]) if kind(inner) == "AttributeReference" else None
        key = None if at is not None else catalyst.key(inner, output)
        columns.append(Column(named.name(), inner, at, key))
    condition = None if condition is None else catalyst.ordered(condition)
    return Parts(source, condition, tuple(columns))


def is_stream(plan: Plan, stream: str) -> bool:
    """Whether a plan is the rows of a stream, under whatever alias."""
    while plan.nodeName() == "SubqueryAlias":
        plan = plan.child()
    if plan.nodeName() != "View":
        return False
    named = plan.desc().identifier()
    return named.database().isEmpty() and bool(named.table().lower() == stream.lower())


def _source(
    below: Plan, stream: str, parsed: Plan, analyse: Callable[[Plan], Plan]
) -> Source | None:
    """What a query reads, if its own text behind FROM gives just that by itself."""
    output = tuple(listed(below.output()))
    numbers = tuple(ids(output))
    if is_stream(below, stream):
        return Source(stream, output, numbers)
    if parsed.nodeName() != "Project":
        return None
    read = parsed.child()
    if read.nodeName() == "Filter":
        read = read.child()
    again = analyse(read)
    if not below.sameResult(again):
        return None
    return Source(stream, output, numbers, read, below.canonicalized(), below.schema().json())


def _in_python(catalyst: Catalyst, trees: Sequence[Plan | Expr]) -> bool:
    """Python functions are computed for every row, kept or not: such a query runs by itself.

    Of a plan, its own expressions are looked at.
    """
    python = catalyst.pattern("PYTHON_UDF")
    for tree in trees:
        expressions = listed(tree.projectList()) if tree.nodeName() == "Project" else [tree]
        if any(e.containsPattern(python) for e in expressions):
            return True
    return False


class Composite:
    """A group of queries with one share key as one plan."""

    def __init__(self, parts: Sequence[Parts], catalyst: Catalyst) -> None:
        assert 1 <= len(parts) <= MOST
        self.source = parts[0].source
        assert all(part.source.same_as(self.source) for part in parts)
        self.stream = self.source.stream
        self.cutter = Cutter.of(parts, catalyst)
        own = catalyst.own
        self._conditions = [None if p.condition is None else own(p.condition) for p in parts]
        self._parts = parts
        self._catalyst = catalyst
        self._plain = sorted({c.at for part in parts for c in part.columns if c.at is not None})
        self._copies = {at: catalyst.new_id() for at in self._plain}
        self._masks = [catalyst.alias(mask, f"{MASK}{i}") for i, mask in enumerate(self._bits())]
        self._inputs = self._all_inputs()
        self._computed = self._guarded()

    def over(self, rows: Plan) -> Plan:
        """The whole result over the source's rows.

        It has all rows of a stream, whether or not a query keeps them: with a filter, Spark would
        compute every condition twice.
        """
        return self._plan(rows, self._plain)

    def beside(self, rows: Plan) -> Plan:
        """The same without the source's own columns, for a caller that has them (``complete``)."""
        return self._plan(rows, [])

    def complete(
        self, result: pa.Table, rows: pa.Table, places: NDArray[np.int32] | None
    ) -> pa.Table:
        """A result of ``beside``, together with the columns of the rows it is of, in order.

        ``places``: of these rows; None for all. The result of a join has columns of its own.
        """
        if self.source.parsed is not None:
            return result
        mine = rows.select(self._plain)
        mine = mine if places is None else mine.take(pa.array(places))
        columns = [*result.columns, *mine.columns]
        names = [*result.column_names, *(_held(at) for at in self._plain)]
        return pa.Table.from_arrays(columns, names)

    def _plan(self, rows: Plan, plain: Sequence[int]) -> Plan:
        make, output = self._catalyst, listed(rows.output())
        seen = [make.alias(output[at], name, number) for at, name, number in self._inputs]
        copied = [make.alias(output[at], _held(at), self._copies[at]) for at in plain]
        plan = make.project([*seen, *copied], rows)
        if self.source.parsed is not None and None not in self._conditions:
            plan = make.filter(make.any_of(self._conditions), plan)
        plan = make.project([*listed(plan.output()), *self._masks], plan)
        masks = [mask.toAttribute() for mask in self._masks]
        kept = [alias.toAttribute() for alias in copied]
        return make.project([*masks, *self._computed, *kept], plan)

    def _bits(self) -> list[Expr]:
        """Each mask: the bits of up to ``BITS`` queries."""
        make, nothing = self._catalyst, self._catalyst.long(0)

        def bit(at: int, condition: Expr | None) -> Expr:
            one = make.long(1 << at)
            return one if condition is None else make.make("If", condition, one, nothing)

        return [
            make.joined("BitwiseOr", [bit(at, condition) for at, condition in enumerate(some)])
            for first in range(0, len(self._conditions), BITS)
            for some in [self._conditions[first : first + BITS]]
        ]

    def _all_inputs(self) -> list[tuple[int, str, object]]:
        """Position, name and id of every column, once for each query that has ids of its own."""
        found: dict[int, tuple[int, str, object]] = {}
        for part in self._parts:
            for at, number in enumerate(part.source.numbers):
                if number not in found:
                    attribute = part.source.output[at]
                    found[number] = (at, attribute.name(), attribute.exprId())
        return list(found.values())

    def _guarded(self) -> list[Expr]:
        """Each expression once, computed for the rows that one of its queries keeps."""
        make = self._catalyst
        masks = [mask.toAttribute() for mask in self._masks]
        found = []
        for at, (expression, users) in enumerate(self.cutter.computed):
            bits: dict[int, int] = {}
            for user in users:
                bits[user // BITS] = bits.get(user // BITS, 0) | 1 << user % BITS
            zero = make.long(0)
            kept = [
                make.make("GreaterThan", make.make("BitwiseAnd", masks[i], make.long(b)), zero)
                for i, b in bits.items()
            ]
            own = make.own(expression)
            value = make.make("If", make.any_of(kept), own, make.null(own))
            found.append(make.alias(value, f"e{at}"))
        return found


def masks_of(parts: Sequence[Parts]) -> int:
    """How many columns say who keeps a row; 0 where somebody keeps every row."""
    if any(part.condition is None for part in parts):
        return 0
    return (len(parts) + BITS - 1) // BITS


def _held(at: int) -> str:
    """The result column that holds a column of the source."""
    return f"c{at}"


@dataclass(frozen=True)
class Cutter:
    """Which columns of a composite's result belong to which query. Knows nothing of Spark."""

    #: The result column of each column of each query.
    holders: tuple[tuple[str, ...], ...]
    #: The expressions that are computed, each with the queries that want it.
    computed: list[tuple[Expr, list[int]]] = field(default_factory=list)

    @classmethod
    def of(cls, parts: Sequence[Parts], catalyst: Catalyst) -> Cutter:
        known = catalyst.numbering()
        computed: list[tuple[Expr, list[int]]] = []
        holders = []
        for at, part in enumerate(parts):
            mine = []
            for column in part.columns:
                if column.at is not None:
                    mine.append(_held(column.at))
                    continue
                number = known.get(column.key)
                if number is None:
                    number = len(computed)
                    known.put(column.key, number)
                    computed.append((column.expression, []))
                computed[number][1].append(at)
                mine.append(f"e{number}")
            holders.append(tuple(mine))
        return cls(tuple(holders), computed)

    def without_expressions(self) -> Cutter:
        """The same for another process, which cannot compute them and need not."""
        return Cutter(self.holders)

    def cut(self, result: pa.Table, schemas: Mapping[int, pa.Schema]) -> list[pa.Table]:
        """The rows of these of its queries, by their place, typed as their own result would be."""
        masks = self._masks(result)
        result = result.combine_chunks()  # once, not for every query
        alike: dict[tuple[str, ...], list[pa.RecordBatch]] = {}
        found = []
        for at, schema in schemas.items():
            rows = np.flatnonzero(masks[at // BITS] & np.int64(1 << at % BITS))
            whole = self._as_typed(result, at, schema, alike)
            if whole is None:
                mine = result.select(list(self.holders[at]))
                mine = mine.take(pa.array(rows)) if len(rows) < len(result) else mine
                found.append(typed(mine, schema))
                continue
            kept = whole.take(pa.array(rows)) if len(rows) < len(result) else whole
            found.append(pa.Table.from_batches([kept]))
        return found

    def _as_typed(
        self,
        result: pa.Table,
        at: int,
        schema: pa.Schema,
        alike: dict[tuple[str, ...], list[pa.RecordBatch]],
    ) -> pa.RecordBatch | None:
        """A query's columns of all rows, the same object for queries that want the same.

        To take rows of a batch takes half as long as of a table, for each of hundreds of queries.
        None if the result is more than one batch, or a column has another type: of that only what
        the query keeps is cast.
        """
        known = alike.setdefault(self.holders[at], [])
        for batch in known:
            if batch.schema.equals(schema, check_metadata=True):
                return batch
        columns = [result.column(name) for name in self.holders[at]]
        if any(
            column.num_chunks != 1 or column.type != kind
            for column, kind in zip(columns, schema.types, strict=True)
        ):
            return None
        known.append(
            pa.RecordBatch.from_arrays([column.chunk(0) for column in columns], schema=schema)
        )
        return known[-1]

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
        count = (len(self.holders) + BITS - 1) // BITS
        return [result.column(f"{MASK}{i}").to_numpy() for i in range(count)]


def plain_schema(schema: pa.Schema) -> pa.Schema:
    """The same columns, nullable at every depth: alone or in a group, a result looks the same.

    What Spark calls not null inside of a struct is null in Arrow where the struct is.
    """
    return pa.schema([_nullable(field) for field in schema])


def _nullable(field: pa.Field) -> pa.Field:
    kind = field.type
    if kinds.is_struct(kind):
        kind = pa.struct([_nullable(kind.field(i)) for i in range(kind.num_fields)])
    elif kinds.is_map(kind):
        kind = pa.map_(kind.key_field, _nullable(kind.item_field))
    elif kinds.is_list(kind):
        kind = pa.list_(_nullable(kind.value_field))
    return field.with_type(kind).with_nullable(True)


def typed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table's columns, in their order, with other names and types where they differ."""
    pairs = zip(table.columns, schema.types, strict=True)
    columns = [column if column.type == kind else column.cast(kind) for column, kind in pairs]
    return pa.Table.from_arrays(columns, schema=schema)


def quoted(name: str) -> str:
    return "`{}`".format(name.replace("`", "``"))
