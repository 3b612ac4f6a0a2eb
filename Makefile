# Two commands do everything, each sets up what it needs:
#   make demo   run the demonstration and write its report
#   make test   run every test
# and a third goes on from the first: its model reads on, in Danish or English, and is compared:
#   make demo-compare

VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/installed

.PHONY: demo demo-compare example test lint clean

demo: $(INSTALLED)
	@echo "The first run trains the demonstration's model and takes some minutes; later ones use it again."
	$(BIN)/propme run params/demo.yaml

# One thread a run: models this small lose more by sharing than they gain.
demo-compare: $(INSTALLED)
	@echo "Trains and asks 7 checkpoints, two at a time; what is there already is not made again."
	$(BIN)/python -m propme.demo.continued outputs/cache/continued
	OMP_NUM_THREADS=1 $(BIN)/propme run params/demo-continued.yaml params/demo-continued-second.yaml --jobs 2
	$(BIN)/propme compare params/compare-demo.yaml
	$(BIN)/propme compare params/compare-demo-second.yaml

# The report that is committed, of the demonstration in small; figures are in its report already.
example: $(INSTALLED)
	$(BIN)/propme run params/example.yaml --force
	rm -rf docs/example-report/figures docs/example-report/parts

test: $(INSTALLED)
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(INSTALLED)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf $(VENV)

# The stamp is written last: an interrupted installation is gone on with by the next call.
$(INSTALLED): pyproject.toml constraints.txt Makefile
	@if [ ! -x $(BIN)/python ]; then \
	  for python in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
	    $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	      2>/dev/null && found=$$python && break; \
	  done; \
	  if [ -z "$$found" ]; then \
	    echo "PropMe needs Python 3.11 or later, and none was found. Install one (for example"; \
	    echo "'apt install python3.11-venv', 'brew install python@3.12', or 'uv python install 3.12')"; \
	    echo "and name it: make PYTHON=/path/to/python3.12 ..."; exit 1; \
	  fi; \
	  echo "Making $(VENV) with $$($$found --version)"; \
	  $$found -m venv $(VENV) || { rm -rf $(VENV); \
	    echo "This Python has no venv module; on Debian: apt install python3-venv"; exit 1; }; \
	fi
	@echo "Installing packages into $(VENV): once, some minutes (on Linux torch may bring several GB)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[demo,notebook,test]'
	@touch $(INSTALLED)
