"""Reads a link scenario from a TOML file; every unknown key is an error with a hint."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from daybreak.links.link_classes import LinkClass, ranked
from daybreak.links.registry import make_scheduler
from daybreak.links.scenario import LinkScenario
from daybreak.model.errors import ConfigError
from daybreak.model.tables import Document, Table


def load_scenario(path: Path) -> LinkScenario:
    """The scenario a file declares; what it leaves out is as in section 4 of the text."""
    table = Document.read(path).table()
    given: dict[str, Any] = {
        key: table.get(key, kind)
        for key, kind in (
            ("scheduler", str),
            ("bandwidth_bytes_per_s", float),
            ("duration_s", float),
        )
        if key in table.data
    }
    table.known |= {"scheduler", "bandwidth_bytes_per_s", "duration_s"}
    params = table.child("params")
    if params is not None:
        given["params"] = dict(params.data)
    classes = [_class(name, inner) for name, inner in table.children("classes")]
    table.done()
    if classes:
        given["classes"] = tuple(classes)
    try:
        scenario = replace(LinkScenario(), **given)
        ranked(scenario.classes)
        _check_scheduler(scenario)
    except ConfigError as error:
        raise table.error(f"{error.place}: {error.finding}", error.remedy) from error
    return scenario


def _check_scheduler(scenario: LinkScenario) -> None:
    """Makes the scheduler once, so that a mistake shows before anything is sent."""
    args = (scenario.scheduler, scenario.classes, scenario.bandwidth_bytes_per_s)
    try:
        make_scheduler(*args, scenario.params)
    except TypeError as error:
        raise ConfigError(
            "params", f"{dict(scenario.params)} does not fit ({error})", "correct the values"
        ) from error


def _class(name: str, table: Table) -> LinkClass:
    minimum = table.get("minimum", str, "1/1") or ""
    parts = re.fullmatch(r"\s*([0-9]{1,7})\s*/\s*([0-9]{1,7})\s*", minimum)
    if parts is None:
        raise table.error(f"minimum {minimum!r}", 'write m of n as "6/10"', "minimum")
    value = table.need("value", float, "the class with the higher value wins")
    deadline_ms = table.need("deadline_ms", float, "give the latest useful delivery")
    size_bytes = table.get("size_bytes", int, 500) or 0
    rate_per_s = table.get("rate_per_s", float)
    table.done()
    try:
        return LinkClass(
            name=name,
            value=value,
            deadline_s=deadline_ms / 1000,
            m=int(parts[1]),
            n=int(parts[2]),
            size_bytes=size_bytes,
            rate_per_s=rate_per_s,
        )
    except ConfigError as error:
        raise table.error(error.finding, error.remedy) from error
