# sluice: `make run` serves the quick start, `make test` is what every change must pass.

VERSION  ?= 0.1.0
FUZZTIME ?= 30s
GO       ?= go
SEEDS    ?= 200
DURATION ?= 30s
PARALLEL ?=
# Parts of `make bench`, comma-separated; empty for all.
ONLY     ?=
# Extra flags for every `go test`, for example TESTFLAGS=-v.
TESTFLAGS ?=

# The key of `make run`, unless you have set one of your own.
QUICKSTART_KEY = sk-1234

.DEFAULT_GOAL := help
.PHONY: help build run demo prove test unit e2e nemesis fuzz-smoke fuzz bench lint conformance conformance-go clean

help: ## show what there is to make
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## build bin/sluice, a static binary
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-X main.version=$(VERSION)' -o bin/sluice ./cmd/sluice

run: build ## serve examples/quickstart.toml on 127.0.0.1:4000, data under data/
	@key="$(QUICKSTART_KEY)"; if [ -n "$${SLUICE_MASTER_KEY:-}" ]; then key='$$SLUICE_MASTER_KEY'; fi; \
	printf '\nTry it from another terminal (the third call within a minute is told to wait):\n\n'; \
	printf '  curl http://127.0.0.1:4000/v1/chat/completions -H "Authorization: Bearer %s" -H "Content-Type: application/json" -d '"'%s'"'\n\n' \
	  "$$key" '{"model": "my-fake-model", "messages": [{"role": "user", "content": "Hello world!"}]}'
	@SLUICE_MASTER_KEY="$${SLUICE_MASTER_KEY:-$(QUICKSTART_KEY)}" exec bin/sluice serve --config examples/quickstart.toml

demo: ## play the worked example on three nodes and check its figures
	$(GO) run ./examples/demo

prove: ## three nodes, four times a limit, kill -9 of the leader: count what was served, and time an admission
	$(GO) run ./examples/prove

test: build lint unit e2e fuzz-smoke conformance-go ## everything a change must pass

unit: # every package in random order, under the race detector
	$(GO) test -race -shuffle=on $(TESTFLAGS) $$($(GO) list ./... | grep -v -e '/e2e$$' -e '/nemesis$$')

# Real processes with real elections get the machine for themselves.
e2e: # clusters of real processes
	$(GO) test -race -shuffle=on $(TESTFLAGS) ./examples/e2e
	$(GO) test -race $(TESTFLAGS) ./examples/nemesis

nemesis: ## kill, stop, cut off and disturb clusters for SEEDS=200 × DURATION=30s, PARALLEL=n at a time
	$(GO) run ./examples/nemesis -seeds $(SEEDS) -duration $(DURATION) $(if $(PARALLEL),-parallel $(PARALLEL)) $(NEMESISFLAGS)

bench: ## measure what is promised about speed, side by side in one run; ONLY=ledger,log for a part
	$(GO) run ./examples/bench $(if $(ONLY),-only '$(ONLY)')

lint: ## gofmt, go vet and staticcheck (pinned in .ci/tools)
	@unformatted="$$(gofmt -l .)"; if [ -n "$$unformatted" ]; then echo "gofmt -w these:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) tool -modfile=.ci/tools/go.mod staticcheck ./...

# FUZZ_EACH runs every fuzz target there is, one after the other; $(1) is the
# -fuzztime of each: a duration, or a number of inputs, which no busy machine can spoil.
define FUZZ_EACH
	@set -e; grep -rn --exclude-dir=clients --include='*_test.go' -o '^func Fuzz[A-Za-z0-9_]*' . | sort | \
	while IFS=: read -r file _ func; do \
	  echo "fuzz $${func#func } for $(1) in $$(dirname $$file)"; \
	  out="$$($(GO) test -run '^$$' -fuzz "^$${func#func }$$" -fuzztime $(1) -fuzzminimizetime 100x "$$(dirname $$file)" 2>&1)" \
	    || { echo "$$out"; exit 1; }; \
	done
endef

fuzz: ## run every fuzz target for FUZZTIME (30s) each
	$(call FUZZ_EACH,$(FUZZTIME))

fuzz-smoke: # a moment of every fuzz target
	$(call FUZZ_EACH,1000x)

conformance: ## play every case with the client libraries of Go, Python and Node that this machine can install
	cd examples/clients && $(GO) run ./conformance $(CONFORMANCEFLAGS)

conformance-go: # the same with Go's libraries and a strict reader only; a module of its own
	cd examples/clients && $(GO) vet ./... && $(GO) test -count=1 $(TESTFLAGS) ./...

clean: ## remove what was built or installed, and the quick start's data
	rm -rf bin data examples/clients/.build
