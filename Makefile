# The daily words. README's two commands are `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sort | awk -F':.*## ' '{printf "  make %-14s %s\n", $$1, $$2}'

# The stamp is the lock's own content: a changed lock reinstalls, an unchanged one costs nothing.
$(VENV)/.installed: requirements/dev.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "fairlead: needs Python 3.11 or newer; install python3 and try again" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fairlead: needs Python 3.11 or newer, found $$($(PYTHON) -V); set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "fairlead: this Python has no venv module; install python3-venv (or your system's equivalent)" >&2; exit 1; }
	@echo "fairlead: installing the pinned packages into $(VENV) (about 700 MB, a minute or two)" >&2
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/pip install --disable-pip-version-check --progress-bar off -q --require-hashes -r requirements/dev.lock
	@$(BIN)/pip install --disable-pip-version-check -q --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: dev
dev: $(VENV)/.installed ## create .venv with everything; the program is .venv/bin/fairlead

.PHONY: control-plane
control-plane: ## build the pinned Kubernetes programs once; the last line of stdout is their folder
	@command -v $(PYTHON) >/dev/null || { echo "fairlead: needs Python 3.11 or newer; install python3 and try again" >&2; exit 1; }
	@$(PYTHON) e2e/controlplane/build.py
