"""The workloads of class-based-thesis by name (Tables 2, 4, 5, 7-11), read from TOML files.

A file declares classes: priority, how many queries of which kinds, input rate. What changes
during the run is data too: priorities, rates and selectivities by class, and which class a
query belongs to. ``base`` takes over another workload, and what is given here replaces it.
A name such as ``5G_4`` is found as itself, or as the family ``5G_n`` on 4 operational cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import pairwise
from typing import Any

from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.tables import Document, Table

KINDS = ("aggregate", "join", "select", "project")
#: Shares of the kinds in a class: 21 queries in section 4.2.1, half and half for class 1 of 5G.
MIXES: dict[str, Mapping[str, int]] = {
    "all": {"aggregate": 9, "join": 6, "select": 4, "project": 2},
    "join & aggr": {"join": 1, "aggregate": 1},
    "join": {"join": 1},
}
#: From a second on, a value: ((0.0, 1200.0), (4.5, 2000.0)).
Profile = tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassLoad:
    """One class of a workload."""

    name: str
    priority: float
    #: How many queries of each kind, all replicas together.
    kinds: Mapping[str, int]
    rate_per_s: float
    #: Changes during the run; empty where nothing changes.
    priorities: Profile = ()
    rates: Profile = ()
    select_selectivity: Profile = ()
    join_selectivity: Profile = ()
    #: Whether a selection stands before each input of the joins (section 6.3.4).
    selects_before_joins: bool = False
    #: How many times each query is there: replicas cost the same, on streams of their own.
    replicas: int = 1

    def dealt(self) -> Iterator[tuple[str, int]]:
        """The kind of each query, spread as evenly as their numbers allow, and its place among
        those that are no replicas of others."""
        shares = {kind: n // self.replicas for kind, n in self.kinds.items()}
        total, given = sum(shares.values()), dict.fromkeys(shares, 0)
        originals = []
        for turn in range(1, total + 1):
            kind = max(given, key=lambda k: shares[k] * turn / total - given[k])
            given[kind] += 1
            originals.append((kind, turn))
        for _ in range(self.replicas):
            yield from originals


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedQuery:
    """A query that reads streams of several classes (5L's union and except)."""

    name: str
    kind: str
    cls: str
    reads: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A query moves to another class."""

    query: str
    cls: str
    at_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A named workload, ready to be built (``system``)."""

    name: str
    classes: tuple[ClassLoad, ...]
    #: Operational cores; the sources have one of their own, or none (chapter 4).
    cores: int
    source_cores: int = 1
    #: How long the sources deliver; the text injects 10 000 tuples per stream.
    duration_s: float
    shared: tuple[SharedQuery, ...] = ()
    assignments: tuple[Assignment, ...] = ()

    def with_rate(self, cls: str, rate_per_s: float) -> Workload:
        """The same with another input rate of one class."""
        changed = [
            replace(c, rate_per_s=rate_per_s, rates=()) if c.name == cls else c
            for c in self.classes
        ]
        return replace(self, classes=tuple(changed))

    def with_input(self, share: float) -> Workload:
        """The same with this share of every class's input."""
        scaled = [
            replace(
                c,
                rate_per_s=c.rate_per_s * share,
                rates=tuple((at_s, rate * share) for at_s, rate in c.rates),
            )
            for c in self.classes
        ]
        return replace(self, classes=tuple(scaled))

    def lasting(self, duration_s: float) -> Workload:
        return replace(self, duration_s=duration_s)


def names() -> list[str]:
    """Every workload that has a file; ``_n`` stands for a number of cores."""
    folder = files("daybreak_experiments.classes").joinpath("workloads")
    return sorted(p.name[:-5] for p in folder.iterdir() if p.name.endswith(".toml"))


def load_workload(name: str) -> Workload:
    """The workload of this name, from the files that come with the package."""
    known = names()
    family, _, number = name.rpartition("_")
    if name in known:
        return read_workload(_text(name), name)
    if number.isdecimal() and int(number) > 0 and f"{family}_n" in known:
        return read_workload(_text(f"{family}_n"), name, cores=int(number))
    raise ConfigError("workload", f"{name!r} is not known", suggestion(name, known))


def _text(file: str) -> str:
    folder = files("daybreak_experiments.classes").joinpath("workloads")
    return folder.joinpath(f"{file}.toml").read_text(encoding="utf-8")


def read_workload(text: str, name: str, cores: int | None = None) -> Workload:
    """A workload from the text of its file; ``cores`` for families that scale with them."""
    table = Document.parse(text, f"workload {name}").table()
    base_name = table.get("base", str)
    base = load_workload(base_name) if base_name else None
    cores = table.get("cores", int, cores or (base.cores if base else None))
    if cores is None or cores < 1:
        raise table.error("says no number of cores", "give cores = 4")
    found = {c.name: c for c in base.classes} if base else {}
    only = table.strings("only")
    replicas = _replicas(table, cores)
    for cls, child in table.children("classes"):
        found[cls] = _class(child, cls, cores, found.get(cls), replicas)
    classes = tuple(c for c in found.values() if only is None or c.name in only)
    if not classes:
        raise table.error("declares no classes", "add [classes.1] with a priority and queries")
    duration_s = table.get("duration_s", float, base.duration_s if base else None)
    result = Workload(
        name=name,
        classes=classes,
        cores=cores,
        source_cores=table.get("source_cores", int, base.source_cores if base else 1) or 0,
        duration_s=duration_s or 10_000 / max(c.rate_per_s for c in classes),
        shared=tuple(_shared(n, t) for n, t in table.children("shared"))
        or (base.shared if base else ()),
        assignments=tuple(_assignment(n, t) for n, t in table.children("assignments")),
    )
    table.done()
    _check_references(table, result)
    return result


def _replicas(table: Table, cores: int) -> int:
    """``replicated_per_cores = 2``: the queries given are for 2 cores, and replicated on more."""
    per_cores = table.get("replicated_per_cores", int, cores) or 0
    if per_cores < 1 or cores % per_cores:
        raise table.error(
            f"{cores} cores, queries given for {per_cores}",
            f"choose a multiple of {max(1, per_cores)} cores",
            "replicated_per_cores",
        )
    return cores // per_cores


def _class(table: Table, name: str, cores: int, base: ClassLoad | None, replicas: int) -> ClassLoad:
    priority = table.get("priority", float, base.priority if base else None)
    rate = table.get("rate_per_s", float, base.rate_per_s if base else None)
    per_core = table.get("rate_per_s_per_core", float)
    own = _kinds(table)
    if own:
        kinds: Mapping[str, int] | None = {kind: n * replicas for kind, n in own.items()}
    else:
        kinds, replicas = (base.kinds, base.replicas) if base else (None, 1)
    if priority is None or kinds is None or (rate is None and per_core is None):
        raise table.error("says too little", "give priority, queries, mix and rate_per_s")
    read = ClassLoad(
        name=name,
        priority=priority,
        kinds=kinds,
        rate_per_s=per_core * cores if per_core is not None else rate or 0.0,
        priorities=_profile(table, "priorities"),
        rates=_profile(table, "rates"),
        select_selectivity=_profile(table, "select_selectivity"),
        join_selectivity=_profile(table, "join_selectivity"),
        selects_before_joins=bool(table.get("selects_before_joins", bool)),
        replicas=replicas,
    )
    ramp = table.get("ramp_s", float)
    table.done()
    return replace(read, rates=_ramped(read.rates, ramp)) if ramp else read


def _kinds(table: Table) -> Mapping[str, int] | None:
    given = table.child("kinds")
    if given is not None:
        counts = {kind: given.get(kind, int, 0) or 0 for kind in KINDS}
        given.done()
        return {kind: n for kind, n in counts.items() if n}
    queries = table.get("queries", int)
    mix = table.get("mix", str, "all") or "all"
    if queries is None:
        return None
    if mix not in MIXES:
        raise table.error(f"mix {mix!r}", suggestion(mix, MIXES), "mix")
    return apportion(MIXES[mix], queries)


def apportion(shares: Mapping[str, int], total: int) -> dict[str, int]:
    """Whole numbers in these shares that add up to ``total`` (largest remainder).

    Equal remainders go to the kind that is the more frequent among all 21 queries. Table 5's
    "3 CQs, join & aggr" leaves open which kind has two; 9 aggregates to 6 joins, the only ratio
    of the two that the text prints, gives 1.8 aggregates and 1.2 joins, so 2 and 1.
    """
    whole = sum(shares.values())
    exact = {kind: total * share / whole for kind, share in shares.items()}
    given = {kind: int(part) for kind, part in exact.items()}
    spare = total - sum(given.values())
    usual = MIXES["all"]
    for kind in sorted(exact, key=lambda k: (given[k] - exact[k], -usual[k]))[:spare]:
        given[kind] += 1
    return {kind: n for kind, n in given.items() if n}


def _profile(table: Table, key: str) -> Profile:
    points: list[Any] = table.get(key, list) or []
    try:
        profile = tuple((float(at_s), float(value)) for at_s, value in points)
    except (TypeError, ValueError):
        raise table.error(f"{key} is {points}", "give pairs: [[0, 30], [4.5, 50]]", key) from None
    if any(a >= b for (a, _), (b, _) in pairwise(profile)) or any(at < 0 for at, _ in profile):
        raise table.error(f"{key} is out of order", "let the seconds grow", key)
    return profile


def _ramped(corners: Profile, step_s: float) -> Profile:
    """Straight lines between the corners, as steps of this length."""
    steps: list[tuple[float, float]] = []
    for (a, x), (b, y) in pairwise(corners):
        count = max(1, round((b - a) / step_s))
        steps += [(a + (b - a) * i / count, x + (y - x) * (i + 0.5) / count) for i in range(count)]
    return (*steps, corners[-1]) if corners else ()


def _shared(name: str, table: Table) -> SharedQuery:
    shared = SharedQuery(
        name=name,
        kind=table.need("kind", str, 'give "union" or "except"'),
        cls=table.need("class", str, "name the class it counts in"),
        reads=table.strings("reads") or (),
    )
    table.done()
    return shared


def _assignment(query: str, table: Table) -> Assignment:
    moved = Assignment(
        query=query,
        cls=table.need("class", str, "name the class it moves to"),
        at_s=table.need("at_s", float, "say when"),
    )
    table.done()
    return moved


def _check_references(table: Table, workload: Workload) -> None:
    known = [c.name for c in workload.classes]
    wanted: Sequence[str] = [
        *(a.cls for a in workload.assignments),
        *(cls for s in workload.shared for cls in (s.cls, *s.reads)),
    ]
    for cls in wanted:
        if cls not in known:
            raise table.error(f"class {cls!r} is not declared", suggestion(cls, known))
