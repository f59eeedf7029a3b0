# `make run` shows what headrace does; `make test` runs all tests. Both set everything up in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS ?= dev

.PHONY: run test check fast format drivers clean docs

run: $(READY)
	$(BIN)/headrace bench

test: $(READY) drivers
	$(BIN)/python -m pytest tests

check: $(READY)
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/python -m pytest tests -m "not slow and not webgpu and not browser"

format: $(READY)
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/ruff check --fix src tests benchmarks

$(READY): pyproject.toml scripts/make_venv.sh
	sh scripts/make_venv.sh $(PYTHON) $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$(EXTRAS)]"
	touch $(READY)

drivers:
	sh scripts/install_drivers.sh

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
