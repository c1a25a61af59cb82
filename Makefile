# The targets to build, run and test this tree; `make help` lists them.
#
# A list of commands, not a build system: cargo and rebar3 decide what is stale.
# If the host has no Erlang, tools/toolchain unpacks one under .toolchain/.

export PATH := $(CURDIR)/.toolchain/bin:$(PATH)
# rebar3 writes colours even if its output is not a terminal.
ifeq ($(MAKE_TERMOUT),)
export TERM := dumb
endif

CARGO = cargo
NATIVE = --manifest-path native/Cargo.toml
FUZZ_SECONDS = 60
ROUNDS = 200
CUTS = 300
FAULTS = 1000
MINUTES = 60
# Clients wait more than they compute. Each process has servers of its own.
IN_PROCESSES = -n 3 --dist loadfile

.DEFAULT_GOAL := help
.PHONY: help run cluster build release clean distclean toolchain deps native \
	test test-native test-erlang test-clients test-hostile test-durable test-faults \
	fuzz-smoke fuzz loom sanitize docs faults cluster-clients client-recipes soak test-bench check lint lint-native lint-erlang tidy circles bench bench-quick report \
	disk-space

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | \
		column -t -s '|' 2> /dev/null || \
		sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1  \2/p' Makefile

run: build ## build everything and serve on loopback, in the foreground
	@exec bin/todana start

cluster: build ## three nodes of a cluster on this host, until Ctrl-C
	@exec tools/cluster

build: toolchain ## build the native engine and the Erlang application
	@rebar3 compile

release: build ## a self-contained tarball, Erlang included
	@tools/release

# Servers under test wait more than they compute, and compilers do not wait.
test: ## all checks and tests
	@tools/disk-space
	@tools/toolchain
	@tools/deps
	@tools/python -c ''
	@tools/side-by-side _build/test-crates.log \
		"$(MAKE) --no-print-directory test-erlang test-clients test-hostile test-durable test-faults" \
		"$(MAKE) --no-print-directory lint-native tidy circles test-native fuzz-smoke lint-erlang test-bench"

# The NIF crate links only inside the VM; test-erlang tests it.
test-native: ## the Rust crates' tests
	@$(CARGO) test --locked $(NATIVE) --workspace --exclude todana_nif

test-erlang: build ## EUnit and Common Test, with PropEr
	@rebar3 eunit
	@rebar3 ct

test-clients: build deps ## real Redis and memcached clients against a server
	@tools/python -m pytest test/clients $(IN_PROCESSES)
	@tools/python -m pytest test/clients --durable $(IN_PROCESSES)

test-hostile: build deps ## broken, slow and greedy clients against a server
	@tools/python -m pytest test/hostile

test-durable: build deps ## kill -9 and power cuts at random moments, in short
	@tools/python -m pytest test/durable --rounds 20 --cuts 20

test-faults: build deps ## nodes and a guest, killed, frozen and cut off, in short
	@tools/python -m pytest test/faults

test-bench: build deps ## the benchmarks' report, and tiny benchmark runs
	@tools/python -m pytest test/bench

faults: build deps ## one node's and a cluster's: SEED, ROUNDS, CUTS, FAULTS
	@tools/python -m pytest test/durable -m "not soak" -s \
		--rounds $(ROUNDS) --cuts $(CUTS) $(if $(SEED),--seed $(SEED)) \
		--results _build/faults/figures.jsonl
	@tools/python -m pytest test/faults -m faults -s $(if $(SEED),--seed $(SEED))
	@tools/python test/faults/campaign.py --faults $(FAULTS) $(if $(SEED),--seed $(SEED)) \
		--results _build/faults/cluster.jsonl

cluster-clients: build ## clients of Redis Cluster in Go, Node.js and Java: SEED
	@tools/python test/clusters/drive.py $(if $(SEED),--seed $(SEED)) \
		--results _build/clusters/results.jsonl

client-recipes: build ## locks, rate limiters and caches of clients' libraries
	@tools/python test/clusters/recipes.py \
		--results _build/clusters/recipes.jsonl

soak: build deps ## a mixed load on a durable node for MINUTES (60)
	@tools/python -m pytest test/durable -m soak -s --minutes $(MINUTES) \
		--results _build/faults/figures.jsonl

fuzz-smoke: ## run each fuzz target on its seeds and on fixed mutations
	@$(CARGO) run --quiet --release --locked \
		--manifest-path native/fuzz/Cargo.toml --bin smoke

fuzz: ## fuzz every target for FUZZ_SECONDS (60), guided by coverage
	@tools/fuzz $(FUZZ_SECONDS)

loom: ## check the lock of the table's shards with loom
	@tools/loom

sanitize: ## the table's tests under ThreadSanitizer and AddressSanitizer
	@tools/sanitize

check: lint tidy circles ## the linters and the checks of style

lint: lint-native lint-erlang ## the linters of both languages

lint-native: ## clippy and rustfmt
	@tools/rust-component clippy rustfmt
	@$(CARGO) fmt --check $(NATIVE) --all
	@$(CARGO) clippy --locked $(NATIVE) --workspace --all-targets -- -D warnings
	@$(CARGO) metadata --locked --format-version 1 --manifest-path native/fuzz/Cargo.toml > /dev/null
	@$(CARGO) metadata --locked --format-version 1 --manifest-path native/loom/Cargo.toml > /dev/null

lint-erlang: build ## xref and Dialyzer
	@rebar3 xref
	@rebar3 dialyzer

tidy: ## line lengths, names, stray addresses, plain English, links of pages
	@tools/tidy

circles: ## circles between the files of a crate, and between the Erlang modules
	@tools/circles

bench: build deps ## measure against the alternatives; EXPERIMENT=stalls or e1 to e5
	@bench/run $(if $(EXPERIMENT),--only $(EXPERIMENT))

bench-quick: build deps ## the five published experiments, in a few minutes
	@bench/run --quick --experiments

report: deps ## write the pages of raw results, without measuring
	@bench/experiments --docs docs/measured --readme README.md
	@bench/report --readme README.md

docs: build ## write the pages that are generated from tables in the code
	@TODANA_WRITE_DOCS=1 $(CARGO) test --quiet --locked $(NATIVE) \
		-p todana_resp -p todana_memcached -p todana_kyoto --lib written
	@bin/todana config reference > _build/configuration.md
	@mv _build/configuration.md docs/configuration.md

toolchain: ## download Erlang/OTP and rebar3 if the host has none
	@tools/toolchain

deps: ## install the Debian packages the tests need, if missing
	@tools/deps

disk-space: ## whether the disk has room for the tests
	@tools/disk-space

native: ## build the native engine only
	@tools/native

clean: ## remove the build results
	rm -rf _build priv native/target native/fuzz/target native/loom/target

distclean: clean ## also remove the toolchain, the Python environment, fuzz corpora
	rm -rf .toolchain .venv native/fuzz/corpus native/fuzz/artifacts
