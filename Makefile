# Build, test and check recalld. `make` alone lists the targets.

TAGS        = sqlite_fts5
BIN         = bin/recalld
DEMO        = data/demo
FUZZTIME   ?= 30s
# Further flags for every `go test`, for example GOTESTFLAGS=-v.
GOTESTFLAGS ?=
# Arguments for `make mutation`, for example MUTATION="-run count-reaches".
MUTATION   ?=

# How `make test-arm64` compiles C and runs what it built; Debian's packages are
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user.
ARM64_CC   ?= aarch64-linux-gnu-gcc
ARM64_EXEC ?= qemu-aarch64 -L /usr/aarch64-linux-gnu

export CGO_ENABLED = 1
export GOAMD64 = v2

# Left alone, C compilers fuse products with additions on arm64, and SQLite's
# bm25 then ends in other bits than on amd64.
UNFUSED = -O2 -g -ffp-contract=off
ifeq ($(shell go env GOARCH 2>/dev/null),arm64)
export CGO_CFLAGS = $(UNFUSED)
endif

.DEFAULT_GOAL = help
.PHONY: help run build test test-extended test-arm64 lint bench bench-peers mutation fuzz generate clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

run: build ## build, fill data/demo with the sample corpus, serve until Ctrl-C
	$(BIN) demo --data $(DEMO)

build: ## build bin/recalld
	go build -trimpath -tags $(TAGS) -o $(BIN) ./cmd/recalld

test: ## the tests that need Go, a C compiler and this repository, under 10 minutes
	go test -tags $(TAGS),invariants -timeout 10m $(GOTESTFLAGS) ./...

# The second pass drops the invariant checks and adds the race detector, so the
# production path is covered as well. Lint and mutation have no goroutines that
# the race detector could learn from.
test-extended: ## the long tests of the files tagged `extended`, then everything under the race detector
	@packages=`grep -rlE --include='*_test.go' '^//go:build .*extended' . | sed 's|/[^/]*$$||' | sort -u`; \
	if [ -n "$$packages" ]; then \
		go test -tags $(TAGS),extended -timeout 30m $(GOTESTFLAGS) $$packages; \
	else \
		echo "no file is tagged extended"; \
	fi
	go test -race -tags $(TAGS) -timeout 20m $(GOTESTFLAGS) \
		`go list -tags $(TAGS) ./... | grep -vE '^recalld/(internal/lint|mutation)'`

# Left out are tests that start their own program again, which emulation cannot,
# and those of sqlite that take long and depend on no processor.
ARM64_SKIP = ^Test(RemoteServerIsKilled|BuildingSurvivesKill|KilledWhileSealing|AcknowledgedSurvives.*|Histories|PredicateIsScope|LogIsLimited|LongReaderDoesNotStopTheRest|DeletedBytesAreGone|ChecksFindAndRepair|.*Scanner.*|Codes.*|Scanned.*|ProductsOrderAsVectorsDo)$$

test-arm64: export GOARCH = arm64
test-arm64: export CC = $(ARM64_CC)
test-arm64: export CGO_CFLAGS = $(UNFUSED)
test-arm64: ## build for arm64; test, under emulation, everything that makes a score
	go build -tags $(TAGS) ./...
	go test -tags $(TAGS),invariants -exec "$(ARM64_EXEC)" -timeout 10m $(GOTESTFLAGS) -skip '$(ARM64_SKIP)' \
		./internal/platforms ./memory ./lexical ./embed/... ./ingest ./shards ./sqlite ./front/strictjson \
		./coordinator/fusion ./coordinator/prior ./coordinator/admission ./coordinator/portable ./coordinator/arm ./scanner/kernel

lint: ## gofmt, vet, staticcheck and the project's own rules
	@unformatted=`gofmt -l .`; \
	if [ -n "$$unformatted" ]; then echo "gofmt would change:"; echo "$$unformatted"; exit 1; fi
	go vet -tags $(TAGS) ./...
	go vet -tags $(TAGS),extended ./...
	go tool staticcheck -tags $(TAGS) ./...
	go test -tags $(TAGS) -count=1 $(GOTESTFLAGS) ./internal/lint/...

# LOCOMO names the folder of a dataset that is not part of the repository. Rungs of
# the ladder stay in RUNGS, with their figures and a page of charts.
LADDER ?= 1000,10000
RUNGS  ?= data/rungs

bench: build ## every benchmark of the binary; LOCOMO=DIR adds retrieval quality, LADDER=1000,10000,100000 rungs
	@mkdir -p "$(RUNGS)"; \
	for name in `$(BIN) bench --help | awk '/^Available Commands:/ { on = 1; next } /^$$/ { on = 0 } on { print $$1 }'`; do \
		set --; \
		case "$$name" in \
		quality) \
			if [ -z "$(LOCOMO)" ]; then echo "== quality: left out, give LOCOMO=DIR"; continue; fi; \
			set -- --path "$(LOCOMO)";; \
		ladder) \
			for shape in one zipf tiny neighbour vectors; do \
				echo "== ladder, $$shape"; \
				$(BIN) bench ladder --records "$(LADDER)" --shape "$$shape" --folder "$(RUNGS)" --json > "$(RUNGS)/$$shape.json" || exit 1; \
			done; \
			$(BIN) bench report "$(RUNGS)"/*.json --out "$(RUNGS)/ladder.md" || exit 1; \
			continue;; \
		report|compare|peers) continue;; \
		esac; \
		echo "== $$name"; \
		$(BIN) bench "$$name" "$$@" --json || exit 1; \
	done

# PEERS and REFERENCE name the environments of bench/peers/setup.sh and
# bench/servers/cpersona.sh; a peer that is not installed is skipped by name.
bench-peers: build ## the same searches and recalls through other libraries; PEERS=VENV REFERENCE=VENV
	@$(BIN) bench peers --python "$(if $(PEERS),$(PEERS)/bin/python)" --reference "$(if $(REFERENCE),$(REFERENCE)/bin/python)" \
		--task signs --rows 1000000 --dims 1024 --json
	@$(BIN) bench peers --python "$(if $(PEERS),$(PEERS)/bin/python)" --task records --rows 100000 --dims 384 --json
	@$(BIN) bench peers --reference "$(if $(REFERENCE),$(REFERENCE)/bin/python)" --task recall --rows 1000,10000 --json

mutation: ## apply every mutation of mutation/list; each must turn its test red
	go run ./mutation $(MUTATION)

fuzz: ## every fuzz target for FUZZTIME (30s) each
	@grep -rlE --include='*_test.go' '^func Fuzz' . | sort | while read -r file; do \
		for target in `sed -nE 's/^func (Fuzz[A-Za-z0-9_]*)\(.*/\1/p' "$$file"`; do \
			go test -tags $(TAGS),invariants -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) "`dirname $$file`" || exit 1; \
		done; \
	done

generate: ## regenerate what `go generate` makes
	go generate ./...

clean: ## remove bin (never a data folder)
	rm -rf bin
