# make demo    see trajlog work on bundled episodes          make test    checks and tests
# make demo-cluster   the same through a real Kafka (Java 17 and Maven) and PostgreSQL
# make check   ruff, mypy, import-linter                     make docs    docs/cli.md and docs/events.md from the code
# make bench   measurements, ONLY=name JSON=file             make faults, make soak   longer tests
# make lower-bounds   the oldest dependencies that are allowed      make clean

PY := .venv/bin/python
# Tests wait more than they work.
PROCESSES ?= 4
# They start hundreds of commands: each would be compiled anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo demo-cluster test tests check docs bench faults soak lower-bounds clean setup
.DEFAULT_GOAL := test

setup:
	@sh .ci/setup

demo: setup
	@$(PY) -m cli demo

demo-cluster: setup
	@$(PY) -m tests.demo_cluster

# Checks and tests side by side: one waits while the other works.
test: setup
	@$(MAKE) --no-print-directory -j2 check tests

tests: setup
	$(PY) -m pytest -n $(PROCESSES) --dist loadfile --no-loadscope-reorder -m 'not faults'

check: setup
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports

docs: setup
	$(PY) -m cli.reference docs

bench: setup
	$(PY) -m tests.bench $(if $(ONLY),--only "$(ONLY)") $(if $(JSON),--json "$(JSON)")

faults: setup
	TRAJLOG_FAULTS=$${TRAJLOG_FAULTS:-210} $(PY) -m pytest tests/faults
	$(PY) -m pytest -n $(PROCESSES) --dist loadfile -m faults tests

soak: setup
	$(PY) -m pytest tests/soak --timeout 0
	TRAJLOG_FAULTS=$${TRAJLOG_FAULTS:-3000} $(PY) -m pytest tests/faults/kafka

lower-bounds: setup
	$(PY) -m tests.lower_bounds > .venv/lower-bounds.txt
	@sh .ci/setup .venv-lower .venv/lower-bounds.txt
	.venv-lower/bin/python -m pytest tests/core tests/cli tests/eventlog

clean:
	rm -rf .venv .venv-tool .venv-lower dist build .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
