"""Reads class files: what a class has and what it uses, without a JVM.

The format: https://docs.oracle.com/javase/specs/jvms/se17/html/jvms-4.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from struct import unpack_from

_TEXT, _LONG, _DOUBLE, _CLASS = 1, 5, 6, 7
#: Constants that refer to a member: a field, a method, a method of an interface.
_MEMBERS = (9, 10, 11)
#: Bytes of each other kind of constant, its tag included.
_SIZES = {3: 5, 4: 5, 5: 9, 6: 9, 7: 3, 8: 3, 9: 5, 10: 5, 11: 5, 12: 5, 15: 4, 16: 3, 17: 5,
          18: 5, 19: 3, 20: 3}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ClassFile:
    """A class. Names are written with dots, as in source code."""

    name: str
    #: Its superclass and its interfaces.
    parents: tuple[str, ...]
    #: Names of its own fields and methods; ``<init>`` is a constructor.
    members: frozenset[str]
    #: The classes that it refers to, with the names of the members that it uses of each.
    uses: Mapping[str, frozenset[str]]

    @classmethod
    def read(cls, data: bytes) -> ClassFile:
        """Reads one; ValueError if that is no class file."""
        if data[:4] != b"\xca\xfe\xba\xbe":
            raise ValueError("no class file")
        pool = _Pool(data)
        at = pool.end
        _, this, parent, count = unpack_from(">4H", data, at)
        above = (parent, *unpack_from(f">{count}H", data, at + 8))
        fields, at = _declared(data, at + 8 + 2 * count, pool)
        methods, _ = _declared(data, at, pool)
        parents = tuple(pool.class_name(one) for one in above if one)
        return cls(pool.class_name(this), parents, fields | methods, pool.uses())


class _Pool:
    """The constants of a class file, by their numbers."""

    def __init__(self, data: bytes) -> None:
        self.texts: dict[int, str] = {}
        #: The tag of each other one, and the numbers of one or two more.
        self.others: dict[int, tuple[int, int, int]] = {}
        (count,) = unpack_from(">H", data, 8)
        number, at = 1, 10
        while number < count:
            tag = data[at]
            if tag == _TEXT:
                (length,) = unpack_from(">H", data, at + 1)
                self.texts[number] = data[at + 3 : at + 3 + length].decode("utf-8", "replace")
                at += 3 + length
            else:
                first, second = unpack_from(">2H", data, at + 1)
                self.others[number] = tag, first, second
                at += _SIZES[tag]
            number += 2 if tag in (_LONG, _DOUBLE) else 1
        #: Where the constants end.
        self.end = at

    def class_name(self, number: int) -> str:
        return self.texts[self.others[number][1]].replace("/", ".")

    def uses(self) -> dict[str, frozenset[str]]:
        found: dict[str, set[str]] = {}
        for number, (tag, first, second) in self.others.items():
            if tag == _CLASS:
                found.setdefault(self.class_name(number), set())
            elif tag in _MEMBERS:
                name = self.texts[self.others[second][1]]
                found.setdefault(self.class_name(first), set()).add(name)
        return {name: frozenset(members) for name, members in found.items()}


def _declared(data: bytes, at: int, pool: _Pool) -> tuple[frozenset[str], int]:
    """The names in a table of fields or of methods, and where it ends."""
    (count,) = unpack_from(">H", data, at)
    at += 2
    names = set()
    for _ in range(count):
        _, name, _, attributes = unpack_from(">4H", data, at)
        names.add(pool.texts[name])
        at += 8
        for _ in range(attributes):
            (length,) = unpack_from(">I", data, at + 2)
            at += 6 + length
    return frozenset(names), at
