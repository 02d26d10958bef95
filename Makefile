# Everything starts here: `make` prints what there is. A target sets up what it needs by itself.

# the first that runs, is of a version that the locks serve, and can make an environment
PYTHON := $(shell for name in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$name -c 'import sys, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' 2>/dev/null \
	&& command -v $$name && break; done)
VENV := .venv
RUN := $(VENV)/bin/python
# a virtual environment is as old as the lock that it was made from
STAMP := $(VENV)/.made-from-$(shell cksum < requirements.lock | cut -d ' ' -f 1)
CORES := $(shell getconf _NPROCESSORS_ONLN)

# variables that are exported for other programs must not point us at somebody's servers
unexport KUBECONFIG DATABASE_URL REDIS_URL
# without its bytecode every process compiles all that it imports, and every test process each test's module
unexport PYTHONDONTWRITEBYTECODE
MAKEFLAGS += --no-builtin-rules --no-print-directory
.DEFAULT_GOAL := help
.PHONY: help venv programs documents chart setup own browser debian demo up down test test-unit test-deep lint bench chaos docs inventory clean

help: ## print this
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '  make %-11s %s\n' "$$name" "$$text"; done
	@echo
	@echo '  make up takes OSMO_DATABASE_URL, OSMO_REDIS_URL and CLUSTER_KUBECONFIG (with BACKEND_SCHEDULER,'
	@echo '  BACKEND_NAMESPACE) to use servers of your own; everything else starts its own and stops them.'

demo: setup own ## run the four use cases on a local cluster and check them
	@$(RUN) -m localcluster.demo

up: $(if $(CLUSTER_KUBECONFIG),venv,setup) ## start the service and a local cluster, and keep them running
	@$(RUN) -m localcluster up

down: venv ## stop what `make up` started; its data stay
	@$(RUN) -m localcluster down

test: setup own browser chart debian ## run all tests but the deep ones, on real servers
	@$(RUN) -m pytest -n $$((3 * $(CORES))) --dist worksteal # three times as many, since most of them wait for servers

test-deep: setup own browser chart ## run what takes minutes by its nature: chaos, installations, random worlds; DEEP=tests/e2e for a part
	@$(RUN) -m pytest -n $$((2 * $(CORES))) --dist worksteal --deep $(DEEP) # chaos and demos wait for processes of their own

test-unit: venv documents ## run the tests that need no server, in seconds
	@$(RUN) -m pytest -n $(CORES) --dist worksteal -p no:schemathesis tests/unit

lint: export OSMO_ENV := development
lint: venv ## ruff, mypy and the import contracts
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/lint-imports

bench: setup own ## measure the main job; prints JSON
	@$(RUN) -m bench

chaos: setup own ## let everything fail under load and count what was lost; CHAOS="--seed 7" for a known run
	@$(RUN) -m chaos $(CHAOS)

docs: export OSMO_ENV := development
docs: venv ## generate the generated pages and build the site of docs/ into build/site
	@$(RUN) manage.py spectacular --validate --fail-on-warn --file docs/reference/openapi.yaml
	@$(RUN) -m tests.arch.promises > docs/reference/promises-and-tests.md
	@$(RUN) -m tests.arch.capability_page > docs/reference/capabilities.md
	@NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build
	@echo 'build/site/index.html; with search: $(RUN) -m http.server --directory build/site'

# the packages of the image stand in an environment of their own, so that nothing else is listed
inventory: ## list the image's packages (CycloneDX) and their licences in build/inventory
	@rm -rf build/inventory && $(PYTHON) -m venv --without-pip build/inventory/image && $(PYTHON) -m venv build/inventory/tools
	@build/inventory/tools/bin/pip install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0 pip-licenses==5.5.5
	@build/inventory/tools/bin/pip --python build/inventory/image/bin/python install --quiet --disable-pip-version-check \
		--require-hashes --only-binary=:all: -r requirements-service.lock
	@cd build/inventory && tools/bin/cyclonedx-py environment --sv 1.6 --output-reproducible -o sbom.cdx.json image
	@cd build/inventory && tools/bin/pip-licenses --python image/bin/python --format markdown --output-file licences.md

venv: $(STAMP) ## make the virtual environment in .venv
	@:

clean: ## stop what runs, then remove the environment, all local data and caches of tools
	@if [ ! -d .local ]; then :; elif [ -x $(RUN) ]; then $(RUN) -m localcluster clean $(if $(FORGET),--forget); \
		elif [ -e .local/foreign-clusters.json ] && [ -z '$(FORGET)' ]; then \
		echo 'the data say what was created in clusters of yours: make clean FORGET=1 forgets it' >&2; exit 1; fi
	rm -rf $(VENV) .local .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# --- set-up -------------------------------------------------------------------------------------

# the Go builds take minutes on a machine that sees them first: they run beside the installation
setup:
	@$(MAKE) -j 2 venv programs

programs:
	@[ -z '$(PYTHON)' ] || $(PYTHON) -m localcluster.build

documents:
	@$(PYTHON) -m localcluster.build documents

# helm and the definitions of others that the tests of the chart install
chart:
	@$(PYTHON) -m localcluster.build chart

# Debian's Chromium, where that can be installed; without one the tests in tests/browser are skipped
browser:
	@command -v chromium >/dev/null || $(PYTHON) -m localcluster.chromium

# PgBouncer, nginx and a Redis with TLS from Debian's packages; without them the tests in tests/servers are skipped
debian:
	@$(PYTHON) -m localcluster.debian

own: venv
	@$(RUN) -m localcluster own

$(STAMP):
	@[ -n '$(PYTHON)' ] || { echo 'Python 3.11, 3.12, 3.13 or 3.14 with its module venv is needed' >&2; exit 1; }
	@rm -rf $(VENV)
	@$(PYTHON) -m venv $(VENV)
	@$(PYTHON) -m localcluster.durations '[python] installing the packages of requirements.lock into $(VENV)' \
		$(VENV)/bin/pip install --quiet --disable-pip-version-check --require-hashes --only-binary=:all: -r requirements.lock
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-index --no-deps --no-build-isolation --editable . --editable ./packaging
	@touch $(STAMP)
	@echo '[python] done'
