# The targets. README's two commands are `make demo` and `make test`.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python

# What a target may be told on the command line; empty means its own default.
ONLY ?=
KILLS ?=
SEEDS ?=
SEED ?=
KEEP ?=
KIND ?=
TAG ?=
PYTEST ?=

# $(call needs,FILE,SENTENCE): one sentence instead of a stack trace where a room is not there.
needs = @test -e $(1) || { echo "fairlead: $(2)" >&2; exit 1; }
# $(call timed,NAME,COMMAND): run it without standard input, say how long it took, stop when it fails.
timed = @started=$$SECONDS; $(2) </dev/null || { echo "make $@: $(1) failed" >&2; exit 1; }; echo "make $@: $(1) took $$((SECONDS - started)) s"

# Modules that are compiled once, and test modules whose assertions are rewritten once, save 15 s of each run.
export PYTHONDONTWRITEBYTECODE =

# What a newcomer needs comes first, then the daily words; the others follow by name.
HELP_FIRST := demo test up down quick check verify

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' -v first='$(HELP_FIRST)' 'BEGIN { n = split(first, names, " "); for (i = 1; i <= n; i++) rank[names[i]] = i } { printf "%02d  make %-14s %s\n", ($$1 in rank) ? rank[$$1] : 99, $$1, $$2 }' | LC_ALL=C sort | cut -c3-

.PHONY: python
python:
	@command -v $(PYTHON) >/dev/null || { echo "fairlead: needs Python 3.11 or newer; install python3 and try again" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fairlead: needs Python 3.11 or newer, found $$($(PYTHON) -V); set PYTHON=/path/to/python3.11" >&2; exit 1; }

# Older than its prerequisites means: install again. An unchanged lock costs nothing.
$(VENV)/.installed: requirements/dev.lock pyproject.toml | python
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "fairlead: this Python has no venv module; install python3-venv (or your system's equivalent)" >&2; exit 1; }
	@echo "fairlead: installing the pinned packages into $(VENV) (1.7 GB on disk, a minute or two)" >&2
	@$(PYTHON) -m venv $(VENV)
	@# As wheels only: the old way of installing an sdist (pyspark) leaves no list of its files, which the images need.
	@$(PY) requirements/install.py install --disable-pip-version-check --progress-bar off --use-pep517 --require-hashes -r requirements/dev.lock
	@$(BIN)/pip install --disable-pip-version-check -q --no-deps --no-build-isolation -e .
	@touch $@

.PHONY: dev
dev: $(VENV)/.installed ## create .venv with everything; the program is .venv/bin/fairlead
	$(if $(filter dev,$(MAKECMDGOALS)),@echo "fairlead: $(VENV) is up to date; the program is $(BIN)/fairlead" >&2,@:)

.PHONY: lock
lock: ## pin requirements/dev.lock again from pyproject.toml (needs uv)
	@command -v uv >/dev/null || { echo "fairlead: make lock needs uv; install it (pip install uv) and try again" >&2; exit 1; }
	@uv pip compile --extra dev --generate-hashes --no-emit-index-url --no-header --no-emit-find-links --universal \
		--python-version 3.11 pyproject.toml -o requirements/dev.lock
	@! grep -nE '[a-z]+://' requirements/dev.lock || { echo "fairlead: the lock names a host; remove that line" >&2; exit 1; }

.PHONY: control-plane
control-plane: python ## build the pinned Kubernetes programs once; the last line of stdout is their folder
	@$(PYTHON) e2e/controlplane/build.py

.PHONY: object-store
object-store: python ## build the pinned object store (S3) of the tests once; the last line of stdout is its folder
	@$(PYTHON) e2e/controlplane/build.py versitygw

.PHONY: rest-catalog
rest-catalog: dev ## fetch the REST catalog (Iceberg's own) of the tests once; the last line of stdout is its folder
	@$(PYTHON) e2e/rest_catalog/build.py "$$($(PY) -c 'import pathlib, pyspark; print(pathlib.Path(pyspark.__file__).parent / "jars")')"

.PHONY: postgresql
postgresql: python ## fetch the pinned PostgreSQL of the tests once; the last line of stdout is its folder
	@$(PYTHON) e2e/postgresql/build.py

.PHONY: cassandra
cassandra: python ## fetch the pinned Cassandra of the tests once; the last line of stdout is its folder
	@$(PYTHON) e2e/cassandra/build.py

.PHONY: demo
demo: python ## the whole demo on this machine, with real data; KEEP=1 leaves it up, KUBECONFIG=… uses that cluster
	@$(PYTHON) e2e/prepare.py $(if $(filter command line,$(origin KUBECONFIG)),kubectl,etcd kube-apiserver kubectl $(if $(KEEP),kube-controller-manager)) </dev/null
	@$(PY) -m e2e.demo $(if $(KEEP),--keep) $(if $(filter command line,$(origin KUBECONFIG)),--kubeconfig $(KUBECONFIG)) </dev/null

.PHONY: up down
up: python ## start the local stack for development and leave it running; KIND=1 uses a kind cluster
	@$(PYTHON) e2e/prepare.py $(if $(KIND),kubectl) </dev/null
	@$(PY) -m e2e.demo up $(if $(KIND),--kind) </dev/null
down: dev ## stop what make up or make demo KEEP=1 left running
	@$(PY) -m e2e.demo down </dev/null

.PHONY: check
check: dev ## ruff, mypy --strict, import contracts, tidy
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/mypy e2e benchmarks release tests
	@$(BIN)/lint-imports
	@$(PY) -m pytest -q -p no:cacheprovider tests/test_tidy.py

# One worker a core; the tests of a file run in one worker, in their order (loadgroup would do nothing with pytest 9.2).
WORKERS := -n 2 --dist loadfile --no-loadscope-reorder

# The same order of sets at every run, as with the examples of properties; `make fresh` takes any.
quick test verify: export PYTHONHASHSEED = 0

.PHONY: quick
quick: dev ## one to two minutes: tests that start no process and take less than 0.3 s; PYTEST="…" narrows it
	@$(PY) -m pytest -q $(WORKERS) -m "not slow and not process and not kube and not spark and not faults and not verify" $(PYTEST) </dev/null

.PHONY: test
test: ## six minutes: check, and every kind of test on real programs; PYTEST="…" narrows it
	$(call timed,install,$(MAKE) --no-print-directory dev)
	$(call timed,check,$(MAKE) --no-print-directory check)
	$(call timed,control plane,$(MAKE) --no-print-directory control-plane)
	$(call timed,helm,$(PYTHON) e2e/controlplane/build.py helm >/dev/null)
	$(call timed,object store,$(PYTHON) e2e/controlplane/build.py versitygw >/dev/null)
	@$(PY) -m pytest --durations=15 $(WORKERS) -m "not verify" $(PYTEST) </dev/null

.PHONY: tools
tools: ## install system programs that some tests need (Chromium, Prometheus), where apt-get is allowed
	@missing=""; for each in chromium prometheus; do command -v $$each >/dev/null || missing="$$missing $$each"; done; \
	if [ -z "$$missing" ]; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		{ apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $$missing; } >/dev/null 2>&1 </dev/null \
			|| echo "fairlead: apt-get could not install$$missing; the tests that need that are skipped" >&2; \
	else echo "fairlead: the tests that need$$missing are skipped; install that and try again" >&2; fi

# Many of these tests wait for timers and for processes: three at a time keep two cores busy.
.PHONY: verify
verify: dev control-plane $(if $(CI),tools) ## a quarter of an hour: what make test leaves out (kills, outages, the demo, a real node; outside CI also make fresh)
	$(call timed,helm,$(PYTHON) e2e/controlplane/build.py helm >/dev/null)
	$(call timed,cert-manager,$(PYTHON) e2e/controlplane/build.py cert-manager >/dev/null)
	@$(PY) -m pytest --durations=15 $(subst -n 2,-n 3,$(WORKERS)) -m "verify$(if $(CI), and not nightly)" $(PYTEST) </dev/null
	$(call timed,e2e,$(MAKE) --no-print-directory e2e ONLY=install)
	$(if $(CI),,@$(MAKE) --no-print-directory fresh)

# Chance is for searching, not for gates: continuous integration does this at night, and apart from what it judges by.
.PHONY: fresh
fresh: dev ## new random examples and simulated worlds each time; a failure prints how to repeat it
	@FAIRLEAD_EXAMPLES=fresh $(PY) -m pytest --durations=15 $(WORKERS) -m "fresh or nightly" $(PYTEST) </dev/null

.PHONY: docs
docs: dev ## build the documentation site in build/site and check every link
	@$(PY) -m docs.site.build </dev/null

.PHONY: packages release
packages: dev ## build wheel, sdist, Debian package and charts in dist/, with checksums; reproducible
	@$(PY) -m release $(if $(TAG),--tag $(TAG)) </dev/null
release: dev ## build the packages and the images (2.1 GB); TAG=v1.2.3 must be the version in pyproject.toml
	@$(PY) -m release --images $(if $(TAG),--tag $(TAG)) </dev/null

.PHONY: sim
sim: dev ## run the deterministic simulation; SEEDS=number of seeds, FIRST=first seed, SEED=seed to replay
	$(call needs,tests/sim/__main__.py,the simulation is not part of this checkout)
	@$(PY) -m tests.sim $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST)) $(if $(SEED),--seed $(SEED)) $(if $(ONLY),--only $(ONLY)) </dev/null

# Not the shell's own SECONDS, which a recipe would begin with.
.PHONY: fuzz
fuzz: dev ## search for inputs that break parsers; SECONDS=how long (60), ONLY=parser,…, SEED=…
	@$(PY) -m tests.fuzz $(if $(filter command line,$(origin SECONDS)),--seconds $(SECONDS)) $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED)) </dev/null

.PHONY: faults
faults: dev control-plane ## kill real processes at random; ONLY=room, KILLS=number of kills; writes faults.json
	@$(PY) -m tests.faults $(if $(ONLY),--only $(ONLY)) $(if $(KILLS),--kills $(KILLS)) $(if $(SEED),--seed $(SEED)) </dev/null

.PHONY: cost
cost: dev control-plane ## measure what reliability costs, level by level; writes docs/explanation/cost.md and its picture
	@$(PY) -m benchmarks.cost </dev/null

.PHONY: bench
bench: dev ## run every benchmark beside its baseline; ONLY=room; writes bench.json
	@$(PY) -m benchmarks $(if $(ONLY),--only $(ONLY)) </dev/null

.PHONY: e2e
e2e: dev ## test on a real node with kubelet: helm install, the whole pipeline in Pods, executors; ONLY=install|executors
	$(call needs,e2e/node/__main__.py,the real node is not part of this checkout; make demo runs the same line without a kubelet)
	@$(PY) -m e2e.node $(if $(ONLY),--only $(ONLY)) </dev/null

.PHONY: e2e-kind
e2e-kind: dev ## the same tests on kind; needs a container engine
	@command -v docker >/dev/null || command -v podman >/dev/null || { echo "fairlead: make e2e-kind needs a container engine; install docker or podman and try again" >&2; exit 1; }
	@command -v kind >/dev/null || { echo "fairlead: make e2e-kind needs kind; install it (go install sigs.k8s.io/kind) and try again" >&2; exit 1; }
	$(call needs,e2e/kind/__main__.py,the story on kind is not part of this checkout; make demo KUBECONFIG=… runs on a kind cluster of yours)
	@$(PY) -m e2e.kind </dev/null
