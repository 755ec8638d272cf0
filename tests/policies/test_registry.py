"""Policies by name, their parameters, and third parties."""

from importlib.metadata import EntryPoint

import pytest

from daybreak.model import ConfigError
from daybreak.policies import registry
from daybreak.policies.base import BasePolicy
from daybreak.policies.registry import all_policies, make_policy, make_policy_with


class Outside(BasePolicy):
    name = "outside"


class Impostor(BasePolicy):
    name = "fcfs"


class Outdated(BasePolicy):
    name = "outdated"

    def on_boarding(self, box: int, now_ns: int) -> None:
        """What ``on_withdrawn`` was called."""


def test_a_policy_is_in_the_file_that_has_its_name() -> None:
    for policy in registry.BUILTIN:
        assert policy.__module__ == f"daybreak.policies.{policy.name.replace('-', '_')}"


def test_an_unknown_policy_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="did you mean 'fcfs'"):
        make_policy("fcsf")


def test_an_unknown_parameter_is_refused_with_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="unknown key 'trian'; did you mean 'train'"):
        make_policy_with("round-robin", trian=3)


@pytest.mark.parametrize(
    "params", [{"level": "tree"}, {"train": -1}, {"fraction": 0.0}, {"train": "all"}]
)
def test_bad_parameters_are_refused(params: dict[str, object]) -> None:
    with pytest.raises(ConfigError):
        make_policy_with("round-robin", **params)


def test_third_parties_join_by_entry_point(monkeypatch: pytest.MonkeyPatch) -> None:
    _offer(monkeypatch, f"{__name__}:Outside")
    assert all_policies()["outside"].name == "outside"


@pytest.mark.parametrize("target", ["Impostor", "Outdated", "missing", "pytest"])
def test_a_third_party_that_cannot_be_used_is_named(
    monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    _offer(monkeypatch, f"{__name__}:{target}")
    with pytest.raises(ConfigError, match="policy '"):
        all_policies()


def _offer(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    entry = EntryPoint(name="their-policy", value=value, group=registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])


def test_a_parameter_that_is_called_name_is_refused_like_any_other() -> None:
    with pytest.raises(ConfigError, match="unknown key 'name'"):
        make_policy_with("stride", name="x")
