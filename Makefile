# The targets need only Go unless they say otherwise. "make" lists them.

BIN := $(CURDIR)/.bin

# Packages whose goroutines share Go memory: all of these folders but those that start no goroutine, and the house's
# checks. The race detector does not see races in mapped memory. For the protocols on mapped memory, symheap/layout has
# the arguments, and there are stress tests.
RACE_IN := ./internal/... ./detector/... ./pmix/... ./symheap/... ./rma/... ./transport/... ./coll/... ./shmem/... ./mpi/... ./interop/...
SERIAL := internal/(house/.*|agent/(express|record|stream|teams)|weave(/.*)?|lab/(agreebench|fabench|ftcobench|measure|plot|sample|ulfmbench)|daemon/life|control/session|courier|daemon/pulse|fence|envvar(/gen)?|netif|plan|version|wire)
SERIAL := ($(SERIAL)|pmix/(codec|kvs)|symheap(/alloc|/layout)?|transport/(faulty|sim)|mpi/(match|sched|group)|detector/(bmg|packet|ring|view)|coll/(agree|board|ftco|span|tree)|interop)
# Tests of shmem that compare orders of accesses to mapped memory, by PEs of one goroutine each.
MAPPED := ^Test(Litmus|LockExcludes$$|ElementsAreSeenWhole$$|OneSidedSerial$$)
# Packages whose tests keep all processors busy. Each runs alone: beside another one they take as long together, and what
# they start waits twice as long for a processor.
BUSY := internal/cli shmem mpi
RACE = $(shell go list $(RACE_IN) | grep -vE '/($(SERIAL)|internal/cli|shmem|mpi)$$')
# Tests of oshrun that run what others run as well, in another setting or more often: hosts, networks, programs, options
# and moments; and experiments. As root all of them run. The others suffice for the race detector, with which a process takes ten times as
# long to start, and for an ordinary user.
AGAIN := Networks|NetworkKills|NetworkSpawnOnFreeHost|DataInterface|ShmemScattered|EmulatedMPISpawnOnHosts|ControlStdioMPI
AGAIN := $(AGAIN)|HealthyDoNotHang|EmulatedNice|EmulatedBinding|EmulatedStrangers|KillsInShells|PanicEndsPE|ExitStatus|RunBody
AGAIN := $(AGAIN)|Tune|CollRadix|Bench(Far|OnEmulatedNodes)|DetectBench(Nodes|Cut)|FarStats|StatsWithAndWithoutNodes
AGAIN := $(AGAIN)|Emulated(AgentsEnd|SpawnsTogether|AddedNodeHearsOfFailure|EndOfNode|Isolation|Services|UnusedAgentKills|Group)
AGAIN := $(AGAIN)|GlobalExit|ShmemOnEmulatedNodes|WatchdogShortOfDescriptors|FarFaultOf(EmptyNode|Starter)|HostsThatDiffer|EarlyKills
AGAIN := $(AGAIN)|EmulatedMany|EmulatedMPI|EmulatedMPISpawn|EmulatedSpawnEnds|EmulatedControl|EmulatedAgentStrangers|SSHCluster|SlurmCluster
AGAIN := $(AGAIN)|FarFaults|FarKillsInCollectives|KillsInMixedPrograms|PollersDoNotHang|StrangerCannotFlood
AGAIN := $(AGAIN)|DetectBench|DetectBench(Hybrid|Traffic)|Noise|NoiseEmulated|NoiseControl|ULFMBench|FABench|FTCOBenchTable1
AGAIN := $(AGAIN)|DetectBenchLosses|Netfault|NodeFaults|Cut(InParts|WithoutMajority|OfWay|OfWayToFrontEnd|ForMoment|WhileFrontEndStops|ByStopOfFrontEnd)
# PEs of a program with the race detector have some 7,000 page faults before main; with huge pages, fewer.
GORACE := atexit_sleep_ms=0 no_huge_pages_for_shadow=0

FUZZ_COUNT ?= 200000

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build oshrun into .bin, one static binary
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./cmd/oshrun

.PHONY: test
test: ## Run all tests
	go test -timeout 30m ./...

.PHONY: race
race: ## Run the tests under the race detector (needs a C compiler)
	CGO_ENABLED=1 GORACE='$(GORACE)' go test -race -short -timeout 30m -p 1 -skip '$(MAPPED)|^Test($(AGAIN))$$' \
		$(addprefix ./,$(BUSY))
	CGO_ENABLED=1 GORACE='$(GORACE)' go test -race -short -timeout 30m $(RACE)

.PHONY: again
again:
	@echo '^Test($(AGAIN))$$'

.PHONY: lint
lint: $(BIN)/golangci-lint ## Check style and habits with the linters of .golangci.yml
	$(BIN)/golangci-lint run ./...

.PHONY: generate
generate: ## Regenerate all generated files
	go generate ./...

.PHONY: bench
bench: ## Run all benchmarks of the packages
	go test -run '^$$' -bench . ./...

.PHONY: bench-check
bench-check: ## Measure the promised figures and compare them with their limits
	go -C bench run ./check

.PHONY: mutants
mutants: ## Make shmem, coll and detector wrong in many ways; a test must find each
	go run ./internal/house/coverage/mutants

STRESS ?= 10m

.PHONY: stress
stress: ## Run random operations of all families for STRESS, then again for STRESS with PEs that die
	go test -run '^TestStress' -timeout 0 ./shmem -stress $(STRESS)

.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZ_COUNT inputs
	FUZZ_COUNT=$(FUZZ_COUNT) .ci/fuzz

.PHONY: clean
clean: ## Remove what the other targets built
	rm -rf $(BIN)

$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	go -C tools build -o $(BIN)/ tool
	@touch $@
