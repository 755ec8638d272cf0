"""How far days and hours of a time zone drift apart."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

DAY_US = 86_400_000_000
_WEEK = timedelta(days=7)
#: Offsets change at most this often, and lasting rules repeat within this many years.
_FROM, _UNTIL = datetime(1900, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
_FIXED = re.compile(r"Z|(?:UTC|GMT|UT)?(?:[+-]\d\d?(?::?\d\d){0,2})?")


@lru_cache
def drift_us(zone: str) -> int:
    """By how much n days of local time differ at most from n times 24 hours.

    Spark adds days to a TIMESTAMP on the calendar of the session's time zone: the day on which
    clocks go forward has 23 hours. The difference is one of two UTC offsets of the zone.
    """
    if _FIXED.fullmatch(zone):
        return 0
    try:
        rules = ZoneInfo(zone)
    except (LookupError, ValueError, OSError):  # a name that only Java knows
        return DAY_US
    weeks = (_UNTIL - _FROM) // _WEEK
    offsets = {(_FROM + n * _WEEK).astimezone(rules).utcoffset() for n in range(weeks)}
    known = [offset for offset in offsets if offset is not None]
    return (max(known) - min(known)) // timedelta(microseconds=1)
