package archtest

// group is a row of the table of packages: the packages, and which packages of this module they may import. A pattern
// is the path of a package relative to the module. If it ends in "/...", it stands for everything below a folder, too.
// "layer x" stands for the packages of all rows of that layer.
type group struct {
	layer    string
	packages []string
	note     string // for docs/architecture.md
	may      []string
	never    []string // takes precedence over may
	pure     bool     // only the pure part of the standard library, no goroutines
}

// table is the source of the table in docs/architecture.md: see TestTableInDocs. It includes packages that are
// planned but do not exist yet. Test files may import what they need.
var table = []group{
	{
		layer: "0",
		packages: []string{
			"coll/tree", "coll/ftco", "coll/agree", "coll/board", "coll/span",
			"detector/ring", "detector/bmg", "detector/view",
			"pmix/codec", "pmix/kvs",
			"symheap/layout", "symheap/alloc",
			"mpi/match",
			"mpi/sched",
			"mpi/group",
			"internal/plan", "internal/group", "internal/ending", "internal/fold", "internal/parity", "internal/daemon/life", "internal/daemon/pulse",
			"internal/wire", "internal/envvar", "internal/invariants",
			"internal/lab/sample", "internal/control/session",
			"internal/agent/express", "internal/agent/record", "internal/agent/stream",
		},
		may:  []string{"layer 0"},
		pure: true,
	},
	{layer: "0", packages: []string{"internal/version"}, note: "reads the program's build information"},
	{layer: "0", packages: []string{"internal/hook"}, note: "its lists have locks"},
	{layer: "1", packages: []string{"internal/xunix", "transport"}, may: []string{"layer 0"}},
	{layer: "1", packages: []string{"detector/packet"}, note: "imports a library for its MACs", may: []string{"layer 0"}},
	{layer: "1", packages: []string{"internal/agent/teams"}, may: []string{"layer 0"}},
	{layer: "1", packages: []string{"internal/netif"}, note: "imports package `net`, which programs of `shmem` and `mpi` must not import"},
	{
		layer:    "1",
		packages: []string{"transport/sim", "transport/faulty", "transport/transporttest"},
		may:      []string{"layer 0", "transport", "internal/xunix"},
	},
	{
		layer: "2",
		packages: []string{
			"symheap", "failure", "transport/shm", "transport/tcp",
			"pmix/client", "pmix/server", "pmix/pmi1", "detector/kernel", "internal/reach",
		},
		may: []string{"layer 0", "layer 1"},
	},
	{
		layer:    "3",
		packages: []string{"rma"},
		may:      []string{"layer 0", "layer 1", "layer 2"},
		never:    []string{"detector/...", "pmix/server", "failure"},
	},
	{
		layer:    "3",
		packages: []string{"internal/wait"},
		note:     "above `rma`, which rings the bells on which waiters sleep",
		may:      []string{"layer 0", "layer 1", "rma", "failure"},
	},
	{
		layer:    "3",
		packages: []string{"internal/far"},
		note:     "a PE's side of operations on PEs of other nodes",
		may:      []string{"layer 0", "layer 1", "rma", "internal/wait"},
	},
	{
		layer:    "3",
		packages: []string{"internal/lane"},
		note:     "what both ends of a lane of messages agree on",
		may:      []string{"layer 0", "rma"},
	},
	{layer: "3", packages: []string{"detector", "detector/responder"}, may: []string{"layer 0", "layer 1", "layer 2"}},
	{
		layer:    "4",
		packages: []string{"internal/job"},
		may:      []string{"layer 0", "layer 1", "layer 2", "rma", "internal/wait", "internal/far"},
	},
	{
		layer:    "5",
		packages: []string{"coll"},
		may:      []string{"layer 0", "layer 1", "layer 2", "layer 3", "layer 4"},
		never:    []string{"detector/...", "internal/job"},
	},
	{
		layer:    "5",
		packages: []string{"coll/spanning"},
		note:     "teams that span nodes, as a PE calls their collectives",
		may:      []string{"layer 0", "layer 1", "layer 2", "layer 3", "layer 4", "coll"},
		never:    []string{"detector/...", "internal/job"},
	},
	{
		layer:    "5",
		packages: []string{"internal/spanjob"},
		note:     "connects such teams with the process's job",
		may:      []string{"layer 0", "layer 1", "layer 2", "layer 3", "layer 4", "coll/spanning"},
	},
	{
		layer:    "5",
		packages: []string{"internal/bridge"},
		note:     "by which `interop`, `mpi/win` and `mpi/ft` get at what `shmem` and `mpi` do not export",
		may:      []string{"coll"},
	},
	{
		layer:    "6",
		packages: []string{"shmem"},
		may:      []string{"layer 0", "layer 1", "layer 2", "layer 3", "layer 4", "layer 5"},
		never:    []string{"detector/...", "mpi/..."},
	},
	{
		layer:    "6, codes",
		packages: []string{"shmem/erasure"},
		may:      []string{"shmem"},
	},
	{
		layer:    "6, objects",
		packages: []string{"mpi/obj"},
		may:      []string{"mpi"},
	},
	{
		layer:    "6",
		packages: []string{"mpi"},
		may:      []string{"layer 0", "layer 1", "layer 2", "layer 3", "layer 4", "layer 5"},
		never:    []string{"detector/...", "shmem/..."},
	},
	{
		layer:    "7",
		packages: []string{"interop", "mpi/ft", "mpi/win"},
		may:      []string{"layer 0", "layer 1", "layer 2", "layer 3", "layer 4", "layer 5", "layer 6"},
	},
	{
		layer:    "8",
		packages: []string{"graph500", "perftest", "examples/..."},
		note:     "users of the public API, like programs outside of the module",
		may:      []string{"shmem", "mpi", "mpi/ft", "mpi/win", "interop", "examples/..."},
	},
	{layer: "node", packages: []string{"internal/control"}, may: []string{"layer 0", "layer 1"}},
	{
		layer:    "node",
		packages: []string{"internal/daemon", "internal/agent"},
		may:      []string{"layer 0", "layer 1", "layer 2", "layer 3"},
	},
	{
		layer:    "node",
		packages: []string{"internal/fence", "internal/courier"},
		note:     "between the servers of nodes",
		may:      []string{"layer 0", "layer 1", "pmix/server", "pmix/pmi1"},
	},
	{
		layer:    "node",
		packages: []string{"internal/launch"},
		may:      []string{"layer 0", "layer 1", "layer 2", "layer 3", "internal/daemon"},
	},
	{
		layer:    "node",
		packages: []string{"internal/remote"},
		note:     "a node whose PEs run in another process; knows nothing of the front end",
		may:      []string{"layer 0", "layer 1", "detector/kernel", "internal/daemon"},
	},
	{
		layer:    "node",
		packages: []string{"internal/nodes"},
		note:     "starts daemons and connects them",
		may:      []string{"layer 0", "layer 1", "detector", "detector/responder", "internal/control", "internal/courier", "internal/daemon", "internal/fence", "internal/launch", "internal/remote"},
	},
	{
		layer:    "node",
		packages: []string{"internal/launch/nodetest"},
		note:     "the tests that every `launch.Node` passes",
		may:      []string{"layer 0", "layer 1", "internal/daemon", "internal/launch"},
	},
	{layer: "simulators", packages: []string{"sim/..."}, may: []string{"layer 0", "layer 1", "sim/..."}},
	{
		layer:    "9",
		packages: []string{"shmem/shmemtest"},
		note:     "test programs play oshrun, on several nodes also its daemons and agents",
		may:      []string{"shmem", "internal/launch", "internal/plan", "internal/nodes", "internal/agent"},
	},
	{
		layer:    "lab",
		note:     "experiments behind commands of oshrun",
		packages: []string{"internal/lab/noise", "internal/lab/detectbench", "internal/lab/detectfigures", "internal/lab/agreebench", "internal/lab/ftcobench", "internal/lab/ulfmbench", "internal/lab/fabench", "internal/lab/figures", "internal/lab/netfault", "internal/lab/plot", "internal/lab/rerun", "internal/lab/measure", "internal/lab/labtest"},
		may:      []string{"./..."},
		never:    []string{"internal/cli", "cmd/..."},
	},
	{layer: "top", packages: []string{"internal/cli", "cmd/..."}, may: []string{"./..."}},

	// Programs, tests and helpers of the project itself.
	{layer: "house", packages: []string{"internal/envvar/gen"}, may: []string{"internal/envvar"}},
	{layer: "house", packages: []string{"internal/house/coverage"}},
	{layer: "house", packages: []string{"internal/house/coverage/gen"}, may: []string{"internal/house/coverage"}},
	{layer: "house", packages: []string{"internal/house/coverage/mutants"}, may: []string{"internal/house/coverage", "internal/weave"}},
	{layer: "house", packages: []string{"internal/weave"}},
	{layer: "house", packages: []string{"internal/weave/mutanttest"}, may: []string{"internal/weave"}},
	{layer: "house", packages: []string{"internal/house/archtest", "internal/house/hosted"}},
	{layer: "house", packages: []string{"internal/house/testenv"}, may: []string{"internal/envvar", "internal/xunix"}},
	{layer: "house", packages: []string{"internal/house/exampletest"}, may: []string{"internal/cli"}},
	{layer: "house", packages: []string{"pmix/codec/codectest"}},
}

// impure are packages of the standard library that a pure package must not import, with their subpackages. By these a
// package could act, or depend on time or other goroutines. Of net, net/netip computes only.
var impure = []string{"net", "os", "time", "sync", "syscall", "log", "io/ioutil", "runtime", "plugin"}

// owner names the only packages that may import a package or a module.
type owner struct {
	path     string
	packages []string
	why      string
}

var owners = []owner{
	{
		"unsafe",
		[]string{"symheap", "symheap/layout", "failure", "rma", "internal/wait", "internal/far", "internal/lane", "internal/spanjob", "internal/fold", "internal/reach", "coll", "coll/span", "coll/spanning", "shmem", "mpi", "internal/xunix", "internal/agent", "internal/agent/teams", "detector/responder"},
		"memory that is not Go's is handled in few places",
	},
	{"golang.org/x/sys", []string{"internal/xunix"}, "system calls go through internal/xunix"},
	{"github.com/spf13/cobra", []string{"internal/cli"}, "only the command line has commands"},
	{"github.com/spf13/pflag", []string{"internal/cli"}, "only the command line has flags of that kind"},
	{"github.com/cilium/ebpf", []string{"detector/kernel", "detector/responder", "internal/lab/netfault"}, "kernel programs have few owners"},
	{"github.com/dchest/siphash", []string{"detector/packet"}, "MACs have one owner"},
	{"github.com/klauspost/reedsolomon", []string{"shmem/erasure"}, "erasure codes have one owner"},
}

// testOnly are modules that only tests, and packages of test helpers, may import.
var testOnly = []string{
	"pgregory.net/rapid",
	"github.com/cockroachdb/datadriven",
	"github.com/rogpeppe/go-internal",
	"github.com/google/go-cmp",
	"go.uber.org/goleak",
}

// Every user's program links a lean package. So the lean packages must not import these, nor by way of others.
var (
	lean       = []string{"shmem", "mpi"}
	leanModule = []string{"internal/launch", "internal/daemon", "internal/agent", "internal/cli", "cmd/..."}
	leanOthers = []string{"github.com/cilium/ebpf", "github.com/spf13/cobra"}
)

// waiting are the files in which a process may wait for another process or wake it.
var waiting = []string{"internal/wait/*.go", "rma/bell.go"}

// Limits in lines and methods. An exception needs a reason.
const (
	maxFileLines = 600
	maxFuncLines = 100
	maxMethods   = 40
)

var (
	longFiles = map[string]string{} // file: reason
	longFuncs = map[string]string{} // file:function: reason

	// manyMethods lists the types that are still to be split by feature, with their largest number of methods.
	manyMethods = map[string]int{}
)
