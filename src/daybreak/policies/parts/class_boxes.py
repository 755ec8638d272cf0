"""Which boxes make up a class, for policies that choose a class first and a box second."""

from __future__ import annotations

from daybreak.policies.base import View


class ClassBoxes:
    """A box counts in the most important class it serves. ``refresh`` after every change."""

    def __init__(self, view: View) -> None:
        self._view = view
        self.refresh()

    def refresh(self) -> None:
        view = self._view
        network, priority, query_class = view.network, view.class_priority, view.query_class
        #: Classes by their current priority, highest first.
        self.order = sorted(range(len(priority)), key=lambda c: (-priority[c], c))
        rank = {c: i for i, c in enumerate(self.order)}
        self.cls = [min((query_class[q] for q in qs), key=rank.__getitem__)
                    for qs in network.box_queries]  # fmt: skip
        #: The boxes of each class, query by query, each in the direction of flow.
        self.boxes: list[list[int]] = [[] for _ in priority]
        listed: set[int] = set()
        for q, boxes in enumerate(network.query_boxes):
            for b in boxes:
                if self.cls[b] == query_class[q] and b not in listed:
                    listed.add(b)
                    self.boxes[self.cls[b]].append(b)
