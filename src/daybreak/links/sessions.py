"""What a receiver remembers of its senders, over all their connections."""

from __future__ import annotations

import socket
from collections import OrderedDict
from dataclasses import dataclass, field
from threading import Lock

from daybreak.links.frames import BadFrame

#: Sessions remembered for senders that may come back.
MOST_SESSIONS = 1024


@dataclass
class Session:
    """A sender, over all its connections."""

    classes: tuple[str, ...]
    #: The last frame that was handed over.
    last: int = 0
    connection: socket.socket | None = None
    lock: Lock = field(default_factory=Lock)


class Sessions:
    """The sessions by name, the one seen longest ago first. The receiver's lock guards it."""

    def __init__(self, most: int = MOST_SESSIONS) -> None:
        self._most = most
        self._sessions: OrderedDict[str, Session] = OrderedDict()

    def __len__(self) -> int:
        return len(self._sessions)

    def connect(self, name: str, classes: tuple[str, ...], connection: socket.socket) -> Session:
        """The session of this name; BadFrame if it declared other classes before.

        Counts as connected from here on. Where it has an older connection, the caller replaces
        that under ``Session.lock``.
        """
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = Session(classes)
        elif session.classes != classes:
            raise BadFrame("the sender came back with other classes")
        if session.connection is None:
            session.connection = connection
        self._sessions.move_to_end(name)
        self._forget_one()
        return session

    def disconnect(self, name: str, connection: socket.socket) -> None:
        """The connection ended. Call it with the session's lock held."""
        session = self._sessions.get(name)
        if session is not None and session.connection is connection:
            session.connection = None
            self._sessions.move_to_end(name)

    def _forget_one(self) -> None:
        """Beyond the limit, one that is not connected: a connected one's tuples would come twice.

        First one that never delivered anything, since there is nothing to know about it.
        """
        if len(self._sessions) <= self._most:
            return
        idle = [name for name, s in self._sessions.items() if s.connection is None]
        empty = next((name for name in idle if self._sessions[name].last == 0), None)
        victim = empty if empty is not None else next(iter(idle), None)
        if victim is not None:  # otherwise all are connected, and connections are bounded
            del self._sessions[victim]
