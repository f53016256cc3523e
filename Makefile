# Two commands do everything on a fresh machine: `make run` and `make test`. Each makes its own virtual environment.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
# A busy neighbour makes spinning OpenMP threads collapse; passive ones only wait.
export OMP_WAIT_POLICY := PASSIVE

.PHONY: run test test-slow lint bench clean

run: $(VENV)/edit.stamp
	@echo "Into the positive style:"
	@$(BIN)/xl-editor transfer --to positive --trace \
	  "The waitress was rude and slow. I will not come back!" \
	  "the food was bland and the prices are way too high ." \
	  "We waited an hour for a cold pizza."
	@echo; echo "Into the negative style:"
	@$(BIN)/xl-editor transfer --to negative --trace \
	  "The staff is friendly and the pizza is delicious!" \
	  "i love this place and i will definitely be back ."

# Two at a time: much of the time is spent waiting for processes to start and to die.
test: $(VENV)/dev.stamp
	$(BIN)/python -m pytest -rs --numprocesses 2 --dist loadfile

test-slow: $(VENV)/cluster.stamp
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# make bench BENCH="--sentences FILE" measures on sentences of your own.
bench: $(VENV)/dev.stamp
	$(BIN)/python benchmarks/engine.py $(BENCH)
	env -u OMP_WAIT_POLICY $(BIN)/python benchmarks/startup.py
	env -u OMP_WAIT_POLICY $(BIN)/python benchmarks/model.py
	env -u OMP_WAIT_POLICY $(BIN)/python benchmarks/training.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

# What editing needs; and what developing needs. A stamp is renewed when the dependencies change.
$(VENV)/edit.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch setuptools
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable .
	@touch $@

$(VENV)/dev.stamp: $(VENV)/edit.stamp
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[onnx,train,evaluate,compare,serve,formats,dev]'
	@touch $@

# Ray is half a gigabyte, and only the slow tests start a cluster.
$(VENV)/cluster.stamp: $(VENV)/dev.stamp
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[cluster]'
	@touch $@
