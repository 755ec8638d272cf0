# Two commands for a fresh machine: `make run` and `make test`. Both set up .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help run run-kafka test test-fast docs reference screenshots java chromium kafka check lock reproduce soak cluster-test clean
help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 12

$(VENV)/.ready: requirements.lock pyproject.toml experiments/pyproject.toml
	@echo "setting up $(VENV): downloads about 0.6 GB of packages the first time, 2-4 minutes"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e . -e experiments
	@touch $@

run: java $(VENV)/.ready  ## the wildfire example on Spark: about two minutes, ends in a report
	$(BIN)/python examples/wildfire.py

run-kafka: kafka  ## the Kafka example with a broker of its own: a minute, ends in a picture
	$(BIN)/python examples/kafka/run.py

test: java chromium kafka check  ## lint, types, layers, then every test
	$(BIN)/python tools/test_lanes.py

test-fast: $(VENV)/.ready  ## tests that need no JVM and no browser: about 50 s on two cores
	$(BIN)/python tools/test_lanes.py --fast

docs: reference  ## the documentation site in build/site; every link and anchor must lead somewhere
	$(BIN)/python -m tools.site

reference: $(VENV)/.ready  ## the pages and pictures of docs/ that are generated from the code
	$(BIN)/python -m tools.schedules
	$(BIN)/python -m tools.reference

screenshots: java chromium $(VENV)/.ready  ## the pictures of the dashboard in docs/img
	$(BIN)/python benchmarks/screenshots.py

java:
	@tools/need-java.sh

chromium:
	@tools/need-chromium.sh

kafka: java $(VENV)/.ready
	@$(BIN)/python tools/need_kafka.py

check: $(VENV)/.ready  ## ruff, mypy and import-linter only
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

reproduce: $(VENV)/.ready  ## every experiment of the source texts; rewrites docs/results
	$(BIN)/daybreak reproduce --all --docs docs/results

soak: java kafka $(VENV)/.ready  ## 100 kills, 20 lost drivers, 20 kills with Kafka, 20 with tables, a full disk, ten steady minutes, Nexmark
	$(BIN)/python benchmarks/soak.py
	$(BIN)/python -m pytest -m soak tests
	$(BIN)/python benchmarks/nexmark.py --kills 20
	$(BIN)/python benchmarks/nexmark.py --steady 10

cluster-test: java $(VENV)/.ready  ## a master and two workers here, workers and a driver killed; 1, 2 and 5 million rows past the driver
	$(BIN)/python benchmarks/cluster_test.py
	$(BIN)/python benchmarks/large_cluster.py

lock: $(VENV)/.ready  ## resolve requirements.lock again from pyproject.toml
	$(PYTHON) -m venv $(VENV)/.uv && $(VENV)/.uv/bin/pip install --quiet uv
	$(VENV)/.uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header \
	  --all-extras --group dev --group docs --output-file requirements.lock pyproject.toml

clean:  ## remove the virtual environment and caches
	rm -rf $(VENV) .kafka .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
