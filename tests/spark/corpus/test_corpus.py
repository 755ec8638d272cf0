"""Awkward SQL: each text of the corpus gives the rows of a batch, or is refused in one line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.spark.corpus.entries import ENTRIES, Entry
from tests.spark.corpus.harness import Corpus, Results, bag, run_alone, run_together, types

from daybreak.spark.declared.application import CheckedApplication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

MUST_RUN = [entry for entry in ENTRIES if entry.refused is None]


@pytest.fixture(scope="module")
def corpus(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus(spark, tmp_path_factory.mktemp("corpus"))


@pytest.fixture(scope="module")
def batches(corpus: Corpus) -> dict[str, pa.Table | str]:
    return corpus.batch(MUST_RUN)


@pytest.fixture(scope="module")
def prepared(corpus: Corpus) -> CheckedApplication:
    return corpus.prepared([entry for entry in MUST_RUN if corpus.refusal(entry) is None])


@pytest.fixture(
    scope="module", params=[run_together, pytest.param(run_alone, marks=pytest.mark.soak)]
)
def results(
    request: pytest.FixtureRequest,
    prepared: CheckedApplication,
    tmp_path_factory: pytest.TempPathFactory,
) -> Results:
    found = request.param(prepared, tmp_path_factory.mktemp("run"))
    assert isinstance(found, Results)
    return found


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
def test_what_may_run_is_accepted_and_what_may_not_is_refused_with_a_remedy(
    corpus: Corpus, entry: Entry
) -> None:
    found = corpus.refusal(entry)
    if entry.refused is None:
        assert found is None
    else:
        assert found is not None
        assert entry.refused in str(found)
        assert found.remedy
        assert "\n" not in str(found)


def test_many_texts_run_as_one_job_or_none_does(
    results: Results, request: pytest.FixtureRequest
) -> None:
    together = "together" in request.node.name
    assert results.most_together > 20 if together else results.most_together == 1


@pytest.mark.parametrize("entry", MUST_RUN, ids=lambda entry: entry.name)
def test_the_rows_are_those_of_the_batch(
    prepared: CheckedApplication, batches: dict[str, pa.Table | str], results: Results, entry: Entry
) -> None:
    batch = batches[entry.name]
    assert not isinstance(batch, str), f"as a batch: {batch}"
    if entry.name not in prepared.specs:
        pytest.fail("it is refused")
    assert results.failures.get(entry.name) is None
    rows = results.rows[entry.name]
    assert bag(rows) == bag(batch)
    assert rows is None or types(rows) == types(batch)
