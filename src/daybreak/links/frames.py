"""Frames on the TCP connection between a sender and a receiver.

Every message is one frame: a fixed header, then ``length`` bytes of payload. The checksum
covers both, so garbage, a foreign protocol or a lost byte is noticed at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from struct import Struct
from typing import BinaryIO
from zlib import crc32

from daybreak.model.errors import DaybreakError

MAGIC = b"DL"
VERSION = 1
#: magic, kind, class, length, number, two instants in µs, checksum
_HEADER = Struct(">2sBBIQqqI")
HEADER_BYTES = _HEADER.size
#: A receiver reads no longer payload unless told otherwise.
MOST_PAYLOAD_BYTES = 1 << 20


class BadFrame(DaybreakError):
    """What came is not a frame of this protocol; the connection cannot be trusted further."""


class Kind(IntEnum):
    """What a frame is; in brackets its two instants, (a, b)."""

    #: Sender: session and classes as JSON, before anything else (sender's clock, -).
    HELLO = 1
    #: Receiver: number is the last frame it has of this session (as in HELLO, its own clock).
    WELCOME = 2
    #: Sender: one tuple (created, deadline; both by the receiver's clock).
    DATA = 3
    #: Receiver: every frame up to number has been handed over.
    ACK = 4
    #: Sender: still there (sender's clock, -).
    PING = 5
    #: Receiver: the answer (as in PING, its own clock).
    PONG = 6
    #: Sender: nothing more will come.
    BYE = 7


@dataclass(frozen=True, slots=True)
class Frame:
    kind: Kind
    number: int = 0
    cls: int = 0
    a_us: int = 0
    b_us: int = 0
    payload: bytes = b""


def encode(frame: Frame) -> bytes:
    """The frame as bytes."""
    head = (MAGIC, frame.kind, frame.cls, len(frame.payload), frame.number, frame.a_us, frame.b_us)
    checksum = crc32(frame.payload, crc32(_HEADER.pack(*head, 0)))
    return _HEADER.pack(*head, checksum) + frame.payload


def read_frame(stream: BinaryIO, most_payload_bytes: int = MOST_PAYLOAD_BYTES) -> Frame | None:
    """The next frame; None where the stream ends between two frames.

    Raises BadFrame for anything else, before it has read more than a header of garbage.
    """
    header = stream.read(HEADER_BYTES)
    if not header:
        return None
    if len(header) < HEADER_BYTES:
        raise BadFrame("the connection ended within a header")
    magic, kind, cls, length, number, a_us, b_us, checksum = _HEADER.unpack(header)
    if magic != MAGIC:
        raise BadFrame(f"starts with {magic!r}, not with {MAGIC!r}")
    if length > most_payload_bytes:
        raise BadFrame(f"announces {length} bytes, more than {most_payload_bytes}")
    payload = stream.read(length) if length else b""
    if len(payload) < length:
        raise BadFrame("the connection ended within a payload")
    bare = _HEADER.pack(magic, kind, cls, length, number, a_us, b_us, 0)
    if crc32(payload, crc32(bare)) != checksum:
        raise BadFrame("the checksum does not match")
    try:
        return Frame(Kind(kind), number, cls, a_us, b_us, payload)
    except ValueError as error:
        raise BadFrame(f"unknown kind {kind}") from error
