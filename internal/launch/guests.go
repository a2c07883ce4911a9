package launch

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/symheap/layout"
)

// guests counts, by node, the PEs of spawned jobs that the agent of the node serves, or has served: their indices there are not used again.
type guests []int

// noLimit is the room of a node that needs no agent.
const noLimit = -1

// nextOn returns the index that the next PE of a spawned job gets with the agent of a node, which has so many PEs of the first job.
func (g *guests) nextOn(node, near int) int {
	next := int(layout.FirstGuest(near))
	if node < len(*g) {
		next += (*g)[node]
	}
	return next
}

// room returns how many PEs of spawned jobs each node can still take: those that have no PE of the first job have no agent. first are the homes of that job; nil: all
// its PEs are on the first node, where further ones need no agent.
func (g *guests) room(first []int, nodes int) (room []int) {
	room = make([]int, nodes)
	if first == nil {
		room[0] = noLimit
		return room
	}
	for node, near := range countByNode(first, nodes) {
		if near > 0 {
			room[node] = max(0, layout.MaxLocal-g.nextOn(node, near))
		}
	}
	return room
}

// countByNode returns how many PEs each node has.
func countByNode(homes []int, nodes int) []int {
	count := make([]int, nodes)
	for _, node := range homes {
		count[node]++
	}
	return count
}

// bases returns, by node, the index of the first PE of a spawned job with the node's agent (layout.FirstGuest); -1: the node has none, or no agent, as it has no PE of
// the first job, or not enough indices are left.
func (g *guests) bases(homes, first []int, nodes int) (bases []int) {
	near := countByNode(first, nodes)
	for node, count := range countByNode(homes, nodes) {
		base := g.nextOn(node, near[node])
		if near[node] == 0 || count == 0 || base+count > layout.MaxLocal {
			base = -1
		}
		bases = append(bases, base)
	}
	return bases
}

// add changes by how many PEs a spawned job with such bases takes, where it has one: n is 1, or -1 if no agent has heard of the job.
func (g *guests) add(homes, bases []int, n int) {
	for len(*g) < len(bases) {
		*g = append(*g, 0)
	}
	for _, node := range homes {
		if bases[node] >= 0 {
			(*g)[node] += n
		}
	}
}

// parentsOf returns who has started a program by mpi.Spawn, in the words of package mpi.
func parentsOf(a *daemon.SpawnApp) (parents string, isChild bool) {
	for _, kv := range a.Env {
		if value, is := strings.CutPrefix(kv, envvar.Parents+"="); is {
			return value, true
		}
	}
	return "", false
}

// needsAgents says whether PEs of a spawned job exchange messages with their spawners by agents, as mpi.Spawn has started them, and the request does not say where
// they run.
func needsAgents(a *daemon.SpawnApp) bool {
	p := &a.Placing
	_, isChild := parentsOf(a)
	return isChild && p.Hosts == "" && p.More == "" && p.File.Name == "" && p.MoreFile.Name == ""
}

// parentNodes returns the nodes of the PEs that have started children by mpi.Spawn. homesOf returns the homes of the PEs of a job; nil: all are on the first node.
func parentNodes(apps []daemon.SpawnApp, homesOf func(job int) []int) (nodes []int) {
	for i := range apps {
		parents, _ := parentsOf(&apps[i])
		words := strings.Fields(parents)
		for _, word := range words[min(3, len(words)):] { // job:first-last
			var job, first, last int
			if _, err := fmt.Sscanf(word, "%d:%d-%d", &job, &first, &last); err != nil {
				continue // the child says so
			}
			homes := homesOf(job)
			if homes == nil && job == 0 {
				nodes = append(nodes, 0)
			}
			first, last = max(first, 0), min(last+1, len(homes))
			nodes = append(nodes, homes[min(first, last):last]...)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// besideParents is the room for children that no agent serves: on the node of their parents, if these are on one, they need none.
func besideParents(parents []int, nodes int) (room []int) {
	room = make([]int, nodes)
	if len(parents) == 1 {
		room[parents[0]] = noLimit
	}
	return room
}

// isUnreached returns a node with PEs of a job that mpi.Spawn starts which its agent cannot serve, although others of the job, or their parents, are on other nodes.
func isUnreached(homes, bases, parents []int) (node int, is bool) {
	at := slices.IndexFunc(homes, func(node int) bool { return bases[node] < 0 })
	if at < 0 || len(parents) == 0 {
		return 0, false
	}
	node = homes[at]
	elsewhere := func(other int) bool { return other != node }
	return node, slices.ContainsFunc(homes, elsewhere) || slices.ContainsFunc(parents, elsewhere)
}

// unreachedBecause says why the agent of a node cannot serve so many PEs of a spawned job. first are the homes of the first job.
func unreachedBecause(host string, node, count int, first []int) error {
	near := 0
	for _, other := range first {
		if other == node {
			near++
		}
	}
	if near == 0 {
		return fmt.Errorf("%s has no agent, which messages from other nodes need: agents run where the first job has PEs, if these are on several nodes; hint: oshrun --map-by node spreads the first job", host)
	}
	return fmt.Errorf("the agent of %s has no room for %d more PEs: it serves at most %d PEs of spawned jobs beside %d of the first job, also those that have ended",
		host, count, layout.MaxLocal-1-near, near)
}

// explainRoom adds to the error of a layout that the agents have no room for all PEs that need them, if that is so.
func explainRoom(err error, apps []daemon.SpawnApp, room []int) error {
	want, have := 0, 0
	for i := range apps {
		if needsAgents(&apps[i]) {
			want += apps[i].NPEs
		}
	}
	for _, n := range room {
		have += n
	}
	if slices.Contains(room, noLimit) || want <= have {
		return err
	}
	return fmt.Errorf("the agents have room for %d more PEs of spawned jobs, want room for %d: %w", have, want, err)
}

// limitTo returns the hosts that a program may use, and which they are: without those that have no room for it. used are the PEs that they have, and placed those of
// this job among them.
func limitTo(room []int, hosts []plan.Host, used, placed []int) (limited []plan.Host, kept []int) {
	for i := range hosts {
		h := hosts[i]
		if room != nil && room[i] != noLimit {
			left := room[i] - placed[i]
			if left <= 0 {
				continue
			}
			if most := used[i] + left; h.MaxSlots == 0 || h.MaxSlots > most {
				h.MaxSlots = most
			}
		}
		limited, kept = append(limited, h), append(kept, i)
	}
	return limited, kept
}
