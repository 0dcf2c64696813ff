# make demo: see it work.  make test: see that it is right, make test-cluster: on a cluster too.  make bench: measure it.
# make test-browser: the console in Chromium, make screenshots: its pages.  make test-store: on an S3 server.  make check: lint, types, layers.
# make docs, make fixtures: the pages and the golden files that are made from the code.
# make site: the documentation as a site.  make package: wheel and sdist, tried.  make test-versions: Pythons and Sparks.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests start many processes. Without compiled modules each of them would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup java demo test test-cluster test-versions test-browser test-store screenshots chromium check format bench fixtures docs site package clean

help:
	@sed -n '1,4s/^# //p' Makefile

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

$(VENV)/.site: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[site]'
	@touch $@

demo: setup
	$(BIN)/nabla demo

test: setup
	$(BIN)/pytest -q -n auto -m "not spark"
	$(BIN)/pytest -q -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder -m spark  # each process has a Spark of its own

test-cluster: setup
	$(BIN)/python -m nabla.dev.testing.cluster $(BIN)/pytest -q tests/lake/test_refresh.py tests/lake/test_transactions.py
	$(BIN)/pytest -q tests/cluster

test-versions: java
	scripts/test-versions $(VERSIONS)

chromium: $(VENV)/.browser
	@command -v chromium > /dev/null || scripts/install-packages "Chromium" chromium
	@command -v chromedriver > /dev/null || scripts/install-packages "the driver of Chromium" chromium-driver

$(VENV)/.browser: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	@touch $@

test-browser: setup chromium
	$(BIN)/pytest -q -s tests/console/browser

screenshots: setup chromium
	rm -rf build/shop && $(BIN)/nabla demo --lake build/shop > /dev/null
	$(BIN)/python -m nabla.dev.screenshots build/shop build/screenshots

$(BIN)/versitygw: $(VENV)/.dev
	scripts/install-versitygw $(BIN)

test-store: setup $(BIN)/versitygw
	$(BIN)/pytest -q tests/store

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
	$(BIN)/python scripts/draw-examples
	$(BIN)/nabla bench page docs

site: $(VENV)/.site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet  # it tells of the successor of its theme
	$(BIN)/python scripts/check-site build/site

package: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check 'build>=1.2'
	scripts/try-package $(BIN)/python

clean:
	rm -rf $(VENV) build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
