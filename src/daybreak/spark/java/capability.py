"""What an entry of the manifest is: a capability, and the internals of Spark that it needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class Internal(NamedTuple):
    """A class, or a module of PySpark, and the members of it that are used."""

    #: Its full name; after it, those under which other versions of Spark have it.
    names: tuple[str, ...]
    #: Fields and methods, inherited ones too; ``<init>`` is a constructor.
    members: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.names[0]


@dataclass(frozen=True, slots=True)
class Capability:
    """What Daybreak can do by internals of Spark, and which ones."""

    name: str
    #: What does not work where one of them is missing, and what happens instead.
    lost: str
    fallback: str
    internals: tuple[Internal, ...]
    #: Whether no pipeline runs without it.
    vital: bool = False
    #: The jar that has them, where Spark comes without it.
    jar: str = ""


def listed(text: str) -> tuple[Internal, ...]:
    """Reads lines ``CLASS: MEMBER ...`` below that of their package, or ``PACKAGE or PACKAGE``."""
    found, packages = [], [""]
    for line in filter(None, map(str.rstrip, text.splitlines())):
        if line.startswith(" "):
            name, _, members = line.strip().partition(":")
            found.append(Internal(tuple(f"{p}.{name}" for p in packages), tuple(members.split())))
        else:
            packages = line.split(" or ")
    return tuple(found)
