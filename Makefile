# make demo: see it work.  make test: see that it is right, make test-cluster: on a cluster too.  make bench: measure it.
# make check: lint, types, layers.  make docs, make fixtures: the pages and the golden files that are made from the code.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests start many processes. Without compiled modules each of them would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup java demo test test-cluster check format bench fixtures docs clean

help:
	@sed -n '1,2s/^# //p' Makefile

setup: $(VENV)/.dev java

java:
	@[ -x "$${JAVA_HOME:-/nowhere}/bin/java" ] || command -v java > /dev/null \
	    || scripts/install-packages "a Java runtime" openjdk-17-jre-headless openjdk-21-jre-headless default-jre-headless

# A bare `python3 -m venv` fails on Debian where python3-venv is not installed: it lacks ensurepip.
$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "nabla: $(PYTHON) is missing or older than 3.11; name another with make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2> /dev/null || scripts/install-packages "Python's venv module" \
	    $$($(PYTHON) -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])') python3-venv
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	@touch $@

demo: setup
	$(BIN)/nabla demo

test: setup
	$(BIN)/pytest -q -n auto -m "not spark"
	$(BIN)/pytest -q -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder -m spark  # each process has a Spark of its own

test-cluster: setup
	$(BIN)/python -m nabla.dev.testing.cluster $(BIN)/pytest -q tests/lake/test_refresh.py tests/lake/test_transactions.py
	$(BIN)/pytest -q tests/cluster

check: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: setup
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: setup $(VENV)/.bench
	$(BIN)/nabla bench small
	$(BIN)/nabla bench tpch --verify --against duckdb
	$(BIN)/nabla bench tpch --modes strict --kind mixed,parties --rounds 2 --verify
	$(BIN)/nabla bench tpcds --kind facts,dimensions --verify
	$(BIN)/nabla bench rules
	$(BIN)/nabla bench constraints

fixtures: setup
	$(BIN)/python -m nabla.dev.fixtures tests/fixtures/delta

docs: setup $(VENV)/.bench
	$(BIN)/python -m nabla.explain.operators_page > docs/operators.md
	$(BIN)/python scripts/draw-explain
	$(BIN)/nabla bench page docs

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
