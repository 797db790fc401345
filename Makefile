# Two targets for everybody: `make demo` shows the main job, `make test` runs the tests.
# Both create .venv and install what they need.
PYTHON ?= python3
BIN := .venv/bin
CORE := $(wildcard src/unfit/core/*.py src/unfit/core/kernels/*.py)

.PHONY: demo test lint format lock bench reproduce clean

demo: .venv/demo .venv/kernels
	$(BIN)/unfit demo

test: .venv/test .venv/kernels
	$(BIN)/python -m pytest

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
	$(BIN)/python -m pip install --quiet --editable '.[experiments,service]'
	touch $@

.venv/test: pyproject.toml tests/plugin/pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	$(BIN)/python -m pip install --quiet --no-deps --editable tests/plugin
	touch $@ .venv/demo

# numba caches a kernel under its own file's date and does not see that a file it calls changed.
.venv/kernels: $(CORE) | .venv/bin/python
	find src -name '*.nb[ic]' -delete
	touch $@

clean:
	rm -rf .venv build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
