"""Who runs along: queries that join the job of the one a policy asked for. The same on Spark and
where a run is replayed.

Queries of one class over one stream that are filters, joins with the same static tables, or
aggregates over the same windows and keys, and at the same place of the stream, run as one job.
Riders join while the delay they add to the query that was asked is expected to stay within a
stated bound, or below what that query costs by itself if that is more.

What Spark compiles is the *cell*: all filters of the class over the stream, whoever of them runs.
Who is at the same place changes from job to job, and a changing text would be compiled again and
again; a condition that nobody asked for costs next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from daybreak.engine.costs import LEAST_TRAIN, PRIORS, SHOWN_JOBS, CostModel, Kind, pooled
from daybreak.engine.state import SystemState
from daybreak.policies.base import Cell

#: Queries that are compiled together, at most: beyond about 300 conditions the code Spark
#: generates for one projection exceeds 64 KB.
MOST = 240
#: The same of aggregates over windows, whose code is larger.
MOST_WINDOWS = 24
#: A job cannot be interrupted by a more important one, so none is to take much longer than this.
#: Much shorter ones would spend their time on being started.
JOB_BOUND_NS = 250_000_000
FIRST_TRAIN = 8_000
#: Standard errors within which a figure may well lie.
SURE = 2.0
#: What cells of a kind have shown is looked at again after so many jobs, or as many as there are
#: cells, and counts if it differs by more than a tenth.
POOL_JOBS, POOL_CHANGE = 50, 0.1

#: A cell keeps its key, and so what is known of it, while queries join and leave it: what its
#: queries have in common, their class and which of several such cells; of a query that runs by
#: itself, the box.
CellKey = tuple[str, int, int] | int


class Trains:
    """The longest train of each cell whose job stays within the bound: doubled, halved.

    Where it takes more than half the bound to start a job at all, the bound is twice that:
    shorter trains would be more of them, each hardly any faster. What is not known is tried:
    trains are halved unless it is sure that this does not help, and doubled unless it is sure
    that this takes too long. Once tried, it is known for some dozens of jobs.
    """

    def __init__(self) -> None:
        self._most: dict[CellKey, int] = {}

    def most(self, cell: CellKey) -> int:
        return self._most.get(cell, FIRST_TRAIN)

    def learn(
        self, cell: CellKey, model: CostModel, queries: int, tuples: int, cost_ns: int
    ) -> None:
        """A job of the cell has ended; its model has learned from it already."""
        start_ns, start_error_ns = model.start_ns(queries - 1)
        each_ns, each_error_ns = model.each_ns(queries - 1)
        least_start_ns = start_ns - SURE * start_error_ns
        most_start_ns = start_ns + SURE * start_error_ns
        twice_ns = cost_ns + max(0.0, each_ns - SURE * each_error_ns) * tuples
        most = self.most(cell)
        shorter = min(most, tuples) // 2
        if cost_ns > max(JOB_BOUND_NS, 2 * least_start_ns) and shorter >= LEAST_TRAIN:
            self._most[cell] = shorter
        elif tuples >= most and twice_ns < max(JOB_BOUND_NS, 2 * most_start_ns):
            self._most[cell] = most * 2

    def forget(self, cell: CellKey) -> None:
        self._most.pop(cell, None)


class JobGroup(NamedTuple):
    """Boxes to run together, the one that was asked first."""

    boxes: list[int]
    #: The boxes whose composite is compiled, among them those that run.
    cell: list[int]
    #: How many tuples each takes.
    tuples: int


class Compositor:
    """Chooses riders, and learns what jobs cost. Used by one thread; others may read the costs."""

    def __init__(
        self,
        state: SystemState,
        share_key: Callable[[int], str | None],
        windows: Callable[[int], bool],
        *,
        bound_ns: int,
        kind: Callable[[int], Kind] | None = None,
        slide_ns: Callable[[int], int] = lambda _box: 0,
    ) -> None:
        """``share_key``: what a box has in common with all it may run along with, else None.

        ``windows``: whether it answers windows, and so compiles to larger code. ``kind``: what its
        jobs are like; left out, windows, filters where a box has such a key, and jobs.
        ``slide_ns``: how far apart the windows close that it answers.
        """
        self.trains = Trains()
        #: Boxes that have to run by themselves: they failed, or a group with them did.
        self.alone: set[int] = set()
        self._state = state
        self._share_key_of = share_key
        self._windows = windows
        self._kind_of = kind if kind is not None else self._guessed
        self._slide_ns = slide_ns
        #: How much riders may delay the query that was asked for.
        self.bound_ns = bound_ns
        #: Boxes that hold a query, in the order in which they came, and their share keys.
        self._boxes: dict[int, str | None] = {}
        #: Of cells that have run.
        self._models: dict[CellKey, CostModel] = {}
        #: Of these, the ones that started from what a cell of their share key knew.
        self._heirs: set[CellKey] = set()
        #: What is expected of cells that have not run, by kind.
        self._newcomers = {kind: CostModel(prior) for kind, prior in PRIORS.items()}
        self._jobs_since_pooled = 0
        self._grouping = _Grouping({}, {}, [])
        #: Queries that have come and gone, and what the grouping was made from.
        self._changes = 0
        self._made_from: tuple[int, list[int], set[int], bool] = (-1, [], set(), False)
        for b in range(len(state.pending)):
            self.adopt(b)

    def _guessed(self, box: int) -> Kind:
        if self._windows(box):
            return "window"
        return "job" if self._share_key_of(box) is None else "filter"

    def adopt(self, box: int) -> None:
        """A box is new, or holds another query than before."""
        self.forget(box)
        self._boxes[box] = self._share_key_of(box)
        self._changes += 1

    def forget(self, box: int) -> None:
        """A box holds no query any more."""
        self.alone.discard(box)
        share_key = self._boxes.pop(box, None)
        self._changes += 1
        gone: list[CellKey] = [box] if box in self._models else []
        if share_key is not None and share_key not in self._boxes.values():
            gone += [key for key in self._models if _share_key(key) == share_key]
        for key in gone:
            del self._models[key]
            self._heirs.discard(key)
            self.trains.forget(key)

    # Who runs together

    def group(self, asked: int, limit: int, *, sized: bool = False) -> JobGroup:
        """Who runs together, on how much; ``sized``: whoever asks knows how long the job is."""
        key = self.key(asked)
        cell, costs = list(self._grouping.cells[key]), self._known(key, asked)
        members = [b for b in cell if b != asked]
        if not sized:
            limit = min(limit, self.trains.most(key))
        pending = self._state.pending  # what is parked shows nothing there
        mine = pending[asked]
        # Who is ahead has less waiting. Stop where the nearest one is, to go on together.
        ahead = [n for b in members if 0 < (n := pending[b]) < mine]
        take = min(limit, mine - max(ahead)) if ahead else min(limit, mine)
        # Riders may add the bound, or as much again as the query costs by itself.
        allowed_ns = max(self.bound_ns, costs.solo_ns(take))
        riders = [b for b in members if pending[b] == mine and not self._state.running[b]]
        if not sized:
            riders = riders[: int(allowed_ns / max(costs.margin_ns(0), 1.0))]
        # A shorter train rather than fewer riders: who stays behind is a job of its own later.
        if riders and not sized:
            take = min(take, costs.tuples_within(allowed_ns / len(riders)))
        return JobGroup([asked, *riders], cell, take)

    def cell(self, asked: int) -> list[int]:
        """The queries that may run along with this one and itself, in a fixed order."""
        key = self.key(asked)
        return list(self._grouping.cells[key])

    def key(self, box: int) -> CellKey:
        """What the cell of a query is known by, to ``trains`` for instance."""
        self._regroup()
        return self._grouping.keys[box]

    def cells(self) -> list[Cell]:
        """Every query in exactly one cell, and what the cell's jobs cost."""
        self._regroup()
        return [
            Cell(queries, self._known(key, queries[0]).cost(), slide_ns)
            for key, queries, slide_ns in self._grouping.shown
        ]

    def _regroup(self) -> None:
        """Groups again if a query has come, gone, changed its class or must run alone."""
        classes, alone, rides = self._state.query_class, self.alone, bool(self.bound_ns)
        if self._made_from == (self._changes, classes, alone, rides):
            return
        made_from = self._changes, list(classes), set(alone), rides
        cells = dict(self._grouped())
        self._grouping = _Grouping(
            cells,
            {box: key for key, boxes in cells.items() for box in boxes},
            [(key, tuple(boxes), min(map(self._slide_ns, boxes))) for key, boxes in cells.items()],
        )
        self._made_from = made_from

    def _grouped(self) -> Iterator[tuple[CellKey, list[int]]]:
        together: dict[tuple[str, int], list[int]] = {}
        for box, share_key in list(self._boxes.items()):
            if share_key is None or box in self.alone or not self.bound_ns:
                yield box, [box]
            else:
                together.setdefault((share_key, self._state.query_class[box]), []).append(box)
        for (share_key, cls), boxes in together.items():
            most = MOST_WINDOWS if self._windows(boxes[0]) else MOST
            for first in range(0, len(boxes), most):
                yield (share_key, cls, first // most), boxes[first : first + most]

    # What jobs cost

    def learn(
        self, boxes: list[int], cell: list[int], tuples: int, cost_ns: int, *, chosen: bool = True
    ) -> list[int]:
        """A job on so many tuples has ended; returns what each of its queries cost.

        ``boxes``: the one that was asked first. ``cell``: what was compiled for it. ``chosen``:
        whether the length of its train was chosen here.
        """
        asked = boxes[0]
        if asked not in self._boxes:  # it has gone meanwhile
            return self._newcomers["job"].shares(len(boxes), tuples, cost_ns)
        key = self.key(asked)
        if cell == [asked] and len(self._grouping.cells[key]) > 1:
            key = asked  # it ran by itself, which is not what the cell's jobs cost
        if key not in self._models:
            self._models[key] = self._new_model(key, asked)
        model = self._models[key]
        model.learn(len(boxes), tuples, cost_ns)
        self._pool()
        if chosen:
            self.trains.learn(key, model, len(boxes), tuples, cost_ns)
        return model.shares(len(boxes), tuples, cost_ns)

    def _new_model(self, key: CellKey, box: int) -> CostModel:
        like = self._like(self._boxes[box], box)
        if like is None:
            return CostModel(self._newcomers[self._kind_of(box)].prior)
        self._heirs.add(key)
        return CostModel(like.as_prior())

    def _pool(self) -> None:
        """Now and then lets cells know what all others of their kind have shown."""
        self._jobs_since_pooled += 1
        if self._jobs_since_pooled < max(POOL_JOBS, len(self._models)):
            return
        self._jobs_since_pooled = 0
        for kind, prior in PRIORS.items():
            models = {k: m for k, m in self._models.items() if m.prior.kind == kind}
            now, before = pooled(prior, models.values()), self._newcomers[kind].prior
            both = zip(now.means, before.means, strict=True)
            if all(abs(x - was) <= POOL_CHANGE * was for x, was in both):
                continue
            self._newcomers[kind] = CostModel(now)
            for key, model in models.items():
                if key not in self._heirs:
                    model.rebase(now)

    def costs_of(self, box: int) -> CostModel:
        """What is known of jobs such as this box's."""
        self._regroup()
        key = self._grouping.keys.get(box)
        return self._newcomers["job"] if key is None else self._known(key, box)

    def costs(self, share_key: str | None, kind: Kind = "job") -> CostModel:
        """The same of a query that is not there yet; one without a ``share_key`` runs alone."""
        return self._like(share_key) or self._newcomers[kind]

    def _known(self, key: CellKey, box: int) -> CostModel:
        """What is known of a box's cell; before its first job, what is known of its like."""
        if key in self._models:
            return self._models[key]
        return self._like(self._boxes[box], box) or self._newcomers[self._kind_of(box)]

    def _like(self, share_key: str | None, box: int | None = None) -> CostModel | None:
        """Of the cells with this share key, the one known best; of the box's class if any."""
        if share_key is None:
            return None
        cls = None if box is None else self._state.query_class[box]
        models = [
            (not isinstance(key, int) and key[1] == cls, model.jobs, model)
            for key, model in list(self._models.items())
            if _share_key(key) == share_key and model.jobs >= SHOWN_JOBS
        ]
        return max(models, key=lambda one: one[:2])[2] if models else None


class _Grouping(NamedTuple):
    """Which boxes run together."""

    cells: dict[CellKey, list[int]]
    keys: dict[int, CellKey]
    #: As policies see it: with the queries, and how far apart their windows close.
    shown: list[tuple[CellKey, tuple[int, ...], int]]


def _share_key(key: CellKey) -> str | None:
    return None if isinstance(key, int) else key[0]
