"""Where the rows of a query come from: its streams, and rows that are the same for every job.

A query may read streams, views of streams, and rows that no later job sees changed: declared
static tables, which are versions in memory; frames that a program made of its own rows;
``range`` and ``VALUES``. Files, tables of a catalog and other systems answer by the moment: a job
would see a file replaced, or not see one added, depending on when it was planned. And whoever may
write a query would read all that the application may read. They are declared as tables, so the
owner of the application decides what is read, and jobs see one version at a time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from daybreak.spark.sql.allowlist import FIXED, Refused, stream_of
from daybreak.spark.sql.catalyst import Plan, kind, listed
from daybreak.spark.sql.plan_nodes import Node

#: Leaves that stand for rows of the plan around them.
_REFERENCES = frozenset({"CTERelationRef", "UnionLoopRef"})
#: Where the lineage of rows that a program made may begin.
_GIVEN = frozenset(
    {"EmptyRDD", "LocalCheckpointRDD", "ParallelCollectionRDD", "ReliableCheckpointRDD"}
)
DECLARE = (
    'declare it as a static table, [tables.NAME] with its format and path, or app.table("NAME", '
    "...), and read it by that name"
)


def refuse_moving_rows(
    plans: Sequence[Plan], trees: Sequence[Node], streams: Mapping[str, str]
) -> None:
    """``Refused`` if a plan or a subquery has rows that may change between two jobs.

    ``plans`` and ``trees`` are the same plans, in the JVM and as trees.
    """
    for plan, tree in zip(plans, trees, strict=True):
        if "LogicalRDD" in _leaves(tree, streams, ""):
            _refuse_read_frames(plan)


def _leaves(node: Node, streams: Mapping[str, str], name: str) -> set[str]:
    """Kinds of the leaves at or below a node, but not those of streams."""
    if stream_of(node, streams) is not None:
        return set()
    if node.kind == "ScriptTransformation":
        raise Refused(
            "has TRANSFORM ... USING, which runs a program with the rights of the application",
            "use a Python UDF",
        )
    if node.kind == "View":
        named = node.fields["desc"]["identifier"]
        parts = (named.get(part) for part in ("catalog", "database", "table"))
        name = ".".join(part for part in parts if part)
        if named.get("database"):
            raise _moving(f"view {name!r} of a catalog")
    elif node.kind == "SubqueryAlias":
        name = str(node.fields["identifier"]["name"])
    if not node.children and node.kind not in FIXED | _REFERENCES:
        raise _moving(repr(name) if name else "files or tables of another system")
    below = (_leaves(child, streams, name) for child in node.children)
    return {node.kind}.union(*below) if node.children else {node.kind}


def _refuse_read_frames(plan: Plan) -> None:
    """``Refused`` if a frame of RDDs reads its rows anew with every job."""
    for leaf in listed(plan.collectLeaves()):
        if kind(leaf) == "LogicalRDD" and not _is_given(leaf.rdd()):
            raise _moving("a DataFrame made of an RDD that reads its rows with every job")


def _is_given(rdd: Plan) -> bool:
    below = listed(rdd.dependencies())
    if not below:
        return kind(rdd) in _GIVEN
    return all(_is_given(dependency.rdd()) for dependency in below)


def _moving(what: str) -> Refused:
    return Refused(
        f"reads {what}, which is no stream, view or declared table, so its rows may be others "
        "from one job to the next",
        DECLARE,
    )
