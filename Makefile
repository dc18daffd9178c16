# Every command sets up what it needs from a bare Python, inside .venv and nowhere else.
# Another Python: make demo PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
BENCHES ?= speculation toolcache scheduler engine models drafting context
# The tests of a file share what they open, so a file stays on one worker. A worker that ends with a test is not
# replaced: the next one would begin with the same test.
WORKERS ?= 2
PYTEST = $(RUN) -m pytest --numprocesses=$(WORKERS) --dist=loadfile --max-worker-restart=0 $(PYTEST_OPTIONS)

# Else every process that a test starts compiles the package anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo lint types tests quick test check test-long attack docs bench figures pages clean
.DELETE_ON_ERROR:

help:
	@echo 'make demo   a personal assistant on a local model, plain and with agentrt, side by side'
	@echo 'make lint   ruff: errors, style and format'
	@echo 'make types  mypy on the package'
	@echo 'make tests  the tests of the product'
	@echo 'make quick  lint, types and the tests without frameworks, random examples, models, sockets and other processes'
	@echo 'make test   lint, types and the tests of the product'
	@echo 'make check  the tests of benches, attack, examples, site, editors and wheel; every random example and case'
	@echo 'make test-long  the property tests with 20 times as many random examples'
	@echo 'make attack  hostile clients, engines and faults against real servers, 40 minutes on an idle machine'
	@echo 'make docs   the documentation as a web site, in site/'
	@echo 'make bench  every bench on little work, two minutes each; BENCHES="engine" selects'
	@echo 'make figures  what is not current of the figures, in full, some four hours on an idle machine of two cores; fills the pages'
	@echo 'make pages  fills the pages from the reports that there are, and says what is stale'
	@echo 'make clean  remove .venv and site/'

demo: $(VENV)/.installed-demo
	@$(RUN) -m agentrt demo

lint: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

types: $(VENV)/.installed-dev
	$(RUN) -m mypy

tests: $(VENV)/.installed-dev
	$(PYTEST) -m "not check"

quick: lint types
	$(PYTEST) -m "not check and not framework and not hypothesis and not needs and not real_model and not socket and not bench and not slow"

test: lint
	@$(MAKE) --no-print-directory --jobs=2 types tests

# What `make test` left out: other tests, examples, cases, and those that need a command beyond a bare machine's.
check: $(VENV)/.installed-dev $(VENV)/.installed-types $(VENV)/.installed-docs
	CI=1 $(PYTEST) -m "check or hypothesis or matrix or needs"

# Hypothesis shrinks what fails and prints a line that reproduces it.
test-long: $(VENV)/.installed-dev
	$(RUN) -m pytest -m hypothesis --hypothesis-profile=long --timeout=0

# What it finds is in the table of problems, and in attack.json with all else. PARTS="soak or drain" tries these.
attack: $(VENV)/.installed-dev
	$(RUN) -m pytest tests/attack --full --timeout=0 --override-ini=faulthandler_timeout=0 --capture=no --json=attack.json -k "$(PARTS)"

docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict

# BENCHES=gateway needs redis-server or valkey-server besides, BENCHES=page a Chromium.
bench: $(VENV)/.installed-bench $(VENV)/.installed-redis $(VENV)/.installed-browser
	@for name in $(BENCHES); do $(RUN) -m agentrt bench $$name --quick || exit 1; done

# What is current is left as it is, so that a run that was ended goes on. WORKLOADS=FOLDER has recorded workloads,
# MODELS=FOLDER the GGUF files of the plan, without which parts are left out; PARTS="engine_models page" measures
# these anew. What is timed from the start of a process has Python's bytecode, as its users have. llama.cpp is built
# for this processor once, unless AGENTRT_LLAMA_SERVER names a build, or none.
figures: $(VENV)/.installed-bench $(VENV)/.installed-dev $(VENV)/.installed-redis $(VENV)/.installed-browser
	unset PYTHONDONTWRITEBYTECODE; \
	  AGENTRT_LLAMA_SERVER=$${AGENTRT_LLAMA_SERVER-$$($(RUN) -m agentrt.bench.engines.build_llama_server)} \
	  $(RUN) -m agentrt.bench.documentation $(PARTS) \
	  $(if $(WORKLOADS),--workloads $(WORKLOADS)) $(if $(MODELS),--models $(MODELS))

# What the reports in docs/figures say, written into the pages again; what is stale there.
pages: $(VENV)/.installed-dev
	$(RUN) -m agentrt.bench.documentation --fill
	$(RUN) -m agentrt.bench.documentation --check

clean:
	rm -rf $(VENV) site

# The stamp is newer than what it was installed from, so that a second call starts at once.
$(VENV)/.installed-%: pyproject.toml setup.py constraints.txt | $(RUN)
	@$(RUN) -m pip --version >/dev/null 2>&1 || $(RUN) -m ensurepip
	@echo 'Installing the extra "$*" into $(VENV), once.'
	@# Python compiles what is imported, which is a part of what lies there.
	$(RUN) -m pip install --quiet --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[$*]'
	@touch $@

$(RUN):
	@command -v $(PYTHON) >/dev/null || { \
	  echo 'agentrt: $(PYTHON) was not found. Install Python 3.11 or newer, or name yours: make $(MAKECMDGOALS) PYTHON=/path/to/python3'; exit 1; } >&2
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "agentrt: needs Python 3.11 or newer, and $(PYTHON) is $$($(PYTHON) --version 2>&1)." \
	    'Name a newer one: make $(MAKECMDGOALS) PYTHON=python3.12'; exit 1; } >&2
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { \
	  echo 'agentrt: $(PYTHON) cannot create a virtual environment. On Debian and Ubuntu: sudo apt install python3-venv'; exit 1; } >&2
	$(PYTHON) -m venv --clear $(VENV)
