"""What a user declares: streams, boxes, queries, networks, QoS graphs, classes, pipelines."""

from daybreak.model.arrivals import Arrivals, Phase
from daybreak.model.errors import (
    ConfigError,
    ConfigErrors,
    DaybreakError,
    EngineBug,
    QueryFailed,
)
from daybreak.model.network import Box, Network, Query, QueryClass, Stream, chain
from daybreak.model.overheads import OVERHEADS, Overheads
from daybreak.model.pipeline import Pipeline
from daybreak.model.qos import NS_PER_S, QoSGraph

__all__ = [
    "NS_PER_S",
    "OVERHEADS",
    "Arrivals",
    "Box",
    "ConfigError",
    "ConfigErrors",
    "DaybreakError",
    "EngineBug",
    "Network",
    "Overheads",
    "Phase",
    "Pipeline",
    "QoSGraph",
    "Query",
    "QueryClass",
    "QueryFailed",
    "Stream",
    "chain",
]
