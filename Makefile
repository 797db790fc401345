# Two targets for everybody: `make demo` shows the main job, `make test` runs the tests of a working
# day. `make test-all` runs every test. All create .venv and install what they need.
PYTHON ?= python3
BIN := .venv/bin
CORE := $(shell find src/unfit/core -name '*.py')

.PHONY: demo test test-slow test-all coverage docs lint format lock bench reproduce clean

demo: .venv/demo .venv/kernels
	$(BIN)/unfit demo

# Files of tests go to as many processes as there are cores, with one thread of BLAS each; what needs
# the machine for itself comes after that, in one process. Bytecode is kept whatever the environment
# says: without it every process would rewrite the assertions of every file before the first test.
BESIDE := PYTHONDONTWRITEBYTECODE= OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist loadgroup

test: .venv/test .venv/compiled
	$(BESIDE) -m "not slow and not alone"

test-slow: .venv/test .venv/compiled
	$(BESIDE) -m "slow and not alone"
	$(BIN)/python -m pytest -m alone

test-all: test test-slow

coverage: .venv/test .venv/compiled
	$(BESIDE) -m "not slow and not alone" --cov --cov-report=term:skip-covered

docs: .venv/test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lint: .venv/test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: .venv/test
	$(BIN)/python tools/write_lock.py

bench: .venv/demo .venv/kernels
	$(BIN)/unfit bench --quick

reproduce: .venv/demo .venv/kernels
	$(BIN)/unfit reproduce --quick

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/demo: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[certify,experiments,service]'
	touch $@

.venv/test: pyproject.toml tests/plugin/pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	$(BIN)/python -m pip install --quiet --no-deps --editable tests/plugin
	touch $@ .venv/demo

# numba caches a kernel under its own file's date and does not see that a file it calls changed.
.venv/kernels: $(CORE) | .venv/bin/python
	find src -name '*.nb[ic]' -delete
	touch $@

# Once for all processes of the tests, instead of once in each.
.venv/compiled: .venv/kernels | .venv/test
	$(BIN)/python tools/compile_kernels.py
	touch $@

clean:
	rm -rf .venv build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
