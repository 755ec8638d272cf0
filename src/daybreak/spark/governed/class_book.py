"""Which class a governed query belongs to: declared classes, and assignments by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from daybreak.model.declarations import qos_from, read_qos
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.network import DEFAULT_CLASS, QueryClass
from daybreak.model.pipeline import read_class
from daybreak.model.qos import QoSGraph
from daybreak.model.tables import Document, Table

#: A graph, or its points: latency in seconds, utility.
Qos = QoSGraph | Sequence[Sequence[float]]


class Assignment(NamedTuple):
    """Queries whose name matches belong to this class."""

    pattern: str
    cls: str
    qos: QoSGraph | None = None


class ClassBook:
    """The classes of a governor and who belongs to which. The newest assignment counts."""

    def __init__(
        self,
        classes: Mapping[str, float] | Iterable[QueryClass] = (),
        assignments: Iterable[Assignment] = (),
    ) -> None:
        """Queries that nothing is said about form a class of the lowest priority declared."""
        declared = _declared(classes)
        if DEFAULT_CLASS not in declared:
            lowest = min((c.priority for c in declared.values()), default=1.0)
            declared[DEFAULT_CLASS] = QueryClass(name=DEFAULT_CLASS, priority=lowest)
        self.declared = declared
        self._assigned: list[Assignment] = []
        for assignment in assignments:
            self.assign(assignment)

    @classmethod
    def read(cls, path: Path) -> ClassBook:
        """From a TOML file with ``[classes]`` and ``[queries."PATTERN"]`` tables."""
        root = Document.read(path).table()
        classes = root.child("classes")
        if classes is None:
            remedy = "add one, such as alarm = 60"
            raise root.error("has no [classes] table", remedy)
        declared = [read_class(classes, name) for name in classes.data]
        known = [DEFAULT_CLASS, *(c.name for c in declared)]
        assigned = [_assignment(name, table, known) for name, table in root.children("queries")]
        root.done()
        # The file's first match counts, as people read it.
        return cls(declared, reversed(assigned))

    def known(self, name: str) -> str:
        """The name of a class that is declared; else ``ConfigError``."""
        if name not in self.declared:
            raise ConfigError(f"class {name!r}", "is not declared", suggestion(name, self.declared))
        return name

    def assign(self, assignment: Assignment) -> None:
        """Adds an assignment, or replaces that of the same pattern; the newest match counts.

        ``ConfigError`` if its class is not declared.
        """
        self.known(assignment.cls)
        self._assigned = [a for a in self._assigned if a.pattern != assignment.pattern]
        self._assigned.append(assignment)

    def of(self, query: str, started_in: str | None = None) -> Assignment:
        """The class of a query; ``started_in``: the class its program started it in."""
        for assignment in reversed(self._assigned):
            if fnmatchcase(query, assignment.pattern):
                return assignment
        given = started_in if started_in in self.declared else None
        return Assignment(query, given or DEFAULT_CLASS)


def graph_of(qos: Qos | None) -> QoSGraph | None:
    """A graph from its points; ``ConfigError`` if they make none."""
    if qos is None or isinstance(qos, QoSGraph):
        return qos
    points = [list(p) if isinstance(p, tuple) else p for p in qos] if _many(qos) else qos
    return qos_from(points, "qos graph")


def _many(value: object) -> bool:
    return isinstance(value, list | tuple)


def _declared(classes: Mapping[str, float] | Iterable[QueryClass]) -> dict[str, QueryClass]:
    if not isinstance(classes, Mapping):
        return {c.name: c for c in classes}
    for name, priority in classes.items():
        if isinstance(priority, bool) or not isinstance(priority, int | float):
            raise ConfigError(f"class {name!r}", f"priority {priority!r}", "give a number above 0")
    return {
        name: QueryClass(name=name, priority=float(priority)) for name, priority in classes.items()
    }


def _assignment(pattern: str, table: Table, classes: Sequence[str]) -> Assignment:
    cls = table.need("class", str, "give the class of these queries")
    if cls not in classes:
        raise table.error(f"class {cls!r} is not declared", suggestion(cls, classes), "class")
    found = Assignment(pattern, cls, read_qos(table))
    table.done()
    return found
