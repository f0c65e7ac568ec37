# The commands of this repository. Each sets up what it needs in .venv, so that a fresh clone with Python 3.11 or
# newer, make and pip is enough; a second run finds it done.

PYTHON ?= python3
BIN := .venv/bin
FEATURE ?= Add dark mode to the settings page
CHAOS_SEED ?= 8
FUZZ_SECONDS ?= 90
DEMO ?= demo-$(shell date +%Y%m%d-%H%M%S)
MODEL ?=

# The tests and the benchmark start hundreds of processes, and each would compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

# Set-up must not run twice at once; `test` runs its checks side by side after it.
ifndef SIDE_BY_SIDE
.NOTPARALLEL:
endif
.PHONY: help measure demo record-demo test test-all check-lint check-types check-imports check-tests check-slow-tests coverage lint format docs pictures vscode bench servers chaos chaos-workers fuzz clean

help: ## show these commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 24

ifeq ($(MODEL),embedded)
demo: .venv/.installed-local
	$(BIN)/skillrun plan "$(FEATURE)" --mode rapid --unattended --model embedded --out runs --name $(DEMO)
else
demo: .venv/.installed ## plan a feature with recorded replies; MODEL=embedded: with the small model in the process
	$(if $(MODEL),$(error make demo takes no MODEL, or MODEL=embedded))
	@PATH="$(CURDIR)/$(BIN):$$PATH" sh docs/finished/demo.sh
endif

record-demo: .venv/.installed ## make docs/finished again from its replies; MODEL=NAME: ask it for those that no longer fit
	$(BIN)/python -m bench.record_demo --model '$(MODEL)'

test: .venv/.installed-dev ## lint, types, import contracts and the fast tests, in at most three minutes
	@$(MAKE) --no-print-directory --jobs=2 SIDE_BY_SIDE=1 lint check-tests

test-all: test check-slow-tests ## the same, then the slow tests: kills, long property tests, browser, servers, faults

check-lint: .venv/.installed-dev ## ruff's rules and format
	$(BIN)/ruff check
	$(BIN)/ruff format --check

check-types: .venv/.installed-dev ## mypy, strict
	$(BIN)/mypy

check-imports: .venv/.installed-dev ## the order of the layers
	$(BIN)/lint-imports

check-tests: .venv/.installed-dev ## the tests that are not marked `slow`
	$(BIN)/pytest -n auto --dist worksteal -m 'not slow'

check-slow-tests: .venv/.installed-dev ## the tests that are marked `slow`
	$(BIN)/pytest -n auto --dist worksteal -m slow

coverage: .venv/.installed-dev ## all tests, with branch coverage and its floor; half as long again
	$(BIN)/pytest -n auto --dist worksteal --cov --cov-report term

lint: check-lint check-types check-imports ## ruff, mypy and the import contracts

format: .venv/.installed-dev ## put the code into ruff's format, and mend what ruff can mend
	$(BIN)/ruff check --fix-only
	$(BIN)/ruff format

docs: .venv/.installed-dev ## build the site of docs/ into .site/site; a link that leads nowhere fails
	$(BIN)/python -m docsite

pictures: .venv/.installed-dev ## make the pictures of the README in docs/pictures; needs Chromium
	$(BIN)/python -m docsite.pictures

measure: .venv/.installed-dev ## print the size, names and wording of the code, with their limits
	$(BIN)/python -m tests.measures

vscode: ## build editors/vscode/skillrun.vsix, the extension for VS Code; needs Node 20 and npm
	npm --prefix editors/vscode run vsix

bench: .venv/.installed-local ## measure against the peers and print a table
	$(BIN)/python -m bench

servers: .venv/.installed-dev ## install the model servers that slow tests use into .cache/servers; compiles llama-cpp-python
	$(BIN)/python -m tests.model_servers.environment

chaos: .venv/.installed-dev ## faults of disks, providers, processes and people, by the thousand, from CHAOS_SEED (8)
	CHAOS_SEED='$(CHAOS_SEED)' CHAOS_ONLY='$(CHAOS_ONLY)' CHAOS_TRIES='$(CHAOS_TRIES)' CHAOS_CASE='$(CHAOS_CASE)' $(BIN)/python -m tests.faults

chaos-workers: .venv/.installed-dev ## 500 runs on 6 workers that are killed, stopped and cut off, from CHAOS_SEED (8)
	$(BIN)/python -m tests.faults.workers

fuzz: .chaos-venv/.installed ## fuzz the parsers and templates for FUZZ_SECONDS (90) from CHAOS_SEED (8)
	FUZZ_SECONDS=$(FUZZ_SECONDS) CHAOS_SEED=$(CHAOS_SEED) .chaos-venv/bin/python tests/chaos/fuzz.py $(INPUT)

clean: ## remove the environments and the caches; runs/ stays
	rm -rf .venv .cache .bench-venv .chaos-venv .chaos .site dist .coverage .coverage.* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find engine tests bench docsite -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.installed: pyproject.toml
	$(call install,.[outline])

.venv/.installed-local: pyproject.toml
	$(call install,.[local$(comma)outline])
	@touch .venv/.installed

.venv/.installed-dev: pyproject.toml
	$(call install,.[local$(comma)outline$(comma)dev])
	@touch .venv/.installed .venv/.installed-local

# The fuzzer has an environment of its own: it is large, and there is none for every Python.
.chaos-venv/.installed: pyproject.toml
	$(PYTHON) -m venv .chaos-venv
	.chaos-venv/bin/python -m pip install --quiet --quiet --disable-pip-version-check --editable '.[chaos]'
	@touch $@

comma := ,

# The distribution was called `skillrun` before it was called `skillrun-workflows`; two of them share files.
FORMER = $(wildcard .venv/lib/python*/site-packages/skillrun-[0-9]*.dist-info)

# Said twice, `--quiet` leaves out warnings, such as one for each place where a dependency is not, and keeps errors.
# Creating an environment over an existing one keeps what is installed, so an interrupted set-up is mended by another.
# Python compiles a module when it is first imported; compiling all of them here would take longer than `make demo`.
define install
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "skillrun needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + ". Type: make PYTHON=python3.11")'
	$(PYTHON) -m venv .venv
	$(if $(FORMER),$(BIN)/python -m pip uninstall --quiet --yes skillrun)
	$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --no-compile --editable '$(1)'
	@touch $@
endef
