# Needs Python 3.11 or later, pip and make; installs everything else into .venv by itself.

PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
DOCS_INSTALLED := .venv/.docs-installed
COMPILE := $(BIN)/uv pip compile --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header --quiet

NODE := $(BIN)/python scripts/node.py
# One more than there are cores: some tests wait for what they have killed.
TESTERS = $(shell $(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)')
SDK := sdks/typescript
MERMAID := docs/assets/mermaid.min.js

# Whatever our caller thinks of it, bytecode is kept: the tests start Python hundreds of times.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help dev test test-15 test-long attacks faults fuzz check check-types check-style check-node format \
	types bench bench-quick bench-claims bench-sql bench-api bench-cli bench-schedules bench-observability bench-ui \
	bench-ts docs pages snapshot lock system-deps clean ui ui-dev ui-shots

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

dev: $(INSTALLED) ui ## run the example: embedded Postgres, a worker that reloads, until Ctrl-C
	@$(BIN)/jobforge dev examples/quickstart/app.py

test: $(INSTALLED) ui system-deps ## run all tests, on all cores
	@$(BIN)/pytest -n $(TESTERS) $(ARGS)

test-15: $(INSTALLED) ui system-deps ## run all tests on Debian's Postgres 15
	@JOBFORGE_TEST_PG_BIN=/usr/lib/postgresql/15/bin $(BIN)/pytest -n $(TESTERS) $(ARGS)

test-long: $(INSTALLED) ## all orders of three sessions, long storms, state machines, interrupts: about two hours
	@JOBFORGE_LONG=1 $(BIN)/pytest -n auto tests/sql/test_interleavings.py tests/sql/test_storm.py \
		tests/sql/test_state_machine.py tests/integration/test_interrupts.py $(ARGS)

faults: $(INSTALLED) system-deps ## kill, freeze, crash and cut workers and database for hours; prints seeds
	@JOBFORGE_LONG=1 $(BIN)/pytest -n 2 tests/faults $(ARGS)

fuzz: $(INSTALLED) ## ask the HTTP API everything that its OpenAPI allows, and much that it does not: half an hour
	@JOBFORGE_LONG=1 $(BIN)/pytest -n 2 tests/api/test_openapi.py $(ARGS)

attacks: $(INSTALLED) ui system-deps ## run the attacks on tenancy, HTTP, egress and isolation; writes their number into docs
	@$(BIN)/pytest -n $(TESTERS) -m attack --attack-report docs $(ARGS)

check: $(INSTALLED) ## formatting, lint, types, imports, SQL rules; of Python, the dashboard and the SDK
	@$(MAKE) --no-print-directory --jobs=2 --output-sync check-types check-style check-node

check-types: $(INSTALLED)
	@$(BIN)/mypy

check-style: $(INSTALLED)
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .
	@said=$$($(BIN)/lint-imports --no-cache) || { echo "$$said"; exit 1; }; echo "$$said" | tail -n 1
	@$(BIN)/python scripts/lint_sql.py
	@$(BIN)/python scripts/lint_names.py

check-node: $(INSTALLED)
	@$(BIN)/python hatch_build.py check
	@$(NODE) run $(SDK) biome check --error-on-warnings --log-level=error .
	@$(NODE) run $(SDK) tsc

format: $(INSTALLED) ## format the code and fix what can be fixed
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/python hatch_build.py format
	@$(NODE) run $(SDK) biome check --write --log-level=error .

types: $(INSTALLED) ## write what other languages take from the Python code: errors, types of the HTTP API
	@$(BIN)/python scripts/write_errors.py
	@$(BIN)/python scripts/write_http_types.py

ui: $(INSTALLED) ## build the dashboard, when its sources have changed
	@$(BIN)/python hatch_build.py build

ui-dev: $(INSTALLED) ## the dashboard's own server, which reloads, before a `make dev` that runs
	@$(BIN)/python hatch_build.py serve

ui-shots: $(INSTALLED) ui system-deps ## write the screenshots of docs/assets
	@JOBFORGE_SHOTS=docs/assets $(BIN)/pytest -n 0 -q tests/ui -k sound

bench: $(INSTALLED) ## ours beside all rivals; writes docs/benchmarks.md: about two hours, goes on where it was
	@$(BIN)/python bench/run.py $(ARGS)

bench-quick: $(INSTALLED) ## a part of it in under five minutes, printed
	@$(BIN)/python bench/run.py --size quick $(ARGS)

bench-claims: $(INSTALLED) ## what claims cost beside full caps, many definitions and a held snapshot
	@$(BIN)/python bench/claims.py $(ARGS)

bench-sql: $(INSTALLED) ## what the SQL functions cost, against the bare tables
	@$(BIN)/python bench/sql.py

bench-schedules: $(INSTALLED) ## 10,000 schedules that are due in one minute, and what an idle scheduler asks for
	@$(BIN)/python bench/schedules.py

bench-observability: $(INSTALLED) ## what metrics, logs and traces cost a worker
	@$(BIN)/python bench/observability.py

bench-api: $(INSTALLED) ## what the HTTP API costs, beside SQL, and a live stream with 500 clients
	@$(BIN)/python bench/api.py

bench-cli: $(INSTALLED) ## what the command line costs before it does anything
	@$(BIN)/python bench/startup.py

bench-ui: $(INSTALLED) ui system-deps ## whether the dashboard stays smooth: 50,000 jobs, 100 changes a second
	@$(BIN)/python bench/ui.py

docs: $(DOCS_INSTALLED) $(MERMAID) ## build the documentation's site into site/; a warning is an error
	@$(BIN)/zensical build --strict --clean

pages: $(INSTALLED) ## write the pages of docs/ that are made from the code: api, errors, tables; and sql/revision
	@$(BIN)/python scripts/write_revision.py
	@for page in api errors tables; do $(BIN)/python scripts/$${page}_page.py || exit 1; done

snapshot: $(INSTALLED) ## write the schema from which upgrade tests start; only until the first release
	@$(BIN)/python scripts/write_snapshot.py

bench-ts: $(INSTALLED) ## what the TypeScript worker reaches, beside graphile-worker and pg-boss
	@$(BIN)/python bench/typescript.py

lock: $(INSTALLED) ## choose new versions of everything we depend on
	$(COMPILE) --upgrade requirements/uv.in -o requirements/uv.txt
	$(COMPILE) --upgrade pyproject.toml --extra dev --group test -o requirements/dev.txt
	$(COMPILE) --upgrade --group docs -c requirements/dev.txt -o requirements/docs.txt
	$(COMPILE) --upgrade pyproject.toml --extra server --extra s3 -c requirements/dev.txt \
		-o requirements/image.txt
	$(COMPILE) --upgrade requirements/build.in -c requirements/dev.txt -o requirements/build.txt

system-deps: ## Postgres 15, PgBouncer, libfaketime, Chromium for the tests that want them, where we may install
	@scripts/system_deps.sh

$(MERMAID): $(INSTALLED) scripts/site/package-lock.json
	@$(NODE) install scripts/site
	@cp scripts/site/node_modules/mermaid/dist/mermaid.min.js $@

clean: ## remove what make made; the data of `make dev` stay
	rm -rf $(SDK)/node_modules $(SDK)/dist $(SDK)/codegen/node_modules scripts/site/node_modules $(MERMAID)
	rm -rf .venv jobforge/ui ui/node_modules .hypothesis .import_linter_cache \
		.mypy_cache .pytest_cache .ruff_cache build dist site .cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# The venv has no pip of its own: the pip that is there installs uv into it, and uv the rest.
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
