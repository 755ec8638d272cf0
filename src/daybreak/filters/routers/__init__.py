"""Which tuple a filter takes next: one router per file, found by name."""

from __future__ import annotations

from daybreak.filters.routers.base import Fetching, OneAtATime, Routing
from daybreak.filters.routers.condon import Condon
from daybreak.filters.routers.fixed import Fixed
from daybreak.filters.routers.free_first import FreeFirst
from daybreak.filters.routers.least_cost import LeastCost
from daybreak.filters.routers.priority import Priority, PriorityLiteral
from daybreak.filters.routers.work_stealing import WorkStealing
from daybreak.model.errors import ConfigError, suggestion

ROUTERS: dict[str, type[Routing]] = {
    kind.name: kind
    for kind in (Fixed, LeastCost, Condon, WorkStealing, Priority, PriorityLiteral, FreeFirst)
}


def make_router(name: str) -> Routing:
    """A router with its defaults."""
    if name not in ROUTERS:
        raise ConfigError("router", f"{name!r} is unknown", suggestion(name, ROUTERS))
    return ROUTERS[name]()


__all__ = [
    "ROUTERS",
    "Condon",
    "Fetching",
    "Fixed",
    "FreeFirst",
    "LeastCost",
    "OneAtATime",
    "Priority",
    "PriorityLiteral",
    "Routing",
    "WorkStealing",
    "make_router",
]
