# Targets: test test-all mutants check tracing ui cross sim races scale conform crash crash-http faults outage overload silent soak fuzz calendar ticks bench othersqlite postgres-versions freeze-migrations release release-test release-clean release-twice release-chart docs

SHELL := /bin/bash
FUZZTIME ?= 30s
FIRST ?= 1
SEEDS ?= 1000
ROUNDS ?= 20
RACES ?= 20000
CYCLES ?= 50
JOBS ?= 20000
STORE ?= sqlite
ONLY ?= .
SOAK ?= 10m
OVERLOAD ?= 30s
MUTANTS ?= 3
TESTFLAGS ?=
POSTGRES ?= 13,14,15,16,17,18
FLAGS ?=
BROKERS := -tags brokers
# Between them they have the files of another system and of another processor, which is what may not compile.
PLATFORMS := darwin/arm64 windows/amd64

# SQLite is C translated to Go. The race detector makes it 33 times slower and finds nothing of ours in it, so it goes without.
RACEFLAGS := -race -gcflags='modernc.org/...=-race=false'

.PHONY: test test-all mutants check tracing ui vet demo-brokers test-brokers benchmodules outside staticcheck format generated cross sim races scale conform crash crash-http faults outage overload silent soak fuzz calendar ticks bench othersqlite postgres-versions freeze-migrations release release-test release-clean release-twice release-chart docs

# The packages that make test runs a second time, with the race detector: the client, the limiter of connections, the engine without a database,
# and the worker over a store in memory. Their concurrency is their own. The walks over the rules have one goroutine.
RACED := ./worker . ./internal/connlimit ./internal/sqldb ./internal/sqlstore
RACE := go build -race -o /dev/null runtime/cgo 2>/dev/null

# test is for every machine: it needs Go and nothing else, and takes at most 600 s of processor time with an empty build cache. -short leaves out PostgreSQL,
# RabbitMQ, Python, Node.js, the killing of brokers, the overload, the soak, the table of faults and most seeds, whatever is installed. Measured: 500 s, of
# which 230 s compile everything once, and 100 s compile the five packages and SQLite again for the race detector. For all packages that does not fit.
test:
	go test -short -vet=off -timeout 20m $(TESTFLAGS) ./cmd/sojourn ./store/sqlite ./...
	@if $(RACE); then \
		echo 'race detector: on for $(RACED), and for all in make test-all'; set -x; \
		go test -short -vet=off -timeout 20m $(RACEFLAGS) -skip '^TestWalk' $(TESTFLAGS) $(RACED); \
	else \
		echo 'race detector: OFF (it needs a C compiler and cgo)'; \
	fi

# Tests that run one call at a time, or that repeat over another transport what runs with the race detector. It finds nothing in them and makes them two to
# ten times slower, so they run without it, and the simulation runs a few seeds with it and the rest without. TestSojournWork starts the command a hundred times,
# and the walks over the rules have one goroutine.
# The conformance suite runs without the detector over a file of SQLite and over PostgreSQL, once more with the optimisations off and with caches that are often
# wrong, and every third case also with it; the tests of httpapi/server and of the command cover the server.
NORACE := TestTwins|TestConformanceOfTwo|TestConformanceWithout|TestConformancePoisoned|TestConformanceMemory|TestConformanceSQLite|TestConformancePostgres|TestScriptsOverHTTP|TestSojournWork.*|TestQuickstartWithBash|TestWalk.*
SLOW := ./store/postgres ./httpapi ./store/sqlite

# test-all runs every test. Tests that need a program which is not installed are skipped, but fail where CI is true. The slow packages come first, so that none
# of them runs alone at the end. Tests over PostgreSQL wait for it half of the time, hence three packages, and four seeds of the simulation, at a time.
test-all:
	@if $(RACE); then \
		echo 'race detector: on'; set -x; \
		SOJOURN_SIM_SEEDS=5 SOJOURN_SHARE=3 go test -vet=off -p 3 -timeout 40m $(RACEFLAGS) -skip '^($(NORACE))$$' $(TESTFLAGS) $(SLOW) ./... && \
		SOJOURN_SIM_SEEDS=100 go test -vet=off -p 3 -parallel 4 -timeout 40m $(TESTFLAGS) -run '^(TestSimulation|TestConformance|TestConformanceFile|$(NORACE))$$' $(SLOW) ./cmd/sojourn ./rules; \
	else \
		echo 'race detector: OFF (it needs a C compiler and cgo)'; set -x; \
		go test -vet=off -timeout 40m $(TESTFLAGS) $(SLOW) ./...; \
	fi
	$(MAKE) calendar
	$(MAKE) mutants

# Some bugs of the list in internal/tools/mutants, drawn at random: a test must fail for each. It prints the seed; SEED=n draws the same again.
mutants:
	go run -C internal/tools ./mutants -random $(MUTANTS) $(if $(SEED),-seed $(SEED))

check: vet benchmodules tracing outside staticcheck format generated cross

vet:
	go vet ./...

# The module bench is not part of ./... Its tests compare the statements of the raw limit with the store.
benchmodules:
	go -C bench build -o /dev/null . && go -C bench vet ./... && go -C bench test -vet=off ./...

# The module of the tracing: one trace from HTTP to a follow-up job, in a collector of OTLP.
tracing:
	go -C worker/otelsojourn vet ./... && go -C worker/otelsojourn test -vet=off ./...

# A validator and a generator of others, and a real server. The browser has a target of its own.
outside:
	go -C internal/tools vet ./... && go -C internal/tools test -vet=off -count=1 -skip '^TestBrowser' ./...

# The web page of a real server in Chromium, and what axe-core of npm finds on it. PICTURES=FOLDER writes a picture of each page there.
ui:
	SOJOURN_PICTURES=$(PICTURES) go -C internal/tools test -vet=off -count=1 -timeout 20m -v -run '^TestBrowser' ./browser

staticcheck:
	"$$(go -C internal/tools tool -n staticcheck)" ./...

format:
	@unformatted="$$(gofmt -s -l .)"; if [ -n "$$unformatted" ]; then echo "run gofmt -s -w on:"; echo "$$unformatted"; exit 1; fi

# What go generate writes is committed, so it must write the same again.
generated:
	@if git grep --untracked -q '^//go:generate ' -- '*.go'; then \
		before="$$(git diff | git hash-object --stdin)"; go generate ./...; \
		if [ "$$before" != "$$(git diff | git hash-object --stdin)" ]; then echo 'go generate changed:'; git diff --stat; exit 1; fi; \
	fi

cross:
	@for p in $(PLATFORMS); do \
		echo "build $$p"; \
		CGO_ENABLED=0 GOOS=$${p%/*} GOARCH=$${p#*/} go build ./... || exit 1; \
	done
	go vet $(BROKERS) ./cmd/sojourn

# The demo with a NATS server and a Kafka broker inside, which the default build leaves out. FLAGS are flags of sojourn demo.
demo-brokers:
	go run $(BROKERS) ./cmd/sojourn demo $(FLAGS)

# What make test runs of the demo without brokers, with them.
test-brokers:
	go test -vet=off -timeout 15m $(TESTFLAGS) $(BROKERS) -run '^(TestDemo.*|TestScripts)$$/^(demo|sqlite|postgres)$$' ./cmd/sojourn

# Random lives of stores in memory, with faults. A failure prints a short list of operations: make sim FIRST=seed SEEDS=1 repeats it.
sim:
	set -o pipefail; SOJOURN_SIM_FIRST=$(FIRST) SOJOURN_SIM_SEEDS=$(SEEDS) \
	go test -vet=off -count=1 -timeout 30m -v -run '^TestSimulation$$' ./store/sqlite | grep -vE '^ *(=== |--- PASS: .*/seeds)'

# Calls about dependencies that meet on eight nodes of PostgreSQL. A failure prints its seed and its calls. make test-all runs 150 rounds.
races:
	CI=true SOJOURN_RACES=$(RACES) go test -vet=off -count=1 -timeout 3h -v -run '^TestRaceDependencies$$' ./store/postgres

# What a member of a chain of 10,000 jobs, a fan of 100,000 and workflows like these costs, compared with one of 100. It fails above 1.5 times.
scale:
	CI=true SOJOURN_DEPS=100000 go test -vet=off -count=1 -timeout 1h -v -run '^TestScaleDependencies$$' ./store/sqlite ./store/postgres

# The conformance suite with other orders and bytes. A failure names its seed: make conform FIRST=seed ROUNDS=1 repeats it.
conform:
	@bin="$$(mktemp -d)"; trap 'rm -rf "$$bin"' EXIT; \
	go test -vet=off -c -o "$$bin/" ./store/sqlite && cd store/sqlite && \
	for seed in $$(seq $(FIRST) $$(($(FIRST) + $(ROUNDS) - 1))); do \
		SOJOURN_SEED=$$seed "$$bin/sqlite.test" -test.run Conformance -test.shuffle=$$seed >"$$bin/out" 2>&1 || { cat "$$bin/out"; echo "seed $$seed FAILED"; exit 1; }; \
		echo "seed $$seed: $$(tail -n 1 "$$bin/out")"; \
	done

crash:
	SOJOURN_CRASH_CYCLES=$(CYCLES) go test -vet=off -count=1 -timeout 60m -v ./internal/crash

# sojourn serve under workers in Go, Python, TypeScript and bash. make test-all kills it three times.
crash-http:
	SOJOURN_CRASH_SERVE_CYCLES=$(CYCLES) go test -vet=off -count=1 -timeout 15m -v -run '^Test(KillServe|FollowerThroughKills)$$' ./internal/crash

# Each fault of sdk/faults.json on each call of the clients in Go, Python and TypeScript. make test-all runs the short ones.
faults:
	SOJOURN_FAULTS=all go test -vet=off -count=1 -timeout 15m -v -run '^TestFaults$$' ./cmd/sojourn

# Brokers and sources that are killed while answers come. make test-all sends 2,000. STORE is sqlite or postgres, ONLY a
# pattern of tests.
outage:
	SOJOURN_OUTAGE_JOBS=$(JOBS) SOJOURN_OUTAGE_STORE=$(STORE) go test -vet=off -count=1 -timeout 15m -v -run '$(ONLY)' ./internal/outage

# Clients that never finish a request beside honest ones, for 30 s each: no honest request fails or takes longer than 1 s.
silent:
	SOJOURN_SILENT_LONG=1 go test -vet=off -count=1 -timeout 20m -v -run 'TestSilent' ./httpapi/server ./source/webhook

# A server that is offered ten times what it can store. make test-all does so for 3 s and judges no times.
overload:
	SOJOURN_OVERLOAD=$(OVERLOAD) go test -vet=off -count=1 -timeout 15m -v ./internal/overload

# A mixed load for a while, and lines fitted to what must stay flat, on SQLite and then on PostgreSQL.
soak:
	SOJOURN_SOAK=$(SOAK) go test -vet=off -count=1 -timeout 3h -run '^TestSoak$$' -v ./internal/crash

# Every clock change of every zone, against windows and ticks that are walked minute by minute. make test-all runs it too, without the race detector.
calendar:
	SOJOURN_CALENDAR=all go test -vet=off -count=1 -timeout 10m -v -run '^TestEveryTransition$$' ./internal/calendar ./internal/cron

# The ticks of five processes around every clock change, on one file of SQLite (five minutes) or on PostgreSQL (STORE=postgres, longer). Some of the processes
# are killed, and their clocks are set. make test-all runs some of the clock changes.
ticks:
	SOJOURN_CALENDAR=all go test -vet=off -count=1 -timeout 90m -v -run '^TestTicksOfProcesses$$' ./store/$(STORE)

fuzz:
	@targets="$$(grep -roE --include='*_test.go' '^func Fuzz\w+' . | sort)"; \
	[ -n "$$targets" ] || { echo 'no test begins with Fuzz'; exit 1; }; \
	while IFS=: read -r file function; do \
		echo "$$file $${function#func }"; \
		go test -vet=off -run '^$$' -fuzz "^$${function#func }\$$" -fuzztime $(FUZZTIME) "$$(dirname "$$file")" </dev/null || exit 1; \
	done <<< "$$targets"

bench:
	go test -vet=off -run '^$$' -bench . -benchmem ./...

# A second copy of SQLite in one process, in C, whose transactions the store must refuse. It needs a C compiler.
othersqlite:
	CGO_ENABLED=1 go -C internal/othersqlite test -count=1 ./...

# The conformance suite against PostgreSQL 13 to 18, whose binaries come from npm. POSTGRES=18 runs one version, RUN=PATTERN fewer tests.
RUN ?= ^TestConformance$$
postgres-versions:
	go run -C internal/tools ./pgversions -versions $(POSTGRES) -run '$(RUN)'

# Writes the checksums of the migrations. A part of a release, after CHANGELOG.md has got the heading of the version.
freeze-migrations:
	go test -vet=off -run '^TestMigrationsAreFrozen$$' ./internal/version -update

# Builds everything that a release consists of into dist/release, and publishes nothing: see docs/contributing.md. RELEASE has flags, such as
# RELEASE='-dirty -platforms linux/amd64'.
RELEASE ?=
release:
	go run -C internal/release . -root ../.. -out ../../dist/release $(RELEASE)

# Writes the documentation as a static site: see docs/guides/install.md.
docs:
	go run ./cmd/sojourn docs --write dist/docs

# Tests of a release: what is packed, then what was installed from dist/test, the release of the working tree for linux/amd64. It needs the
# packages python3-build, python3-wheel and npm. CLEAN=1 also installs the .deb in a clean Debian root, which needs root and debootstrap.
CLEAN ?=
release-test:
	go -C internal/release vet . && go -C internal/release test -vet=off -count=1 -skip '^TestInstalled' .
	go run -C internal/release . -root ../.. -out ../../dist/test -dirty -platforms linux/amd64
	SOJOURN_DIST=$(CURDIR)/dist/test go -C internal/release test -vet=off -count=1 -v -run '^TestInstalled' .
	$(if $(CLEAN),$(MAKE) release-clean)

# Installs the .deb of the commit over that of the working tree in a clean Debian root. It needs root and debootstrap.
release-clean:
	go run -C internal/release . -root ../.. -out ../../dist/old -dirty -platforms linux/amd64 -only packages
	go run -C internal/release . -root ../.. -out ../../dist/new -platforms linux/amd64 -only packages
	internal/release/cleanroot.sh dist/old/*.deb dist/new/*.deb

# Builds two clones of the commit in two folders and compares all files, byte by byte.
release-twice:
	@folder="$$(mktemp -d)"; trap 'rm -rf "$$folder"' EXIT; set -e; \
	for n in a b; do \
		git clone -q . "$$folder/$$n/clone"; \
		go run -C internal/release . -root "$$folder/$$n/clone" -out "$$folder/$$n/dist" -platforms linux/amd64; \
	done; \
	diff -r "$$folder/a/dist" "$$folder/b/dist" && ls -l "$$folder/a/dist" && echo 'two builds are identical'

# The chart, the Dockerfile, the compose file, the dashboard and the alerts, by the libraries of Helm, Kubernetes, BuildKit, Compose and Prometheus. They take minutes to compile.
release-chart:
	go -C internal/release/charttest vet ./... && go -C internal/release/charttest test -vet=off -count=1 ./...
	go -C internal/release/monitoringtest vet ./... && go -C internal/release/monitoringtest test -vet=off -count=1 ./...
