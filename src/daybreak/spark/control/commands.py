"""The commands of the control socket: small functions on a ``Run``, for a web server as well.

Every command takes a run and named values as JSON has them, and gives what becomes JSON. A
mistake is a ``ConfigError`` whatever the values are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from daybreak.model.errors import ConfigError, suggestion
from daybreak.policies.registry import make_policy_with
from daybreak.spark.control.operations import ACTOR, described, streams
from daybreak.spark.control.snapshot import take_snapshot
from daybreak.spark.declared import from_json

if TYPE_CHECKING:
    from daybreak.spark.run import Run

Values = Mapping[str, Any]


class Command(NamedTuple):
    """What it does, the values it needs and those it may be given."""

    do: Callable[[Run, Values], Any]
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


def queries(run: Run, _values: Values) -> dict[str, Any]:
    """How everything stands."""
    network = run.prepared.network
    return {
        "pipeline": run.prepared.name,
        "elapsed_s": round(run.elapsed_s, 3),
        "policy": run.policy.name,
        "classes": {c.name: run.state.class_priority[i] for i, c in enumerate(network.classes)},
        "queries": described(run),
        "undeclared": dict(run.undeclared.until),
        "streams": streams(run),
        "troubles": run.troubles,
    }


def snapshot(run: Run, values: Values) -> dict[str, Any]:
    """How everything stands, as ``runtime.snapshot`` has it; of jobs, points and changes only
    those after the numbers given."""
    after = {key: round(_number(values, key)) for key in AFTER if key in values}
    return take_snapshot(run, **after).to_json()


def pause(run: Run, values: Values) -> dict[str, Any]:
    run.pause(_text(values, "query"))
    return _one(run, values)


def resume(run: Run, values: Values) -> dict[str, Any]:
    skipped = run.resume(_text(values, "query"), skip=_flag(values, "skip"))
    return {**_one(run, values), "skipped": skipped}


def drop(run: Run, values: Values) -> dict[str, Any]:
    run.drop(_text(values, "query"))
    return {"query": values["query"], "state": "dropped"}


def register(run: Run, values: Values) -> dict[str, Any]:
    """A query as ``declared.as_json`` writes it, and where it begins."""
    start = values.get("from", "next")
    if start not in ("next", "earliest"):
        raise ConfigError("register", f"from {start!r}", 'give "next" or "earliest"')
    query = values["query"]
    if not isinstance(query, Mapping):
        raise ConfigError("register", f"query {query!r}", "give the declaration as an object")
    spec = from_json(query)
    force, dry = _flag(values, "force"), _flag(values, "dry")
    verdict = run.operations.register(spec, start, force=force, dry=dry).as_json()
    if dry:
        return {"query": spec.name, "state": "not registered", "admission": verdict}
    return {**_one(run, {"query": spec.name}), "admission": verdict}


def set_class(run: Run, values: Values) -> dict[str, Any]:
    """A class's priority."""
    run.change_class_priority(_text(values, "class"), _number(values, "priority"))
    return {"class": values["class"], "priority": values["priority"]}


def set_query(run: Run, values: Values) -> dict[str, Any]:
    """A query's class, its weight, or how many subscribers its weight is to follow."""
    name = _text(values, "query")
    if "class" in values:
        run.assign_class(name, _text(values, "class"))
    if "weight" in values:
        run.set_weight(name, _number(values, "weight"))
    if "subscribers" in values:
        count = _number(values, "subscribers")
        if count != int(count):
            raise ConfigError(f"query {name!r}", f"{count:g} subscribers", "give a whole number")
        run.set_subscribers(name, int(count))
    return _one(run, values)


def set_policy(run: Run, values: Values) -> dict[str, Any]:
    """Another policy, with its parameters."""
    parameters = values.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise ConfigError("policy", f"parameters {parameters!r}", "give an object")
    run.set_policy(make_policy_with(_text(values, "policy"), **parameters))
    return {"policy": run.policy.name, "parameters": dict(run.policy.settings())}


#: No number that anything here may be lies beyond.
MOST = 1e18
AFTER = ("jobs_after", "points_after", "changes_after")
COMMANDS: Mapping[str, Command] = {
    "queries": Command(queries),
    "snapshot": Command(snapshot, (), AFTER),
    "pause": Command(pause, ("query",)),
    "resume": Command(resume, ("query",), ("skip",)),
    "drop": Command(drop, ("query",)),
    "register": Command(register, ("query",), ("from", "force", "dry")),
    "set-class": Command(set_class, ("class", "priority")),
    "set-query": Command(set_query, ("query",), ("class", "weight", "subscribers")),
    "set-policy": Command(set_policy, ("policy",), ("parameters",)),
}


def handle(run: Run, name: str, values: Values) -> Any:
    """Carries out one command; its value ``by`` tells who asks, for the log of changes."""
    command = COMMANDS.get(name)
    if command is None:
        raise ConfigError("request", f"unknown command {name!r}", suggestion(name, COMMANDS))
    by = _text(values, "by") if "by" in values else "control socket"
    values = {key: value for key, value in values.items() if key != "by"}
    known = (*command.needs, *command.may)
    for key in values:
        if key not in known:
            remedy = suggestion(key, known) if known else "it takes none"
            raise ConfigError(name, f"unknown value {key!r}", remedy)
    for key in command.needs:
        if key not in values:
            raise ConfigError(name, f"{key} is missing", "give it")
    token = ACTOR.set(by)
    try:
        return command.do(run, values)
    except ConfigError as error:
        run.say("refused", str(error), level=logging.WARNING, by=by, command=name)
        raise
    finally:
        ACTOR.reset(token)


def _one(run: Run, values: Values) -> dict[str, Any]:
    return next(q for q in described(run) if q["query"] == values["query"])


def _text(values: Values, key: str) -> str:
    found = values[key]
    if not isinstance(found, str):
        raise ConfigError(key, f"is {found!r}", "give a text")
    return found


def _flag(values: Values, key: str) -> bool:
    found = values.get(key, False)
    if not isinstance(found, bool):
        raise ConfigError(key, f"is {found!r}", "give true or false")
    return found


def _number(values: Values, key: str) -> float:
    found = values[key]
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    if not is_number or not abs(found) <= MOST:  # nor NaN
        raise ConfigError(key, f"is {found!r}"[:80], "give a number")
    return float(found)
