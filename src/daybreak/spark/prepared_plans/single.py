"""A physical plan over single partitions, without its exchanges; or why there is no such plan.

Everything that Spark computes once and keeps (a broadcast, a subquery, an exchange that is used
twice) must not depend on a stream: it would give the rows of the first train again and again.
Only operators that are known to be safe are allowed, so that a new one is refused.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from daybreak.spark.catalyst import Plan, kind, listed, nodes
from daybreak.spark.prepared_plans.jvm import Rdd, is_train

#: Operators whose output over the rows of a task depends on these rows alone.
_OPERATORS = frozenset(
    {
        "ProjectExec", "FilterExec", "GenerateExec", "ExpandExec", "UnionExec", "CoalesceExec",
        "HashAggregateExec", "ObjectHashAggregateExec", "SortAggregateExec", "SortExec",
        "SortMergeJoinExec", "ShuffledHashJoinExec", "CartesianProductExec",
        "BroadcastHashJoinExec", "BroadcastNestedLoopJoinExec",
        "LocalTableScanExec", "OneRowRelationExec",
    }
)  # fmt: skip
#: Put where generated code begins and ends; generated again for the new plan.
_STAGES = frozenset({"WholeStageCodegenExec", "InputAdapter"})
#: Which rows an operator needs in one partition: it does not matter, or all of a static table.
_ANY_ROWS = frozenset({"UnspecifiedDistribution$", "BroadcastDistribution"})
#: A static table of more files takes too long to compare with what was read.
MOST_FILES = 64


class Unfit(Exception):
    """A plan that has to run as an ordinary job, and why."""


@dataclass
class Single:
    """Rewrites one plan."""

    jvm: Any
    seq: Any
    #: The files of static tables that were read, as Spark has listed them.
    files: list[Any] = field(default_factory=list)

    def of(self, plan: Plan) -> Plan:
        """The same over one partition; ``Unfit`` if there is none."""
        name = kind(plan)
        if name in _STAGES:
            return self.of(listed(plan.children())[0])
        for subquery in listed(plan.subqueries()):
            self._require_static(subquery, "a subquery")
        if name == "ShuffleExchangeExec":
            below = self.of(plan.child())
            return self._coalesced(below) if _partitions(below) != 1 else below
        if name == "BroadcastExchangeExec":
            self._require_static(plan, "a broadcast")
            return self._without_stages(plan)
        if name == "RDDScanExec" and is_train(plan.rdd()):
            return plan
        if name not in _OPERATORS:
            raise Unfit(f"{name.removesuffix('Exec')} is not known to be safe")
        below = [self.of(child) for child in listed(plan.children())]
        return self._with_children(plan, self._gathered(plan, below))

    def _gathered(self, plan: Plan, children: list[Plan]) -> list[Plan]:
        """The children, each as one partition where the operator needs certain rows together."""
        wanted = listed(plan.requiredChildDistribution())
        orders = listed(plan.requiredChildOrdering())
        found = []
        for child, distribution, order in zip(children, wanted, orders, strict=True):
            if kind(distribution) not in _ANY_ROWS and _partitions(child) != 1:
                if order.size():
                    raise Unfit("sorted rows of several partitions")
                found.append(self._coalesced(child))
            else:
                found.append(child)
        return found

    def _with_children(self, plan: Plan, children: list[Plan]) -> Plan:
        return plan.withNewChildren(self.seq(children)) if children else plan

    def _without_stages(self, plan: Plan) -> Plan:
        if kind(plan) in _STAGES:
            return self._without_stages(listed(plan.children())[0])
        below = [self._without_stages(child) for child in listed(plan.children())]
        return self._with_children(plan, below)

    def _coalesced(self, plan: Plan) -> Plan:
        """One partition after the other, as one: the sides of a union."""
        return self.jvm.org.apache.spark.sql.execution.CoalesceExec(1, plan)

    def _require_static(self, plan: Plan, what: str) -> None:
        for node in nodes(plan):
            for subquery in listed(node.subqueries()):
                self._require_static(subquery, what)
            if listed(node.children()):
                continue
            if kind(node) == "RDDScanExec" and is_train(node.rdd()):
                raise Unfit(f"{what} depends on a stream")
            self._note_source(node)

    def _note_source(self, leaf: Plan) -> None:
        """What a static table is read from, if a change of it can be noticed."""
        match kind(leaf):
            case "LocalTableScanExec" | "OneRowRelationExec" | "RangeExec":
                return
            case "RDDScanExec" if _is_in_memory(leaf.rdd()):
                return
            case "ExternalRDDScanExec" if _is_in_memory(leaf.rdd()):
                return
            case "InMemoryTableScanExec":
                self._require_static(leaf.relation().cachedPlan(), "a cached table")
            case "FileSourceScanExec":
                location = leaf.relation().location()
                if len(location.inputFiles()) <= MOST_FILES:
                    self.files += listed(location.allFiles())
                    return
                raise Unfit(f"a static table has more than {MOST_FILES} files")
            case name:
                raise Unfit(f"a static table is read by {name}, and may change unnoticed")


def _partitions(plan: Plan) -> int:
    """How many partitions its rows come in. Spark does not know this of the leaves."""
    match kind(plan):
        case "UnionExec":
            return sum(_partitions(child) for child in listed(plan.children()))
        case "RDDScanExec" | "OneRowRelationExec" | "CoalesceExec":
            return 1
        case "LocalTableScanExec":
            return 2  # or any other number
        case "BroadcastHashJoinExec" | "BroadcastNestedLoopJoinExec":
            sides = [c for c in listed(plan.children()) if kind(c) != "BroadcastExchangeExec"]
            return max(_partitions(side) for side in sides)
        case "CartesianProductExec":
            return 2
        case _:
            return max(_partitions(child) for child in listed(plan.children()))


def _is_in_memory(rdd: Rdd) -> bool:
    """Whether rows were given by the driver, and are not read from somewhere with every job."""
    below = listed(rdd.dependencies())
    if below:
        return all(_is_in_memory(dependency.rdd()) for dependency in below)
    return kind(rdd) == "ParallelCollectionRDD"
