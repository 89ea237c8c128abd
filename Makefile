# make serve    set everything up and serve speech; on the CPU unless there is an NVIDIA GPU
# make test     run the tests
# make docs     build the documentation into build/site

PYTHON  ?= python3
# torch, onnx, or empty: torch where an NVIDIA driver answers, else onnx, which is faster on a CPU and much smaller.
BACKEND ?=
# Languages whose dictionaries are large, to install beside the others: of ja, zh and zh-1-1 (for Kokoro v1.1-zh).
LANGUAGES ?=
VENV    := .venv
BIN     := $(VENV)/bin
PIP     := $(BIN)/python -m pip --disable-pip-version-check
TORCH   := torch==2.13.0
ENGINE   = $(or $(BACKEND),$(shell nvidia-smi -L >/dev/null 2>&1 && echo torch || echo onnx))
FAST    := not asr and not slow and not browser and not npm and not hosts and not clients and not dashboards and not cluster

ifneq ($(filter-out torch onnx,$(BACKEND)),)
$(error BACKEND=$(BACKEND): must be torch or onnx)
endif

ifneq ($(filter-out ja zh zh-1-1,$(LANGUAGES)),)
$(error LANGUAGES=$(LANGUAGES): must be of ja, zh and zh-1-1)
endif

.PHONY: serve test test-backends test-asr test-browser test-npm test-hosts test-clients test-dashboards test-cluster test-slow test-faults test-soak test-chaos lint types audit bench docs release-check screenshots clean

serve: $(VENV)/.$(ENGINE) $(LANGUAGES:%=$(VENV)/.%)
	$(if $(BACKEND),KOKORO_BACKEND=$(BACKEND) )$(BIN)/kokoro-server serve

# In two processes: most tests wait for a server, which leaves a core to others. Threads of torch that wait for each other
# do so without spinning, for the same reason.
test: $(VENV)/.dev
	$(BIN)/kokoro-server assets build
	OMP_WAIT_POLICY=passive $(BIN)/python -m pytest -m "$(FAST)" --durations 15 -n 2 -p tests.side_by_side

# Everything twice, the servers that tests start included.
test-backends: $(VENV)/.dev
	$(BIN)/kokoro-server assets build
	TEST_BACKEND=torch $(BIN)/python -m pytest -m "$(FAST)"
	TEST_BACKEND=onnx $(BIN)/python -m pytest -m "$(FAST)"

test-asr: $(VENV)/.asr
	$(BIN)/kokoro-server assets fetch
	$(BIN)/python -m pytest -m asr

test-browser: $(VENV)/.dev
	$(BIN)/python -m pytest -m browser

test-npm: $(VENV)/.dev
	$(BIN)/python -m pytest -m npm

# Programs that people use, from npm's and Python's registries, in places of their own.
test-hosts: $(VENV)/.dev $(VENV)/.hosts build/hosts/.installed
	$(BIN)/python -m pytest -m hosts tests/hosts

# Other services' own packages, in an environment of their own.
test-clients: $(VENV)/.dev $(VENV)/.clients
	$(BIN)/kokoro-server assets fetch
	SERVER_PYTHON=$(CURDIR)/$(BIN)/python $(VENV)/clients/bin/python -m pytest -m clients -W default \
		--confcutdir tests/clients tests/clients

# The dashboard and the alerts of deploy/, with a real Prometheus: the machine's, or one that apt fetches.
test-dashboards: $(VENV)/.dev
	$(BIN)/python -m pytest -m dashboards

# Ray Serve with two replicas on this machine, and the endpoints through it. Ray is in an environment of its own, which
# also runs the tests that import it.
test-cluster: $(VENV)/.dev $(VENV)/.cluster
	$(BIN)/kokoro-server assets build
	$(VENV)/cluster/bin/python -m pytest -m cluster -W default --disable-warnings \
		--confcutdir tests/cluster tests/cluster
	TEST_CLUSTER=1 SERVER_PYTHON=$(CURDIR)/$(VENV)/cluster/bin/python $(BIN)/python -m pytest \
		-m "real and not slow and not asr" tests/e2e/test_speech.py tests/e2e/test_openai.py

test-slow: $(VENV)/.dev
	$(BIN)/kokoro-server assets fetch
	$(BIN)/python -m pytest -m slow

# The fault matrix at its full size, for both forms of the server, and its tables.
test-faults: $(VENV)/.dev
	rm -f faults.jsonl
	FAULT_RESULTS=faults.jsonl FAULT_REQUESTS=5000 FAULT_IDLE=500 $(BIN)/python -m pytest tests/faults
	SERVER_PROCESSES=2 FAULT_RESULTS=faults.jsonl FAULT_REQUESTS=5000 FAULT_IDLE=500 $(BIN)/python -m pytest tests/faults
	$(BIN)/python -m tests.faults.results faults.jsonl > tests/faults/RESULTS.md

# Every endpoint, protocol and format at random for an hour, with the real model.
test-soak: $(VENV)/.dev
	$(BIN)/kokoro-server assets fetch
	$(BIN)/python -m tests.soak --minutes 60 --model real

# The same while processes are killed, stopped and starved at random, for both forms of the server.
test-chaos: $(VENV)/.dev
	$(BIN)/python -m tests.chaos --minutes 10 --processes 2
	$(BIN)/python -m tests.chaos --minutes 10 --processes 1

# The documentation, as a site that can be read from its folder. A broken link or anchor fails.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(VENV)/docs/bin/mkdocs build --strict
	@echo "built: build/site/index.html"

# The pictures of the documentation, of a server with the real model. tests/browser compares them with the page.
screenshots: $(VENV)/.dev
	$(BIN)/kokoro-server assets build
	$(BIN)/python -m tests.browser.screenshots docs/assets

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.dev
	$(BIN)/mypy

# Known vulnerabilities of the installed packages, looked up on pypi.org.
audit: $(VENV)/.dev
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip --disable-pip-version-check install -q pip-audit
	$(PIP) freeze --exclude-editable > $(VENV)/audit/packages.txt
	$(VENV)/audit/bin/pip-audit --strict --no-deps --disable-pip -r $(VENV)/audit/packages.txt

# The wheel and the sdist as they are released, into dist/: each is installed in a fresh environment, serves and speaks.
# TAG: the tag of the release, which must be that of the version.
release-check: $(VENV)/.made
	$(PYTHON) -m venv $(VENV)/release
	$(VENV)/release/bin/python -m pip --disable-pip-version-check install -q build==1.6.1 check-jsonschema==0.39.0
	$(VENV)/release/bin/python -m tests.release_check $(if $(TAG),--tag "$(TAG)")

bench: $(VENV)/.dev
	$(BIN)/kokoro-server assets fetch
	$(BIN)/python -m benchmarks.engine_bench
	$(BIN)/python -m benchmarks.queue_bench
	$(BIN)/python -m benchmarks.stream_bench

clean:
	rm -rf $(VENV) .import_linter_cache .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info

# Each stamp is written last, so an interrupted step is simply done again; pip keeps what it has downloaded.
$(VENV)/.made: Makefile
	@$(PYTHON) -c 'import sys; sys.exit("Kokoro Server needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; try: make PYTHON=python3.12 " if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# kokoro and misaki run on every Python this server runs on but declare a narrower range. --no-compile: the first start
# compiles what it imports, a fifth of what is installed.
$(VENV)/.onnx: $(VENV)/.made pyproject.toml constraints.txt requirements-cpu.txt
	$(PIP) install --no-deps --no-compile --ignore-requires-python -c constraints.txt -r requirements-cpu.txt -e .
	@touch $@

# torch comes first: a looser requirement of another package would bring some other build of it.
$(VENV)/.torch: $(VENV)/.made pyproject.toml constraints.txt
	$(PIP) install $(TORCH)
	$(PIP) install --no-deps --ignore-requires-python -c constraints.txt kokoro misaki
	$(PIP) install -c constraints.txt -e '.[torch]'
	@touch $@

$(VENV)/.ja $(VENV)/.zh $(VENV)/.zh-1-1: $(VENV)/.$(ENGINE)
	$(PIP) install -c constraints.txt 'kokoro-server[$(@:$(VENV)/.%=%)]'
	@touch $@

$(VENV)/.dev: $(VENV)/.torch
	$(PIP) install -c constraints.txt -e '.[torch,ja,zh,dev]'
	@touch $@

$(VENV)/.clients: $(VENV)/.made tests/clients/requirements.txt
	$(PYTHON) -m venv $(VENV)/clients
	$(VENV)/clients/bin/python -m pip --disable-pip-version-check install -r tests/clients/requirements.txt
	@touch $@

$(VENV)/.hosts: $(VENV)/.made tests/hosts/requirements.txt tests/hosts/litellm.txt
	$(PYTHON) -m venv $(VENV)/hosts
	$(PYTHON) -m venv $(VENV)/litellm
	$(VENV)/hosts/bin/python -m pip --disable-pip-version-check install -r tests/hosts/requirements.txt
	$(VENV)/litellm/bin/python -m pip --disable-pip-version-check install -r tests/hosts/litellm.txt
	@touch $@

build/hosts/.installed: tests/hosts/package.json
	mkdir -p build/hosts
	cp tests/hosts/package.json build/hosts
	npm install --prefix build/hosts --ignore-scripts --no-audit --no-fund
	@touch $@

$(VENV)/.docs: $(VENV)/.made docs/requirements.txt
	$(PYTHON) -m venv $(VENV)/docs
	$(VENV)/docs/bin/python -m pip --disable-pip-version-check install -q --no-deps -r docs/requirements.txt
	@touch $@

$(VENV)/.cluster: $(VENV)/.made pyproject.toml constraints.txt requirements-cpu.txt deploy/docker/cluster.txt
	$(PYTHON) -m venv $(VENV)/cluster
	$(VENV)/cluster/bin/python -m pip --disable-pip-version-check install --no-deps --ignore-requires-python \
		-c constraints.txt -r requirements-cpu.txt -r deploy/docker/cluster.txt -e .
	$(VENV)/cluster/bin/python -m pip --disable-pip-version-check install -c constraints.txt \
		pytest pytest-asyncio pytest-timeout
	@touch $@

$(VENV)/.asr: $(VENV)/.dev
	$(PIP) install -c constraints.txt -e '.[torch,ja,zh,dev,asr]'
	@touch $@
