package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	colltree "github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Share describes a whole job to a step that runs only a share of its PEs. All steps of the job get the same
// but for Node, and for nodes that were added later: these have no PE of the first job. It is plain data, which another
// process can be sent.
//
// A step whose Share has several hosts runs the PEs of its own node, the near ones. It starts and counts no
// others, which are far: their own steps tell of their ends, and the root passes that on by Step.FarFailed.
type Share struct {
	Name string   // of the step, and so of its jobs: goshmem- and letters or digits
	Key  [16]byte // of the first job: its segments and its failure page have it in their headers
	// DataKey proves to agents of other nodes that an agent belongs to the job.
	DataKey [32]byte
	Hosts   []string // names of the nodes, in order
	Homes   []int    // by PE of the first job: the index of its node
	Node    int      // index of the node that the step runs
	// Emulated says that nodes share a kernel. Programs then get the variables that they need for that, unless
	// the user has set them: see emulation.
	Emulated bool
	// Grows says that the root may add nodes, on which spawned jobs run. So the step asks the root for jobs, even if it has
	// the only node as yet.
	Grows bool
	// CollRadix is the radix of the trees of nodes along which fences and collectives go, on all nodes from the first
	// message on; 0: tree.DefaultRadix.
	CollRadix int
}

// isGiven says whether there is a description. Without one, as for spawned jobs, all PEs are on this node.
func (s *Share) isGiven() bool { return s != nil && len(s.Hosts) > 0 }

// spans says whether the job has several nodes, or may get them.
func (s *Share) spans() bool { return s.hasOthers() || s.isGiven() && s.Grows }

// hasOthers says whether the job has several nodes.
func (s *Share) hasOthers() bool { return s.isGiven() && len(s.Hosts) > 1 }

// mostLoading is how many emulated nodes may each load the best watch of processes: that takes some 20 ms of a processor.
const mostLoading = 2

// crowdsKernel says whether more steps run on this kernel than should each load into it what they can do without.
func (s *Share) crowdsKernel() bool { return s.Emulated && len(s.Hosts) > mostLoading }

// namePrefix is what the names of all steps begin with.
const namePrefix = "goshmem-"

// check says what is wrong with the description of a job of npes PEs.
func (s *Share) check(npes int) error {
	if !s.isGiven() && s.Name == "" && len(s.Homes) == 0 {
		return nil
	}
	secret, ok := strings.CutPrefix(s.Name, namePrefix)
	if !ok || secret == "" || strings.ContainsFunc(secret, notAlphanumeric) {
		return fmt.Errorf("step %q, want %s followed by letters or digits", s.Name, namePrefix)
	}
	if s.Key == ([16]byte{}) {
		return fmt.Errorf("step %s has no job key, want 16 random bytes", s.Name)
	}
	if k := s.CollRadix; k != 0 && (k < colltree.LeastRadix || k > colltree.MostRadix) {
		return fmt.Errorf("radix %d of the trees of nodes, want 0 or %d to %d", k, colltree.LeastRadix, colltree.MostRadix)
	}
	if s.Node < 0 || s.Node >= len(s.Hosts) {
		return fmt.Errorf("node %d, want a number below %d, the number of hosts", s.Node, len(s.Hosts))
	}
	if len(s.Homes) != npes {
		return fmt.Errorf("nodes of %d PEs are given, want those of %d, the PEs of all programs", len(s.Homes), npes)
	}
	counts := make([]int, len(s.Hosts))
	for pe, node := range s.Homes {
		if node < 0 || node >= len(counts) {
			return fmt.Errorf("PE %d is on node %d, want a number below %d, the number of hosts", pe, node, len(counts))
		}
		counts[node]++
	}
	for node, n := range counts {
		if n > layout.MaxLocal {
			return fmt.Errorf("node %d (%s) has %d PEs, want at most %d", node, s.Hosts[node], n, layout.MaxLocal)
		}
	}
	for node, host := range s.Hosts {
		if host == "" || strings.ContainsAny(host, ", \x00") {
			return fmt.Errorf("node %d has the host name %q, want one without commas and blanks", node, host)
		}
		if first := slices.Index(s.Hosts, host); first != node {
			return fmt.Errorf("nodes %d and %d have the host name %s, want different names", first, node, host)
		}
	}
	return nil
}

func notAlphanumeric(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// checkShare says what is wrong with the share of a step that was given hooks.
func (c *Config) checkShare(h *Hooks) error {
	npes := 0
	for i := range c.Apps {
		npes += c.Apps[i].NPEs
	}
	if err := c.Share.check(npes); err != nil {
		return fmt.Errorf("share of a job: %w", err)
	}
	if c.Share.spans() && h.Remote == nil {
		return errors.New("share of a job of several nodes without Hooks.Remote, by which their PMIx servers reach each other")
	}
	return nil
}

// nearPEs returns the PEs of a node, in ascending order.
func nearPEs(npes int, share *Share) (near []int) {
	for pe := range npes {
		if !share.spans() || share.Homes[pe] == share.Node {
			near = append(near, pe)
		}
	}
	return near
}

// nodeOf returns the index of the node that a PE is on.
func (j *localJob) nodeOf(pe int) int {
	if !j.share.spans() {
		return 0
	}
	return j.share.Homes[pe]
}

// isNear says whether a PE of the job is on this node.
func (j *localJob) isNear(pe int) bool { _, near := slices.BinarySearch(j.near, pe); return near }

// local returns the index on this node of a near PE.
func (j *localJob) local(pe int) layout.Local {
	i, _ := slices.BinarySearch(j.near, pe)
	return layout.Local(i)
}

// sharers returns how many PEs of the job share the processors of this machine: those of all nodes if these are emulated.
func (j *localJob) sharers() int {
	if j.share.spans() && j.share.Emulated {
		return j.npes()
	}
	return len(j.near)
}

// nodes returns how many nodes have PEs of the job.
func (j *localJob) nodes() int {
	if !j.share.spans() {
		return 1
	}
	have := map[int]bool{}
	for _, node := range j.share.Homes {
		have[node] = true
	}
	return len(have)
}

// hasGaps says whether the near PEs do not have consecutive numbers. Programs that map segments then need an agent, whose page
// says which PEs these are.
func (j *localJob) hasGaps() bool {
	n := len(j.near)
	return j.near[n-1]-j.near[0] != n-1
}

// gapsError says what is wrong if a program is to map the segments of near PEs with gaps, and there is no agent.
func (j *localJob) gapsError(lack string) error {
	return fmt.Errorf("%s has %d PEs from PE %d to PE %d with gaps: Go programs of shmem and mpi need an agent then, or PEs with "+
		"consecutive numbers on each node, which --map-by slot gives; there is no agent: %s", j.share.Hosts[j.share.Node], len(j.near),
		j.near[0], j.near[len(j.near)-1], lack)
}
