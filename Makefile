# make demo    set everything up and run the main job (trains a small GPT, eager and compiled)
# make test    set everything up and run the tests
# make test-torch TORCH=2.14.1    the tests with another torch, in a copy of the tree
# make test-asan TESTS=tests/native    the tests with an extension that checks each access to memory
# make fuzz SECONDS=3600    random programs, eager and compiled, for that long; prints shrunken failures
# make bench   the benchmarks, side by side with torch.compile
# make zoo     the table of models, docs/models.md (long; ZOO="--keep FILE" keeps what is measured)
# make graphs  graphs and operations of many small programs, beside those of torch.compile
# make lint    style, formatting, types and the order of imports
# make transparency    CPython's own tests with every frame captured, and without
# make help    all targets
#
# A stamp file stands for each finished step, so that a second call starts at once.

# A name on PATH may be a launcher that refuses; take the first that really is CPython 3.11.
PYTHON ?= $(shell .ci/find-python 3.11)
VENV   ?= .venv
PY     := $(VENV)/bin/python
PIP    := $(PY) -m pip --disable-pip-version-check --quiet
STAMPS := $(VENV)/stamps
export MAX_JOBS ?= 2

NATIVE  := setup.py pyproject.toml $(wildcard csrc/*.cpp csrc/*.h)
CXXFILES = $(wildcard csrc/*.cpp csrc/*.h)

.PHONY: all help venv build rebuild test test-torch test-asan test-cuda fuzz transparency demo serve bench zoo graphs lint format types imports clean
all: build

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

$(STAMPS)/venv:
	@test -n "$(PYTHON)" || { echo "framehook needs CPython 3.11: install it or name it with make PYTHON=..."; exit 1; }
	test -x $(PY) || "$(PYTHON)" -m venv $(VENV)
	@mkdir -p $(STAMPS)
	@touch $@

$(STAMPS)/requirements: requirements/dev.txt $(wildcard requirements/*.txt) | $(STAMPS)/venv
	$(PIP) install -r requirements/dev.txt
	@touch $@

$(STAMPS)/build: $(NATIVE) $(STAMPS)/requirements
	$(PIP) install --no-build-isolation --no-deps -e .
	@touch $@

venv: $(STAMPS)/requirements
build: $(STAMPS)/build
rebuild:
	@rm -f $(STAMPS)/build
	@$(MAKE) --no-print-directory build

# Processes that share the tests; 0 runs them in this one.
WORKERS ?= 2
test: $(STAMPS)/build
	$(PY) -m pytest -n $(WORKERS) $(TESTS)

TORCH ?= 2.14.1
test-torch:
	.ci/with-torch $(TORCH) python -m pytest $(TESTS)

test-asan: $(STAMPS)/build
	.ci/with-asan python -m pytest -m "not slow" $(TESTS)

test-cuda: $(STAMPS)/build
	@$(PY) -c "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 'no CUDA device here')"
	$(PY) -m pytest -m cuda tests

transparency: $(STAMPS)/build
	$(PY) -m tests.transparency $(MODULES)

SECONDS ?= 600
fuzz: $(STAMPS)/build
	$(PY) -m tests.semantics.generator --seconds $(SECONDS)

demo: $(STAMPS)/build
	$(PY) examples/train_gpt.py

serve: $(STAMPS)/build
	$(PY) examples/serve.py

bench: $(STAMPS)/build
	$(PY) -m pytest benchmarks $(BENCH)

zoo: $(STAMPS)/build
	$(PY) -m benchmarks.model_zoo --write docs/models.md $(ZOO)

graphs: $(STAMPS)/build
	$(PY) -m benchmarks.graph_counts

lint: $(STAMPS)/requirements
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(if $(CXXFILES),$(VENV)/bin/clang-format --dry-run --Werror $(CXXFILES))

types: $(STAMPS)/build
	$(PY) -m mypy

imports: $(STAMPS)/build
	$(VENV)/bin/lint-imports

format: $(STAMPS)/requirements
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(if $(CXXFILES),$(VENV)/bin/clang-format -i $(CXXFILES))

clean:
	rm -rf build dist *.egg-info framehook/*.so .mypy_cache .ruff_cache .pytest_cache
	rm -f $(STAMPS)/build
