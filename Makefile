# SPDX-License-Identifier: Apache-2.0
#
# kymo, the whole project. `make help` lists the targets; CONTRIBUTING.md says more.
#
# C is built by c_src/Makefile, which rebar3 uses too. Erlang is compiled here
# without rebar3, so that the same sources can be built and tested for several
# runtimes: OUT is the folder that becomes the application, ERL the runtime.

SHELL := /bin/bash
.DEFAULT_GOAL := all

OUT ?= .
ERL ?= erl
ERLC = $(if $(findstring /,$(firstword $(ERL))),$(dir $(firstword $(ERL)))erlc,erlc)
ERLC_OPTS ?= +debug_info +warn_export_vars +warn_obsolete_guard +warn_unused_import +warn_missing_spec +nowarn_behaviours
PREFIX ?= /usr/local
DESTDIR ?=
FUZZ_SECONDS ?= 60

VSN := $(shell sed -n 's/.*{vsn, *"\([^"]*\)"}.*/\1/p' src/kymo.app.src)
SOURCES := $(wildcard src/*.erl)
BEAMS := $(patsubst src/%.erl,$(OUT)/ebin/%.beam,$(SOURCES))
EMPTY :=
SPACE := $(EMPTY) $(EMPTY)
COMMA := ,
MODULES := $(subst $(SPACE),$(COMMA),$(patsubst src/%.erl,%,$(SOURCES)))

.PHONY: all help c erlang test test-full test-all test-quick test-asan demo bench bench-erts lint fuzz clean install tarball deb hex \
  erts erts-stock erts-install erts-deb erts-prune patch-check patch-edit patch-refresh

all: c erlang chunks ## build the NIFs, the kymo command, the Erlang modules and their documentation

help: ## list the targets
	@awk -F' ## |:' '/^[a-z-]+:.* ## / { printf "  make %-14s %s\n", $$1, $$NF }' Makefile

# Does nothing if all packages are installed.
.PHONY: bootstrap-build
bootstrap-build:
	@scripts/bootstrap build

c: bootstrap-build
	@$(MAKE) --no-print-directory -C c_src all PRIV=$(abspath $(OUT))/priv ERL="$(ERL)"

erlang: bootstrap-build
	@$(MAKE) --no-print-directory app

# The example of the tutorial belongs to priv: another OUT gets a copy.
ifneq ($(OUT),.)
EXAMPLE := $(OUT)/priv/example/shop.erl
$(EXAMPLE): priv/example/shop.erl
	@mkdir -p $(@D)
	cp $< $@
endif

# The empty recipe keeps make from printing "Nothing to be done".
.PHONY: app
app: $(OUT)/ebin/kymo.app $(EXAMPLE)
	@:

# One erlc for all of them: starting it takes longer than compiling a module.
HEADERS := $(wildcard src/*.hrl)
changed = $(if $(MISSING)$(filter $(HEADERS),$?),$(SOURCES),$(filter $(SOURCES),$?))
MISSING := $(filter-out $(wildcard $(OUT)/ebin/*.beam),$(BEAMS))
ifneq ($(MISSING),)
.PHONY: $(OUT)/ebin/kymo.app
endif

# Also removes the files of modules that no longer exist.
$(OUT)/ebin/kymo.app: src/kymo.app.src $(SOURCES) $(HEADERS)
	@mkdir -p $(@D)
	@rm -f $(filter-out $(BEAMS),$(wildcard $(OUT)/ebin/*.beam))
	$(if $(changed),$(ERLC) $(ERLC_OPTS) -o $(@D) $(changed))
	sed 's/{modules, *\[\]}/{modules, [$(MODULES)]}/' $< >$@

test: ## every suite on the installed runtime, and the patched one with what tests it (25 minutes, at first 45)
	@scripts/bootstrap build test otp
	@scripts/test test

test-full: ## the same, sanitizers, models, fuzz seeds, aarch64, other runtimes, packages
	@scripts/bootstrap build test otp
	@scripts/test full

test-all: ## the same, the patched OTP 29.1, and both for aarch64
	@scripts/bootstrap build test otp arm64
	@scripts/test all

test-quick: ## the C tests, and the suites of the recorder and the answers (3 minutes)
	@scripts/bootstrap build test
	@scripts/test quick

test-asan: ## the suites of the NIFs under the address sanitizer
	@scripts/bootstrap build test
	@scripts/test asan

demo: ## record a web server under load, explain its slowest request, write a report
	@scripts/bootstrap build demo
	@$(MAKE) --no-print-directory all
	@scripts/demo

bench: ## what tracing costs here, against other tracers, and what reading costs
	@scripts/bootstrap build bench
	@$(MAKE) --no-print-directory all
	@status=0; for b in bench/run bench/native_run bench/reader_run bench/live_run bench/attach_run bench/perfetto_run bench/budget_run; do $$b || status=1; done; exit $$status

bench-erts: ## what the patches gain: stock and patched side by side
	@scripts/bootstrap build bench otp
	@scripts/otp-build stock
	@scripts/otp-build patched
	@status=0; for b in bench/erts/*_run; do \
	  $$b "$$(scripts/otp-build print stock)" "$$(scripts/otp-build print patched)" || status=1; done; exit $$status

lint: ## format, static analysis, warnings, xref, dialyzer
	@scripts/bootstrap build lint
	@scripts/lint

fuzz: ## run the fuzz targets, FUZZ_SECONDS each (60)
	@scripts/bootstrap build fuzz
	@scripts/fuzz $(FUZZ_SECONDS)

# The documentation of the modules for h(kymo) in the Erlang shell and h :kymo in iex. Without
# edoc (erlang-edoc) there is none, and nothing else changes.
EDOC = code:which(edoc) =/= non_existing andalso \
  edoc:files(filelib:wildcard("src/*.erl"), [{doclet, edoc_doclet_chunks}, \
    {layout, edoc_layout_chunks}, {dir, "$(OUT)/doc"}, {preprocess, true}]), halt().
.PHONY: chunks
chunks: bootstrap-build
	@$(MAKE) -s --no-print-directory $(OUT)/ebin/.documented

# A file of its own, as there are no chunks without edoc.
$(OUT)/ebin/.documented: $(SOURCES)
	@rm -rf $(OUT)/doc/chunks; mkdir -p $(OUT)/doc $(@D)
	@$(ERL) -noshell -noinput -eval '$(EDOC)' </dev/null
	@touch $@

# Where zsh looks: vendor-completions is Debian's, for packages below /usr.
ZSH_SITE := $(if $(filter /usr,$(PREFIX)),vendor-completions,site-functions)

install: all ## install application, command, man page and completions into PREFIX (/usr/local)
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/man/man1 \
	  $(DESTDIR)$(PREFIX)/lib/kymo-$(VSN)/ebin $(DESTDIR)$(PREFIX)/lib/kymo-$(VSN)/priv/bin
	install -m 644 $(OUT)/ebin/*.beam $(OUT)/ebin/kymo.app $(DESTDIR)$(PREFIX)/lib/kymo-$(VSN)/ebin/
	install -m 755 $(OUT)/priv/*.so $(DESTDIR)$(PREFIX)/lib/kymo-$(VSN)/priv/
	install -m 755 $(OUT)/priv/bin/kymo $(DESTDIR)$(PREFIX)/lib/kymo-$(VSN)/priv/bin/
	install -D -m 644 priv/example/shop.erl $(DESTDIR)$(PREFIX)/lib/kymo-$(VSN)/priv/example/shop.erl
	ln -sfn ../lib/kymo-$(VSN)/priv/bin/kymo $(DESTDIR)$(PREFIX)/bin/kymo
	! test -d $(OUT)/doc/chunks || { install -d $(DESTDIR)$(PREFIX)/lib/kymo-$(VSN)/doc/chunks && \
	  install -m 644 $(OUT)/doc/chunks/* $(DESTDIR)$(PREFIX)/lib/kymo-$(VSN)/doc/chunks/; }
	install -m 644 doc/kymo.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -D -m 644 scripts/completion/kymo.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/kymo
	install -D -m 644 scripts/completion/_kymo $(DESTDIR)$(PREFIX)/share/zsh/$(ZSH_SITE)/_kymo
	install -D -m 644 scripts/completion/kymo.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/kymo.fish

tarball: ## pack a folder that works wherever it is unpacked, into build/package
	@scripts/bootstrap build
	@scripts/package tarball

deb: ## build a Debian package, into build/package
	@scripts/bootstrap package
	@scripts/package deb

hex: ## build a package in the format of hex.pm, into build/package
	@scripts/bootstrap build
	@scripts/package hex

# BASE=29.1 in all of these, and in bench-erts: the series for that release.
erts-stock: ## build the unpatched runtime that the series is made for (BASE=27.3.4|29.1, OTP_SRC= takes yours)
	@scripts/bootstrap otp
	@scripts/otp-build stock

erts: ## build the patched runtime (BASE=27.3.4|29.1 TYPE=opt|debug|asan FLAVOR=jit|emu OTP_SRC=)
	@scripts/bootstrap otp
	@scripts/otp-build patched

erts-install: ## install the patched runtime into PREFIX (/usr/local)
	@scripts/bootstrap otp
	@scripts/otp-build install "$(PREFIX)" "$(DESTDIR)"

erts-deb: ## build a Debian package of the patched runtime, into build/package
	@scripts/bootstrap package otp
	@scripts/package erts-deb

erts-prune: ## remove cached builds of runtimes other than the present two of each base
	@scripts/otp-build prune

patch-check: ## apply the series, all of them, with git am, export them again, compare
	@scripts/bootstrap otp
	@scripts/otp-patch check

patch-edit: ## make a git checkout of the base with the series on top
	@scripts/bootstrap otp
	@scripts/otp-patch edit

patch-refresh: ## export the series from that checkout
	@scripts/otp-patch refresh

clean: ## remove what was built, but not the cached runtimes
	rm -rf build _build ebin doc/chunks demo-out logs rebar.lock erl_crash.dump
	@$(MAKE) --no-print-directory -C c_src clean
