# Each command does its own set-up (packages, build/venv, CMake), on a bare
# Debian 12 with git and make. What is done is not done again.
#
#   make test            every test; one closing line `N passed, N failed`
#   make demo            trains and compares small GPTs and ViTs, writes an HTML report
#   DEMO=quick make demo a much shorter run of the same
#   make lint            form, names and types of the sources; silent when all is well
#   make build           tools in build/bin, `sextant` importable in build/venv
#   make bench           ratios against PyTorch, table and JSON
#   make gpu-kit         packs what a machine with a GPU needs, in build/gpu-kit; there
#                        make gpu-check and make gpu-bench run it (no set-up, no build)
#   make mutants         breaks one line at a time: which test sees it (test/mutants.md)
#   make docs            op and pass reference in build/docs
#   make format          clang-format over the tree

BUILD  := build
PYTHON := $(BUILD)/venv/bin/python

.PHONY: setup configure build test lint demo bench gpu-kit gpu-check gpu-bench mutants docs format clean

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

# The GPU for which kernels are compiled (cuda:sm_80, cuda:sm_86 or cuda:sm_90a), and the Python
# of the machine that has it. The environment may say both, as it may say flags.
GPU ?= cuda:sm_90a
GPU_PYTHON ?= python3

gpu-kit: build
	@$(PYTHON) test/gpu/kit.py --target $(GPU) --output $(BUILD)/gpu-kit

# The kit comes from another machine.
KIT = @test -e $(BUILD)/gpu-kit/check.py || \
  { echo "$(BUILD)/gpu-kit is missing: 'make gpu-kit' where Sextant is built makes it" >&2; exit 1; }

gpu-check:
	$(KIT)
	@$(GPU_PYTHON) $(BUILD)/gpu-kit/check.py --sanitize $(CHECK_FLAGS)

gpu-bench:
	$(KIT)
	@$(GPU_PYTHON) $(BUILD)/gpu-kit/gpu_bench.py --output tools/bench/results $(BENCH_FLAGS)

mutants: build
	@$(PYTHON) test/mutants.py --build $(BUILD) --write

docs: configure
	@cmake --build $(BUILD) --target docs

format: setup
	@git ls-files '*.cpp' '*.h' | xargs clang-format-22 -i

clean:
	rm -rf $(BUILD)
