"""The public interface explains itself: docstrings of all names, an example of every command."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from functools import cached_property
from types import ModuleType
from typing import Any

import pytest
import typer

import daybreak
from daybreak import model
from daybreak.cli.main import app
from daybreak.policies import base as policy_contract
from daybreak.runtime.report import RunReport
from daybreak.runtime.snapshot import Snapshot
from daybreak.spark.governed.class_book import ClassBook
from daybreak.spark.governed.governor import Governor
from daybreak.spark.run import Run
from daybreak.spark.sinks.destination import DeclaredSink, DeliveryId, Destination
from daybreak.spark.sinks.sink import Sink

#: What public calls return, and what third parties implement.
CLASSES = (
    Run, Governor, ClassBook, RunReport, Snapshot, Destination, DeclaredSink, DeliveryId, Sink,
)  # fmt: skip


def defined(module: ModuleType) -> list[type]:
    found = (value for name, value in vars(module).items() if not name.startswith("_"))
    return [c for c in found if inspect.isclass(c) and c.__module__ == module.__name__]


def exported(module: ModuleType) -> list[Any]:
    names: list[str] = vars(module)["__all__"]
    found = (getattr(module, name) for name in names)
    return [value for value in found if inspect.isclass(value) or inspect.isfunction(value)]


def contracts() -> list[Any]:
    found = [*exported(daybreak), *exported(model), *defined(policy_contract), *CLASSES]
    return list(dict.fromkeys(found))


def undocumented(contract: Any) -> Iterator[str]:
    doc = contract.__doc__
    if not doc or doc.startswith(f"{contract.__name__}("):  # written by dataclass or NamedTuple
        yield contract.__name__
    for name, value in vars(contract).items() if inspect.isclass(contract) else ():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if isinstance(value, cached_property):
            function = value.func
        if not name.startswith("_") and inspect.isfunction(function) and not function.__doc__:
            yield f"{contract.__name__}.{name}"


@pytest.mark.parametrize("contract", contracts(), ids=lambda contract: contract.__qualname__)
def test_every_public_name_has_a_docstring(contract: Any) -> None:
    assert list(undocumented(contract)) == []


def commands(of: Any, path: tuple[str, ...] = ("daybreak",)) -> Iterator[tuple[str, Any]]:
    nested = getattr(of, "commands", None)
    if nested is None:
        yield " ".join(path), of
        return
    for name, command in nested.items():
        yield from commands(command, (*path, name))


@pytest.mark.parametrize(("name", "command"), list(commands(typer.main.get_command(app))), ids=str)
def test_the_help_of_every_command_has_an_example_that_calls_it(name: str, command: Any) -> None:
    examples = re.findall(r"Example: (.+)", command.help or "")
    assert examples, "add a line to its docstring: Example: daybreak ..."
    assert all(example.startswith(f"{name} ") for example in examples)
    known = {text for option in command.params for text in (*option.opts, *option.secondary_opts)}
    used = re.findall(r"(?<= )--[\w-]+", examples[0].partition(" -- ")[0].partition("'")[0])
    assert set(used) <= known, "the example uses options that the command has"
