# The only list of commands. `make demo`, `make test`, `make check` and `make serve` set everything up themselves.
PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin
PIP := $(RUN)/python -m pip install --quiet -c constraints.txt
STUBS := service/rpc/pb clients/python/src/syntaxd_client/pb

.DEFAULT_GOAL := help
.PHONY: help setup bench-setup model stubs stubs-check configuration fmt lint types imports proto test cov check demo serve bench-mask bench-suite bench-generate check-generations

help:                      ## list the commands
	@grep -E '^[a-z-]+:.*##' Makefile | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(VENV)/.dev: pyproject.toml clients/python/pyproject.toml constraints.txt
	test -x $(RUN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) -e '.[dev]' -e clients/python
	touch $@

$(VENV)/.bench: $(VENV)/.dev
	$(PIP) -e '.[dev,bench]'
	touch $@

setup: $(VENV)/.dev        ## virtual environment with everything but the engines we compare with
bench-setup: $(VENV)/.bench ## ... and those too

model: setup               ## fetch and convert the default model (once; kept in the cache folder)
	$(RUN)/syntaxd models fetch

demo: setup                ## real calls to a real server with the default model
	$(RUN)/python -m tools.demo

serve: setup               ## the server in the foreground
	$(RUN)/syntaxd serve

test: model                ## every test
	$(RUN)/python -m pytest

check: lint types imports proto stubs-check ## all that can be checked without running

fmt: setup                 ## format Python and proto
	$(RUN)/ruff check --fix-only --quiet . && $(RUN)/ruff format .
	$(RUN)/buf format -w proto

lint: setup                ## ruff
	$(RUN)/ruff check . && $(RUN)/ruff format --check .

types: setup               ## mypy --strict
	$(RUN)/mypy

imports: setup             ## direction of imports
	$(RUN)/lint-imports

proto: setup               ## the contract: style, comments, nothing broken since the last release
	$(RUN)/buf lint proto && $(RUN)/buf format -d --exit-code proto
	$(RUN)/buf breaking proto --against proto/released.binpb

stubs: setup               ## regenerate the service's and the Python client's pb/ from proto/
	$(RUN)/python -m tools.stubs

stubs-check: stubs         ## ... and nothing may change
	git diff --exit-code -- $(STUBS) && test -z "$$(git ls-files --others --exclude-standard $(STUBS))"

configuration: setup       ## rewrite docs/configuration.md from the flags
	$(RUN)/python -m tools.configuration

cov: model                 ## coverage, kernels run as Python
	NUMBA_DISABLE_JIT=1 $(RUN)/python -m pytest --cov --cov-report=term-missing:skip-covered tests/grammar tests/service

bench-mask: bench-setup    ## masks against llguidance and xgrammar on MaskBench's schemas
	$(RUN)/python -m benchmarks.bench_maskbench --data ../shared/data/maskbench.jsonl.xz --sample 600 --engines syntaxd,llguidance,xgrammar --order any,schema --vocabulary smollm2,qwen --record maskbench.json --plot maskbench.png

bench-generate: bench-setup model ## valid answers a second, against transformers.generate with xgrammar
	$(RUN)/python -m benchmarks.bench_generate

bench-suite: setup         ## verdicts on the official JSON Schema test suite
	$(RUN)/python -m benchmarks.bench_suite

check-generations: model   ## 200 answers of the real model, each judged
	$(RUN)/python -m benchmarks.check_generations --data ../shared/data/maskbench.jsonl.xz
