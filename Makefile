# Needs Python 3.11 or later, pip and make; installs everything else into .venv.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
DOCS_INSTALLED := .venv/.docs-installed
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --quiet

NODE := $(BIN)/python scripts/node.py
# One more than the number of cores: some tests wait for processes that they have killed.
TESTERS = $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)')
SDK := sdks/typescript
MERMAID := docs/assets/mermaid.min.js

# Keep bytecode even if the caller disables it: the tests start Python hundreds of times.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help dev test test-15 test-long attacks faults fuzz check check-types check-style check-node format \
	types bench bench-quick bench-claims bench-sql bench-api bench-cli bench-schedules bench-observability bench-ui \
	bench-ts docs pages snapshot lock system-deps clean ui ui-dev ui-shots

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

dev: $(INSTALLED) ui ## Run the example with an embedded Postgres and a reloading worker, until Ctrl-C
	@$(BIN)/jobforge dev examples/quickstart/app.py

test: $(INSTALLED) ui system-deps ## Run all tests on all cores
	@$(BIN)/pytest -n $(TESTERS) $(ARGS)

test-15: $(INSTALLED) ui system-deps ## Run all tests on Debian's Postgres 15
	@JOBFORGE_TEST_PG_BIN=/usr/lib/postgresql/15/bin $(BIN)/pytest -n $(TESTERS) $(ARGS)

test-long: $(INSTALLED) ## Run long tests: interleavings, storms, state machines, interrupts (about 2 hours)
	@JOBFORGE_LONG=1 $(BIN)/pytest -n auto tests/sql/test_interleavings.py tests/sql/test_storm.py \
		tests/sql/test_state_machine.py tests/integration/test_interrupts.py $(ARGS)

faults: $(INSTALLED) system-deps ## Run fault injection: kill, freeze and disconnect workers and database (hours); prints seeds
	@JOBFORGE_LONG=1 $(BIN)/pytest -n 2 tests/faults $(ARGS)

fuzz: $(INSTALLED) ## Fuzz the HTTP API with valid and invalid requests (about 30 minutes)
	@JOBFORGE_LONG=1 $(BIN)/pytest -n 2 tests/api/test_openapi.py $(ARGS)

attacks: $(INSTALLED) ui system-deps ## Run attacks on tenancy, HTTP, egress and isolation; write their counts into docs
	@$(BIN)/pytest -n $(TESTERS) -m attack --attack-report=docs $(ARGS)

check: $(INSTALLED) ## Check formatting, lint, types, imports and SQL of Python, dashboard and SDK
	@$(MAKE) --no-print-directory --jobs=2 --output-sync check-types check-style check-node

check-types: $(INSTALLED)
	@$(BIN)/mypy

check-style: $(INSTALLED)
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@said=$$($(BIN)/lint-imports --no-cache) || { echo "$$said"; exit 1; }; echo "$$said" | tail -n 1
	@$(BIN)/python scripts/lint_sql.py
	@$(BIN)/python scripts/lint_names.py
	@$(BIN)/python scripts/lint_words.py

check-node: $(INSTALLED)
	@$(BIN)/python hatch_build.py check
	@$(NODE) run $(SDK) biome check --error-on-warnings --log-level=error .
	@$(NODE) run $(SDK) tsc

format: $(INSTALLED) ## Format the code and apply automatic lint fixes
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/python hatch_build.py format
	@$(NODE) run $(SDK) biome check --write --log-level=error .

types: $(INSTALLED) ## Generate errors and HTTP API types for other languages
	@$(BIN)/python scripts/write_errors.py
	@$(BIN)/python scripts/write_http_types.py

ui: $(INSTALLED) ## Build the dashboard if its sources have changed
	@$(BIN)/python hatch_build.py build

ui-dev: $(INSTALLED) ## Run the dashboard's development server with hot reload; needs a running `make dev`
	@$(BIN)/python hatch_build.py serve

ui-shots: $(INSTALLED) ui system-deps ## Write the screenshots in docs/assets
	@JOBFORGE_SHOTS=docs/assets $(BIN)/pytest -n 0 -q tests/ui -k passes_the_checks

bench: $(INSTALLED) ## Benchmark JobForge and other systems; write docs/benchmarks.md (about 2 hours, resumable)
	@$(BIN)/python bench/run.py $(ARGS)

bench-quick: $(INSTALLED) ## Run a subset of the benchmarks in under 5 minutes and print it
	@$(BIN)/python bench/run.py --size quick $(ARGS)

bench-claims: $(INSTALLED) ## Measure claims with full limits, many definitions and a held snapshot
	@$(BIN)/python bench/claims.py $(ARGS)

bench-sql: $(INSTALLED) ## Measure the SQL functions against plain table access
	@$(BIN)/python bench/sql.py

bench-schedules: $(INSTALLED) ## Measure 10,000 schedules due in one minute, and the queries of an idle scheduler
	@$(BIN)/python bench/schedules.py

bench-observability: $(INSTALLED) ## Measure the cost of metrics, logs and traces in a worker
	@$(BIN)/python bench/observability.py

bench-api: $(INSTALLED) ## Measure the HTTP API against SQL, and a live stream with 500 clients
	@$(BIN)/python bench/api.py

bench-cli: $(INSTALLED) ## Measure the startup time of the command line
	@$(BIN)/python bench/startup.py

bench-ui: $(INSTALLED) ui system-deps ## Measure the dashboard with 50,000 jobs and 100 changes per second
	@$(BIN)/python bench/ui.py

docs: $(DOCS_INSTALLED) $(MERMAID) ## Build the documentation into site/; warnings are errors
	@$(BIN)/python scripts/site_texts.py changelog
	@$(BIN)/zensical build --strict --clean
	@$(BIN)/python scripts/site_texts.py texts

pages: $(INSTALLED) ## Generate the reference pages of docs/ and sql/revision
	@$(BIN)/python scripts/write_revision.py
	@$(BIN)/python scripts/write_pages.py

snapshot: $(INSTALLED) ## Write the initial schema for upgrade tests; only until the first release
	@$(BIN)/python scripts/write_snapshot.py

bench-ts: $(INSTALLED) ## Measure the TypeScript worker, graphile-worker and pg-boss
	@$(BIN)/python bench/typescript.py

lock: $(INSTALLED) ## Upgrade all locked dependencies
	$(COMPILE) --upgrade requirements/uv.in -o requirements/uv.txt
	$(COMPILE) --upgrade pyproject.toml --extra dev --group test -o requirements/dev.txt
	$(COMPILE) --upgrade --group docs -c requirements/dev.txt -o requirements/docs.txt
	$(COMPILE) --upgrade pyproject.toml --extra server --extra s3 -c requirements/dev.txt \
		-o requirements/image.txt
	$(COMPILE) --upgrade requirements/build.in -c requirements/dev.txt -o requirements/build.txt

system-deps: ## Install Postgres 15, PgBouncer, libfaketime and Chromium for tests, if run as root
	@scripts/system_deps.sh

$(MERMAID): $(INSTALLED) scripts/site/package-lock.json
	@$(NODE) install scripts/site
	@cp scripts/site/node_modules/mermaid/dist/mermaid.min.js $@

clean: ## Remove generated files, except the data of `make dev`
	rm -rf $(SDK)/node_modules $(SDK)/dist $(SDK)/codegen/node_modules scripts/site/node_modules $(MERMAID)
	rm -rf .venv jobforge/ui ui/node_modules .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache build dist site .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The venv is created without pip: the system's pip installs uv into it, and uv installs the rest.
$(INSTALLED): pyproject.toml requirements/uv.txt requirements/dev.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or later is needed; try: make PYTHON=python3.12"; exit 1; }
	@echo "installing into .venv"
	@$(PYTHON) -m venv --without-pip .venv
	@$(PYTHON) -m pip --python $(BIN)/python install --quiet --require-hashes -r requirements/uv.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/dev.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
	@touch $@

$(DOCS_INSTALLED): $(INSTALLED) requirements/docs.txt
	@$(BIN)/uv pip install --quiet --python $(BIN)/python --require-hashes -r requirements/docs.txt
	@touch $@
