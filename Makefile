# The one entry for people and CI. `make run` and `make test` do all the set-up there is.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
# where the machine's settings forbid bytecode, each process compiles what it imports: half of what starting a command costs
export PYTHONDONTWRITEBYTECODE :=
VENV := .venv
BIN := $(VENV)/bin
LOCK := requirements.lock
# what a user's CI installs (.ci/action): the same versions, without the tools of lostack's own tests
USERS := requirements-users.lock
# a mark for each lock: what one of them has installed is not all that the other lists
READY := $(VENV)/.ready$(if $(filter $(USERS),$(LOCK)),-users)
NEEDED_MB := 3000
# uv's cache lies beside its target, so that files are linked and not copied, and goes when the set-up is done
UV := UV_CACHE_DIR=$(VENV)/.uv VIRTUAL_ENV=$(VENV) $(BIN)/uv --system-certs
# the lock is complete, so nothing is resolved (uv would fetch PySpark twice for it), and nothing unlocked builds anything
LOCKED := --require-hashes --no-deps --no-build-isolation -r $(LOCK)

# said here, because such a system may have no bash either; set-up asks Python itself
SYSTEM :=
NO_MUSL := lostack needs a Linux with glibc, and this one has musl (as Alpine has): use Debian, Ubuntu, Fedora or an image of theirs
ifneq ($(wildcard $(SYSTEM)/lib/ld-musl-*),)
ifeq ($(wildcard $(foreach folder,lib lib64,$(SYSTEM)/$(folder)/ld-linux* $(SYSTEM)/$(folder)/ld64*)),)
$(error $(NO_MUSL))
endif
endif

.PHONY: help run test test-fast test-real test-all test-rest slice engines regressions scoreboard images lint bench site picture lock clean set-up

help:  ## show this
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

run: $(READY)  ## the main job against a real Kafka and Spark, with its report (ARGS="--suite night" for all)
	@$(BIN)/lostack run $(ARGS)

test-fast: $(READY)  ## what needs no broker, no Spark, no server and no container: 5 to 10 minutes
	@$(BIN)/python -m pytest tests engines --tier fast -n auto --dist worksteal $(ARGS)

# in one session: while brokers and browsers of one file start and wait, the next workers have pure tests
test: $(READY)  ## that, and what must hold of every commit on a real Kafka and Spark: 7 minutes
	@$(BIN)/python -m pytest scenarios tests engines --tier fast --tier core --lostack-suite core -n auto --dist loadfile \
	  --no-loadscope-reorder $(ARGS)

test-real: $(READY)
	@$(BIN)/python -m pytest --tier core --lostack-suite core -n 2 --dist loadfile $(ARGS)

test-all: test test-rest  ## everything, cells of the night and containers among them: an hour and more

test-rest: $(READY)
	@$(BIN)/python -m pytest --tier rest --lostack-suite night $(ARGS)

slice: $(READY)  ## a twentieth of what test-all has besides: the one due at this commit, or SLICE=3 SEED=2
	@set -e; read -r number seed < <($(BIN)/python -m tests.due slice); \
	$(BIN)/python -m pytest --slice $${SLICE:-$$number} --lostack-suite night --lostack-seed $${SEED:-$$seed} $(ARGS)

engines: $(READY)  ## the main cells of the engines beside Kafka and Spark whose turn it is, or ENGINES="activemq flink"
	@set -e; for engine in $${ENGINES:-$$($(BIN)/python -m tests.due engines)}; do $(BIN)/lostack run --system $$engine $(ARGS); done

regressions: $(READY)  ## try the corpus of published bugs: bad versions convicted, good ones acquitted
	@$(BIN)/lostack regressions $(ARGS)

scoreboard: $(READY)  ## which Kafka client keeps which promise: rows that reports/scoreboard has are not run again (ARGS="--shard 2/4")
	@$(BIN)/lostack scoreboard $(ARGS)

images: $(READY)  ## container images for --runtime docker: pulled, or stand-ins where no registry can be reached
	@$(BIN)/lostack images

lint: $(READY)  ## style, the directions of imports, and types, those of the tests among them
	@$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/lint-imports --no-logo --no-cache && $(BIN)/mypy \
	  && $(BIN)/mypy $(wildcard engines/*/tests/*.py)

bench: $(READY)  ## measure; results in reports/bench.json
	@$(BIN)/python -m tests.bench $(ARGS) && $(BIN)/python -m tests.bench.audit

site: $(READY)  ## the pages as a site with a search, in build/site; it can be read from a disk
	@$(BIN)/python -m tests.docs.site

picture: $(READY)  ## record `lostack demo` again, and draw the moving picture of it
	@$(BIN)/python -m tests.docs.recording && $(BIN)/python -m tests.docs

lock: $(READY)  ## bring requirements.lock and requirements-users.lock up to date with pyproject.toml
	@$(BIN)/uv --system-certs pip compile --quiet --universal --python-version 3.11 --extra dev --generate-hashes --no-emit-index-url \
	  --no-annotate --custom-compile-command "make lock" --upgrade pyproject.toml -o $(LOCK)
	@$(BIN)/uv --system-certs pip compile --quiet --universal --python-version 3.11 --extra setup --extra all --generate-hashes \
	  --no-emit-index-url --no-annotate --custom-compile-command "make lock" --constraint $(LOCK) pyproject.toml -o $(USERS)

clean:  ## remove the virtual environment (not the cache: see `lostack doctor`)
	@rm -rf $(VENV)

# One set-up at a time: a second `make run` beside it waits on the lock of this file, then finds everything done.
PACKAGES := $(wildcard engines/*/pyproject.toml)
$(READY): $(LOCK) pyproject.toml $(PACKAGES)
	@$(shell command -v flock >/dev/null && echo flock Makefile) $(MAKE) --no-print-directory set-up

set-up:
	@newer() { for each in $(LOCK) pyproject.toml $(PACKAGES); do [ $(READY) -nt $$each ] || return 1; done; }; \
	if newer; then exit 0; fi; set -e; start=$$SECONDS; \
	fail() { echo "$$*" >&2; exit 3; }; \
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  fail "lostack needs Python 3.11 or newer: set PYTHON=python3.13, or install it (Debian 12 or newer: apt-get install python3 python3-venv)"; \
	$(PYTHON) -c 'import os, sys; sys.platform != "linux" or os.confstr("CS_GNU_LIBC_VERSION")' 2>/dev/null || fail "$(NO_MUSL)"; \
	$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || fail "$(PYTHON) has no venv module (Debian: apt-get install python3-venv)"; \
	free=$$(df -Pk . | awk 'NR==2 {print int($$4 / 1024)}'); \
	[ -e $(READY) ] || [ $$free -ge $(NEEDED_MB) ] || fail "the disk is full: set-up needs $(NEEDED_MB) MB here and $$free MB are free"; \
	echo "set-up 1/3: virtual environment"; \
	$(BIN)/python -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV) || fail "cannot make $(VENV) with $(PYTHON)"; \
	awk '/^[^ #]/ {on = /^(uv|setuptools)==/} on' $(LOCK) > $(VENV)/first.lock; \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r $(VENV)/first.lock || \
	  fail "cannot install uv: is there a network?"; \
	echo "set-up 2/3: locked dependencies, checked by sha256 (PySpark alone is some 430 MB)"; \
	$(UV) pip install $(LOCKED) --config-settings-package "pyspark:--build-option=--compression=stored" || \
	  { echo "uv could not; trying pip, which has settings of its own"; $(BIN)/python -m pip install $(LOCKED); } || \
	  fail "cannot install what $(LOCK) lists: is there a network?"; \
	echo "set-up 3/3: lostack itself, and its packages of engines"; \
	$(UV) pip install --quiet --no-deps --no-build-isolation -e . $(addprefix -e ./,$(patsubst %/pyproject.toml,%,$(PACKAGES))); \
	rm -rf $(VENV)/.uv; touch $(READY); echo "set-up done in $$((SECONDS - start)) s"
