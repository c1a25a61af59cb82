# Everything a person or a machine does with this tree; `make help` lists it.
#
# A table of contents, not a build system: cargo and rebar3 decide what is
# stale. Erlang comes from .toolchain/ where the host has none (tools/toolchain).

export PATH := $(CURDIR)/.toolchain/bin:$(PATH)
# rebar3 writes colours even where nobody sees them.
ifeq ($(MAKE_TERMOUT),)
export TERM := dumb
endif

CARGO = cargo
NATIVE = --manifest-path native/Cargo.toml
FUZZ_SECONDS = 60

.DEFAULT_GOAL := help
.PHONY: help run build release clean distclean toolchain deps native \
	test test-native test-erlang test-clients test-hostile fuzz-smoke fuzz docs \
	test-bench check lint lint-native lint-erlang tidy bench bench-quick report

help: ## list these targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1|\2/p' Makefile | \
		column -t -s '|' 2> /dev/null || \
		sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1  \2/p' Makefile

run: build ## build everything and serve on loopback, in the foreground
	@exec bin/todana start

build: toolchain ## build the native engine and the Erlang application
	@rebar3 compile

release: build ## a self-contained tarball, Erlang included
	@tools/release

test: toolchain deps ## everything that has to pass
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory test-native
	@$(MAKE) --no-print-directory test-erlang
	@$(MAKE) --no-print-directory test-clients
	@$(MAKE) --no-print-directory test-hostile
	@$(MAKE) --no-print-directory test-bench
	@$(MAKE) --no-print-directory fuzz-smoke

# The NIF crate links only inside the VM: test-erlang is its test.
test-native: ## the Rust crates' tests
	@$(CARGO) test --locked $(NATIVE) --workspace --exclude todana_nif

test-erlang: build ## EUnit and Common Test, with PropEr
	@rebar3 eunit
	@rebar3 ct

test-clients: build deps ## real Redis and memcached clients against a server
	@tools/python -m pytest test/clients

test-hostile: build deps ## broken, slow and greedy clients against a server
	@tools/python -m pytest test/hostile

test-bench: build deps ## the benchmarks' report, and tiny runs that make one
	@tools/python -m pytest test/bench

fuzz-smoke: ## every fuzz target over its seeds and a fixed run of mutations
	@$(CARGO) run --quiet --release --locked \
		--manifest-path native/fuzz/Cargo.toml --bin smoke

fuzz: ## fuzz every target for FUZZ_SECONDS (60), guided by coverage
	@tools/fuzz $(FUZZ_SECONDS)

check: lint tidy ## everything a reviewer should not have to look for

lint: lint-native lint-erlang ## the linters of both languages

lint-native: ## clippy and rustfmt
	@tools/rust-component clippy rustfmt
	@$(CARGO) fmt --check $(NATIVE) --all
	@$(CARGO) clippy --locked $(NATIVE) --workspace --all-targets -- -D warnings

lint-erlang: build ## xref and Dialyzer
	@rebar3 xref
	@rebar3 dialyzer

tidy: ## line lengths, names, stray addresses
	@tools/tidy

bench: build deps ## measure against what one would pick instead; EXPERIMENT=stalls or e1 to e5
	@bench/run $(if $(EXPERIMENT),--only $(EXPERIMENT))

bench-quick: build deps ## the five published experiments, in some minutes
	@bench/run --quick --experiments

report: deps ## write the pages of raw results, without measuring
	@bench/experiments --docs docs --readme README.md
	@bench/report

docs: build ## write the pages that come from tables in the code
	@TODANA_WRITE_DOCS=1 $(CARGO) test --quiet --locked $(NATIVE) \
		-p todana_protocol --features testing written
	@bin/todana config reference > docs/configuration.md

toolchain: ## get Erlang/OTP and rebar3 if the host has none
	@tools/toolchain

deps: ## install the Debian packages the tests need, if missing
	@tools/deps

native: ## build the native engine only
	@tools/native

clean: ## remove what was built
	rm -rf _build priv native/target native/fuzz/target

distclean: clean ## and the toolchain, the Python environment, fuzz corpora
	rm -rf .toolchain .venv native/fuzz/corpus native/fuzz/artifacts
