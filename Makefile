# Every target does its own set-up. Needs Python >= 3.11, make and git; nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := bot guard scaler launcher config fleet sandbox rehearsal benchmarks

.PHONY: setup demo check test services bench clean

setup: $(VENV)/.ready

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=python3.x"; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setup: installing the pinned libraries into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

demo: setup
	@$(BIN)/quartermaster demo

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy $(PACKAGES) tests
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/project

test: setup
	$(BIN)/pytest -q

services: setup
	@bash tests/services.sh

bench: setup
	@$(BIN)/python -m benchmarks

clean:
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache
