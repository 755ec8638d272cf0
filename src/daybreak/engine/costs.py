"""What the jobs of a cell cost, and how sure that is.

A job of one query and r riders on n tuples is modelled as ``fixed + per_tuple x n + r x
(per_rider + per_rider_tuple x n)``: a Bayesian linear regression of relative errors over the
cell's recent jobs. The prior depends on the kind of job and is never forgotten.

Jobs that are all of one length cannot tell the fixed part from the part per tuple. The prior
decides then: how long it takes to start a job of a kind is known within a factor of two, while
what a tuple costs differs by orders of magnitude between queries. So the fixed part stays near its
prior, the slope takes the rest, and both errors are large. As soon as lengths differ, the jobs
decide.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from math import hypot, sqrt
from operator import mul
from statistics import median_high, median_low
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from daybreak.policies.base import JobCost

#: A filter is evaluated without a Spark job, and so is any other query with a prepared plan, over
#: rows or windows; a job is any other query over rows (a function, say); a window is a Spark job
#: that aggregates or joins windows.
Kind = Literal["filter", "prepared", "job", "window"]
Figures = tuple[float, float, float, float]
Floats = NDArray[np.float64]

#: No train is shortened below this.
LEAST_TRAIN = 500
#: Of a cell's first jobs, those that take longer than is plausible count little: Spark compiles
#: them, once for each worker, which takes up to 50 times as long.
COLD_JOBS, COLD_WEIGHT = 5, 0.1
#: How much a job counts after each further one.
MEMORY = 0.97
#: A cell's jobs that are kept, at most, and what one counts at least (more than 200 jobs later).
KEPT_JOBS, LEAST_AGE = 64, 1e-3
#: The relative noise that is assumed at first, and for how many jobs that assumption counts.
NOISE, NOISE_JOBS = 0.2, 2.0
LEAST_NOISE, MOST_NOISE = 0.02, 1.0
#: Jobs within this factor of what is expected count in full. A slower one counts less (it was
#: compiled, or something else ran), a faster one more, up to a bound: few things make a job faster.
LIKELY, MOST_WEIGHT = 1.6, 4.0
#: Young models iterate the fit, since the weights of their jobs still change a lot.
YOUNG_JOBS, YOUNG_PASSES = 12, 3
#: How far the prior gives way to jobs that take longer than is plausible: mostly in the slope.
#: Fewer tuples than this explain little, whatever they cost.
GIVE_FIXED, GIVE_PER_TUPLE, FEW_TUPLES = 0.5, 3.0, 200.0
#: Jobs after which a cell counts among those that show what its kind costs.
SHOWN_JOBS = COLD_JOBS + 2


class Prior(NamedTuple):
    """What is believed of a cell before its first job, and how far off that may be (ns)."""

    kind: Kind
    #: Fixed, per tuple, per rider, per rider and tuple.
    means: Figures
    widths: Figures
    #: The fixed part is never believed to be less.
    floor_ns: float


PRIORS: Mapping[Kind, Prior] = {
    "filter": Prior("filter", (9e6, 200.0, 0.5e6, 20.0), (6e6, 2e3, 1e6, 100.0), 1e6),
    "prepared": Prior("prepared", (14e6, 500.0, 1e6, 50.0), (12e6, 6e3, 3e6, 200.0), 1e6),
    "job": Prior("job", (70e6, 3e3, 1e6, 100.0), (40e6, 6e3, 2e6, 200.0), 15e6),
    "window": Prior("window", (110e6, 3e3, 3e6, 100.0), (60e6, 6e3, 5e6, 200.0), 25e6),
}
#: Nothing is free: jobs that are all alike may leave next to nothing for one of the figures.
_LEAST_NS = (1.0, 1e3, 0.1)

_IDENTITY = np.eye(4)


class CostModel:
    """What the jobs of one cell cost."""

    def __init__(self, prior: Prior) -> None:
        #: Jobs it has learned from.
        self.jobs = 0
        #: Whether any of them was not compiled.
        self._is_warm = False
        self._believe(prior)
        self._figures = np.maximum(self._means, self._least)
        self._covariance = np.diag(self._widths**2)
        self._cached: JobCost | None = None
        #: The rows of jobs of similar length and with similarly many riders, the oldest first.
        self._alike: dict[tuple[int, int], deque[int]] = {}
        # Jobs by row; rows that are free count nothing.
        self._seen = np.zeros((KEPT_JOBS, 4))
        self._seen[:, 0] = 1.0
        self._cost = np.ones(KEPT_JOBS)
        #: How much longer the job took than the prior expects, and than it finds plausible.
        self._beyond = np.zeros(KEPT_JOBS)
        self._excess = np.zeros(KEPT_JOBS)
        self._age = np.zeros(KEPT_JOBS)

    def _believe(self, prior: Prior) -> None:
        self.prior = prior
        self._means = np.array(prior.means)
        self._widths = np.array(prior.widths)
        self._least = np.array([prior.floor_ns, *_LEAST_NS])

    def rebase(self, prior: Prior) -> None:
        """Another prior, such as the same after other cells have shown more; the jobs stay."""
        self._believe(prior)
        self._beyond = self._cost - self._seen @ self._means
        spread_ns = np.sqrt(np.square(self._seen) @ np.square(self._widths))
        self._excess = np.maximum(self._beyond - spread_ns, 0.0)
        if self._is_warm:
            self._fit()
        else:
            self._figures = np.maximum(self._means, self._least)
            self._covariance = np.diag(self._widths**2)
        self._cached = None

    def learn(self, queries: int, tuples: int, cost_ns: int) -> None:
        """A job of so many queries on so many tuples each has ended."""
        self.jobs += 1
        # What took less than a job of this kind can take did not run as one.
        if self._keep(queries - 1, tuples, max(self.prior.floor_ns, float(cost_ns))):
            return  # what compiling took says nothing of later jobs: what was believed stands
        self._is_warm = True
        for _ in range(YOUNG_PASSES if self.jobs <= YOUNG_JOBS else 1):
            self._fit()
        self._cached = None

    def _keep(self, riders: int, tuples: int, cost_ns: float) -> bool:
        """Returns whether it was cold."""
        row = self._free_row()
        self._alike.setdefault((tuples.bit_length(), riders.bit_length()), deque()).append(row)
        seen = 1.0, float(tuples), float(riders), float(riders * tuples)
        prior_ns = sum(map(mul, seen, self.prior.means))
        spread_ns = hypot(*map(mul, seen, self.prior.widths))
        self._seen[row] = seen
        self._cost[row] = cost_ns
        self._beyond[row] = cost_ns - prior_ns
        self._excess[row] = max(0.0, cost_ns - prior_ns - spread_ns)
        self._age *= MEMORY
        cold = self.jobs <= COLD_JOBS and bool(self._excess[row] > 0)
        self._age[row] = COLD_WEIGHT if cold else 1.0
        return cold

    def _free_row(self) -> int:
        """The next one, then that of a job that is too old, or the oldest of the most common sort.

        Jobs of a rare length are kept longer: they are what tells the figures apart.
        """
        if self.jobs <= KEPT_JOBS:
            return self.jobs - 1
        oldest = min(filter(None, self._alike.values()), key=lambda rows: self._age[rows[0]])
        if self._age[oldest[0]] < LEAST_AGE:
            return oldest.popleft()
        return max(self._alike.values(), key=len).popleft()

    def _fit(self) -> None:
        """The posterior, with weights and noise as the figures so far see the jobs."""
        seen, cost = self._seen, self._cost
        expected = seen @ self._figures
        ratio = cost / expected
        usual = ratio / self._usual(ratio) if self.jobs <= YOUNG_JOBS else ratio
        likely = np.minimum(np.maximum(usual, 1 / LIKELY), LIKELY) / usual
        weight = self._age * np.minimum(likely * likely, MOST_WEIGHT)
        miss = ratio - 1.0
        missed = float(weight @ (miss * miss))
        noise2 = (NOISE_JOBS * NOISE**2 + missed) / (NOISE_JOBS + float(weight.sum()))
        noise2 = min(max(noise2, LEAST_NOISE**2), MOST_NOISE**2)
        widths = self._given(weight)
        # In units of the prior's widths, and of what is expected.
        design = seen * (widths / expected[:, None])
        weighted = design.T * weight
        gram = weighted @ design + noise2 * _IDENTITY
        moment = weighted @ (self._beyond / expected)
        inverse = np.linalg.inv(gram)
        least = (self._least - self._means) / widths
        found = _bounded(inverse @ moment, inverse, least)
        self._figures = np.maximum(self._means + found * widths, self._least)
        if self.jobs <= YOUNG_JOBS:
            self._figures = np.minimum(self._figures, np.maximum(self._most(), self._least))
        self._covariance = inverse * (noise2 * widths[:, None] * widths)

    def _usual(self, ratio: Floats) -> Floats:
        """By job: how many times longer than expected jobs as long usually take, 1 at least.

        Where all long ones take longer, that is what they cost, and none is an exception: what
        rows of a join cost depends on how many there are, and was foreseen from shorter jobs.
        """
        known = self._age > 0
        tuples = self._seen[:, 1]
        long = known & (tuples >= tuples[known].max(initial=0.0) / 2)
        times = median_low(ratio[long].tolist()) if long.any() else 1.0
        return np.where(long, max(times, 1.0), 1.0)

    def _most(self) -> Floats:
        """No job takes longer to start than the shortest took in all, nor a tuple of a long one.

        It keeps a slow job on few tuples from being explained by what each of them takes. Short
        jobs are no measure of that: the first window that closes may hold next to nothing.
        """
        known = self._age > 0
        tuples, cost = np.maximum(self._seen[known, 1], 1.0), self._cost[known]
        each = (cost / tuples)[tuples >= tuples.max() / 2]
        return LIKELY * np.array([float(cost.min()), float(each.min()), np.inf, np.inf])

    def _given(self, weight: Floats) -> Floats:
        """The prior's widths, wider where jobs take longer than it can explain."""
        over_ns = float(weight @ self._excess)
        if over_ns <= 0:
            return self._widths
        jobs, total = float(self._age.sum()), float(weight.sum())
        over_ns *= jobs / (jobs + 1) / total  # a single job may be an exception
        tuples = max(float(weight @ self._seen[:, 1]) / total, FEW_TUPLES)
        widths = self._widths.copy()
        widths[0] = max(widths[0], GIVE_FIXED * over_ns)
        widths[1] = max(widths[1], GIVE_PER_TUPLE * over_ns / tuples)
        return widths

    # What is expected

    def cost(self) -> JobCost:
        """The figures, as policies are shown them."""
        if self._cached is None:
            fixed, per_tuple, per_rider, per_rider_tuple = self._figures.tolist()
            errors = sqrt(self._covariance[0, 0]), sqrt(self._covariance[1, 1])
            correlation = float(self._covariance[0, 1]) / (errors[0] * errors[1])
            self._cached = JobCost(
                fixed, per_tuple, per_rider, per_rider_tuple, *errors, correlation
            )
        return self._cached

    def expected_ns(self, tuples: int, riders: int = 0) -> float:
        """What a job is expected to cost."""
        return self.cost().of(tuples, riders)

    def error_ns(self, tuples: int, riders: int = 0) -> float:
        """The standard error of that; single jobs vary around it by the noise in addition."""
        return self._error(np.array([1.0, tuples, riders, riders * tuples]))

    def start_ns(self, riders: int = 0) -> tuple[float, float]:
        """What a job costs before its first tuple, and the standard error of that."""
        cost = self.cost()
        error = self._error(np.array([1.0, 0.0, riders, 0.0]))
        return cost.fixed_ns + riders * cost.per_rider_ns, error

    def each_ns(self, riders: int = 0) -> tuple[float, float]:
        """What a tuple adds to a job, and the standard error of that."""
        cost = self.cost()
        error = self._error(np.array([0.0, 1.0, 0.0, riders]))
        return cost.per_tuple_ns + riders * cost.per_rider_tuple_ns, error

    def _error(self, of: Floats) -> float:
        return sqrt(max(0.0, float(of @ self._covariance @ of)))

    def margin_ns(self, tuples: int) -> float:
        """What one more query adds to a job on so many tuples."""
        cost = self.cost()
        return cost.per_rider_ns + cost.per_rider_tuple_ns * tuples

    def tuples_within(self, margin_ns: float) -> int:
        """How many tuples one more query takes that long for."""
        cost = self.cost()
        spare_ns = margin_ns - cost.per_rider_ns
        return max(LEAST_TRAIN, int(spare_ns / cost.per_rider_tuple_ns))

    def solo_ns(self, tuples: int) -> float:
        """What a query costs that runs by itself."""
        return self.expected_ns(tuples)

    def shares(self, queries: int, tuples: int, cost_ns: int) -> list[int]:
        """A job's cost by query, the one that was asked first; they add up to the cost.

        Riders pay their margin, the one that was asked pays the rest.
        """
        rider = min(round(self.margin_ns(tuples)), cost_ns // queries)
        return [cost_ns - rider * (queries - 1), *([rider] * (queries - 1))]

    # What others can expect from it

    def as_prior(self) -> Prior:
        """For a cell that was part of this one, or whose queries do the same for another class."""
        return _moved(self.prior, tuple(self._figures.tolist()))

    def shown(self, prior: Prior) -> tuple[float, float]:
        """The fixed part and that per tuple, as far as its own jobs show them.

        Where they cannot tell the two apart, they show how many times the prior a job costs.
        """
        cost = self.cost()
        weight = self._age / self._cost
        seen = weight @ self._seen
        times = float(seen @ self._figures) / float(seen @ np.array(prior.means))
        fixed_ns, per_tuple_ns, *_ = prior.means
        fixed_known = cost.fixed_error_ns < cost.fixed_ns / 3
        per_tuple_known = cost.per_tuple_error_ns < cost.per_tuple_ns / 3
        return (
            cost.fixed_ns if fixed_known else fixed_ns * times,
            cost.per_tuple_ns if per_tuple_known else per_tuple_ns * times,
        )


def pooled(prior: Prior, models: Iterable[CostModel]) -> Prior:
    """What a cell can expect from what others of its kind have shown.

    Medians, in which the kind's own prior counts twice: a single cell, such as one slow function,
    does not change what the others' jobs are believed to cost.
    """
    shown = [model.shown(prior) for model in models if model.jobs >= SHOWN_JOBS]
    fixed_ns, per_tuple_ns, *riders = prior.means
    fixed_ns = _middle(fixed_ns, [fixed for fixed, _ in shown])
    per_tuple_ns = _middle(per_tuple_ns, [each for _, each in shown])
    return _moved(prior, (fixed_ns, per_tuple_ns, riders[0], riders[1]))


def _middle(prior: float, shown: list[float]) -> float:
    figures = [prior, prior, *shown]
    low, high = median_low(figures), median_high(figures)
    return low if low == high else sqrt(low * high)


def _moved(prior: Prior, means: Figures) -> Prior:
    """The same belief around other figures: as wide, in proportion where they are larger."""
    both = zip(prior.widths, means, prior.means, strict=True)
    fixed, each, rider, rider_each = (w * max(1.0, now / was) for w, now, was in both)
    return Prior(prior.kind, means, (fixed, each, rider, rider_each), prior.floor_ns)


def _bounded(found: Floats, inverse: Floats, least: Floats) -> Floats:
    """The minimum with no figure below its least: the one furthest below is put there, in turn.

    ``inverse``: of the matrix of the quadratic form that ``found`` minimises.
    """
    fixed: set[int] = set()
    while len(fixed) < len(found):
        k = int((found - least).argmin())
        if found[k] >= least[k] or k in fixed:
            break
        fixed.add(k)
        # What the others become if this one is held, and the inverse for those that remain.
        along = inverse[:, k] / inverse[k, k]
        found = found + along * (least[k] - found[k])
        inverse = inverse - np.multiply.outer(along, inverse[k])
    return found
