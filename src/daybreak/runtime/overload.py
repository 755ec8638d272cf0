"""Was a run overloaded, and in which of two ways?

*Capacity overload*: more was asked for than the workers could give; no order of work would have
helped. *QoS overload*: the workers could have done it all, and yet utility was lost: deadlines
too tight for the bursts, or a policy that serves the wrong ones. The remedies differ: shed load
or add workers for the one, another policy or other graphs for the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from daybreak.runtime.report import RunReport

State = Literal["fine", "capacity", "qos"]
#: Equal slots that a run is judged by; at most so much utility may be lost in one that is fine.
SLOTS = 20
TOLERANCE = 0.05


@dataclass(frozen=True)
class Overload:
    """What each slot of a run was like."""

    #: Ends of the slots.
    at_s: NDArray[np.float64]
    #: Work that came in, dropped or not, over what the workers could have done meanwhile.
    offered: NDArray[np.float64]
    #: Mean utility of the results that left; NaN where none did, or no graph is declared.
    utility: NDArray[np.float64]
    states: tuple[State, ...]

    def share(self, state: State) -> float:
        """In how much of the run it was in this state."""
        return self.states.count(state) / len(self.states) if self.states else 0.0


def overload(report: RunReport, slots: int = SLOTS) -> Overload:
    """Judges a run slot by slot.

    A slot is overloaded in capacity if more work came in (dropped or not) than the workers can
    do in it, or if what such a slot left behind cannot be cleared in it. Express workers count as
    workers: the samples do not record which class asked for the work.
    """
    samples = report.backlog
    end_ns = int(samples.at_ns[-1]) if len(samples.at_ns) else 0
    if len(samples.at_ns) < 2 or not end_ns or np.isnan(samples.offered_ns).any():
        nothing = np.empty(0)
        return Overload(nothing, nothing, nothing, ())
    edges = np.linspace(0, end_ns, slots + 1)
    done, offered, shed = (
        np.interp(edges, samples.at_ns, v)
        for v in (samples.done_ns, samples.offered_ns, samples.shed_ns)
    )
    room = np.diff(edges) * report.threads
    came_in = np.diff(offered)
    behind = offered - shed - done
    utility = _utility(report, edges)
    states: list[State] = []
    for i, can in enumerate(room):
        catching_up = states[-1:] == ["capacity"] and behind[i] + came_in[i] > can
        if came_in[i] > can or catching_up:
            states.append("capacity")
        else:
            states.append("qos" if utility[i] < 1 - TOLERANCE else "fine")
    return Overload(edges[1:] / 1e9, came_in / room, utility, tuple(states))


def _utility(report: RunReport, edges: NDArray[np.float64]) -> NDArray[np.float64]:
    known = ~np.isnan(report.utility)
    left_ns = report.outputs.departure_ns[known]
    slot = np.clip(np.searchsorted(edges, left_ns, side="right") - 1, 0, len(edges) - 2)
    tuples = report.outputs.tuples[known]
    worth = np.full(len(edges) - 1, np.nan)
    count = np.bincount(slot, weights=tuples, minlength=len(worth))
    summed = np.bincount(slot, weights=tuples * report.utility[known], minlength=len(worth))
    np.divide(summed, count, out=worth, where=count > 0)
    return worth
