"""The schedulers by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from inspect import signature
from typing import Any

from daybreak.links.conveyor_belt import ConveyorBelt
from daybreak.links.due import Due
from daybreak.links.due_window import DueWindow
from daybreak.links.fifo import Fifo
from daybreak.links.hybrid import Hybrid
from daybreak.links.link_classes import LinkClass
from daybreak.links.min_slack import MinSlack
from daybreak.links.scheduler import Scheduler
from daybreak.links.static_priority import StaticPriority
from daybreak.model.errors import ConfigError, suggestion

SCHEDULERS: dict[str, Callable[..., Scheduler]] = {
    "fifo": Fifo,
    "static-priority": StaticPriority,
    "min-slack": MinSlack,
    "conveyor-belt": ConveyorBelt,
    "hybrid": Hybrid,
    "due": Due,
    "due-window": DueWindow,
}


def make_scheduler(
    name: str,
    classes: Sequence[LinkClass],
    bandwidth_bytes_per_s: float,
    params: Mapping[str, Any] | None = None,
) -> Scheduler:
    """A fresh scheduler; ``params`` are the keywords of its class."""
    factory = SCHEDULERS.get(name)
    if factory is None:
        raise ConfigError("link", f"scheduler {name!r} is not known", suggestion(name, SCHEDULERS))
    known = set(signature(factory).parameters) - {"classes", "bandwidth_bytes_per_s"}
    for key in params or {}:
        if key not in known:
            remedy = suggestion(key, known)
            raise ConfigError("link", f"scheduler {name!r} has no parameter {key!r}", remedy)
    return factory(classes, bandwidth_bytes_per_s, **(params or {}))
