# Every target makes its own environment in .venv when there is none. `make` alone lists them.
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
TREE := build/tree/hybrid

help:
	@echo "make demo | docs | notebooks | check-all | test | test-fast | fuzz | test-gpu | bench-gpu | rehearse-gpu | watch-gpu | compile-gpu | bench | lint | types | stubs | wheel"

$(VENV)/.base: setup.cfg pyproject.toml
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { echo "$(PYTHON) cannot make virtual environments: apt install python3-venv, or make PYTHON=another-python"; exit 1; }
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q -e .
	@$(PY) -m compileall -q hybrid codegen kernels
	@touch $@

# what an extra adds to the environment, which has this library already: a package of its name on an index is not ours
ADD = $(PY) -m pip show -q hybridize && $(PY) -m pip install -q

$(VENV)/.dev: $(VENV)/.base
	$(ADD) 'hybridize[dev]'
	@touch $@

$(VENV)/.bench: $(VENV)/.base
	$(ADD) 'hybridize[bench]'
	@touch $@

$(VENV)/.docs: $(VENV)/.base
	$(ADD) 'hybridize[docs]'
	@touch $@

demo: $(VENV)/.base
	$(PY) examples/demo.py

test: $(VENV)/.dev
	HYBRID_VERIFY=1 $(PY) -m pytest -q -n 2 --dist loadfile

# A first look after a change: what is quick and touches every room.
test-fast: $(VENV)/.dev
	HYBRID_VERIFY=1 $(PY) -m pytest -q -n 2 --dist loadfile tests/project/test_layers.py tests/project/test_packaging.py \
	  tests/project/test_readme.py tests/jit/test_hybridize.py tests/jit/test_guards.py tests/gluon/test_gluon.py \
	  tests/jit/test_training_step.py tests/transforms tests/jit/test_number_contracts.py tests/buffers/test_arrays.py \
	  tests/gluon/test_trainer.py

# Random programs, eager against hybridized, from a fresh seed (or SEED); a failure is cut down and printed as a program.
# make fuzz N=5000 tries so many; make fuzz N=5000 KIND=sized those that run at five sizes each, in less time with CHEAP=1.
SECONDS ?= 60
fuzz: $(VENV)/.dev
	HYBRID_VERIFY=1 $(PY) -m tests.fuzz $(if $(N),-n $(N),--seconds $(SECONDS)) $(if $(SEED),--seed $(SEED)) \
	  $(if $(KIND),--kind $(KIND)) $(if $(CHEAP),--cheap)

WORKERS ?= 8
# An environment that has CuPy already; nothing is installed. The tree of links stands for an installed package, by its
# full path because some tests start Python in other folders.
test-gpu: links
	@for m in cupy numpy cffi pytest hypothesis; do $(PYTHON) -c "import $$m" 2>/dev/null \
	  || { echo "$(PYTHON) has no $$m; test-gpu installs nothing: give an environment that has it, make test-gpu PYTHON=path"; exit 1; }; done
	HYBRID_VERIFY=1 HYBRID_DEVICE=gpu PYTHONPATH="$(CURDIR)/build/tree$${PYTHONPATH:+:$$PYTHONPATH}" $(PYTHON) -m pytest -q -p no:cacheprovider \
	  $$($(PYTHON) -c "import xdist" 2>/dev/null && printf '%s' '-n $(WORKERS) --dist loadfile') $(TEST_ARGS)

# Programs and the same in other libraries on the GPU of an environment that has CuPy; nothing is installed.
bench-gpu: links
	@for m in cupy numpy cffi; do $(PYTHON) -c "import $$m" 2>/dev/null \
	  || { echo "$(PYTHON) has no $$m; bench-gpu installs nothing: give an environment that has it, make bench-gpu PYTHON=path"; exit 1; }; done
	PYTHONPATH="$(CURDIR)/build/tree$${PYTHONPATH:+:$$PYTHONPATH}" $(PYTHON) $(GPU_RUN) benchmarks/gpu.py --out build/gpu.md $(BENCH_ARGS)
	PYTHONPATH="$(CURDIR)/build/tree$${PYTHONPATH:+:$$PYTHONPATH}" $(PYTHON) $(GPU_RUN) benchmarks/gpu_peers.py --out build/gpu_peers.md $(BENCH_ARGS)

# The two above where there is no GPU: CuPy's own wheel on our stand-in for the driver, in an environment that is made in
# STAND_IN. Tests are those that need none of CuPy's own kernels, which do not run there; figures are no measurements. What has
# limits of time comes last: a busy machine may exceed them.
STAND_IN ?= build/stand-in
REHEARSED ?= $(wildcard tests/cuda/test_*.py)
rehearse-gpu: $(VENV)/.dev
	$(PY) tests/stand_in/cuda/build.py $(STAND_IN)
	$(MAKE) bench-gpu PYTHON=$(STAND_IN)/python GPU_RUN="-m tests.stand_in.cuda.rehearse" BENCH_ARGS=--quick
	PYTHONPATH=build/tree HYBRID_STAND_IN_DEVICES=2 $(STAND_IN)/python -m tests.stand_in.cuda.check
	$(MAKE) test-gpu PYTHON=$(STAND_IN)/python WORKERS=2 TEST_ARGS="-p tests.stand_in.cuda.rehearse $(REHEARSED)"
	PYTHONPATH=build/tree $(STAND_IN)/python benchmarks/gpu_walls.py

# Every kernel that tests launch, once, in the emulator: races, accesses outside of arrays, banks, sectors, three orders
# of threads with blocks interleaved, and beside it the interpreter of PTX. What was found right is noted in
# build/watched.txt and left out next time while its text is the same; NEW=1 begins again.
RUN_KERNELS ?= $(shell grep -lE "cuda_device|HYBRID_CUDA|run_cuda|EmulatorDriver|fake_cupy" tests/*/test_*.py)
NOTED := HYBRID_TEST_ARCHS=none HYBRID_WATCHED=$(CURDIR)/build/watched.txt
watch-gpu: $(VENV)/.dev
	@mkdir -p build && $(if $(NEW),rm -f build/watched.txt,true)
	HYBRID_VERIFY=1 HYBRID_EMU_WATCH=traffic $(NOTED) $(PY) -m pytest -q -p tests.cuda.watch_summary -p tests.cuda.ptx_beside \
	  -p tests.cuda.watch_each -p tests.cuda.cuda_alone -m "not thorough" $(RUN_KERNELS) $(TEST_ARGS)

# Every kernel of these tests, printed for each kind of GPU and compiled for each architecture; programs are computed by
# the reference meanwhile, nothing is run in the emulator. Whether the tests pass so is not asked. Noted as above.
compile-gpu: $(VENV)/.dev
	@mkdir -p build && rm -f build/kernels.jsonl
	-HYBRID_KERNELS=$(CURDIR)/build/kernels.jsonl $(NOTED) $(PY) -m pytest -q --tb=no -p tests.cuda.kernels_everywhere \
	  -p tests.cuda.cuda_alone -m "not thorough" $(RUN_KERNELS) $(TEST_ARGS)
	$(NOTED) $(PY) -m tests.cuda.kernels_everywhere build/kernels.jsonl

bench: $(VENV)/.bench
	$(PY) benchmarks/bench.py

# The documentation site, into build/site; a warning is an error. NOTEBOOKS=1 runs the tutorials and shows their plots.
docs: $(VENV)/.docs
	HYBRID_NOTEBOOKS=$(NOTEBOOKS) $(PY) -m sphinx -q -W --keep-going -b html -d build/doctrees docs build/site
	@echo "the site is in build/site: open build/site/index.html"

# The tutorials as Jupyter notebooks, into examples/notebooks.
notebooks: $(VENV)/.docs
	$(PY) docs/notebooks.py

# What takes too long for every change: the tutorials run, programs compiled by the compiler that pip brings, thorough
# tests. It ends with a list of what ran and of what was skipped, also in build/check-all/summary.txt.
check-all: $(VENV)/.dev
	$(PY) .ci/check_all.py

lint: $(VENV)/.dev
	$(PY) -m ruff check hybrid codegen kernels tests examples benchmarks

# The stub files for type checkers, from the registry of operators; tests/project/test_typing.py tells stale ones.
stubs: $(VENV)/.dev links
	PYTHONPATH=build/tree $(PY) -m hybrid.stubs

# mypy and plain imports do not know the package_dir mapping, so they read hybrid.codegen and hybrid.kernels from links.
types: $(VENV)/.dev
	$(MAKE) links TREE=build/typecheck/hybrid
	$(PY) -m mypy

links:
	@rm -rf $(TREE) && mkdir -p $(TREE)
	@for f in hybrid/*; do ln -s "$(CURDIR)/$$f" $(TREE)/; done
	@ln -s "$(CURDIR)/codegen" "$(CURDIR)/kernels" $(TREE)/

# Wheel and sdist, the same bytes whenever they are made of a commit: their files have its time.
# build/lib keeps files of earlier builds, which a wheel would take up again.
EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 1700000000)
wheel: $(VENV)/.dev
	rm -rf build/lib build/bdist.* dist
	SOURCE_DATE_EPOCH=$(EPOCH) $(PY) -m build --sdist --wheel --outdir dist .
	SOURCE_DATE_EPOCH=$(EPOCH) $(PY) .ci/same_bytes.py dist/*

.PHONY: check-all docs notebooks stubs help demo test test-fast fuzz test-gpu bench-gpu rehearse-gpu watch-gpu compile-gpu bench lint types links wheel
