package envvar

import "slices"

// The names of the variables.
const (
	SymmetricSize = "SHMEM_SYMMETRIC_SIZE"
	Version       = "SHMEM_VERSION"
	Info          = "SHMEM_INFO"
	Debug         = "SHMEM_DEBUG"

	Check       = "GOSHMEM_CHECK"
	CollRadix   = "GOSHMEM_COLL_RADIX"
	Express     = "GOSHMEM_EXPRESS"
	Log         = "GOSHMEM_LOG"
	Parents     = "GOSHMEM_PARENTS"
	Pprof       = "GOSHMEM_PPROF"
	Progress    = "GOSHMEM_PROGRESS"
	Step        = "GOSHMEM_STEP"
	TestRequire = "GOSHMEM_TEST_REQUIRE"
	MaxProcs    = "GOMAXPROCS"

	PMIxNamespace    = "PMIX_NAMESPACE"
	PMIxRank         = "PMIX_RANK"
	PMIxServerURI    = "PMIX_SERVER_URI41"
	PMIxSecurityMode = "PMIX_SECURITY_MODE"
	PMIxBufferType   = "PMIX_BFROP_BUFFER_TYPE"
	PMIxGDSModule    = "PMIX_GDS_MODULE"
	PMIxServerTmpdir = "PMIX_SERVER_TMPDIR"
	PMIxSystemTmpdir = "PMIX_SYSTEM_TMPDIR"
	PMIxHostname     = "PMIX_HOSTNAME"
	PMIxVersion      = "PMIX_VERSION"

	PMIFD         = "PMI_FD"
	PMIRank       = "PMI_RANK"
	PMISize       = "PMI_SIZE"
	PMISpawned    = "PMI_SPAWNED"
	MPILocalRank  = "MPI_LOCALRANKID"
	MPILocalRanks = "MPI_LOCALNRANKS"

	BackingVader   = "OMPI_MCA_btl_vader_backing_directory"
	BackingOSCSM   = "OMPI_MCA_osc_sm_backing_directory"
	BackingOSCRDMA = "OMPI_MCA_osc_rdma_backing_directory"
	BackingHeap    = "OMPI_MCA_sshmem_base_backing_file_dir"

	Oversubscribe = "OMPI_MCA_mpi_oversubscribe"
	MemHooks      = "OMPI_MCA_opal_common_ucx_opal_mem_hooks"

	OpenMPITCPInclude = "OMPI_MCA_btl_tcp_if_include"
	OpenMPITCPExclude = "OMPI_MCA_btl_tcp_if_exclude"
	UCXDevices        = "UCX_NET_DEVICES"
	FabricTCP         = "FI_TCP_IFACE"
)

// DefaultSymmetricSize is the default size of a symmetric heap in bytes. It is address space; the kernel
// allocates memory at first access.
const DefaultSymmetricSize = 1 << 30

// Unset is the Default of a variable without a default.
const Unset = "unset"

// backingDefault is the Default of the variables that name a directory for Open MPI's shared memory.
const backingDefault = "in the job's private directory"

// Setter says whether the user or oshrun sets a variable.
type Setter uint8

// The setters.
const (
	User   Setter = iota // the user, before the program is started
	Oshrun               // oshrun, for the PEs that it starts
	Either               // oshrun, unless the user has set it
)

// String returns the setter in the words of the documentation.
func (s Setter) String() string {
	switch s {
	case User:
		return "user"
	case Oshrun:
		return "oshrun"
	default:
		return "user, otherwise oshrun"
	}
}

// Var describes one variable.
type Var struct {
	Name    string
	Alias   string // deprecated name, read if Name is unset; "": none
	Value   string // allowed values, in words
	Default string // default as a user would write it, or Unset
	SetBy   Setter
	Doc     string // meaning, in one sentence

	check func(value string) error // checks a value; nil: any value is valid
}

var table = []Var{
	{
		Name: SymmetricSize, Alias: "SMA_SYMMETRIC_SIZE", Value: "size", Default: FormatSize(DefaultSymmetricSize),
		Doc:   "Size of the symmetric heap of each PE; memory is allocated at first access.",
		check: func(v string) error { _, err := ParseSize(v); return err },
	},
	{
		Name: Version, Alias: "SMA_VERSION", Value: "anything", Default: Unset,
		Doc: "When set, PE 0 prints the version of the library at start.",
	},
	{
		Name: Info, Alias: "SMA_INFO", Value: "anything", Default: Unset,
		Doc: "When set, PE 0 prints this table with the values in effect at start.",
	},
	{
		Name: Debug, Alias: "SMA_DEBUG", Value: "anything", Default: Unset,
		Doc: "When set, the log level is debug unless " + Log + " is set.",
	},
	{
		Name: Log, Value: oneOf(levelNames), Default: "off",
		Doc:   "Least severe level that oshrun logs to stderr.",
		check: func(v string) error { _, err := parseLevel(v); return err },
	},
	{
		Name: Check, Value: "comma list of " + oneOf(checks), Default: Unset,
		Doc:   "Checks for mistakes of programs. collectives: before each collective, the PEs of its team compare their calls, and all get an error if the calls differ. A check is on if any PE enables it.",
		check: func(v string) error { _, err := parseChecks(v); return err },
	},
	{
		Name: Express, Value: oneOf(switches), Default: "on",
		Doc:   "Whether a PE gets express sockets: after 64 round trips to another node, its further ones go there without its own agent. Results are the same.",
		check: func(v string) error { _, err := parseSwitch(v); return err },
	},
	{
		Name: CollRadix, Value: wantRadix, Default: Unset,
		Doc:   "Radix of the trees of nodes along which fences and collectives between nodes go, unless --coll-radix says it. If neither does, oshrun takes the best by what oshrun tune has stored, or by what the start measures.",
		check: func(v string) error { _, err := ParseRadix(v); return err },
	},
	{
		Name: MaxProcs, Value: "integer from 1", Default: "max(1, processors of the PE / PEs that share them)", SetBy: Either,
		Doc:   "Number of threads that run Go code at a time in a PE. oshrun sets the default; without oshrun, Go's own applies.",
		check: func(v string) error { _, err := parseMaxProcs(v); return err },
	},
	{
		Name: TestRequire, Value: "comma list of " + oneOf(capabilities), Default: Unset,
		Doc:   "Capabilities whose absence makes a test of goshmem fail instead of being skipped.",
		check: func(v string) error { _, err := parseCapabilities(v); return err },
	},
	{
		Name: Pprof, Value: "directory", Default: Unset, SetBy: Either,
		Doc: "Where each PE writes a CPU profile, of the time from Init on, and a heap profile when it leaves the job: pe.N.cpu.pprof and pe.N.heap.pprof; in spawned job J, job.J.pe.N.cpu.pprof and job.J.pe.N.heap.pprof.",
	},
	{
		Name: Progress, Value: "bar, lines", Default: "bar where oshrun's stderr is a terminal, otherwise lines", SetBy: Either,
		Doc:   "How built-in programs show progress on stderr.",
		check: func(v string) error { _, err := parseProgress(v); return err },
	},
	{
		Name: Step, Value: "address", Default: Unset, SetBy: Oshrun,
		Doc: "Address of the job's step process, which holds the symmetric heaps.",
	},
	{
		Name: Parents, Value: "words", Default: Unset, SetBy: Oshrun,
		Doc: "For a process that mpi.Spawn has started: the processes that have called it, and the number of the communicator with them.",
	},
	{
		Name: PMIxNamespace, Value: "string", Default: Unset, SetBy: Oshrun,
		Doc: "Name of the job; a PE runs alone if neither this nor " + PMIxRank + " is set.",
	},
	{
		Name: PMIxRank, Value: "integer from 0", Default: Unset, SetBy: Oshrun,
		Doc:   "Number of the process in its job.",
		check: func(v string) error { _, err := parseRank(v); return err },
	},
	{
		Name: PMIxServerURI, Value: "<namespace>.<rank>;tcp4://<address>:<port>", Default: Unset, SetBy: Oshrun,
		Doc: "Address of the node's PMIx server.",
	},
	{
		Name: PMIxSecurityMode, Value: "none", Default: Unset, SetBy: Oshrun,
		Doc: "Security module of PMIx; the server listens on loopback only.",
	},
	{
		Name: PMIxBufferType, Value: "PMIX_BFROP_BUFFER_NON_DESC", Default: Unset, SetBy: Oshrun,
		Doc: "Encoding of PMIx messages: without a type in front of each value.",
	},
	{
		Name: PMIxGDSModule, Value: "hash", Default: Unset, SetBy: Oshrun,
		Doc: "Data store of PMIx clients: in the memory of each, without shared files.",
	},
	{
		Name: PMIxServerTmpdir, Value: "directory", Default: Unset, SetBy: Oshrun,
		Doc: "Private directory of the job, for files of other projects' libraries.",
	},
	{
		Name: PMIxSystemTmpdir, Value: "directory", Default: Unset, SetBy: Oshrun,
		Doc: "Directory for files that outlive a job; oshrun sets it to the private directory of the job as well.",
	},
	{
		Name: PMIxHostname, Value: "string", Default: Unset, SetBy: Oshrun,
		Doc: "Name of the node as the job knows it.",
	},
	{
		Name: PMIxVersion, Value: "version", Default: Unset, SetBy: Oshrun,
		Doc: "Version of PMIx that the server speaks.",
	},
	{
		Name: PMIFD, Value: "integer from 3", Default: Unset, SetBy: Oshrun,
		Doc: "Descriptor of a PE's connection to the PMI-1 server, for programs of MPICH.",
	},
	{
		Name: PMIRank, Value: "integer from 0", Default: Unset, SetBy: Oshrun,
		Doc: "The same as " + PMIxRank + ", for PMI-1.",
	},
	{
		Name: PMISize, Value: "integer from 1", Default: Unset, SetBy: Oshrun,
		Doc: "Number of processes in the job, for PMI-1.",
	},
	{
		Name: PMISpawned, Value: "1", Default: Unset, SetBy: Oshrun,
		Doc: "Set if another job has spawned this one, for PMI-1.",
	},
	{
		Name: MPILocalRank, Value: "integer from 0", Default: Unset, SetBy: Oshrun,
		Doc: "Number of the process among those of its job on its node, for programs of MPICH.",
	},
	{
		Name: MPILocalRanks, Value: "integer from 1", Default: Unset, SetBy: Oshrun,
		Doc: "Number of processes of the job on the node, for programs of MPICH.",
	},
	{
		Name: BackingVader, Value: "directory", Default: backingDefault, SetBy: Either,
		Doc: "Directory for the memory that ranks of Open MPI share for messages; oshrun removes its directory with the job.",
	},
	{
		Name: BackingOSCSM, Value: "directory", Default: backingDefault, SetBy: Either,
		Doc: "The same for windows of one-sided MPI between ranks of one node.",
	},
	{
		Name: BackingOSCRDMA, Value: "directory", Default: backingDefault, SetBy: Either,
		Doc: "The same for windows of one-sided MPI over other transports.",
	},
	{
		Name: BackingHeap, Value: "directory", Default: backingDefault, SetBy: Either,
		Doc: "The same for symmetric heaps of Open MPI's OpenSHMEM.",
	},
	{
		Name: Oversubscribe, Value: "1", Default: "1 where there are more PEs than processors", SetBy: Either,
		Doc: "Makes ranks of Open MPI yield the processor while they wait.",
	},
	{
		Name: MemHooks, Value: "0, 1", Default: "0", SetBy: Either,
		Doc: "Whether UCX in programs of Open MPI watches memory by Open MPI's hooks (1) or its own (0); with 1, Open MPI's own default, OpenSHMEM programs of Open MPI 4.1.4 crash in shmem_finalize.",
	},
	{
		Name: OpenMPITCPInclude, Value: "list of interfaces", Default: "those of --data-interface; loopback between emulated nodes on a machine without a network", SetBy: Either,
		Doc: "By which interfaces ranks of Open MPI reach those of other nodes.",
	},
	{
		Name: UCXDevices, Value: "list of interfaces and devices", Default: "those of --data-interface", SetBy: Either,
		Doc: "The same for UCX, which programs of MPICH and Open MPI's OpenSHMEM use.",
	},
	{
		Name: FabricTCP, Value: "interface", Default: "the first of --data-interface", SetBy: Either,
		Doc: "The same for libfabric over TCP, which programs of MPICH use if it is built for it.",
	},
}

// All returns the variables in the order of the documentation.
func All() []Var { return slices.Clone(table) }

// find returns the variable with the given name. It panics if the table lacks it: that is a mistake in goshmem,
// which every test that reads the variable finds.
func find(name string) *Var {
	for i := range table {
		if table[i].Name == name {
			return &table[i]
		}
	}
	panic("envvar: " + name + " is not in the table")
}
