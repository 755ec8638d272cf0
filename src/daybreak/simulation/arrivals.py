"""Draws the arrivals a pipeline declares, and adds up the work that they bring."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from daybreak.engine.shedding import work_ahead_ns
from daybreak.engine.state import SystemState
from daybreak.model.arrivals import Arrivals, Phase
from daybreak.model.errors import ConfigError
from daybreak.model.network import Network
from daybreak.model.qos import NS_PER_S
from daybreak.simulation.randomness import generator_for

Instants = NDArray[np.int64]
Seconds = NDArray[np.float64]


@dataclass(frozen=True)
class ArrivalSchedule:
    """Every arrival of a run, in order of time; simultaneous ones in order of delivery."""

    at_ns: Instants
    stream: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.at_ns)

    @classmethod
    def merge(cls, per_stream: Sequence[Instants]) -> ArrivalSchedule:
        at = np.concatenate([*per_stream, np.empty(0, np.int64)])
        stream = np.repeat(np.arange(len(per_stream), dtype=np.int32), [len(a) for a in per_stream])
        order = np.argsort(at, kind="stable")
        return cls(at[order], stream[order])


class OfferedWork:
    """Adds up the work of arrivals as time goes on: what a report tells capacity overload by."""

    def __init__(self, state: SystemState, schedule: ArrivalSchedule) -> None:
        ahead = work_ahead_ns(state)
        feeds = state.network.stream_boxes
        self._stream_ns = np.array([sum([ahead[b] for b in boxes]) for boxes in feeds])
        self._schedule = schedule
        self._counted, self._sum_ns = 0, 0.0

    def until(self, now_ns: int) -> float:
        """The work (ns) of all arrivals up to this instant; instants must not decrease."""
        end = int(np.searchsorted(self._schedule.at_ns, now_ns, side="right"))
        self._sum_ns += float(self._stream_ns[self._schedule.stream[self._counted : end]].sum())
        self._counted = end
        return self._sum_ns


def draw_schedule(
    network: Network, duration_s: float, seed: int, scale: float = 1.0
) -> ArrivalSchedule:
    """The arrivals of every stream up to ``duration_s``, all rates times ``scale``."""
    per_stream: list[Instants] = []
    batches: list[float] = []
    for stream in network.streams:
        if stream.arrivals is None:
            raise ConfigError(
                f"stream {stream.name!r}",
                "declares no arrivals, so it cannot be simulated",
                'add arrivals = { process = "poisson", rate_per_s = ... }',
            )
        random = generator_for(seed, f"arrivals/{stream.name}")
        per_stream.append(draw(stream.arrivals, duration_s, random, scale))
        batches.append(stream.arrivals.batch_s or 0.0)
    schedule = ArrivalSchedule.merge(per_stream)
    period_s = max(batches, default=0.0)
    return _rotated(schedule, len(network.streams), period_s) if period_s else schedule


def load_scale(network: Network, load: float, workers: int) -> float:
    """By how much rates must be multiplied for the offered load to be ``load``."""
    offered = 0.0
    for s, stream in enumerate(network.streams):
        rate = stream.arrivals.rate_per_s if stream.arrivals else None
        if rate is None:
            raise ConfigError(
                f"stream {stream.name!r}", "has no rate to scale", "give it rate_per_s"
            )
        offered += rate * network.total_cost_ns(s) / NS_PER_S / workers
    if offered == 0:
        raise ConfigError(
            "simulation", "load is asked for, but no box costs anything", "give costs"
        )
    return load / offered


def draw(
    arrivals: Arrivals, duration_s: float, random: np.random.Generator, scale: float = 1.0
) -> Instants:
    """The instants (ns) of one stream, sorted."""
    if arrivals.process == "trace":
        seconds = _trace(Path(arrivals.trace or ""), arrivals.rate_per_s)
        seconds = seconds / scale
    else:
        rate = (arrivals.rate_per_s or 0.0) * scale
        seconds = _instants(arrivals, rate, duration_s, random)
    seconds = _phased(seconds, arrivals.phases)
    seconds = seconds[seconds < duration_s]
    if arrivals.burst > 1:
        # Every n consecutive tuples arrive with the first of them.
        seconds = seconds[(np.arange(len(seconds)) // arrivals.burst) * arrivals.burst]
    if arrivals.batch_s:
        seconds = np.ceil(seconds / arrivals.batch_s) * arrivals.batch_s
    return np.rint(seconds * NS_PER_S).astype(np.int64)


def _instants(
    arrivals: Arrivals, rate: float, duration_s: float, random: np.random.Generator
) -> Seconds:
    # Phases below the mean rate stretch time: draw enough for the fastest of them.
    fastest = max([1.0, *(p.factor for p in arrivals.phases)])
    span = duration_s * fastest
    if arrivals.process == "periodic":
        count: Seconds = np.arange(int(span * rate) + 1, dtype=np.float64)
        return (count + arrivals.offset) / np.float64(rate)
    parts: list[Seconds] = []
    last = 0.0
    while last < span:
        gaps = random.exponential(1 / rate, size=int((span - last) * rate * 1.05) + 16)
        parts.append(last + np.cumsum(gaps))
        last = float(parts[-1][-1])
    return np.concatenate(parts)


def _phased(seconds: Seconds, phases: Sequence[Phase]) -> Seconds:
    """Warps time so that within each phase the rate is ``factor`` times the mean."""
    if not phases or not len(seconds):
        return seconds
    warped = np.empty_like(seconds)
    start, wall, base, phase = 0, 0.0, 0.0, 0
    while start < len(seconds):
        p = phases[phase % len(phases)]
        if p.tuples is not None:
            end = min(start + p.tuples, len(seconds))
            base_end = float(seconds[end]) if end < len(seconds) else float(seconds[-1])
        else:
            base_end = base + (p.duration_s or 0.0) * p.factor
            end = int(np.searchsorted(seconds, base_end))
        warped[start:end] = wall + (seconds[start:end] - base) / p.factor
        wall += (base_end - base) / p.factor
        start, base, phase = end, base_end, phase + 1
    return warped


def _trace(path: Path, rate_per_s: float | None) -> Seconds:
    """The first column of a recorded trace, from 0, rescaled to a rate if one is given."""
    try:
        opener = gzip.open if path.suffix == ".gz" else open
        with opener(path, "rt", encoding="ascii") as lines:
            seconds = np.array(_first_columns(lines), dtype=np.float64)
    except (OSError, ValueError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"trace {path}", f"cannot be read ({error})", "its first column must be seconds"
        ) from error
    if len(seconds) < 2:
        raise ConfigError(f"trace {path}", "has fewer than two arrivals", "give a longer one")
    if seconds[0] > seconds[1:].max():
        # Traces of the Internet Traffic Archive open with an absolute instant, whole seconds
        # since the epoch ahead of the rest.
        seconds[0] %= 1.0
    seconds = np.sort(seconds - seconds.min())
    if rate_per_s is not None:
        seconds *= len(seconds) / float(seconds[-1]) / rate_per_s
    return seconds


def _first_columns(lines: Iterable[str]) -> list[float]:
    return [float(line.split(None, 1)[0]) for line in lines if line.strip()]


def _rotated(schedule: ArrivalSchedule, streams: int, period_s: float) -> ArrivalSchedule:
    """Batched delivery in rotation: each batch begins with the next stream."""
    batch = np.rint(schedule.at_ns / (period_s * NS_PER_S)).astype(np.int64)
    turn = (schedule.stream - batch) % streams
    order = np.lexsort((turn, schedule.at_ns))
    return ArrivalSchedule(schedule.at_ns[order], schedule.stream[order])
