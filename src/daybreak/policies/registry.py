"""Finds policies by name: ours, and those third parties add by the entry-point group."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

from daybreak.extras import load_class
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.tables import Document, Table, params_from
from daybreak.policies.aaat import ApplicationAtATime
from daybreak.policies.abd import AdaptiveBroadcastDisk
from daybreak.policies.ambd import AffinityBroadcastDisks
from daybreak.policies.baat import BoxAtATime
from daybreak.policies.base import BasePolicy
from daybreak.policies.bucketing import Bucketing
from daybreak.policies.bucketing_clearing import BucketingClearing
from daybreak.policies.bucketing_push import BucketingPush
from daybreak.policies.cqc import ContinuousQueryClass
from daybreak.policies.fas_mcq import FreshnessAware
from daybreak.policies.fas_mcq_auto import AutoBeta
from daybreak.policies.fcfs import FirstComeFirstServed
from daybreak.policies.fixed_priority import FixedPriority
from daybreak.policies.fixed_priority_push import FixedPriorityPush
from daybreak.policies.hr import HighestRate
from daybreak.policies.lottery import Lottery
from daybreak.policies.mbd import MulticoreBroadcastDisks
from daybreak.policies.mbd_qos import QosBroadcastDisks
from daybreak.policies.ml import MulticoreLottery
from daybreak.policies.mol import MulticoreOperatorLottery
from daybreak.policies.morr import MulticoreOperatorRoundRobin
from daybreak.policies.mprr import MulticoreProportionalRoundRobin
from daybreak.policies.mrr import MulticoreRoundRobin
from daybreak.policies.pct import ThreadPerClass
from daybreak.policies.pct_s import SplitThreadPerClass
from daybreak.policies.planned import Planned
from daybreak.policies.rb_mcq import RateBased
from daybreak.policies.round_robin import RoundRobin
from daybreak.policies.slope_slack import SlopeSlack
from daybreak.policies.slope_slack_push import SlopeSlackPush
from daybreak.policies.stride import Stride
from daybreak.policies.superbox import ChosenSuperboxes
from daybreak.policies.taat import TupleAtATime
from daybreak.policies.thread_per_box import ThreadPerBox
from daybreak.policies.weighted_hr import WeightedHighestRate

ENTRY_POINTS = "daybreak.policies"
#: Hooks of earlier versions; a policy that has one would run and never hear of its queries.
RENAMED = {"on_boarding": "on_withdrawn", "on_ride": "on_returned"}

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
    BucketingClearing,
    Stride,
    Lottery,
    RateBased,
    FreshnessAware,
    AutoBeta,
    HighestRate,
    WeightedHighestRate,
    ContinuousQueryClass,
    AdaptiveBroadcastDisk,
    MulticoreRoundRobin,
    MulticoreOperatorRoundRobin,
    MulticoreProportionalRoundRobin,
    MulticoreLottery,
    MulticoreOperatorLottery,
    ThreadPerClass,
    SplitThreadPerClass,
    MulticoreBroadcastDisks,
    QosBroadcastDisks,
    AffinityBroadcastDisks,
)


def all_policies() -> dict[str, type[BasePolicy]]:
    """Every policy by name; a name taken twice is an error."""
    found: dict[str, type[BasePolicy]] = {p.name: p for p in BUILTIN}
    for entry in entry_points(group=ENTRY_POINTS):
        policy = load_class(entry, "policy", BasePolicy, "see docs/how-to/add-a-policy.md")
        for old, new in RENAMED.items():
            if hasattr(policy, old):
                raise ConfigError(
                    f"policy {policy.name!r}",
                    f"defines {old}, which nothing calls",
                    f"name it {new}",
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
