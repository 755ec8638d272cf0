"""Finds policies by name: ours, and those third parties add by the entry-point group."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.tables import Document, Table, params_from
from daybreak.policies.abd import AdaptiveBroadcastDisk
from daybreak.policies.ambd import AffinityBroadcastDisks
from daybreak.policies.at_a_time import BoxAtATime, ThreadPerBox, TupleAtATime
from daybreak.policies.base import BasePolicy
from daybreak.policies.bucketing import Bucketing, BucketingPush
from daybreak.policies.chosen_superboxes import ChosenSuperboxes
from daybreak.policies.clearing import Clearing
from daybreak.policies.cqc import ContinuousQueryClass
from daybreak.policies.drawn import BoxesDrawn, QueriesDrawn
from daybreak.policies.fas_auto import AutoBeta
from daybreak.policies.fas_mcq import FreshnessAware
from daybreak.policies.fcfs import FirstComeFirstServed
from daybreak.policies.fixed_priority import FixedPriority, FixedPriorityPush
from daybreak.policies.highest_rate import HighestRate, WeightedHighestRate
from daybreak.policies.in_turn import BoxesInTurn, ProportionalInTurn, QueriesInTurn
from daybreak.policies.lottery import Lottery
from daybreak.policies.mbd import MulticoreBroadcastDisks
from daybreak.policies.mbd_qos import QosBroadcastDisks
from daybreak.policies.per_class import SplitThreads, ThreadPerClass
from daybreak.policies.planned import Planned
from daybreak.policies.rb_mcq import RateBased
from daybreak.policies.round_robin import RoundRobin
from daybreak.policies.slope_slack import SlopeSlack, SlopeSlackPush
from daybreak.policies.stride import Stride
from daybreak.policies.superbox import ApplicationAtATime

ENTRY_POINTS = "daybreak.policies"

BUILTIN: tuple[type[BasePolicy], ...] = (
    Planned,
    RoundRobin,
    TupleAtATime,
    BoxAtATime,
    ApplicationAtATime,
    ChosenSuperboxes,
    ThreadPerBox,
    FirstComeFirstServed,
    FixedPriority,
    FixedPriorityPush,
    SlopeSlack,
    SlopeSlackPush,
    Bucketing,
    BucketingPush,
    Clearing,
    Stride,
    Lottery,
    RateBased,
    FreshnessAware,
    AutoBeta,
    HighestRate,
    WeightedHighestRate,
    ContinuousQueryClass,
    AdaptiveBroadcastDisk,
    QueriesInTurn,
    BoxesInTurn,
    ProportionalInTurn,
    QueriesDrawn,
    BoxesDrawn,
    ThreadPerClass,
    SplitThreads,
    MulticoreBroadcastDisks,
    QosBroadcastDisks,
    AffinityBroadcastDisks,
)


def all_policies() -> dict[str, type[BasePolicy]]:
    """Every policy by name; a name taken twice is an error."""
    found: dict[str, type[BasePolicy]] = {p.name: p for p in BUILTIN}
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            policy = entry.load()
        except Exception as error:
            raise ConfigError(
                f"policy {entry.name!r}",
                f"its package cannot be loaded ({error})",
                f"mend or uninstall {entry.value}",
            ) from error
        if not (isinstance(policy, type) and issubclass(policy, BasePolicy)):
            raise ConfigError(
                f"policy {entry.name!r}",
                f"{entry.value} is not a subclass of BasePolicy",
                "see docs/how-to/add-a-policy.md",
            )
        if policy.name in found:
            raise ConfigError(
                f"policy {policy.name!r}", f"is defined again by {entry.value}", "rename it"
            )
        found[policy.name] = policy
    return found


def make_policy(name: str, params: Table | None = None, place: str = "policy") -> BasePolicy:
    """The named policy with its parameters from a ``[policy]`` table."""
    found = all_policies()
    if name not in found:
        raise ConfigError(place, f"policy {name!r} is not registered", suggestion(name, found))
    kind = found[name]
    table = params if params is not None else Table(Document(place, "", {}), (), {})
    return kind(params_from(table, kind.Params))


def make_policy_with(name: str, /, **params: Any) -> BasePolicy:
    """The same from Python: ``make_policy_with("round-robin", level="query")``."""
    return make_policy(name, Table(Document(f"policy {name}", "", params), (), params))
