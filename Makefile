# Two commands: `make demo` and `make test`. Each does all set-up from a bare Python, inside .venv and nowhere else.
# Another Python: make demo PYTHON=python3.12

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python

.PHONY: help demo test clean
.DELETE_ON_ERROR:

help:
	@echo 'make demo   a personal assistant with real tools on a local model, with and without speculation'
	@echo 'make test   ruff, mypy and the test suite'
	@echo 'make clean  remove .venv'

demo: $(VENV)/.installed-demo
	@$(RUN) -m agentrt demo

test: $(VENV)/.installed-dev
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(RUN) -m mypy
	$(RUN) -m pytest

clean:
	rm -rf $(VENV)

# The stamp is newer than what it was installed from, so that a second call starts at once.
$(VENV)/.installed-%: pyproject.toml constraints.txt | $(RUN)
	@$(RUN) -m pip --version >/dev/null 2>&1 || $(RUN) -m ensurepip
	@echo 'Installing into $(VENV): about 150 MB to download and 550 MB of disk, once.'
	$(RUN) -m pip install --quiet --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[$*]'
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
