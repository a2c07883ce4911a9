package launch

import (
	"slices"
	"sync"

	"github.com/goshmem/goshmem/internal/daemon"
)

// roll is what a cluster knows of its nodes: which there are, which are lost, and which PEs they have.
type roll struct {
	mu      sync.Mutex
	nodes   []Node        // see list
	homes   map[int][]int // by job and PE: the index of the PE's node; no entry: the first node
	lost    map[int]bool  // nodes that are lost
	begun   map[int]bool  // by job: it is placed, and its spawn has not succeeded yet
	closing bool          // Close was called: nothing begins any more
}

// list returns the nodes that there are now.
func (r *roll) list() []Node {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clip(r.nodes)
}

// node returns the node of a PE: the first one for a PE that does not exist.
func (r *roll) node(id daemon.ID) Node {
	home := r.home(id)
	return r.list()[home]
}

// home returns the index of the node of a PE: 0 for a PE that does not exist.
func (r *roll) home(id daemon.ID) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if homes := r.homes[id.Job]; id.PE >= 0 && id.PE < len(homes) {
		return homes[id.PE]
	}
	return 0
}

// homesOf returns the indexes of the nodes of a job's PEs, which nobody changes; nil: all are on the first node.
func (r *roll) homesOf(job int) []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.homes[job]
}

// noteLost notes that a node is lost.
func (r *roll) noteLost(node int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lost[node] = true
}

// used returns how many PEs of all jobs are on each node; -1: the node is lost.
func (r *roll) used() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	used := make([]int, len(r.nodes))
	for _, homes := range r.homes {
		for _, node := range homes {
			used[node]++
		}
	}
	for node := range r.lost {
		used[node] = -1
	}
	return used
}

// finishSpawn notes that the PEs of a further job run, unless one of its nodes is lost. The run counts the PEs of a lost node as
// lost if their job is finished. Otherwise it leaves them to the spawn, which fails.
func (r *roll) finishSpawn(job int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, node := range r.homes[job] {
		if r.lost[node] {
			return &nodeError{node: node, err: errNodeLost}
		}
	}
	delete(r.begun, job)
	return nil
}

// isBegun says whether the spawn of a further job is under way.
func (r *roll) isBegun(job int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun[job]
}
