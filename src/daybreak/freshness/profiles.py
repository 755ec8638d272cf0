"""User profiles become the master profile (section 2.2): p, the access distribution."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from daybreak.freshness.mirror import Floats
from daybreak.model.errors import ConfigError, suggestion

_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "in": np.isin,
}


@dataclass(frozen=True, slots=True)
class Rule:
    """Interest in all objects whose attribute compares so: ``Rule("price", ">", 100, 2.0)``."""

    attribute: str
    compare: str
    value: Any
    weight: float

    def __post_init__(self) -> None:
        if self.compare not in _OPERATORS:
            raise ConfigError("rule", f"{self.compare!r}", suggestion(self.compare, _OPERATORS))
        if not (np.isfinite(self.weight) and self.weight >= 0):
            raise ConfigError("rule", f"weight {self.weight}", "give 0 or more")


@dataclass(frozen=True, slots=True)
class Profile:
    """One user's interest: weights per object and per predicate; more important users weigh more.

    The user's weights are scaled to sum 1, so that nobody gains by larger numbers.
    """

    user: str
    objects: Mapping[str, float] = field(default_factory=dict)
    rules: Sequence[Rule] = ()
    weight: float = 1.0

    def interest(self, index: Mapping[str, int], attributes: Mapping[str, NDArray[Any]]) -> Floats:
        """This user's access probabilities."""
        interest = np.zeros(len(index))
        for name, weight in self.objects.items():
            if name not in index:
                raise ConfigError(
                    f"profile {self.user}", f"unknown object {name!r}", suggestion(name, index)
                )
            interest[index[name]] += weight
        for rule in self.rules:
            if rule.attribute not in attributes:
                raise ConfigError(
                    f"profile {self.user}",
                    f"unknown attribute {rule.attribute!r}",
                    suggestion(rule.attribute, attributes),
                )
            hit = _OPERATORS[rule.compare](attributes[rule.attribute], rule.value)
            interest[hit] += rule.weight
        total = float(interest.sum())
        if not (np.isfinite(total) and total > 0 and (interest >= 0).all()):
            raise ConfigError(
                f"profile {self.user}", "shows no interest in any object", "drop or correct it"
            )
        return interest / total


def master_profile(
    profiles: Sequence[Profile],
    ids: Sequence[str],
    attributes: Mapping[str, NDArray[Any]] | None = None,
) -> Floats:
    """The weighted mean of the users' profiles: access probabilities of the objects ``ids``."""
    index = {name: i for i, name in enumerate(ids)}
    if len(index) != len(ids):
        raise ConfigError("profiles", "two objects have the same id", "make the ids unique")
    total = np.zeros(len(ids))
    for profile in profiles:
        if not (np.isfinite(profile.weight) and profile.weight >= 0):
            raise ConfigError(f"profile {profile.user}", f"weight {profile.weight}", "give >= 0")
        total += profile.weight * profile.interest(index, attributes or {})
    if not total.sum() > 0:
        raise ConfigError("profiles", "no user has a weight", "give at least one above 0")
    weighed: Floats = total / total.sum()
    return weighed
