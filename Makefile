# Everything runs in a local .venv made with python3, pip and make alone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help tune test check bench clean

help:
	@echo "make tune   install and tune the bundled engine (a few minutes)"
	@echo "make test   install and run the tests"
	@echo "make check  format, lint, types, import rules and tests"
	@echo "make bench  speed of the embedded engine"

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "spectune needs Python 3.11 or newer; say: make PYTHON=python3.12")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[dev]'
	@touch $@ $(VENV)/.installed

tune: $(VENV)/.installed
	$(BIN)/spectune tune

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest

check: $(VENV)/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest

bench: $(VENV)/.installed
	$(BIN)/python benchmarks/engine_speed.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
