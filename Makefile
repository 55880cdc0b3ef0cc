# Every target makes the environment it needs, in .venv, once.
# Needed on the machine: Python 3.11 or newer, pip and make.

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test test-slow check docs bench clean always
.PHONY: test-browser test-ray test-slurm test-track test-chaos

VENV := .venv
RUN := $(VENV)/bin
ARGS ?=

help:
	@echo "make demo       the first figure of the paper, made on this machine"
	@echo "make test       the tests, on all cores           (make test ARGS='-k gp')"
	@echo "make test-slow  the tests that take minutes"
	@echo "make test-browser, test-ray, test-slurm, test-track: those that need a browser,"
	@echo "                a cluster on this machine, or a tracker; each installs it"
	@echo "make test-chaos kills, full disks, damaged files at random, a quarter of an hour"
	@echo "                (ARGS='--chaos-seed 7 -k gp' repeats, --chaos-scale 0.1 is shorter)"
	@echo "make check      lint, format and types"
	@echo "make docs       the site, into build/docs"
	@echo "make bench      speed of this machine and of the learner on it"
	@echo "make clean      remove .venv, builds and caches; runs/ stays"
	@echo
	@echo "The first call installs into $(VENV); PYTHON=/path/to/python chooses the interpreter."

demo: $(VENV)/.core
	@$(RUN)/driftrl demo $(ARGS)

# One thread a worker: two workers on two cores must not fight for them.
test test-%: export OMP_NUM_THREADS = 1
test test-%: export OPENBLAS_NUM_THREADS = 1

QUICK := not (slow or browser or ray or slurm or track or chaos)
test: $(VENV)/.dev
	@$(RUN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder \
	  -m "$(QUICK)" $(ARGS)

test-slow: $(VENV)/.dev
	@$(RUN)/python -m pytest -m slow --timeout 3600 $(ARGS)

# Debian's browser and Debian's Slurm are installed where they are missing.
test-browser: $(VENV)/.dev
	@command -v chromium >/dev/null || sh tests/install_debian.sh chromium
	@$(RUN)/python -m pytest -m browser --timeout 600 $(ARGS)

test-ray: $(VENV)/.ray
	@$(RUN)/python -m pytest -m ray --timeout 900 $(ARGS)

test-slurm: $(VENV)/.slurm
	@$(RUN)/python -m pytest -m slurm --timeout 1200 $(ARGS)

test-track: $(VENV)/.track
	@$(RUN)/python -m pytest -m track --timeout 300 $(ARGS)

# The seed is printed; the table comes at the end.
test-chaos: $(VENV)/.dev
	@$(RUN)/python -m pytest -n auto tests/chaos $(ARGS)

# All three report before it fails.  The variable stops pyright from asking the network for its newest version.
check: export PYRIGHT_PYTHON_IGNORE_WARNINGS = 1
check: $(VENV)/.dev
	@status=0; \
	$(RUN)/ruff check || status=1; \
	$(RUN)/ruff format --check || status=1; \
	$(RUN)/pyright --pythonpath $(RUN)/python || status=1; \
	exit $$status

docs: $(VENV)/.docs
	@$(RUN)/python -m sphinx --quiet --fail-on-warning --keep-going \
	  --doctree-dir build/doctrees docs build/docs
	@echo "The site is build/docs/index.html"

bench: $(VENV)/.dev
	@$(RUN)/python benchmarks/run.py $(ARGS)

clean:
	@rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis
	@rm -rf $(wildcard $(foreach d,src/* src/*/* tests tests/* benchmarks examples,$(d)/__pycache__))

# ---- the environment ------------------------------------------------------------
# .made: an empty environment of this directory; .core: driftrl in it; .dev: the tools
# too.  A copied or moved directory gets a new environment, for the old one would
# still run the code it was made for.

ifneq ($(shell cat $(VENV)/.made 2>/dev/null),$(CURDIR))
$(VENV)/.made: always
endif

$(VENV)/.made:
	@python="$(PYTHON)"; \
	for candidate in $${python:-python3.11 python3 python3.12 python3.13 python}; do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; \
	  then python=$$candidate; found=yes; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "driftrl needs Python 3.11 or newer; found:" \
	    "$$($${python:-python3} --version 2>/dev/null || echo none)." >&2; \
	  echo "Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; \
	fi; \
	echo "Making $(VENV) with $$($$python --version)"; \
	rm -rf $(VENV); \
	$$python -m venv $(VENV) >/dev/null 2>&1 \
	|| { $$python -m venv --clear --without-pip $(VENV) \
	  && $$python -m pip --python $(RUN)/python install -q pip; } \
	|| { echo "Could not make $(VENV): $$python needs its venv module or pip." >&2; exit 1; }; \
	printf '%s' "$(CURDIR)" > $(VENV)/.made

# Called with what to install.  pip stays silent unless it fails.
install = \
	echo "Installing $(1) into $(VENV) (once, a minute or two)"; \
	$(RUN)/python -m pip install --quiet --disable-pip-version-check --no-input \
	  -c constraints.txt -e '$(1)' > $(VENV)/install.log 2>&1 \
	|| { tail -n 20 $(VENV)/install.log >&2; \
	  echo "Installing failed; the whole log is $(VENV)/install.log." >&2; exit 1; }

$(VENV)/.core: pyproject.toml constraints.txt $(VENV)/.made
	@$(call install,.)
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt $(VENV)/.made
	@$(call install,.[dev])
	@touch $(VENV)/.core $@

$(VENV)/.docs: $(VENV)/.core
	@$(call install,.[docs])
	@touch $@

$(VENV)/.ray $(VENV)/.slurm $(VENV)/.track: $(VENV)/.dev
	@$(call install,.[$(@F:.%=%)])
	@touch $@
