# Every target sets up what it needs: a virtual environment in .venv, nothing global.
# As root on Debian, missing Debian packages are installed; otherwise they are named.

PYTHON ?= python3
# If it were set, every process that a test starts would compile all that it imports anew.
unexport PYTHONDONTWRITEBYTECODE
BIN := .venv/bin
CORE := .venv/.core
READY := .venv/.ready
BENCH := .venv/.bench
PROGRAMS := build/programs/.ready
CLIENTS := build/clients/.ready
PEER := build/fastmcp/.with-tasks
GENERATOR := build/generator/.ready
# Its messages load with every protobuf from 5.29 on; those of a newer one would not.
GENERATOR_VERSION := 1.71.2

# Programs that tests compare with, the interpreters of scripts above all: command=package
INTERPRETERS := node=nodejs npm=npm ruby=ruby perl=perl bash=bash rg=ripgrep

.PHONY: all lint types test test-all exhaustive fast docs reference demo bench wheel extras programs clients generator gencode interpreters clean help
all: lint types test docs

help:  ## show what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(CORE): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: Skillpouch needs Python 3.11 or newer; name one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || sh .ci/debian python3-venv
	$(PYTHON) -m venv --clear .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

$(READY): $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,docs]'
	@touch $@

$(BENCH): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	@touch $@

$(PROGRAMS): $(READY) tests/programs.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-compile --only-binary :all: \
	  --upgrade --target build/programs -r tests/programs.txt
	@touch $@

programs: $(PROGRAMS)  ## fetch other people's programs, which the argparse reader is compared with

$(CLIENTS): tests/clients.txt interpreters
	npm install --silent --no-audit --no-fund --prefix build/clients $$(cat tests/clients.txt)
	@touch $@

clients: $(CLIENTS)  ## fetch other people's clients, which the servers are tried with

$(GENERATOR):
	$(PYTHON) -m venv --clear build/generator
	build/generator/bin/python -m pip install --quiet --disable-pip-version-check grpcio-tools==$(GENERATOR_VERSION)
	@touch $@

generator: $(GENERATOR)  ## fetch what makes messages of skillpouch.proto, in an environment of its own

gencode: $(GENERATOR)  ## make the messages of skillpouch.proto anew
	build/generator/bin/python -m grpc_tools.protoc -I src --python_out=src --pyi_out=src --grpc_python_out=src \
	  src/skillpouch/servers/grpc/v1/skillpouch.proto

interpreters:  ## install the interpreters that tests need, or name them
	@missing=; for pair in $(INTERPRETERS); do \
	  command -v $${pair%%=*} >/dev/null || missing="$$missing $${pair#*=}"; done; \
	if [ -n "$$missing" ]; then sh .ci/debian $$missing; fi

lint: $(READY)  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## mypy, strict
	$(BIN)/mypy

# What a test costs is said by its markers: see CONTRIBUTING.md, "Tests".
FETCHED := $(CLIENTS) $(GENERATOR)

test: $(READY) $(FETCHED) interpreters  ## every behaviour once
	$(BIN)/pytest -n auto -m "not exhaustive"

test-all: test exhaustive extras  ## make test, then everything that it leaves out

exhaustive: $(READY) $(FETCHED) $(PROGRAMS) $(PEER) interpreters  ## further tiers, all combinations, long runs
	$(BIN)/pytest -n auto -m exhaustive

fast: $(READY)  ## the quick tests, in under a minute
	$(BIN)/pytest -q -n auto -m "not slow and not exhaustive"

docs: $(READY)  ## build the pages, strictly
	$(BIN)/zensical build --clean --strict

reference: $(READY)  ## write docs/reference/cli.md from the commands
	$(BIN)/python .ci/make_reference.py

demo: $(CORE)  ## the main job on examples/skills
	$(BIN)/python examples/demo.py

# In an environment of its own: what it pins is not what Skillpouch is tested with.
$(PEER):
	$(PYTHON) -m venv --clear build/fastmcp
	build/fastmcp/bin/python -m pip install --quiet --disable-pip-version-check fastmcp==4.1.2 fastmcp-tasks==4.1.2
	@touch $@

bench: $(BENCH) $(PEER)  ## how fast, as ratios against peers and the bare operating system
	$(BIN)/python bench/reading.py
	$(BIN)/python bench/execution.py
	$(BIN)/python bench/calling.py
	$(BIN)/python bench/warm.py
	$(BIN)/python bench/policy.py
	$(BIN)/python bench/journal.py
	$(BIN)/python bench/jobs.py
	$(BIN)/python bench/writes.py
	$(BIN)/python bench/redaction.py
	$(BIN)/python bench/grants.py
	$(BIN)/python bench/network.py
	$(BIN)/python bench/http_tools.py
	$(BIN)/python bench/grep.py
	$(BIN)/python bench/mcp_calls.py
	$(BIN)/python bench/sessions.py
	$(BIN)/python bench/registry.py
	$(BIN)/python bench/reload.py
	$(BIN)/python bench/langchain_tools.py
	$(BIN)/python bench/scripted.py
	$(BIN)/python bench/grpc_calls.py
	$(BIN)/python bench/command_line.py
	$(BIN)/python bench/steps.py

extras:  ## each extra alone in a clean environment, with its own tests
	PYTHON=$(PYTHON) .ci/extras

wheel: $(READY)  ## build the wheel and try it with only its declared dependencies
	rm -rf dist build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w dist .
	$(PYTHON) -m venv build/wheel
	build/wheel/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	build/wheel/bin/skillpouch check --strict examples/skills/greeter

clean:  ## remove everything that was made
	rm -rf .venv .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
