"""Superboxes: which boxes run as one unit (aurora-thesis 3.3.1 and 6.3).

``applications`` takes the tree of each query; where queries share boxes, trees overlap.
``composites`` makes one superbox of applications that overlap much. The
other choices cut the network, so that every box is in one superbox: a *cut* behind some boxes,
the roots, leaves every other box with the one that its tuples go to. What differs is where to
cut: at splits, before boxes of several inputs, around boxes that cost much.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations
from statistics import median

from daybreak.model.network import Network


class Superbox:
    """Boxes run as one unit, every box after those of them that feed it."""

    __slots__ = ("_network", "_paths", "boxes", "exits")

    def __init__(
        self, network: Network, boxes: tuple[int, ...], exits: tuple[int, ...] = ()
    ) -> None:
        self.boxes = boxes
        #: Where tuples leave it: its root, or the outputs of all applications it composites.
        self.exits = exits or boxes[-1:]
        self._network = network
        self._paths: dict[int, tuple[int, ...]] = {}

    @property
    def root(self) -> int:
        return self.boxes[-1]

    def down_path(self, box: int) -> tuple[int, ...]:
        """D(b) within the superbox: the box and those downstream of it, in flow order."""
        known = self._paths.get(box)
        if known is None:
            reached, path = {box}, []
            for b in self.boxes:
                if b in reached:
                    path.append(b)
                    reached.update(self._network.downstream[b])
            known = self._paths[box] = tuple(path)
        return known

    def entries(self) -> list[int]:
        """The boxes that tuples from outside come to."""
        fed, mine = set(self._network.input_boxes), set(self.boxes)
        return [b for b in self.boxes if b in fed or not mine.issuperset(self._network.upstream[b])]


def applications(network: Network) -> list[Superbox]:
    """Application trees: one superbox per query. They overlap where boxes are shared."""
    return [Superbox(network, boxes) for boxes in network.query_boxes]


def composites(network: Network, least: float) -> list[Superbox]:
    """Applications that share boxes, treated as one (6.3.3).

    Two are joined if they have at least the share ``least`` of the smaller one's boxes in common,
    and what is joined to one of them is joined to both.
    """
    trees = [set(boxes) for boxes in network.query_boxes]
    group = list(range(len(trees)))
    for a, b in combinations(range(len(trees)), 2):
        common = len(trees[a] & trees[b])
        if common and common >= least * min(len(trees[a]), len(trees[b])):
            joined, other = group[a], group[b]
            group = [joined if g == other else g for g in group]
    found = []
    for g in dict.fromkeys(group):
        members = [q for q, at in enumerate(group) if at == g]
        if len(members) == 1:
            found.append(Superbox(network, network.query_boxes[g]))
            continue
        together = set().union(*(trees[q] for q in members))
        boxes = tuple(b for b in network.topological if b in together)
        outputs = {network.query_boxes[q][-1]: None for q in members}
        found.append(Superbox(network, boxes, tuple(outputs)))
    return found


def splits(network: Network) -> set[int]:
    """Boxes whose tuples do not all go to one other box: outputs, and split points.

    Cutting behind them gives the intersections of application trees.
    """
    return {
        b for b, down in enumerate(network.downstream) if network.queries_at[b] or len(down) != 1
    }


def before_several_inputs(network: Network) -> set[int]:
    """Boxes that feed a box of several inputs.

    Cutting there as well as at splits leaves paths on which only the first box may have several
    inputs: nothing within such a superbox waits for what comes from elsewhere.
    """
    several = [b for b, box in enumerate(network.boxes) if len(box.inputs) > 1]
    return {up for b in several for up in network.upstream[b]}


def dear_boxes(network: Network, factor: float) -> set[int]:
    """Boxes whose cost per tuple is at least ``factor`` times the median box's.

    The text asks what makes a box dear and leaves it open (6.3.7).
    """
    typical = median(b.cost_ns for b in network.boxes)
    return {b for b, box in enumerate(network.boxes) if box.cost_ns >= factor * typical > 0}


def around(network: Network, boxes: Iterable[int]) -> set[int]:
    """Where to cut so that each of these boxes is a superbox of its own."""
    chosen = set(boxes)
    return chosen | {up for b in chosen for up in network.upstream[b]}


def cut(network: Network, roots: set[int]) -> list[Superbox]:
    """The superboxes left when the network is cut behind these boxes and at all splits."""
    ends = roots | splits(network)
    root_of = list(range(len(network.boxes)))
    for b in reversed(network.topological):
        if b not in ends:
            root_of[b] = root_of[network.downstream[b][0]]
    # By queries, each in post-order: without overlap or cuts, these are the applications.
    found: dict[int, dict[int, None]] = {}
    for boxes in network.query_boxes:
        for b in boxes:
            found.setdefault(root_of[b], {})[b] = None
    return [Superbox(network, tuple(boxes)) for boxes in found.values()]


def spanner(network: Network, query: int, boxes: Sequence[int]) -> tuple[int, ...]:
    """The tree that spans these boxes of a query: they and all downstream, in post-order.

    A join can only go on when both its inputs do, so that everything upstream of a join on the
    way belongs to it too (Fig. 6.6).
    """
    tree = {k for b in boxes for k in network.down_path(b, query)}
    feeding: set[int] = set()
    for b in reversed(network.query_boxes[query]):
        if b in feeding or (b in tree and network.boxes[b].kind == "join"):
            feeding.update(network.upstream[b])
    tree |= feeding
    return tuple(b for b in network.query_boxes[query] if b in tree)
