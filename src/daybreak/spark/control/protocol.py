"""The control protocol: JSON becomes requests, what came of them becomes JSON.

The control socket and the dashboard use it. Whatever the values are, a mistake is a
``ConfigError``. ``status`` and the answer of a command describe a query in one format, that of
``runtime.snapshot``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from daybreak.model.declarations import query_from_json
from daybreak.model.errors import ConfigError, suggestion
from daybreak.model.texts import refuse_surrogates
from daybreak.policies.registry import make_policy_with
from daybreak.runtime.eventlog import Emit
from daybreak.spark.control.controller import Controller
from daybreak.spark.control.requests import (
    Answer,
    DropQuery,
    PauseQuery,
    RegisterQuery,
    Request,
    ResumeQuery,
    SetClassPriority,
    SetQueryClass,
    SetQuerySubscribers,
    SetQueryWeight,
    UsePolicy,
)
from daybreak.spark.control.status import StatusReader
from daybreak.spark.control.waits import WaitReader

Values = Mapping[str, Any]
#: No number that anything here may be lies beyond.
MOST = 1e18
AFTER = ("jobs_after", "points_after", "changes_after")


class Command(NamedTuple):
    """How its values are read, which it needs and which it may be given."""

    read: Callable[[Values], list[Request]]
    needs: tuple[str, ...] = ()
    may: tuple[str, ...] = ()


@dataclass(frozen=True)
class Protocol:
    """Answers the commands of one run. Any thread may call ``handle``."""

    controller: Controller
    status: StatusReader
    emit: Emit
    waits: WaitReader

    def handle(self, name: str, values: Values) -> Any:
        """Carries out one command; its value ``by`` names who asks, for the log of changes."""
        by = _text(values, "by") if "by" in values else "control socket"
        refuse_surrogates(by, name, "by")
        values = {key: value for key, value in values.items() if key != "by"}
        try:
            if name == "snapshot":
                _check_keys(name, values, (), AFTER)
                after = {key: round(_number(values, key)) for key in values}
                return self.status.snapshot(**after).to_json()
            if name == "story":
                _check_keys(name, values, ("query",), ())
                return self.status.story(_text(values, "query"))
            if name == "why":
                _check_keys(name, values, ("query",), ())
                return self.waits.now(_text(values, "query"))
            requests = read_requests(name, values)
            answers = [self.controller.execute(request, by) for request in requests]
            return self._outcome(requests[-1], answers[-1])
        except ConfigError as error:
            self.emit("refused", str(error), level=logging.WARNING, by=by, command=name)
            raise

    def _outcome(self, request: Request, answer: Answer) -> dict[str, Any]:
        match request:
            case DropQuery(query):
                return {"name": query, "state": "dropped"}
            case RegisterQuery(spec, dry=dry):
                assert answer.verdict is not None
                row = (
                    {"name": spec.name, "state": "not registered"} if dry else self._row(spec.name)
                )
                return {**row, "admission": answer.verdict.as_json()}
            case SetClassPriority(cls, priority):
                return {"class": cls, "priority": priority}
            case UsePolicy(policy):
                return {"policy": policy.name, "parameters": dict(policy.settings())}
            case ResumeQuery(query):
                return {**self._resumed(query), "skipped": answer.skipped}
            case PauseQuery() | SetQueryClass() | SetQueryWeight() | SetQuerySubscribers():
                return self._row(request.query)

    def _resumed(self, name: str) -> dict[str, Any]:
        """A query, or the stream that was resumed by its name."""
        if self.status.is_query(name):
            return self._row(name)
        return {"name": name, "state": "running", "stream": True}

    def _row(self, query: str) -> dict[str, Any]:
        return self.status.query(query)._asdict()


def read_requests(name: str, values: Values) -> list[Request]:
    """What a command asks for; ``ConfigError`` whatever else the values are."""
    refuse_surrogates(values, name)
    command = COMMANDS.get(name)
    if command is None:
        known = [*COMMANDS, "snapshot", "story"]
        raise ConfigError("request", f"unknown command {name!r}", suggestion(name, known))
    _check_keys(name, values, command.needs, command.may)
    return command.read(values)


def _check_keys(name: str, values: Values, needs: tuple[str, ...], may: tuple[str, ...]) -> None:
    known = (*needs, *may)
    for key in values:
        if key not in known:
            remedy = suggestion(key, known) if known else "it takes none"
            raise ConfigError(name, f"unknown value {key!r}", remedy)
    for key in needs:
        if key not in values:
            raise ConfigError(name, f"{key} is missing", "give it")


def _register(values: Values) -> list[Request]:
    """A query as ``declarations.query_as_json`` writes it, and where it begins."""
    start = values.get("from", "next")
    if start not in ("next", "earliest"):
        raise ConfigError("register", f"from {start!r}", 'give "next" or "earliest"')
    query = values["query"]
    if not isinstance(query, Mapping):
        raise ConfigError("register", f"query {query!r}", "give the declaration as an object")
    force, dry = _flag(values, "force"), _flag(values, "dry")
    return [RegisterQuery(query_from_json(query), start, force, dry)]


def _set_query(values: Values) -> list[Request]:
    """A query's class, its weight, or how many subscribers its weight is to follow."""
    query = _text(values, "query")
    found: list[Request] = []
    if "class" in values:
        found.append(SetQueryClass(query, _text(values, "class")))
    if "weight" in values:
        found.append(SetQueryWeight(query, _number(values, "weight")))
    if "subscribers" in values:
        count = _number(values, "subscribers")
        if count != int(count):
            raise ConfigError(f"query {query!r}", f"{count:g} subscribers", "give a whole number")
        found.append(SetQuerySubscribers(query, int(count)))
    if not found:
        raise ConfigError(f"query {query!r}", "nothing to set", "give class, weight or subscribers")
    return found


def _set_policy(values: Values) -> list[Request]:
    """Another policy, with its parameters."""
    parameters = values.get("parameters", {})
    if not isinstance(parameters, Mapping):
        raise ConfigError("policy", f"parameters {parameters!r}", "give an object")
    return [UsePolicy(make_policy_with(_text(values, "policy"), **parameters))]


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


COMMANDS: Mapping[str, Command] = {
    "pause": Command(lambda v: [PauseQuery(_text(v, "query"))], ("query",)),
    "resume": Command(
        lambda v: [ResumeQuery(_text(v, "query"), _flag(v, "skip"))], ("query",), ("skip",)
    ),
    "drop": Command(lambda v: [DropQuery(_text(v, "query"))], ("query",)),
    "register": Command(_register, ("query",), ("from", "force", "dry")),
    "set-class": Command(
        lambda v: [SetClassPriority(_text(v, "class"), _number(v, "priority"))],
        ("class", "priority"),
    ),
    "set-query": Command(_set_query, ("query",), ("class", "weight", "subscribers")),
    "set-policy": Command(_set_policy, ("policy",), ("parameters",)),
}
