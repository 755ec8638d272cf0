"""The dashboard's commands, on governed queries: as those of an application's control socket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from daybreak.model.errors import ConfigError, suggestion
from daybreak.policies.registry import make_policy_with
from daybreak.spark.governed.governor_log import acting

if TYPE_CHECKING:
    from daybreak.spark.governed.governor import Governor

Values = Mapping[str, Any]
AFTER = ("jobs_after", "points_after", "changes_after")
#: No number that anything here may be lies beyond.
MOST = 1e18


def _snapshot(governor: Governor, values: Values) -> dict[str, Any]:
    after = {key: round(_number(values, key)) for key in AFTER if key in values}
    return governor.snapshot(**after).to_json()


def _pause(governor: Governor, values: Values) -> dict[str, Any]:
    governor.pause(_text(values, "query"))
    return {"query": values["query"], "state": "paused"}


def _resume(governor: Governor, values: Values) -> dict[str, Any]:
    if values.get("skip"):
        raise ConfigError(
            "resume", "Spark owns the offsets of a governed query: nothing can be skipped",
            "resume it without skipping",
        )  # fmt: skip
    governor.resume(_text(values, "query"))
    return {"query": values["query"], "state": "running", "skipped": 0}


def _set_class(governor: Governor, values: Values) -> dict[str, Any]:
    governor.change_class_priority(_text(values, "class"), _number(values, "priority"))
    return {"class": values["class"], "priority": values["priority"]}


def _set_query(governor: Governor, values: Values) -> dict[str, Any]:
    for key in ("weight", "subscribers"):
        if key in values:
            raise ConfigError("set-query", f"governed queries have no {key}", "give a class")
    governor.assign(_text(values, "query"), _text(values, "class"))
    return {"query": values["query"], "class": values["class"]}


def _set_policy(governor: Governor, values: Values) -> dict[str, Any]:
    parameters = values.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise ConfigError("policy", f"parameters {parameters!r}", "give an object")
    governor.set_policy(make_policy_with(_text(values, "policy"), **parameters))
    return {"policy": governor.policy.name, "parameters": dict(governor.policy.parameters)}


COMMANDS: Mapping[str, Callable[[Governor, Values], dict[str, Any]]] = {
    "snapshot": _snapshot,
    "pause": _pause,
    "resume": _resume,
    "set-class": _set_class,
    "set-query": _set_query,
    "set-policy": _set_policy,
}


def handle(governor: Governor, name: str, values: Values) -> dict[str, Any]:
    """Carries out one command; its value ``by`` says who asks, for the list of changes."""
    command = COMMANDS.get(name)
    if command is None:
        raise ConfigError("request", f"unknown command {name!r}", suggestion(name, COMMANDS))
    by = values.get("by", "program")
    with acting(str(by)):
        return command(governor, values)


def _text(values: Values, key: str) -> str:
    found = values.get(key)
    if not isinstance(found, str):
        raise ConfigError(key, f"is {found!r}", "give a text")
    return found


def _number(values: Values, key: str) -> float:
    found = values.get(key)
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    if not is_number or not abs(found) <= MOST:  # type: ignore[arg-type]  # nor NaN
        raise ConfigError(key, f"is {found!r}"[:80], "give a number")
    return float(found)  # type: ignore[arg-type]
