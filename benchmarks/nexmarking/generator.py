"""A seeded generator of Nexmark's events: the same seed gives the same rows, to the byte.

Of 50 events one is a person, three are auctions and 46 are bids, as in Nexmark's own. Most bids are
for a few hot auctions and by a few hot bidders. Times are in event order and differ, so that rows
can be told apart.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

PERSON = (
    "id BIGINT, name STRING, emailAddress STRING, creditCard STRING, city STRING, state STRING, "
    "dateTime TIMESTAMP, extra STRING"
)
AUCTION = (
    "id BIGINT, itemName STRING, description STRING, initialBid BIGINT, reserve BIGINT, "
    "dateTime TIMESTAMP, expires TIMESTAMP, seller BIGINT, category BIGINT, extra STRING"
)
BID = (
    "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, "
    "dateTime TIMESTAMP, extra STRING, p_time TIMESTAMP"
)
SCHEMAS = {"person": PERSON, "auction": AUCTION, "bid": BID}

FIRST = 1000
_START = datetime(2026, 1, 1, 7, 59, tzinfo=UTC)
_STATES = {"Portland": "OR", "Boise": "ID", "Redwood City": "CA", "Phoenix": "AZ", "Kent": "WA"}
_CHANNELS = ("Google", "Facebook", "Baidu", "Apple")
_NAMES = ("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter")
_WORDS = "abcdefghijklmnopqrstuvwxyz"
#: Of 50 events in a row: persons first, then auctions, then bids.
_CYCLE, _PERSONS, _AUCTIONS = 50, 1, 3

Event = tuple[str, dict[str, Any]]


@dataclass
class Generator:
    """Events one after the other."""

    seed: int = 1
    #: Between two events, in event time.
    every: timedelta = timedelta(milliseconds=40)
    #: Events before this were generated already.
    number: int = 0
    _random: random.Random = field(init=False)
    _persons: int = 0
    _auctions: int = 0

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)  # rows, not secrets

    def events(self, count: int) -> Iterator[Event]:
        for _ in range(count):
            yield self.next()

    def next(self) -> Event:
        place = self.number % _CYCLE
        at = _START + self.number * self.every
        self.number += 1
        if place < _PERSONS:
            return "person", self._person(at)
        if place < _PERSONS + _AUCTIONS:
            return "auction", self._auction(at)
        return "bid", self._bid(at)

    def _person(self, at: datetime) -> dict[str, Any]:
        pick = self._random
        number, self._persons = FIRST + self._persons, self._persons + 1
        name = f"{pick.choice(_NAMES)} {pick.choice(_NAMES)}son"
        city = pick.choice(sorted(_STATES))
        return {
            "id": number,
            "name": name,
            "emailAddress": f"{name.replace(' ', '.').lower()}@{self._text(6)}.com",
            "creditCard": " ".join(f"{pick.randrange(10_000):04d}" for _ in range(4)),
            "city": city,
            "state": _STATES[city],
            "dateTime": _shown(at),
            "extra": self._text(20),
        }

    def _auction(self, at: datetime) -> dict[str, Any]:
        pick = self._random
        number, self._auctions = FIRST + self._auctions, self._auctions + 1
        first = pick.randrange(100, 10_000)
        return {
            "id": number,
            "itemName": self._text(10),
            "description": self._text(30),
            "initialBid": first,
            "reserve": first * 2,
            "dateTime": _shown(at),
            "expires": _shown(at + timedelta(milliseconds=pick.randrange(2_000, 30_000))),
            "seller": self._known_person(),
            "category": pick.randrange(10, 15),
            "extra": self._text(20),
        }

    def _bid(self, at: datetime) -> dict[str, Any]:
        pick = self._random
        hot = pick.random() < 0.5
        newest = self._auctions - 1
        auction = newest - newest % 10 if hot else max(0, newest - pick.randrange(60))
        channel = pick.choice((*_CHANNELS, f"channel-{pick.randrange(200)}"))
        query = f"query=1&channel_id={pick.randrange(10_000)}" if pick.random() < 0.9 else "query=1"
        path = "/".join(self._text(4) for _ in range(3))
        return {
            "auction": FIRST + auction,
            "bidder": self._known_person(),
            "price": round(10 ** (pick.random() * 6) * 100),
            "channel": channel,
            "url": f"https://www.nexmark.com/{path}/item.htm?{query}",
            "dateTime": _shown(at),
            "extra": self._text(20),
            # Stands for Nexmark's processing time: when the producer handed the bid over.
            "p_time": _shown(at + timedelta(milliseconds=pick.randrange(500))),
        }

    def _known_person(self) -> int:
        newest = self._persons - 1
        hot = self._random.random() < 0.5
        return FIRST + (newest - newest % 5 if hot else max(0, newest - self._random.randrange(30)))

    def _text(self, length: int) -> str:
        return "".join(self._random.choices(_WORDS, k=length))


def write_files(
    folder: Path, generator: Generator, events: int, files: int, first: int = 0
) -> None:
    """The next events as JSON files, ``files`` for each stream, in the order of their times."""
    for number in range(first, first + files):
        rows: dict[str, list[dict[str, Any]]] = {stream: [] for stream in SCHEMAS}
        for stream, row in generator.events(events // files):
            rows[stream].append(row)
        for stream, mine in rows.items():
            target = folder / stream
            target.mkdir(parents=True, exist_ok=True)
            partial = folder / f"{stream}.partial"
            partial.write_text("".join(json.dumps(row) + "\n" for row in mine))
            # A source reads files in the order of their times.
            os.utime(partial, (_START.timestamp() + number,) * 2)
            partial.rename(target / f"{number:06d}.json")


def _shown(at: datetime) -> str:
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
