"""The experiments' distribution goes with one version of the core."""

import tomllib
from pathlib import Path

import daybreak_experiments
from daybreak.version import __version__

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "experiments" / "pyproject.toml").read_text(encoding="utf-8"))


def test_both_distributions_have_one_version() -> None:
    core = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    own = PROJECT["project"]
    assert own["version"] == core["version"] == __version__
    assert own["dependencies"] == [f"daybreak[plot]=={__version__}"]


def test_everything_is_in_the_package_that_is_built() -> None:
    (package,) = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    built = ROOT / "experiments" / package
    assert Path(daybreak_experiments.__file__).parent == built
    assert list((built / "classes" / "workloads").glob("*.toml"))
