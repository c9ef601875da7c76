# `make app` trains the demo when there is no run and serves the app; `make test` checks everything, types beside the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
unexport PYTHONDONTWRITEBYTECODE # without compiled files every process would compile PyTorch again

.PHONY: app train-demo test pytest check attack bench setup clean

app: train-demo
	$(BIN)/streamlit run streamlit_app.py

# Only when there is no run yet, or a demo run was left unfinished; your own runs are never touched.
train-demo: $(STAMP)
	@if [ -e checkpoints/demo-baseline ] || ! ls checkpoints/*/config.toml >/dev/null 2>&1; then \
		$(BIN)/python -m coder_core.train; \
	fi

setup: $(STAMP)

$(STAMP): requirements.txt
	test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --no-compile --requirement requirements.txt
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

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
