"""The manifest of Spark's internals names what our sources use: no less, and no more."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from tests.spark.java.public import ELSEWHERE, PUBLIC, PUBLIC_IN_PYTHON
from tests.spark.java.sources import (
    MANIFEST,
    PACKAGES,
    SRC,
    Calls,
    compiled,
    modules,
    reflected,
    simple,
)
from tests.spark.modes.feeds import declare, row, write

from daybreak.model.specs import Mode
from daybreak.spark.java.jars import Jars
from daybreak.spark.java.loader import sources
from daybreak.spark.java.lookup import missing_internals
from daybreak.spark.java.manifest import INTERNALS, SPARK

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PYSPARK = Path(pyspark.__file__).parent
#: The capabilities whose internals are used by Java, by its package.
CAPABILITIES = {
    "governed": ("gates", "limits of micro-batches", "backlog of governed queries",
                 "processAllAvailable", "kafka"),
    "kafka": (),
    "ingest": ("direct ingest", "tasks on the driver's threads"),
    "prepared": ("prepared plans", "tasks on the driver's threads"),
    "stateful": ("stateful queries",),
    "tasks": ("tasks on the driver's threads",),
}  # fmt: skip
#: All ways of computing a query, so that all that plans are asked for is seen.
QUERIES = {
    "warm": "SELECT n, v + 1 AS w FROM rows WHERE v > 3 AND k <> 'x' OR n = 0",
    "products": "SELECT n, v * 2 + n AS w FROM rows WHERE v BETWEEN 2 AND 9",
    "named": "SELECT n, upper(r.k) AS k FROM (SELECT * FROM rows WHERE v > 1) r",
    "counts": "SELECT window.end AS e, k, count(*) AS n, avg(v) AS m FROM rows WHERE v > 1 "
    "GROUP BY window(at, '10 seconds'), k HAVING n > 0",
    "most": "SELECT window.end AS e, k, max(v) AS top FROM rows "
    "GROUP BY window(at, '10 seconds'), k",
    "panes": "SELECT window.end AS e, k, sum(v) AS s, avg(v) AS m FROM rows "
    "GROUP BY window(at, '30 seconds', '10 seconds'), k",
    "pairs": "SELECT a.n, b.n AS m FROM rows a JOIN rows b ON a.k = b.k "
    "AND b.at BETWEEN a.at AND a.at + INTERVAL 5 SECONDS",
    "windows": "SELECT a.n, b.v FROM rows a JOIN rows b ON a.k = b.k "
    "AND window(a.at, '10 seconds') = window(b.at, '10 seconds')",
}
MODES: dict[Mode, str] = {
    "update": "SELECT k, count(*) AS n FROM rows GROUP BY k",
    "append": "SELECT window.end AS e, count(*) AS n FROM rows GROUP BY window(at, '10 seconds')",
    "complete": "SELECT k, v FROM rows WHERE v > (SELECT avg(v) FROM rows) ORDER BY v, k LIMIT 3",
}


@pytest.fixture(scope="module")
def classes() -> Iterator[Jars]:
    with Jars((PYSPARK / "jars").glob("*.jar")) as jars:
        yield jars


def listed_in(capabilities: Iterable[str] | None = None) -> dict[str, set[str]]:
    """The members that the manifest lists of each class; of these capabilities, or of all."""
    found: dict[str, set[str]] = {}
    for capability in INTERNALS:
        if capabilities is None or capability.name in capabilities:
            for internal in capability.internals:
                for name in internal.names:
                    found.setdefault(name, set()).update(internal.members)
    return found


def is_listed(classes: Jars, owner: str, member: str | None, listed: dict[str, set[str]]) -> bool:
    """Whether a class is listed or public, or a member as one that it declares or inherits."""
    if member is None:
        return owner in PUBLIC or owner in listed
    # Janino names the class that declares a member, which may lie above the one that is listed.
    if any(are_related(classes, owner, name) for name in listed if member in listed[name]):
        return True
    return any(f.name in PUBLIC and member in f.members for f in classes.lineage(owner))


def test_the_installed_spark_has_all_that_is_listed() -> None:
    assert version("pyspark") == SPARK, "go through the list again"
    missing = missing_internals(PYSPARK / "jars", PYSPARK)
    assert {capability.name: names for capability, names in missing.items()} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_java_uses_what_the_manifest_lists_for_it(
    spark: SparkSession, classes: Jars, package: str
) -> None:
    listed = listed_in(CAPABILITIES[package])
    if "org.apache.spark" not in "".join(sources(package).values()):
        assert not CAPABILITIES[package]
        return
    used = {(owner, m) for c in compiled(spark, package) for owner, ms in c.uses.items()
            for m in (ms or {None}) if owner.startswith("org.apache.spark.")}  # fmt: skip
    unlisted = {use for use in used if not is_listed(classes, *use, listed)}
    assert sorted(map(str, unlisted)) == [], "add them to manifest.py"
    names = set().union(*listed.values()) | {simple(name) for name in listed}
    assert reflected(package) - names == set(), "reached by reflection; add them to manifest.py"


@pytest.mark.slow
def test_python_calls_what_the_manifest_lists(
    spark: SparkSession, classes: Jars, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = declare(spark, tmp_path)
    for name, sql in QUERIES.items():
        app.query(name, sql=sql)
    for mode, sql in MODES.items():
        app.query(mode, sql=sql, mode=mode)
    write(tmp_path / "in", 0, map(row, range(90)))
    calls = Calls(monkeypatch)
    with calls.recorded(), app.run(run_dir=tmp_path / "run") as run:
        run.drain()
        run.register("later", "SELECT n FROM rows WHERE v = 1")
    assert not run.failures
    found = {use for use in calls.found if use[0].startswith(("org.apache.spark.", "org.antlr."))}
    assert len(found) > 200
    unlisted = {use for use in found if not is_listed(classes, *use, listed_in())}
    assert sorted(use for use in unlisted if use[1] not in ("getClass", "equals")) == []


def test_python_names_what_the_manifest_lists() -> None:
    listed = listed_in()
    names = set().union(*listed.values()) | {simple(name) for name in listed}
    ours = {name for tree in modules().values() for name in defined(tree)}
    texts = "\n".join(text for package in PACKAGES for text in sources(package).values())
    ours |= set(re.findall(r"^    public [^=(]* (\w+)\(", texts, re.MULTILINE))
    known = names | ours | PUBLIC_IN_PYTHON | ELSEWHERE | {simple(name) for name in PUBLIC}
    found = {(path, name) for path, tree in modules().items() for name in java_names(tree)}
    assert sorted(use for use in found if use[1] not in known) == []
    private = {name for tree in modules().values() for name in borrowed(tree)} - ours
    assert sorted(private - names - {"_asdict", "_replace"}) == [], "private to PySpark"


def java_names(tree: ast.Module) -> Iterator[str]:
    """Attributes that are written as in Java, and classes of Spark that are named by a text."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(attr=name) if re.match(r"[a-z]+[A-Z]", name):
                yield name
            case ast.Call(
                func=ast.Attribute(attr="make" | "_plan" | "joined" | "pattern"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield simple(name)
            case ast.Constant(value=str(text)):
                yield from re.findall(r"\borg\.apache\.spark\.[\w.]*\.([A-Z]\w+)", text)
                yield from re.findall(r"^\.[\w.]*\.([A-Z]\w+)$", text)  # the end of an f-string


def defined(tree: ast.Module) -> Iterator[str]:
    """Names of functions, classes, variables and attributes of our own."""
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def borrowed(tree: ast.Module) -> Iterator[str]:
    """Private attributes of any object."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
            yield node.attr


def test_all_that_is_listed_is_used(spark: SparkSession, classes: Jars) -> None:
    """By Java or by Python; a name that neither mentions is to be removed."""
    java = {
        (owner, member)
        for package in PACKAGES
        if CAPABILITIES[package]
        for compiled_class in compiled(spark, package)
        for owner, members in compiled_class.uses.items()
        for member in (*members, None)
    }
    texts = [path.read_text() for path in (SRC / "spark").rglob("*.py") if path not in MANIFEST]
    by_text = set(re.findall(r"\w+", "\n".join(texts))).union(*map(reflected, PACKAGES))

    def is_used(name: str, member: str | None) -> bool:
        if member in by_text or (member in (None, "<init>") and simple(name) in by_text):
            return True
        owners = (owner for owner, used in java if used == member)
        return any(are_related(classes, owner, name) for owner in owners)

    listed = [
        (i.name, m)
        for capability in INTERNALS
        for i in capability.internals
        for m in i.members or (None,)
    ]
    assert [f"{n}.{m}" for n, m in listed if m != "MODULE$" and not is_used(n, m)] == []
    unnamed = {"org.apache.spark.api.java.JavaSparkContext"}  # what SparkContext._jsc is
    assert {name for name in PUBLIC if not is_used(name, None)} == unnamed


def are_related(classes: Jars, one: str, other: str) -> bool:
    """Whether two classes are the same, or one inherits from the other."""
    pairs = ((one, other), (other, one))
    return one == other or any(a in {found.name for found in classes.lineage(b)} for a, b in pairs)
