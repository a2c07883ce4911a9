package pmi1

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/pmix/codec"
)

// Pair is a key with its value.
type Pair struct{ Key, Value string }

// Job describes processes that form one world of their own.
type Job struct {
	Nspace   string
	Procs    []Proc // by rank
	Universe int    // how many processes there could be; 0: as many as there are
	Spawned  bool   // by processes of another job
	Preput   []Pair // what is stored from the beginning
}

// Proc is one process of a Job.
type Proc struct {
	AppNum int
}

// check says what is wrong with a job.
func (j *Job) check() error {
	switch {
	case j.Nspace == "" || len(j.Nspace) >= maxName || strings.ContainsAny(j.Nspace, " =\n\x00"):
		return fmt.Errorf("pmi1 server: job %q, want a name of 1 to %d characters without blanks and \"=\"", j.Nspace, maxName-1)
	case len(j.Procs) == 0:
		return fmt.Errorf("pmi1 server: job %s has no processes", j.Nspace)
	}
	for _, p := range j.Preput {
		if err := checkPair(p.Key, p.Value); err != nil {
			return fmt.Errorf("pmi1 server: job %s: %w", j.Nspace, err)
		}
	}
	return nil
}

// checkPair says what is wrong with a pair that is to be stored. MPICH copies values of the full length, without room
// for the NUL, so nothing of that length is ever kept for it.
func checkPair(key, value string) error {
	switch {
	case key == "" || len(key) >= maxKey || strings.ContainsAny(key, " =\n"):
		return fmt.Errorf("key %q, want 1 to %d characters without blanks and \"=\"", shorten(key), maxKey-1)
	case len(value) >= maxValue || strings.Contains(value, "\n"):
		return fmt.Errorf("value of %s has %d characters, want at most %d and one line", key, len(value), maxValue-1)
	}
	return nil
}

// Environ returns the variables by which a process of the job finds its connection and its place: fd is the number that
// the connection has in the process. All processes are on this node.
func (j *Job) Environ(rank codec.Rank, fd int) []string {
	size, number := strconv.Itoa(len(j.Procs)), strconv.FormatUint(uint64(rank), 10)
	env := []string{
		envvar.PMIFD + "=" + strconv.Itoa(fd),
		envvar.PMIRank + "=" + number,
		envvar.PMISize + "=" + size,
		envvar.MPILocalRank + "=" + number,
		envvar.MPILocalRanks + "=" + size,
	}
	if j.Spawned {
		env = append(env, envvar.PMISpawned+"=1")
	}
	return env
}

// mapping says which ranks share a node, in PMI-1's notation: blocks of {first node, nodes, processes on each}.
func (j *Job) mapping() string { return fmt.Sprintf("(vector,(0,1,%d))", len(j.Procs)) }
