"""Arrival processes."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from daybreak.model import Arrivals, ConfigError, Network, Phase, Query, Stream, chain
from daybreak.simulation.arrivals import draw, draw_schedule, load_scale
from daybreak.simulation.randomness import generator_for


def drawn(duration_s: float = 100.0, seed: int = 1, **given: object) -> list[float]:
    arrivals = Arrivals(**given)  # type: ignore[arg-type]
    instants = draw(arrivals, duration_s, generator_for(seed, "test"))
    assert (np.diff(instants) >= 0).all()
    return [float(t) for t in instants / 1e9]


def test_periodic_arrivals_are_evenly_spaced() -> None:
    assert drawn(1.0, process="periodic", rate_per_s=4) == [0, 0.25, 0.5, 0.75]
    assert drawn(1.0, process="periodic", rate_per_s=2, offset=0.5) == [0.25, 0.75]


def test_poisson_arrivals_have_the_rate_and_the_spread() -> None:
    counts = [len(drawn(50.0, seed, rate_per_s=20)) for seed in range(200)]
    assert np.mean(counts) == pytest.approx(1000, abs=4 * (1000 / 200) ** 0.5)
    assert np.var(counts) == pytest.approx(1000, rel=0.4)


def test_a_burst_arrives_with_its_first_tuple_and_keeps_the_rate() -> None:
    times = drawn(1.0, process="periodic", rate_per_s=10, burst=5)
    assert times == [0.0] * 5 + [0.5] * 5


def test_batches_hand_over_what_came_since_the_last() -> None:
    times = drawn(1.0, process="periodic", rate_per_s=10, batch_s=0.25)
    assert times == [0, 0.25, 0.25, 0.5, 0.5, 0.5, 0.75, 0.75, 1.0, 1.0]


def test_phases_change_the_rate_and_repeat() -> None:
    phases = (Phase(factor=1.0, duration_s=2), Phase(factor=3.0, duration_s=1))
    times = np.array(drawn(6.0, process="periodic", rate_per_s=10, phases=phases))
    per_second = np.histogram(times, bins=np.arange(7) - 1e-9)[0].tolist()
    assert per_second == [10, 10, 30, 10, 10, 30]


def test_phases_by_number_of_tuples() -> None:
    phases = (Phase(factor=0.5, tuples=5), Phase(factor=2.0, tuples=10))
    times = drawn(100.0, process="periodic", rate_per_s=1, phases=phases)
    assert times[:16] == [0, 2, 4, 6, 8, *(10 + 0.5 * i for i in range(10)), 15]


def test_a_trace_is_replayed_from_zero_and_rescaled(tmp_path: Path) -> None:
    trace = tmp_path / "trace.gz"
    with gzip.open(trace, "wt") as file:
        file.write("5.0 x y\n6.0 x y\n\n9.0 x y\n")
    assert drawn(process="trace", trace=str(trace)) == [0, 1, 4]
    assert drawn(process="trace", trace=str(trace), rate_per_s=1.5) == [0, 0.5, 2]


@pytest.mark.parametrize("content", ["", "1.0\n", "one two\n3.0\n"])
def test_a_trace_that_cannot_be_used_is_refused(tmp_path: Path, content: str) -> None:
    trace = tmp_path / "trace.txt"
    trace.write_text(content)
    with pytest.raises(ConfigError, match="trace"):
        drawn(process="trace", trace=str(trace))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"rate_per_s": 0},
        {"rate_per_s": float("nan")},
        {"rate_per_s": 1, "burst": 0},
        {"rate_per_s": 1, "trace": "x"},
        {"process": "trace"},
        {"process": "tidal", "rate_per_s": 1},
    ],
)
def test_arrivals_that_make_no_sense_are_refused(given: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        Arrivals(**given)  # type: ignore[arg-type]


def two_streams(rate_per_s: float = 5, batch_s: float | None = None) -> Network:
    arrivals = Arrivals(process="periodic", rate_per_s=rate_per_s, batch_s=batch_s)
    return Network(
        streams=[Stream(name=n, arrivals=arrivals) for n in "ab"],
        boxes=[*chain("x", "a", [1_000_000]), *chain("y", "b", [3_000_000])],
        queries=[Query(name="x", output="x.1"), Query(name="y", output="y.1")],
    )


def test_batches_begin_with_each_stream_in_turn() -> None:
    schedule = draw_schedule(two_streams(rate_per_s=1, batch_s=1.0), 4.0, seed=1)
    assert schedule.stream.reshape(-1, 2)[:, 0].tolist() == [0, 1, 0, 1]


def test_rates_can_be_scaled_to_an_offered_load() -> None:
    network = two_streams()
    assert load_scale(network, load=0.5, workers=1) == pytest.approx(0.5 / (5 * 0.004))


def test_the_same_seed_gives_the_same_arrivals_whatever_else_is_drawn() -> None:
    one = drawn(5.0, rate_per_s=100, seed=9)
    drawn(5.0, rate_per_s=100, seed=10)
    assert drawn(5.0, rate_per_s=100, seed=9) == one
