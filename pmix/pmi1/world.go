package pmi1

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/pmix/codec"
)

// Pair is a key with its value.
type Pair struct{ Key, Value string }

// WorldSpec describes the processes of a job, which share one store and one barrier.
type WorldSpec struct {
	Nspace   string
	Procs    []Proc // by rank
	ThisNode int    // node of the processes that this server serves
	Universe int    // number of processes that there could be; 0: the number of Procs
	Spawned  bool   // processes of another job have spawned this one
	Preput   []Pair // pairs that are stored from the beginning
}

// Proc is one process of a WorldSpec.
type Proc struct {
	AppNum int
	Node   int // index of the node that the process is on
}

// isLocal reports whether a rank is on this node.
func (j *WorldSpec) isLocal(rank codec.Rank) bool { return j.Procs[rank].Node == j.ThisNode }

// spans reports whether the job has processes on other nodes.
func (j *WorldSpec) spans() bool {
	return slices.ContainsFunc(j.Procs, func(p Proc) bool { return p.Node != j.ThisNode })
}

// check checks that a job can be served.
func (j *WorldSpec) check() error {
	switch {
	case j.Nspace == "" || len(j.Nspace) >= maxName || strings.ContainsAny(j.Nspace, " =\n\x00"):
		return fmt.Errorf("pmi1 server: job %q, want a name of 1 to %d characters without blanks and \"=\"", j.Nspace, maxName-1)
	case len(j.Procs) == 0:
		return fmt.Errorf("pmi1 server: job %s has no processes, want at least one", j.Nspace)
	}
	for _, p := range j.Preput {
		if err := checkPair(p.Key, p.Value); err != nil {
			return fmt.Errorf("pmi1 server: job %s: %w", j.Nspace, err)
		}
	}
	return nil
}

// checkPair checks a pair to store. MPICH copies values of the full length without room for the NUL, so a value must be
// shorter.
func checkPair(key, value string) error {
	switch {
	case key == "" || len(key) >= maxKey || strings.ContainsAny(key, " =\n"):
		return fmt.Errorf("key %q, want 1 to %d characters without blanks and \"=\"", shorten(key), maxKey-1)
	case len(value) >= maxValue || strings.Contains(value, "\n"):
		return fmt.Errorf("value of %s has %d characters, want at most %d and one line", key, len(value), maxValue-1)
	}
	return nil
}

// Environ returns the variables by which a process of the job finds its connection, whose descriptor in the process is
// fd, and its place. The process is on this node.
func (j *WorldSpec) Environ(rank codec.Rank, fd int) []string {
	before, local := 0, 0 // processes of this node: those with a lower rank, and all
	for r := range j.Procs {
		if j.isLocal(codec.Rank(r)) {
			local++
			if codec.Rank(r) < rank {
				before++
			}
		}
	}
	env := []string{
		envvar.PMIFD + "=" + strconv.Itoa(fd),
		envvar.PMIRank + "=" + strconv.FormatUint(uint64(rank), 10),
		envvar.PMISize + "=" + strconv.Itoa(len(j.Procs)),
		envvar.MPILocalRank + "=" + strconv.Itoa(before),
		envvar.MPILocalRanks + "=" + strconv.Itoa(local),
	}
	if j.Spawned {
		env = append(env, envvar.PMISpawned+"=1")
	}
	return env
}
