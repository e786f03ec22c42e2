# Every target does its own set-up; a second run finds the stamps in .venv and starts at once.
# make serve ARGS="--port 9000" and make test ARGS="-k anthropic" hand ARGS on.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
# The environment's own tools (and its Node) come first, whatever the machine has.
USER_PATH := $(PATH)
export PATH := $(CURDIR)/$(BIN):$(PATH)
# pyright's wheel is whole: it needs no word with the registry about newer versions.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
# An environment or a tree that somebody has active elsewhere is not ours.
# Nor is a wish for no compiled files: everything would be compiled anew by every test that starts a process.
unexport VIRTUAL_ENV PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

ARGS ?=
# The folders that hold Python now.
PYTHONS = $(foreach d,src tests benchmarks examples fuzz tools,$(if $(shell find $(d) -name node_modules -prune -o -name '*.py' -print -quit 2>/dev/null),$(d)))
# One more worker than cores: some tests wait for a server to close or a lease to end.
WORKERS = $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )))
PYTEST = $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' Makefile

.PHONY: serve
serve: .venv/.stamp-serve ## the server with its packaged streams: no key, no network, no Node
	@tools/web.sh maybe
	@PATH="$(USER_PATH)" exec $(BIN)/penstock serve $(ARGS)

# Layers, the fastest first: each folder says what its tests may cost (docs/testing.md).
LAYERS = $(addprefix tests/,core client cli gateway wire oracles page)

.PHONY: test
test: ## the checks, then every layer of tests; ARGS="tests/core -k sse" runs a part
	@$(MAKE) --jobs=2 check test-setup
	$(PYTEST) -m "not nightly" $(if $(findstring tests/,$(ARGS)),,$(LAYERS)) $(ARGS)

# What tests need, one after the other: two installations of system packages would wait for each other.
.PHONY: test-setup surfaces-setup
test-setup: .venv/.stamp-dev
	@for one in .venv/.stamp-web .venv/.stamp-node .venv/.stamp-servers; do $(MAKE) $$one; done

surfaces-setup: test-setup
	@for one in .venv/.stamp-surfaces .venv/.stamp-vscode build/standalone/.made build/docs-env/.made; do $(MAKE) $$one; done

.PHONY: surfaces
surfaces: surfaces-setup ## VS Code, the self-contained gateway, packages, examples, pages of the docs, the site, Firefox
	$(PYTEST) -m "not nightly" $(if $(findstring tests/,$(ARGS)),,tests/surfaces) $(ARGS)

.PHONY: nightly
nightly: surfaces-setup ## whole matrices, growth of patterns, the soak, fuzzing, agents, in slices that resume; ARGS=--list
	$(BIN)/python -m tools.nightly $(ARGS)

STREAMS ?= 300
.PHONY: soak
soak: MINUTES ?= 10
soak: .venv/.stamp-dev ## streams, faults, leaving clients and reloads for MINUTES (10) with STREAMS (300) at once
	$(BIN)/python -m benchmarks.soak --minutes $(MINUTES) --streams $(STREAMS) $(ARGS)

.PHONY: check lint format-check mypy pyright contracts
check: lint format-check mypy pyright contracts ## ruff, format, mypy, pyright, import contracts

lint: .venv/.stamp-dev
	$(BIN)/ruff check

format-check: .venv/.stamp-dev
	$(BIN)/ruff format --check

mypy: .venv/.stamp-dev
	$(BIN)/mypy $(PYTHONS)

pyright: .venv/.stamp-dev
	$(BIN)/pyright --warnings

contracts: .venv/.stamp-dev
	$(BIN)/lint-imports --no-logo

.PHONY: format
format: .venv/.stamp-dev ## put the code in order: ruff's fixes and its formatter
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: bench
bench: .venv/.stamp-node ## measure, and write benchmarks/results.md
	$(BIN)/python -m benchmarks --write $(ARGS)

# make fuzz MINUTES=20, or make fuzz ARGS="--past 20000"; ARGS="--list" names the targets.
.PHONY: fuzz
fuzz: MINUTES ?= 5
fuzz: .venv/.stamp-dev ## changed inputs for every decoder, reader and parser, for MINUTES=5
	$(BIN)/python -m fuzz --minutes $(MINUTES) $(ARGS)

.PHONY: agents
agents: .venv/.stamp-dev .venv/.stamp-agents ## coding agents from npm against the gateway: the matrix; not part of make test
	$(BIN)/python -m tools.agents $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m tools.agents.hints)

.PHONY: web
web: .venv/.stamp-web ## build the inspector's page into the package

.PHONY: vsix vsix-all vsix-platform standalone
vsix: .venv/.stamp-extension ## pack the VS Code extension into dist/penstock.vsix
	$(BIN)/python tools/vscode_pack.py $(ARGS)

vsix-platform: .venv/.stamp-extension build/standalone/.made ## the same with a self-contained gateway for this platform
	$(BIN)/python tools/vscode_pack.py --gateway build/standalone/penstock-gateway $(ARGS)

vsix-all: .venv/.stamp-extension ## the plain package and one for each gateway archive in dist/, with the wheel there; checksums
	$(BIN)/python -m tools.release.extensions

standalone: build/standalone/.made ## the self-contained gateway as an archive in dist/
	$(BIN)/python -m tools.standalone --archive dist $(ARGS)

.PHONY: docs docs-serve
docs: build/docs-env/.made ## the documentation site in build/site; warnings are errors
	NO_MKDOCS_2_WARNING=1 build/docs-env/bin/python -m mkdocs build --strict --quiet $(ARGS)
	@echo "build/site/index.html"

docs-serve: build/docs-env/.made ## the same while you write, at http://127.0.0.1:8000
	NO_MKDOCS_2_WARNING=1 build/docs-env/bin/python -m mkdocs serve --livereload $(ARGS)

.PHONY: release version changelog release-notes
release: .venv/.stamp-web .venv/.stamp-extension ## every package of this version in dist/, with SBOM and checksums
	$(BIN)/python -m tools.release $(ARGS)

version: .venv/.stamp-dev ## print the version, or write a new one to all files: VERSION=0.2.0
	@$(BIN)/python -m tools.release.versions $(VERSION)

changelog: .venv/.stamp-dev ## collect changelog.d/ and [Unreleased] in a section of this version
	@$(BIN)/python -m tools.release.changelog --collect

release-notes: .venv/.stamp-dev ## print the notes of this version; ARGS=--tag-message for its tag
	@$(BIN)/python -m tools.release.changelog $(ARGS)

# Keeps the pins that still fit; make lock ARGS=--upgrade takes the newest of everything.
COMPILE = $(BIN)/uv pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --quiet \
	--no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS)
.PHONY: lock
lock: ## write requirements/*.lock anew from pyproject.toml
	tools/setup.sh venv
	@[ -x $(BIN)/uv ] || $(BIN)/python -m pip install --quiet uv
	@mkdir -p requirements
	$(COMPILE) --all-extras --group dev -o requirements/dev.lock
	$(COMPILE) --extra serve --group build -c requirements/dev.lock -o requirements/serve.lock
	$(COMPILE) --extra serve -c requirements/dev.lock -o requirements/runtime.lock
	$(COMPILE) --extra serve --extra cli --extra setup --group standalone -c requirements/dev.lock -o requirements/standalone.lock
	$(COMPILE) --extra serve --extra otel --extra postgres --extra redis --group build -c requirements/dev.lock -o requirements/image.lock
	$(COMPILE:pyproject.toml=) --group pyproject.toml:docs -c requirements/dev.lock -o requirements/docs.lock
	for tool in uv pyinstaller; do \
	  echo $$tool | $(BIN)/uv pip compile - --universal --python-version 3.11 --generate-hashes --quiet \
	    --no-annotate --no-emit-index-url --no-emit-find-links --custom-compile-command "make lock" $(ARGS) \
	    -c requirements/dev.lock -o requirements/$$tool.lock; done
	@! grep -n '://' requirements/*.lock || { echo "an address has come into a lock file" >&2; exit 1; }

.PHONY: clean distclean
clean: ## remove caches and build output
	rm -rf build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf vscode/bundle vscode/dist vscode/dist-tests src/penstock/_inspector/static .venv/.stamp-web
	find . \( -name .venv -o -name node_modules -o -name .git \) -prune -o -name __pycache__ -print0 | xargs -0 rm -rf

distclean: clean ## the same, and the environment and npm packages too
	rm -rf .venv
	find . -name .git -prune -o \( -name node_modules -o -name .node \) -type d -prune -print0 | xargs -0 rm -rf

# ── set-up ────────────────────────────────────────────────────────────────────────────────────────────────────────────
.venv/.stamp-serve: requirements/serve.lock pyproject.toml tools/setup.sh
	@tools/setup.sh packages $<
	@touch $@

.venv/.stamp-dev: requirements/dev.lock requirements/uv.lock pyproject.toml tools/setup.sh
	@tools/setup.sh packages $<
	@tools/setup.sh node
	@touch $@ .venv/.stamp-serve

# The npm packages of the Node tests, where there are such tests.
.venv/.stamp-node: .venv/.stamp-dev $(wildcard tests/oracles/node/setup.sh tests/oracles/node/package-lock.json tests/oracles/node/*/package-lock.json)
	@if [ -f tests/oracles/node/setup.sh ]; then bash tests/oracles/node/setup.sh; fi
	@touch $@

# The agents of `make agents`, which are large.
.venv/.stamp-agents: .venv/.stamp-dev tools/agents/setup.sh tools/agents/package-lock.json tools/agents/requirements.txt
	@tools/agents/setup.sh
	@touch $@

# The npm packages of the VS Code extension.
.venv/.stamp-extension: .venv/.stamp-dev tests/surfaces/vscode/setup.sh vscode/package-lock.json
	@sh tests/surfaces/vscode/setup.sh extension
	@touch $@

# The same, and a VS Code to test it in.
.venv/.stamp-vscode: .venv/.stamp-dev $(wildcard tests/surfaces/vscode/setup.sh tests/surfaces/vscode/package-lock.json vscode/package-lock.json)
	@if [ -f tests/surfaces/vscode/setup.sh ]; then sh tests/surfaces/vscode/setup.sh; fi
	@touch $@

# The self-contained gateway in build/standalone. Half a minute; a tree that has not changed is not built again.
build/standalone/.made: .venv/.stamp-dev .venv/.stamp-web requirements/standalone.lock requirements/pyinstaller.lock \
  vscode/media/launch.py $(shell find src tools/standalone \( -name __pycache__ -o -path "*/_inspector/*static*" \) -prune -o -type f -print)
	@tools/setup.sh freeze
	@$(BIN)/python -m tools.standalone
	@touch $@

# The site's packages: an environment of its own, so that they decide nothing about the packages of the tests.
build/docs-env/.made: requirements/docs.lock tools/setup.sh
	@tools/setup.sh docs
	@touch $@

# nginx and a browser; what only the surfaces need.
.venv/.stamp-servers: .venv/.stamp-dev tools/servers.sh
	@tools/servers.sh test
	@touch $@

.venv/.stamp-surfaces: .venv/.stamp-servers tools/servers.sh
	@tools/servers.sh surfaces
	@touch $@

# The inspector's page.
.venv/.stamp-web: .venv/.stamp-dev tools/web.sh $(shell find web -name node_modules -prune -o -type f -print)
	@tools/web.sh build
	@touch $@
