"""Makes nonsense out of what is sound: texts, records, requests and files."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

VALUES = (
    "-1", "0", "1e400", "nan", "inf", "9" * 40, "true", '""', "[]", "{}", "[[]]", '"\\u0000"',
    "1979-05-27", "[[0, 1.0], [1.0, 0.0]]", "'''", "-0.0", '"1 second"', '"-1 second"',
)  # fmt: skip
WORDS = (
    "readings", "SELECT", "FROM", "WHERE", "GROUP BY", "window", "(", ")", "reading", "DISTINCT",
    "ORDER BY 1", "rand()", "*", "UNION ALL", "JOIN", "generator", "json", "parquet", "../../x",
    "skip", "block", "utility", "stride", "é", "\x00", "𝔘", "'", ";",
)  # fmt: skip
JSON_VALUES: tuple[Any, ...] = (
    None, 0, -1, 1.5, 1e308, 2**70, True, "", "a", "b", "low", "high", "x" * 500, "é\x00", [], [[]],
    {}, {"name": "a"}, {"name": "n", "sql": "SELECT"}, float("nan"), float("inf"), "next",
    "earliest", "stride", "no-such-policy", {"train": -1}, {"train": "x"},
)  # fmt: skip


def text(sound: str, chance: random.Random) -> str:
    """A file like this one, with a few things wrong in it."""
    lines = sound.splitlines()
    for _ in range(chance.choice((1, 1, 2, 3))):
        at = chance.randrange(len(lines))
        kind = chance.randrange(6)
        if kind == 0:
            del lines[at]
        elif kind == 1:
            lines.insert(at, chance.choice(lines))
        elif kind == 2 and "=" in lines[at]:
            lines[at] = f"{lines[at].split('=')[0]}= {chance.choice(VALUES)}"
        elif kind == 3:
            words = re.split(r"(\W)", lines[at])
            words[chance.randrange(len(words))] = chance.choice(WORDS)
            lines[at] = "".join(words)
        elif kind == 4:
            cut = chance.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:cut] + chance.choice(WORDS) + lines[at][cut:]
        else:
            lines[at] = chance.choice(WORDS) + chance.choice(VALUES)
        lines = lines or [""]
    return "\n".join(lines)


def records(sound: list[str], count: int, chance: random.Random) -> bytes:
    """Records cut, mixed and made of anything, one a line."""
    made: list[bytes] = []
    for _ in range(count):
        line = bytearray(chance.choice(sound), "utf-8")
        for _ in range(chance.randint(1, 5)):
            at = chance.randrange(len(line))
            line[at : at + chance.randint(0, 3)] = chance.randbytes(chance.randint(1, 3))
        made.append(bytes(line).replace(b"\n", b"").replace(b"\r", b""))
    return b"\n".join(made)


def request(commands: dict[str, list[str]], chance: random.Random) -> bytes:
    """One line for the control socket; ``commands``: the values that each may be given."""
    name = chance.choice(list(commands))
    args: Any = {key: chance.choice(JSON_VALUES) for key in commands[name] if chance.random() < 0.8}
    if chance.random() < 0.1:
        args[chance.choice(WORDS)] = chance.choice(JSON_VALUES)
    said: dict[str, Any] = {"v": 1, "command": name, "args": args}
    if chance.random() < 0.2:
        said[chance.choice(["v", "command", "args"])] = chance.choice(JSON_VALUES)
    line = json.dumps(said).encode()
    if chance.random() < 0.2:
        cut = chance.randrange(len(line))
        line = line[:cut] + chance.randbytes(chance.randint(0, 4)) + line[cut + 1 :]
    if chance.random() < 0.02:
        line = b"[" * chance.randint(1, 100_000)
    return line.replace(b"\n", b" ") + b"\n"


def damage(path: Path, chance: random.Random) -> str:
    """Spoils a file; tells how."""
    content = path.read_bytes()
    kind = chance.choice(["truncate", "flip", "empty", "remove", "replace", "text"])
    if kind == "remove":
        path.unlink()
    elif kind == "truncate":
        path.write_bytes(content[: chance.randrange(len(content) + 1)])
    elif kind == "flip":
        changed = bytearray(content)
        for _ in range(chance.randint(1, 200)):
            if changed:
                changed[chance.randrange(len(changed))] = chance.randrange(256)
        path.write_bytes(changed)
    else:
        new = {"empty": b"", "replace": chance.randbytes(300), "text": b'{"layout": "x"}'}[kind]
        path.write_bytes(new)
    return kind
