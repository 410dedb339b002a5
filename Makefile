# Each command does its own set-up (packages, build/venv, CMake), on a bare
# Debian 12 with git and make. What is done is not done again.
#
#   make test            every test; one closing line `N passed, N failed`
#   make demo            trains and compares small GPTs and ViTs, writes an HTML report
#   DEMO=quick make demo a much shorter run of the same
#   make lint            form, names and types of the sources; silent when all is well
#   make build           tools in build/bin, `sextant` importable in build/venv
#   make bench           ratios against PyTorch, table and JSON
#   make mutants         breaks one line at a time: which test sees it (test/mutants.md)
#   make docs            op and pass reference in build/docs
#   make format          clang-format over the tree

BUILD  := build
PYTHON := $(BUILD)/venv/bin/python

.PHONY: setup configure build test lint demo bench mutants docs format clean

setup:
	@scripts/setup.sh $(BUILD)

configure: setup
	@scripts/configure.sh $(BUILD)

build: configure
	@cmake --build $(BUILD)

test: build
	@$(PYTHON) test/run.py --build $(BUILD)

lint: build
	@$(PYTHON) test/lint.py --build $(BUILD)

demo: build
	@DEMO="$(DEMO)" $(PYTHON) -m sextant demo $(DEMO_FLAGS) $(BUILD)/demo

bench: build
	@$(PYTHON) tools/bench/bench.py $(BENCH_FLAGS)

mutants: build
	@$(PYTHON) test/mutants.py --build $(BUILD) --write

docs: configure
	@cmake --build $(BUILD) --target docs

format: setup
	@git ls-files '*.cpp' '*.h' | xargs clang-format-22 -i

clean:
	rm -rf $(BUILD)
