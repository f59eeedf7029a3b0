# `make run` shows what headrace does; `make test` runs all tests. Both set everything up in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN_READY := $(VENV)/.ready-run
READY := $(VENV)/.ready-dev
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: run test check format drivers clean

run: $(RUN_READY)
	$(BIN)/headrace bench

test: $(READY) drivers
	$(BIN)/python -m pytest tests
	sh scripts/test_web.sh $(BIN)/python

check: $(READY)
	$(BIN)/ruff format --check src tests benchmarks packages
	$(BIN)/ruff check src tests benchmarks packages
	$(BIN)/mypy
	$(BIN)/python -m pytest tests -m "not slow and not webgpu and not browser"

format: $(READY)
	$(BIN)/ruff format src tests benchmarks
	$(BIN)/ruff check --fix src tests benchmarks

$(RUN_READY): pyproject.toml scripts/make_venv.sh
	@echo "Setting up $(VENV): a minute or two"
	@sh scripts/make_venv.sh $(PYTHON) $(VENV)
	@$(INSTALL) --editable .
	@touch $@

$(READY): $(RUN_READY)
	@echo "Installing what the tests need"
	@$(INSTALL) --editable ".[dev]"
	@touch $@

drivers:
	sh scripts/install_drivers.sh

clean:
	rm -rf $(VENV) build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
