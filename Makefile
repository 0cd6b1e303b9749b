# The one entry for people and CI. `make run` and `make test` do all the set-up there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
LOCK := requirements.lock

.PHONY: help run test test-fast lint bench lock clean

help:  ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

run: $(READY)  ## run every cell against a real Kafka and write the report (ARGS="--only ack-lost" for less)
	@$(BIN)/lostack run $(ARGS)

test: $(READY)  ## pure tests, wire tests, real-broker cells
	@$(BIN)/python -m pytest $(ARGS)

test-fast: $(READY)  ## what needs no broker
	@$(BIN)/python -m pytest -m "not kafka" $(ARGS)

lint: $(READY)  ## style and types
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy

bench: $(READY)  ## measure; results in reports/bench.json
	@$(BIN)/python -m tests.bench $(ARGS)

lock: $(READY)  ## bring requirements.lock up to date with pyproject.toml
	@$(BIN)/uv --system-certs pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes --no-emit-index-url \
	  --no-annotate --custom-compile-command "make lock" --upgrade pyproject.toml -o $(LOCK)

clean:  ## remove the virtual environment (not the cache: see `lostack doctor`)
	@rm -rf $(VENV)

$(READY): $(LOCK) pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "lostack needs Python 3.11 or newer: set PYTHON=python3.11, or install it (Debian: apt-get install python3.11 python3.11-venv)" >&2; exit 3; }
	@echo "set-up 1/3: virtual environment"
	@$(PYTHON) -m venv $(VENV) || { echo "python3 has no venv module (Debian: apt-get install python3-venv)" >&2; exit 3; }
	@awk '/^uv==/ {on=1} on {print} on && !/\\$$/ {exit}' $(LOCK) > $(VENV)/uv.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(VENV)/uv.lock
	@echo "set-up 2/3: locked dependencies, checked by sha256 (PySpark alone is some 400 MB)"
	@$(BIN)/uv --system-certs pip install --python $(BIN)/python --require-hashes -r $(LOCK)
	@echo "set-up 3/3: lostack itself"
	@$(BIN)/uv --system-certs pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@
