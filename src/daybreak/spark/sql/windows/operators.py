"""Which operators may stand above windows, and what windows a plan has.

Rows flow up a plan. Below ``window(...)`` each row stands alone; above it each row belongs to one
window of one grid, told by a column (the window, its start or its end). An operator over many
rows, such as GROUP BY, is allowed where it never brings rows of two windows together: then the
result for some windows follows from the rows of those windows, and each window can be computed
when it closes. So a grouping, DISTINCT, EXCEPT or a join of streams needs the window among its
keys. A join of two streams may also name a band between their times; then each row of one side
has a window of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from daybreak.spark.log.event_time import Band, Grid
from daybreak.spark.sql.plan_nodes import Node
from daybreak.spark.sql.windows import joins
from daybreak.spark.sql.windows.expressions import (
    Expression,
    bare,
    parse_expression,
    parse_list,
    window_of,
)
from daybreak.spark.sql.windows.flow import Flow, Mark, Misfit, mark_of


class Flows:
    """Follows rows through one statement."""

    def __init__(
        self,
        reads: Callable[[Node], frozenset[str]],
        stream: Callable[[Node], str | None],
        part: Callable[[int], Node],
        times: Mapping[str, str] | None,
    ) -> None:
        self._reads = reads
        self._stream = stream
        self._part = part
        self._times = times or {}
        #: Type of the event time of each stream that was met.
        self._kinds: dict[str, str] = {}

    def of(self, node: Node) -> Flow:  # noqa: PLR0911  # one line an operator
        """The flow out of a node that reads a stream; ``Misfit`` where windows would mix."""
        stream = self._stream(node)
        if stream is not None:
            return self._source(node, stream)
        match node.kind:
            case "Project" | "Aggregate":
                return self._projected(node)
            case "Expand":
                return self._expanded(node)
            case "Filter":
                return self._filtered(node)
            case "Join" | "LateralJoin":
                return self._joined(node, [])
            case "Distinct":
                return self._distinct(node)
            case "Window":
                return self._ranked(node)
            case "Union" | "Except" | "Intersect":
                return self._set(node)
            case "CTERelationRef":
                part = self._part(node.fields["cteId"])
                renamed = dict(zip(self.outputs(part), self.outputs(node), strict=True))
                return _renamed(self.of(part), renamed)
            case "WithCTE":
                return self.of(node.children[-1])
            case _:
                return self.of(node.children[0])

    def outputs(self, node: Node) -> list[int]:  # noqa: PLR0911  # one line an operator
        """Ids of the columns that leave a node, in order."""
        match node.kind:
            case "Project":
                return [e.id for e in parse_list(node.fields["projectList"])]
            case "Aggregate":
                return [e.id for e in parse_list(node.fields["aggregateExpressions"])]
            case "Window":
                made = [e.id for e in parse_list(node.fields["windowExpressions"])]
                return [*self.outputs(node.children[0]), *made]
            case "Generate":
                made = [e.id for e in parse_list(node.fields["generatorOutput"])]
                return [*self.outputs(node.children[0]), *made]
            case "Join" | "LateralJoin":
                kept = node.children[:1] if _is_half(node) else node.children
                return [column for child in kept for column in self.outputs(child)]
            case "WithCTE":
                return self.outputs(node.children[-1])
            case _ if "output" in node.fields:
                return [e.id for e in parse_list(node.fields["output"])]
            case _ if node.children:
                return self.outputs(node.children[0])
            case _:
                return []

    def _source(self, node: Node, stream: str) -> Flow:
        leaf = node
        while leaf.children:
            leaf = leaf.children[0]
        wanted = self._times.get(stream)
        columns = parse_list(leaf.fields.get("output", []))
        mine = [c for c in columns if c.fields["name"] == wanted]
        self._kinds.update((stream, str(c.fields["dataType"])) for c in mine)
        return Flow(times={c.id: stream for c in mine})

    def _refuse_mixed(self, what: str, node: Node) -> None:
        """An instant and a local time are different numbers, and lie in different windows."""
        streams = {self._kinds[s]: s for s in sorted(self._reads(node)) if s in self._kinds}
        if len(streams) > 1:
            instant, local = streams["timestamp"], streams["timestamp_ntz"]
            raise Misfit(
                f"{what} stream {instant!r}, whose event time is a TIMESTAMP, and stream "
                f"{local!r}, whose event time is a TIMESTAMP_NTZ",
                f"declare both as TIMESTAMP in the schemas of their streams: the local times of "
                f"{local!r} are then read in the pipeline's time zone",
            )

    def _projected(self, node: Node) -> Flow:
        below = self.of(node.children[0])
        if node.kind == "Aggregate":
            below = self._grouped(node, below)
            listed = parse_list(node.fields["aggregateExpressions"])
        else:
            listed = parse_list(node.fields["projectList"])
        times: dict[int, str] = {}
        marks: dict[int, Mark] = {}
        for named in listed:
            inner = bare(named.children[0]) if named.kind == "Alias" else named
            found = window_of(inner)
            if found is not None:
                below = self._windowed(below, *found)
                if not below.strays:
                    marks[named.id] = "window"
                continue
            if inner.kind == "AttributeReference" and inner.id in below.times:
                times[named.id] = below.times[inner.id]
            mark = mark_of(inner, below.marks)
            if mark is not None:
                marks[named.id] = mark
        return replace(below, times=times, marks=marks)

    def _windowed(self, below: Flow, grid: Grid, time: Expression) -> Flow:
        """A window is assigned: to rows as they come, by the event time of their stream."""
        known = time.kind == "AttributeReference" and time.id in below.times
        # Over a join by windows, both sides' times lie in the pair's window.
        if not known or (below.over is not None and (below.over != grid or grid.overlaps)):
            name = str(time.fields.get("name", "an expression"))
            return replace(below, strays=(*below.strays, name))
        return replace(below, over=grid)

    def _expanded(self, node: Node) -> Flow:
        """Sliding windows, or one of the others that give several rows for one."""
        below = self.of(node.children[0])
        rows = [parse_list(one) for one in node.fields["projections"]]
        times: dict[int, str] = {}
        marks: dict[int, Mark] = {}
        for at, column in enumerate(self.outputs(node)):
            cells = [bare(row[at]) for row in rows]
            found = window_of(cells[0])
            if found is not None:
                below = self._windowed(below, *found)
                if not below.strays:
                    marks[column] = "window"
            elif all(c.kind == "AttributeReference" for c in cells):
                ids = {c.id for c in cells}
                if len(ids) == 1:
                    kept = ids.pop()
                    times |= {column: below.times[kept]} if kept in below.times else {}
                    marks |= {column: below.marks[kept]} if kept in below.marks else {}
        return replace(below, times=times, marks=marks)

    def _grouped(self, node: Node, below: Flow) -> Flow:
        keys = parse_list(node.fields["groupingExpressions"])
        if isinstance(below.over, Band):
            raise Misfit("aggregates over a join by a band of times", "join over windows instead")
        if not any(mark_of(bare(key), below.marks) for key in keys):
            if any(key.fields.get("name") == "session_window" for key in keys):
                raise Misfit(
                    "has session_window, whose windows have no fixed ends",
                    "group by window(at, '10 seconds') instead",
                )
            raise Misfit(_ungrouped(below, bool(keys)), _group_remedy(below))
        return replace(below, gathers=True)

    def _distinct(self, node: Node) -> Flow:
        below = self.of(node.children[0])
        if not any(column in below.marks for column in self.outputs(node)):
            if node.children[0].kind == "Union":
                raise Misfit("UNION drops duplicates", "write UNION ALL")
            raise Misfit("has DISTINCT", "select a window too, or drop duplicates where it is read")
        return replace(below, gathers=True)

    def _ranked(self, node: Node) -> Flow:
        """Ranks within the keys of a window; which functions those are is asked elsewhere."""
        below = self.of(node.children[0])
        keys = parse_list(node.fields["partitionSpec"])
        if isinstance(below.over, Band) or not any(mark_of(bare(k), below.marks) for k in keys):
            raise Misfit(
                "ranks rows of different windows",
                "rank within windows: OVER (PARTITION BY w, ... ORDER BY ...) over rows that are "
                "selected with window(at, '10 seconds') AS w",
            )
        return replace(below, gathers=True)

    def _filtered(self, node: Node) -> Flow:
        child = node.children[0]
        if child.kind == "Join" and joins.join_type(child) in ("Inner", "Cross"):
            return self._joined(child, [parse_expression(node.fields["condition"])])
        return self.of(child)

    def _set(self, node: Node) -> Flow:
        flows = [self.of(child) for child in node.children if self._reads(child)]
        columns = [self.outputs(child) for child in node.children if self._reads(child)]
        self._refuse_mixed("unites", node)
        first, *others = flows
        aligned: dict[int, Mark] = {}
        times: dict[int, str] = {}
        for at, column in enumerate(columns[0]):
            cells = [flow.marks.get(c[at]) for flow, c in zip(flows, columns, strict=True)]
            if cells[0] is not None and len(set(cells)) == 1:
                aligned[column] = cells[0]
            held = {flow.times.get(c[at]) for flow, c in zip(flows, columns, strict=True)}
            if None not in held:
                times[column] = held.pop() or "" if len(held) == 1 else ""
        if node.kind == "Union":
            gathers = any(f.gathers for f in flows)
            if gathers and any(f.over != first.over or not f.gathers for f in others):
                raise Misfit(
                    "UNION ALL joins windows with rows, or with other windows",
                    "make it two queries",
                )
            over = first.over if all(f.over == first.over for f in others) else None
            marks = aligned if over else {}
            return Flow(times, marks, over, gathers, first.strays)
        name = node.kind.upper()
        if len(flows) < len(node.children):
            raise Misfit(
                f"has {name} with a static table",
                f"filter with a join (LEFT {'ANTI' if name == 'EXCEPT' else 'SEMI'}) instead",
            )
        if isinstance(first.over, Band) or any(f.over != first.over for f in others):
            raise Misfit(f"has {name} of different windows", "use the same window on both sides")
        if not aligned:
            raise Misfit(
                f"has {name}",
                "select the same window on both sides: SELECT window(...) AS w, ... "
                f"{name} SELECT window(...), ...",
            )
        return Flow({}, aligned, first.over, gathers=True)

    def _joined(self, node: Node, more: list[Expression]) -> Flow:
        left, right = node.children[0], node.children[-1]
        if node.kind == "LateralJoin" or not self._reads(right):
            return self.of(left)
        if not self._reads(left):
            return self.of(right)
        one, other = self.of(left), self.of(right)
        self._refuse_mixed("joins", node)
        if node.fields.get("condition"):
            more = [*more, parse_expression(node.fields["condition"])]
        found = joins.joined(one, other, joins.join_type(node), more)
        if found is not None:
            return found
        names = min(self._reads(left)), min(self._reads(right))
        same = names[0] == names[1]
        sides = f"{names[0]!r} with itself" if same else f"{names[0]!r} and {names[1]!r}"
        raise Misfit(f"joins streams {sides}", f"{joins.JOIN_REMEDY}; or {joins.STATIC_SIDE}")


def _ungrouped(below: Flow, has_keys: bool) -> str:
    if below.strays:
        return f"groups by a window over {below.strays[0]!r}, which is no stream's event time"
    return "has GROUP BY without a window" if has_keys else "has an aggregate"


def _group_remedy(below: Flow) -> str:
    if below.strays:
        return 'declare time = "COLUMN" with the stream, and use that column in window(...)'
    return "group by a window too: GROUP BY window(at, '10 seconds'), ..."


def _renamed(flow: Flow, names: Mapping[int, int]) -> Flow:
    times = {names[c]: s for c, s in flow.times.items() if c in names}
    marks = {names[c]: m for c, m in flow.marks.items() if c in names}
    return replace(flow, times=times, marks=marks)


def _is_half(node: Node) -> bool:
    return node.kind == "Join" and joins.join_type(node) in ("LeftSemi", "LeftAnti")
