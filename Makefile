# Two commands are enough: `make demo` and `make test`. Both make .venv themselves.

PYTHON ?= python3
BENCHMARKS := $(sort $(wildcard benchmarks/bench_*.py))
BIN := .venv/bin

# Test processes run side by side, so each gets one thread of BLAS, OpenMP and numba, and one core to count on.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1 NUMBA_NUM_THREADS=1
ONE_CORE := $(ONE_THREAD) PYTHON_CPU_COUNT=1
# Three test processes, unless PYTEST_ADDOPTS says otherwise: on two cores, two would leave a quarter of them idle. The one that is
# done first takes over tests of the others.
WORKERS := $(if $(filter -n% --numprocesses% no:xdist -pno:xdist,$(PYTEST_ADDOPTS)),,-n 3 --dist worksteal)
PYTEST := $(ONE_CORE) $(BIN)/python -m pytest
SUITE := not slow and not runs and not verifier and not fuzz and not agents and not ray and not pages
# pytest keeps the test modules that it has read: reading all of them takes 15 s, and every process does.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup demo docs pictures zoo-verify fuzz test suite test-slow test-verifier test-runs test-long test-agents test-ray test-pages lint quick bench calibration cheats crash-test clean
.DEFAULT_GOAL := help

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## Make .venv (BUILD_FROM_SOURCE=1: build stim and pymatching even where wheels exist)
	@$(PYTHON) tools/setup_env.py $(if $(filter-out 0,$(BUILD_FROM_SOURCE)),--build-from-source)

demo: setup ## Two rounds of the research loop, offline and without a GPU, up to a verified front
	$(BIN)/python -m autoqec run surface_d5_depol --rounds 2 --proposer optuna --own-repository

docs: setup ## The documentation as a site in build/site, without a network; a dead link is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict

pictures: setup ## Draw the pictures of docs/concepts.md again, by tools/concept_pictures.py
	$(BIN)/python tools/concept_pictures.py

zoo-verify: setup ## Verify every predecoder of the zoo again, on fresh shots and at full strength
	$(BIN)/python -m autoqec zoo verify

test: setup ## Lint and the test suite, beside each other
	@$(MAKE) --no-print-directory --jobs=2 lint suite

suite: setup
	$(PYTEST) $(WORKERS) -m "$(SUITE)"

test-slow: setup ## Whole rounds, error rates against measured ones, ONNX, many random graphs, proposers, the wheel, sinter
	$(PYTEST) $(WORKERS) -m slow

fuzz: setup ## Every damage of every file that a command reads, and every odd value of every option (make test plays some)
	$(PYTEST) $(WORKERS) -m fuzz

test-verifier: setup ## Whole verifications in the sandbox, and a cheat of each family (make cheats plays all)
	$(PYTEST) $(WORKERS) -m verifier

test-runs: setup ## Whole research runs: every LLM backend, kills, compositions, replay, the commands of the skills
	$(PYTEST) $(WORKERS) -m runs

test-long: setup ## test-slow, test-verifier and test-runs in one go, which takes less time
	$(PYTEST) $(WORKERS) -m "slow or verifier or runs"

test-agents: setup ## The real Claude Code and Codex, from npm, without a network: whole runs, failures, tool limits, caps
	$(ONE_CORE) $(BIN)/python tools/agent_programs.py $(WORKERS)

test-ray: setup ## A Ray cluster of three nodes on this machine: the same failures, verdicts and rounds, whatever is killed
	$(BIN)/python -c "import ray" 2>/dev/null || $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt ray
	$(PYTEST) -m ray

test-pages: setup ## Every command that README.md and the pages of docs/ show
	$(PYTEST) -m pages tests/runs/test_documented_commands.py

lint: setup ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy autoqec cli tools
	$(BIN)/lint-imports

quick: lint ## make test, up to the first failure
	$(PYTEST) $(WORKERS) -x -m "$(SUITE)"

bench: setup ## Run the benchmarks
	@set -e; export $(ONE_THREAD); for script in $(BENCHMARKS); do echo "$$script"; $(BIN)/python $$script; done

calibration: setup ## Simulate how often the verifier's decision and its intervals are wrong
	@$(ONE_THREAD) $(BIN)/python tools/calibration.py

cheats: setup ## Play every known cheat, and honest controls, against the verifier
	@$(ONE_THREAD) $(BIN)/python tools/cheats.py

crash-test: setup ## Kill a run at every point, start it again, count what was lost
	@$(ONE_THREAD) $(BIN)/python tests/runs/crash_points.py

clean: ## Remove build outputs and caches; .venv stays
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache *.egg-info
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +
