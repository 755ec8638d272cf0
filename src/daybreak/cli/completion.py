"""Shell completion: the script for a shell, and the values that options complete to.

A shell runs ``daybreak`` at every Tab, so candidates come from what is cheap to import. Errors give
no candidates: a broken third-party package must not print into a command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, TypeVar

import typer

# Typer has no public call for a shell of one's choice.
from typer.completion import completion_init, get_completion_script  # type: ignore[attr-defined]

from daybreak.model.errors import ConfigError
from daybreak.policies.registry import all_policies
from daybreak.suites import all_experiments

PROGRAM = "daybreak"
#: The variable by which a shell asks for candidates; Typer derives it from the program's name.
VARIABLE = "_DAYBREAK_COMPLETE"
Candidates = list[tuple[str, str]]
T = TypeVar("T")

completion_init()


class Shell(StrEnum):
    """Shells that have a script."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[Shell, typer.Argument(help="The shell that will read the script.")],
) -> None:
    """Prints a script that completes commands, options, policies and experiments.

    Let your shell read it when it starts; docs/how-to/completion.md has the line for each shell.

    Example: daybreak completion bash > ~/.local/share/bash-completion/completions/daybreak
    """
    typer.echo(get_completion_script(prog_name=PROGRAM, complete_var=VARIABLE, shell=shell.value))


def complete_policy(incomplete: str) -> Candidates:
    """Names of policies that begin with the text, each with its summary."""
    return _matching({name: p.summary for name, p in _found(all_policies).items()}, incomplete)


def complete_policies(incomplete: str) -> Candidates:
    """The same for the last of several names between commas."""
    before, comma, last = incomplete.rpartition(",")
    given = before.split(",")
    return [
        (f"{before}{comma}{name}", text)
        for name, text in complete_policy(last)
        if name not in given
    ]


def complete_experiment(incomplete: str) -> Candidates:
    """Names of installed experiments that begin with the text, each with its title."""
    titles = {name: title for name, (_, title) in _found(all_experiments).items()}
    return _matching(titles, incomplete)


def complete_assignment(incomplete: str) -> Candidates:
    """``policy=NAME`` of ``daybreak set``; the other keys depend on the run."""
    key, equals, name = incomplete.partition("=")
    if equals and key == "policy":
        return [(f"policy={found}", text) for found, text in complete_policy(name)]
    keys = {"policy=": "the policy", "class.": "a priority", "query.": "a class or a weight"}
    return _matching(keys, incomplete)


def _found(read: Callable[[], Mapping[str, T]]) -> Mapping[str, T]:
    try:
        return read()
    except ConfigError:
        return {}


def _matching(known: Mapping[str, str], incomplete: str) -> Candidates:
    return [(name, text) for name, text in known.items() if name.startswith(incomplete)]
