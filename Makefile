# Two commands do everything: `make demo` and `make test`. Each makes its own environment in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed

.PHONY: help demo test check format lint types imports tests bench clean

help:
	@echo "make demo    fit real data and show what comes out"
	@echo "make test    everything CI runs: format, lint, types, imports, tests"
	@echo "make bench   timings of the engines on this machine"
	@echo "make format  rewrite the sources in the house format"
	@echo "make clean   remove the environment and caches"

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	@touch $@

demo: $(INSTALLED)
	$(BIN)/python -m weft demo

test: check

check: lint types imports tests

format: $(INSTALLED)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: $(INSTALLED)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(INSTALLED)
	$(BIN)/mypy

imports: $(INSTALLED)
	$(BIN)/lint-imports

tests: $(INSTALLED)
	$(BIN)/pytest -n 2 --dist worksteal

bench: $(INSTALLED)
	$(BIN)/python benchmarks/engine.py

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .mypy_cache .hypothesis build dist
