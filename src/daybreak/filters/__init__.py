"""Routing tuples through filter services: at the optimum under load, quickly otherwise."""

from daybreak.filters.capacity import OnlineEstimator
from daybreak.filters.declared_filters import Estimate, Filter, load_filters
from daybreak.filters.dependencies import Dependencies
from daybreak.filters.estimates import Estimates
from daybreak.filters.measurement import Capacity, Trigger, measure, measurement
from daybreak.filters.optimal_flow import condon_flow
from daybreak.filters.optimum import optimum_per_s, optimum_with_dependencies
from daybreak.filters.router import CallFailure, FilterFailed, Passed, Router
from daybreak.filters.router_simulator import FilterChange, Load, SimulationReport, simulate
from daybreak.filters.routers import ROUTERS, make_router
from daybreak.filters.services import (
    CallableReplica,
    Replica,
    Service,
    ServiceUnavailable,
    callable_service,
)

__all__ = [
    "ROUTERS",
    "CallFailure",
    "CallableReplica",
    "Capacity",
    "Dependencies",
    "Estimate",
    "Estimates",
    "Filter",
    "FilterChange",
    "FilterFailed",
    "Load",
    "OnlineEstimator",
    "Passed",
    "Replica",
    "Router",
    "Service",
    "ServiceUnavailable",
    "SimulationReport",
    "Trigger",
    "callable_service",
    "condon_flow",
    "load_filters",
    "make_router",
    "measure",
    "measurement",
    "optimum_per_s",
    "optimum_with_dependencies",
    "simulate",
]
