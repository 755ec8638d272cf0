"""Durations as a user writes them."""

from __future__ import annotations

import re

from daybreak.model.errors import ConfigError

US_PER_S = 1_000_000

_UNITS = {
    "microsecond": 1,
    "millisecond": 1000,
    "second": US_PER_S,
    "minute": 60 * US_PER_S,
    "hour": 3600 * US_PER_S,
    "day": 86_400 * US_PER_S,
    "week": 7 * 86_400 * US_PER_S,
}
_DURATION = re.compile(r"(?:\d+(?:\.\d+)?\s+[a-z]+\s*)+")
_PART = re.compile(r"(\d+(?:\.\d+)?)\s+([a-z]+?)s?(?:\s+|$)")


def duration_us(text: str, place: str, key: str) -> int:
    """``"1 minute 30 seconds"`` in microseconds."""
    plain = text.strip().lower()
    parts = _PART.findall(plain) if _DURATION.fullmatch(plain) else []
    if not parts or any(unit not in _UNITS for _, unit in parts):
        raise ConfigError(
            place, f"{key} = {text!r} is no duration", f'give one such as {key} = "10 seconds"'
        )
    return round(sum(float(number) * _UNITS[unit] for number, unit in parts))


def duration_text(us: int) -> str:
    """The shortest exact words for a duration."""
    for unit in ("week", "day", "hour", "minute", "second", "millisecond"):
        count, rest = divmod(us, _UNITS[unit])
        if count and not rest:
            return f"{count} {unit}{'s' if count > 1 else ''}"
    return f"{us} microseconds"
