# Two commands do everything: `make demo` and `make test`. Each makes its own environment in .venv first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
LOWEST := .venv-lowest
# Every dependency is used by one of these, and none compiles for long: CI runs them too.
CORE := tests/test_model.py tests/data/test_files.py tests/data/test_scaling.py tests/test_scores.py tests/trust/test_model_files.py \
	tests/cli/test_help.py tests/report/test_page.py::test_text_from_data_in_a_picture_is_escaped_and_not_mathematics

.PHONY: help environments demo test check format lint types imports tests docs pages tables release long lowest fuzz kill models bench clean

help:
	@echo "make demo    fit real data and show what comes out"
	@echo "make test    everything CI runs: format, lint, types, imports, tests"
	@echo "make docs    the documentation site, in build/site"
	@echo "make pages   run the pages' examples, and write what they print and draw into them"
	@echo "make tables  write what benchmarks measured into the README and the benchmarks' page"
	@echo "make release the release checklist: build, check, try; nothing leaves this machine"
	@echo "make long    the few tests that take a minute each, before a release"
	@echo "make lowest  a core of the tests with the lowest versions that pyproject.toml allows"
	@echo "make fuzz    hostile input for some minutes, other cases by SEED=1, 2, ..."
	@echo "make kill    fits and writers killed at random moments, others by SEED=1, 2, ..."
	@echo "make models  2,000 random models against eighty digits, about half an hour"
	@echo "make bench   timings of the engines on this machine"
	@echo "make format  rewrite the sources in the house format"
	@echo "make clean   remove the environment and caches"

$(INSTALLED): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	@touch $@

# Both that CI needs: with `--jobs 2` one is installed beside the other.
environments: $(INSTALLED) $(LOWEST)/.installed

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

# Two processes on two cores: threads of BLAS beside them would only spin. Numbers of 0.1 are compared by themselves: see tests/conftest.py.
tests: $(INSTALLED)
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal tests/kept

docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open build/site/index.html"

PAGE ?=
pages: $(INSTALLED)
	WEFT_WRITE_PAGES=yes $(BIN)/pytest -q tests/test_docs.py -k "examples_run and ($(or $(PAGE),_))"

tables: $(INSTALLED)
	$(BIN)/python benchmarks/readme_tables.py

release: $(INSTALLED)
	$(BIN)/python .ci/release.py

long: $(INSTALLED)
	WEFT_LONG=yes $(BIN)/pytest -m long
	WEFT_LONG=yes $(BIN)/pytest -m long tests/kept

lowest: $(LOWEST)/.installed
	WEFT_TESTS_CHECK_SHAPES=no OPENBLAS_NUM_THREADS=1 \
	$(LOWEST)/bin/python -m pytest -q -n 2 --dist worksteal -W ignore::DeprecationWarning $(CORE)

# Most of it is never imported here, so pip compiles none of it.
$(LOWEST)/.installed: pyproject.toml
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	$(LOWEST)/bin/python .ci/lowest_versions.py > $(LOWEST)/lowest.txt
	$(LOWEST)/bin/python -m pip install --quiet --no-compile --constraint $(LOWEST)/lowest.txt --editable . --group core
	@touch $@

SEED ?= 1
fuzz: $(INSTALLED)
	WEFT_FUZZ=20 WEFT_FUZZ_SEED=$(SEED) WEFT_FUZZ_RESULTS=benchmarks/results/fuzz-$(SEED).json \
	WEFT_FAULT_RESULTS=benchmarks/results/faults.json WEFT_TESTS_CHECK_SHAPES=no \
	$(BIN)/pytest tests/trust/test_fuzz.py tests/trust/test_faults.py tests/trust/test_verb_faults.py --hypothesis-seed=$(SEED)

kill: $(INSTALLED)
	$(BIN)/python -W ignore -m tests.trust.killing writers $(SEED) 200
	$(BIN)/python -W ignore -m tests.trust.killing fits $(SEED) 20

models: $(INSTALLED)
	$(BIN)/python -m tests.trust.random_models 2000

bench: $(INSTALLED)
	$(BIN)/python benchmarks/engine.py

clean:
	rm -rf $(VENV) $(LOWEST) .pytest_cache .ruff_cache .mypy_cache .hypothesis build dist
