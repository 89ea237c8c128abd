# make serve    set everything up and serve speech
# make test     run the tests

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check
TORCH  := torch==2.13.0

.PHONY: serve test test-asr test-browser test-npm test-slow lint types bench clean

serve: $(VENV)/.runtime
	$(BIN)/kokoro-server serve

test: $(VENV)/.dev
	$(BIN)/kokoro-server assets fetch
	$(BIN)/python -m pytest -m "not asr and not slow and not browser and not npm" --durations 15

test-asr: $(VENV)/.asr
	$(BIN)/kokoro-server assets fetch
	$(BIN)/python -m pytest -m asr

test-browser: $(VENV)/.dev
	$(BIN)/python -m pytest -m browser

test-npm: $(VENV)/.dev
	$(BIN)/python -m pytest -m npm

test-slow: $(VENV)/.dev
	$(BIN)/kokoro-server assets fetch
	$(BIN)/python -m pytest -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/kokoro-server assets fetch
	$(BIN)/python -m benchmarks.engine_bench
	$(BIN)/python -m benchmarks.queue_bench
	$(BIN)/python -m benchmarks.stream_bench

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info

# Each stamp is written last, so an interrupted step is simply done again; pip keeps what it has downloaded.
# torch comes first: a looser requirement of another package would bring some other build of it.
$(VENV)/.torch: Makefile
	@$(PYTHON) -c 'import sys; sys.exit("Kokoro Server needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12 " if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(PIP) install $(TORCH)
	@touch $@

# kokoro and misaki run on every Python this server runs on but declare a narrower range.
$(VENV)/.runtime: $(VENV)/.torch pyproject.toml constraints.txt
	$(PIP) install --no-deps --ignore-requires-python -c constraints.txt kokoro misaki
	$(PIP) install -c constraints.txt -e '.[g2p]'
	@touch $@

$(VENV)/.dev: $(VENV)/.runtime
	$(PIP) install -c constraints.txt -e '.[g2p,dev]'
	@touch $@

$(VENV)/.asr: $(VENV)/.dev
	$(PIP) install -c constraints.txt -e '.[g2p,dev,asr]'
	@touch $@
