# `make app` serves the app, which trains the demo when there is no run; `make test` checks everything, types beside the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
unexport PYTHONDONTWRITEBYTECODE # without compiled files every process would compile PyTorch again

.PHONY: app test pytest check attack bench scale oldest setup clean

# Without any run, or with a demo left unfinished, the demo trains in the background; your own runs are never touched.
app: $(STAMP)
	$(BIN)/python -m coder_core app

setup: $(STAMP)

$(STAMP): requirements.txt pyproject.toml
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $(STAMP)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(STAMP)
	@$(MAKE) --no-print-directory --jobs 2 check pytest

pytest: $(STAMP)
	$(BIN)/pytest --numprocesses 2

# Damage, kills, bad inputs and links, counted; minutes. See tests/attack.
attack: $(STAMP)
	$(BIN)/python -m tests.attack

bench: $(STAMP)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.vagueness

# Cost at 50,000, 100,000 and 200,000 pairs, and extrapolated to a million.
scale: $(STAMP)
	OMP_NUM_THREADS=2 $(BIN)/python -m benchmarks.scale

# The oldest versions that pyproject.toml allows, in an environment of their own, and the part of the suite that meets most
# of them; minutes. EXACT="torch==2.13.0" is for a machine whose index has no older CPU build.
oldest:
	test -d $(VENV)-oldest || $(PYTHON) -m venv $(VENV)-oldest
	$(PYTHON) tests/support/oldest.py $(EXACT) > $(VENV)-oldest/oldest.txt
	$(VENV)-oldest/bin/python -m pip install --quiet --no-compile --requirement $(VENV)-oldest/oldest.txt
	$(VENV)-oldest/bin/python -m pip install --quiet --no-compile pytest pytest-timeout hypothesis torchmetrics
	$(VENV)-oldest/bin/python -m pytest tests/objectives tests/evaluation tests/runs tests/api/test_run.py tests/training/test_step.py

clean:
	rm -rf $(VENV) $(VENV)-oldest .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
