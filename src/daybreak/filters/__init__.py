"""Routing tuples through filter services: at the optimum under load, quickly otherwise."""

from daybreak.filters.capacity import OnlineEstimator
from daybreak.filters.declared import Estimate, Filter, load_filters
from daybreak.filters.dependencies import Dependencies
from daybreak.filters.estimates import Estimates
from daybreak.filters.flow import condon_flow
from daybreak.filters.measurement import Capacity, Trigger, measure, measurement
from daybreak.filters.optimum import optimum_per_s, optimum_with_dependencies
from daybreak.filters.routers import ROUTERS, make_router
from daybreak.filters.simulator import Change, Load, SimulationReport, simulate

__all__ = [
    "ROUTERS",
    "Capacity",
    "Change",
    "Dependencies",
    "Estimate",
    "Estimates",
    "Filter",
    "Load",
    "OnlineEstimator",
    "SimulationReport",
    "Trigger",
    "condon_flow",
    "load_filters",
    "make_router",
    "measure",
    "measurement",
    "optimum_per_s",
    "optimum_with_dependencies",
    "simulate",
]
