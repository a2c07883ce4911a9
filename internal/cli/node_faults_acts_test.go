package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/detector/ring"
	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/xunix"
)

// What fails of a node.
const (
	daemonPart = "daemon"
	agentPart  = "agent"
	wholePart  = "all processes"               // at once
	silentPart = "interface and all processes" // so that no kernel tells of their end
	cutPart    = "interface"
)

// nodeFaultKind is a kind of fault.
type nodeFaultKind struct {
	name   string
	parts  []string // what may fail of each victim; nil: PEs die
	apart  bool     // the nodes need networks of their own
	choose func(f *nodeFault) (nodes []int)
}

var (
	killedParts = []string{daemonPart, agentPart, wholePart}
	endedParts  = []string{daemonPart, wholePart}
)

var nodeFaultKinds = []nodeFaultKind{
	{name: "PEs"},
	{name: "daemon", parts: []string{daemonPart}, choose: (*nodeFault).chooseOne},
	{name: "agent", parts: []string{agentPart}, choose: (*nodeFault).chooseOne},
	{name: "node", parts: []string{wholePart}, choose: (*nodeFault).chooseOne},
	{name: "two", parts: killedParts, choose: func(f *nodeFault) []int { return f.rng.Perm(f.many)[:2] }},
	{name: "three", parts: killedParts, choose: func(f *nodeFault) []int { return f.rng.Perm(f.many)[:3] }},
	{name: "contiguous", parts: endedParts, choose: (*nodeFault).chooseRun},
	{name: "daemon and its observer", parts: endedParts, choose: func(f *nodeFault) []int { return f.chooseObserved(2) }},
	{name: "daemon, its observer, and that one's", parts: endedParts, choose: func(f *nodeFault) []int { return f.chooseObserved(3) }},
	{name: "neighbors of the front end", parts: endedParts, choose: func(f *nodeFault) []int { return []int{0, 1}[:1+f.rng.IntN(2)] }},
	{name: "cut", parts: []string{cutPart}, apart: true, choose: (*nodeFault).chooseMinority},
	{name: "silent", parts: []string{silentPart}, apart: true, choose: (*nodeFault).chooseMinority},
	{name: "silent or cut contiguous", parts: []string{silentPart, cutPart}, apart: true, choose: func(f *nodeFault) []int {
		return f.runOf(2 + f.rng.IntN(f.many/2-1))
	}},
}

func (f *nodeFault) chooseOne() []int { return []int{f.rng.IntN(f.many)} }

// chooseMinority chooses one to half of the nodes: the front end and the others are a majority.
func (f *nodeFault) chooseMinority() []int { return f.rng.Perm(f.many)[:1+f.rng.IntN(f.many/2)] }

// chooseRun chooses two neighbors or more, and leaves one node.
func (f *nodeFault) chooseRun() []int { return f.runOf(2 + f.rng.IntN(f.many-2)) }

// runOf returns some neighbors.
func (f *nodeFault) runOf(k int) (nodes []int) {
	first := f.rng.IntN(f.many - k + 1)
	for node := first; node < first+k; node++ {
		nodes = append(nodes, node)
	}
	return nodes
}

// chooseObserved returns a node, the one that observes it in the ring, and so on.
func (f *nodeFault) chooseObserved(k int) (nodes []int) {
	node, stride := f.rng.IntN(f.many), ring.Stride(f.many)
	for range k {
		nodes = append(nodes, node)
		node = (node + stride) % f.many
	}
	return nodes
}

// nodeStrike is one fault.
type nodeStrike struct {
	kind  string
	pes   []int
	nodes []int
	parts []string      // by index in nodes
	after time.Duration // since the strike before
	stops bool          // all processes are stopped first, so that none sees the end of another one
}

// String says what fails.
func (s *nodeStrike) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s after %v", s.kind, s.after)
	if len(s.pes) > 0 {
		fmt.Fprintf(&text, ": PEs %v", s.pes)
	}
	for i, node := range s.nodes {
		fmt.Fprintf(&text, ": %s of node%d", s.parts[i], node)
	}
	if s.stops {
		text.WriteString(", stopped first")
	}
	return text.String()
}

// chooseStrikes chooses one fault, or two of which one comes soon after the other.
func (f *nodeFault) chooseStrikes() []*nodeStrike {
	longest := 150 * time.Millisecond
	if f.phase == phaseStart || f.phase == phaseLeave { // which are over soon
		longest = 30 * time.Millisecond
	}
	all := []*nodeStrike{f.chooseStrike()}
	for !f.bear(all...) {
		all[0] = f.chooseStrike()
	}
	if second := f.chooseStrike(); f.rng.IntN(4) == 0 && f.bear(all[0], second) {
		all = append(all, second)
	}
	for _, s := range all {
		f.kinds = append(f.kinds, s.kind)
		s.after = time.Duration(f.rng.Int64N(int64(longest)))
	}
	return all
}

// chooseStrike chooses a fault.
func (f *nodeFault) chooseStrike() *nodeStrike {
	kind := &nodeFaultKinds[f.rng.IntN(len(nodeFaultKinds))]
	for kind.apart && !f.apart {
		kind = &nodeFaultKinds[f.rng.IntN(len(nodeFaultKinds))]
	}
	s := &nodeStrike{kind: kind.name, stops: f.rng.IntN(2) == 0}
	if kind.parts == nil {
		s.pes = f.rng.Perm(f.n)[:1+f.rng.IntN(3)]
		return s
	}
	s.nodes = kind.choose(f)
	for range s.nodes {
		s.parts = append(s.parts, kind.parts[f.rng.IntN(len(kind.parts))])
	}
	return s
}

// bear says whether a job goes on after some faults, of which each node suffers one at most: a node with a PE is left, and the front
// end and the nodes that are left are a majority of those whose deaths no kernel has proven.
func (f *nodeFault) bear(all ...*nodeStrike) bool {
	var failed []int
	var hit []string
	most := f.many - 1
	for _, s := range all {
		for _, pe := range s.pes {
			hit = append(hit, f.nodes[pe])
		}
		for i, node := range s.nodes {
			if slices.Contains(failed, node) {
				return false
			}
			failed = append(failed, node)
			hit = append(hit, nameOf(node))
			if f.isUnproven(s.parts[i]) {
				most = f.many / 2
			}
		}
	}
	slices.Sort(hit)
	return len(slices.Compact(hit)) <= most
}

// isUnproven says whether a node may only be silent when a part of it has failed. On a network of its own it is, if that has failed
// which answers for it.
func (f *nodeFault) isUnproven(part string) bool {
	switch part {
	case cutPart, silentPart:
		return true
	case wholePart:
		return f.apart
	case daemonPart:
		return f.apart && f.tier == "user"
	}
	return false
}

// findNodes finds the daemons and the agents, and the process that holds the network.
func (f *nodeFault) findNodes() {
	for pe, pid := range f.pids {
		node := f.nodes[pe]
		if f.daemons[node] == 0 {
			f.daemons[node] = parentOf(f.t, pid)
			f.agents[node] = childrenThatRun(f.daemons[node], "agent")[0]
		}
	}
	if f.apart {
		f.holderPID = childrenThatRun(f.cmd.Process.Pid, "daemon", "--network")[0]
		f.holder = fmt.Sprintf("--net=/proc/%d/ns/net", f.holderPID)
	}
}

// nameOf returns the name of a node, and portOf that of the interface behind which it is.
func nameOf(node int) string { return fmt.Sprintf("node%d", node) }
func portOf(node int) string { return fmt.Sprintf("port%d", node) }

// strike makes a fault. All that can take time comes before.
func (f *nodeFault) strike(s *nodeStrike) {
	f.note("%v", s)
	processes, err := rerun.LookAtProcesses()
	check(f.t, err)
	var victims []rerun.Process
	var ports []string
	for _, pe := range s.pes {
		victims = append(victims, processes[f.pids[pe]])
	}
	for i, node := range s.nodes {
		whole, err := processes.NodeOf(f.daemons[nameOf(node)])
		if err != nil && (f.phase == phaseLeave || f.lost[nameOf(node)]) {
			continue // it has ended
		}
		check(f.t, err)
		victims = append(victims, f.victimsOf(node, s.parts[i], whole)...)
		if s.parts[i] == cutPart || s.parts[i] == silentPart {
			ports = append(ports, portOf(node))
		}
		if s.parts[i] == cutPart {
			f.cutOff = append(f.cutOff, portOf(node))
		}
	}
	f.noteDeaths(s)
	f.struck = time.Now()
	if len(ports) > 0 {
		if err := xunix.SetLinksDown(f.holderPID, ports); f.phase != phaseLeave || !errors.Is(err, syscall.ENODEV) {
			check(f.t, err) // a node that leaves may have ended since it was looked for, and its interface with it
		}
	}
	signals := []syscall.Signal{syscall.SIGKILL}
	if s.stops {
		signals = []syscall.Signal{syscall.SIGSTOP, syscall.SIGKILL}
	}
	for _, signal := range signals {
		for i := range victims {
			if victims[i].PID > 0 { // zero: it had ended
				check(f.t, victims[i].Kill(signal))
			}
		}
	}
}

// victimsOf returns the processes of a node that are killed.
func (f *nodeFault) victimsOf(node int, part string, whole []rerun.Process) []rerun.Process {
	switch part {
	case daemonPart:
		return whole[:1]
	case agentPart:
		i := slices.IndexFunc(whole, func(p rerun.Process) bool { return p.PID == f.agents[nameOf(node)] })
		if i < 0 {
			return nil // it has ended
		}
		return whole[i : i+1]
	case cutPart:
		return nil
	}
	return whole
}

// noteDeaths notes who dies by a fault.
func (f *nodeFault) noteDeaths(s *nodeStrike) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pe := range s.pes {
		if !f.dead[pe] {
			f.die([]int{pe}, 0, fmt.Sprintf("PE %d (pid %d) was killed by signal 9 (SIGKILL)", pe, f.pids[pe]))
		}
	}
	for i, node := range s.nodes {
		whole := s.parts[i] == wholePart || s.parts[i] == silentPart
		host := nameOf(node)
		f.emptied[host] = f.emptied[host] || whole && !s.stops || len(f.living(host)) == 0
		f.lose(host)
	}
}

// heal connects the nodes again that were cut off, or has them end by their lease.
func (f *nodeFault) heal() {
	if len(f.cutOff) == 0 || f.rng.IntN(4) == 0 {
		return
	}
	f.note("connect %v again", f.cutOff)
	for _, port := range f.cutOff {
		check(f.t, f.inNetwork(f.holder, "ip", "link", "set", port, "up"))
	}
}
