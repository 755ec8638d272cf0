"""The report's set-up: three filters of 100, 150 and 200 ms, selectivity 0.4, one thread each."""

from daybreak.filters import Filter

REPORT = tuple(
    Filter(name=name, service_time_s=ms / 1e3, selectivity=0.4)
    for name, ms in (("fast", 100), ("middle", 150), ("slow", 200))
)
ESTIMATES = [f.estimate for f in REPORT]
