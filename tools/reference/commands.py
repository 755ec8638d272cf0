"""``docs/reference/commands.md``: every command, argument and option, as ``--help`` knows them."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer.main
from tools.reference.doc_comments import toml, typed_name
from tools.reference.markdown import page, table

from daybreak.cli.main import app

INTRODUCTION = """\
Every command has `--help`, and `--json` where a script may want it. Results go to standard output,
progress and errors to standard error.

| exit code | meaning |
|---|---|
| 0 | success |
| 1 | the command ran and its result is bad: a query is parked, a claim does not hold |
| 2 | a mistake in the input: one line per finding, no stack trace ([errors](errors.md)) |
"""


def commands_page() -> str:
    root: Any = typer.main.get_command(app)
    commands = list(_commands(root, ""))
    summaries = [(f"[`daybreak {name}`](#{_anchor(name)})", _summary(c)) for name, c in commands]
    return page(
        "Commands",
        INTRODUCTION,
        table(("command", "what it does"), summaries),
        *(_section(name, command) for name, command in commands),
    )


def _commands(group: Any, before: str) -> Iterator[tuple[str, Any]]:
    for name, command in group.commands.items():
        if getattr(command, "hidden", False):
            continue
        full = f"{before} {name}".strip()
        if hasattr(command, "commands"):
            yield from _commands(command, full)
        else:
            yield full, command


def _anchor(name: str) -> str:
    return f"daybreak-{name.replace(' ', '-')}"


def _help(command: Any) -> list[str]:
    """Paragraphs of the help; its examples are the last one."""
    text = inspect.cleandoc(command.help or "").replace("\f", "")
    return [p for p in re.split(r"\n\s*\n", text) if p.strip()]


def _summary(command: Any) -> str:
    return " ".join(_help(command)[0].split())


def _section(name: str, command: Any) -> str:
    parts, examples = [], []
    for paragraph in _help(command):
        if paragraph.startswith("Example"):
            examples += _commands_in(paragraph.partition(":")[2])
        else:
            parts.append(paragraph.replace("[", "\\["))
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    usage = " ".join(
        ["daybreak", name, *(_usage(p) for p in arguments), *(["[OPTIONS]"] if options else [])]
    )
    parts = [f"## daybreak {name}", f"```text\n{usage}\n```", *parts]
    if examples:
        parts.append("```console\n" + "\n".join(f"$ {e}" for e in examples) + "\n```")
    if arguments:
        rows = [(f"`{_named(p)}`", _kind(p), p.help or "") for p in arguments]
        parts.append(table(("argument", "type", "meaning"), rows))
    if options:
        given = [(_flags(p), _kind(p), _default(p), p.help or "") for p in options]
        parts.append(table(("option", "type", "default", "meaning"), given))
    return "\n\n".join(parts)


def _commands_in(text: str) -> list[str]:
    """Commands, each on one line, however the help breaks them."""
    found: list[str] = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if line.startswith("daybreak ") or not found:
            found.append(line)
        else:
            found[-1] += f" {line}"
    return found


def _named(param: Any) -> str:
    return str(param.metavar or param.name).upper().strip("{}[]").replace("-", "_")


def _usage(param: Any) -> str:
    name = _named(param) + ("..." if param.nargs == -1 else "")
    return name if param.required else f"[{name}]"


def _flags(param: Any) -> str:
    names = [f"`{o}`" for o in (*param.opts, *param.secondary_opts)]
    return ", ".join(names)


def _kind(param: Any) -> str:
    if getattr(param, "is_flag", False):
        return "flag"
    shown = typed_name(param.type_descriptor.annotation).replace("Path", "path")
    if param.min is not None and param.max is not None:
        shown += f", {param.min:g} to {param.max:g}"
    elif param.min is not None:
        shown += f", at least {param.min:g}"
    return shown + (", repeatable" if param.multiple else "")


def _default(param: Any) -> str:
    if param.required:
        return "required"
    value = param.default
    if value is None or value is False or callable(value):
        return ""
    if isinstance(value, list | tuple):
        return " ".join(f"`{v}`" for v in value)  # nothing, if it is empty
    return f"`{toml(getattr(value, 'value', value))}`".replace('"', "")
