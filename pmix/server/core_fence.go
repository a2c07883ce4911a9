package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Bounds on what clients can make the server keep.
const (
	maxFailedFences = 64    // ended fences of one set of processes, kept for those who have yet to hear of it
	maxFences       = 1024  // instances of one set of processes under way at once
	maxFenceSets    = 4096  // sets of processes with a fence under way, or one that failed
	maxSequences    = 65536 // sets of processes with some on other nodes that have had a fence
)

// FenceSet names a sequence of fences: the processes that meet, and what for. Values are comparable.
type FenceSet struct {
	Op    Collective
	Group string // the group that is made or ended; empty for other collectives
	// Procs lists the namespaces in ascending order with semicolons between them. Each has a colon and its ranks in
	// ascending order, or "*" for all of them. The end of a group has the processes that made it.
	Procs string
}

// FenceID names one fence on all its nodes: the set of processes, and the fence's number in the sequence of their fences.
type FenceID struct {
	FenceSet
	Seq uint64
}

func (s FenceSet) String() string {
	switch {
	case s.Group != "":
		return string(s.Op) + ";" + strconv.Quote(s.Group) + ";" + s.Procs
	case s.Op != opFence:
		return string(s.Op) + ";" + s.Procs
	default:
		return s.Procs
	}
}

func (id FenceID) String() string { return id.FenceSet.String() + "#" + strconv.FormatUint(id.Seq, 10) }

// compareSets orders sets, so that the order of actions does not depend on the order of maps.
func compareSets(a, b FenceSet) int {
	return cmp.Or(cmp.Compare(a.Op, b.Op), cmp.Compare(a.Group, b.Group), cmp.Compare(a.Procs, b.Procs))
}

// sortedSets returns the sets with a fence under way, or a failed one.
func (c *core) sortedSets() []FenceSet { return slices.SortedFunc(maps.Keys(c.fences), compareSets) }

// Collective is what the processes do that meet in a fence.
type Collective string

const (
	opFence      Collective = "fence"
	opConnect    Collective = "connect"
	opDisconnect Collective = "disconnect"
)

// fence is one instance. A process's n-th fence of a set of processes is the n-th instance of that set.
type fence struct {
	id        FenceID
	group     *group     // the group that the fence makes or ends; nil for other collectives
	procs     []*process // sorted by name; not to be changed
	joined    map[*process]caller
	missing   int         // processes of this node that have not joined
	elsewhere bool        // some participants are on other nodes
	spans     bool        // elsewhere, and the servers there can be asked: part says how the fence ends
	part      partState   // of fences that span nodes
	cause     wire.Status // the error of this node's part; success: the part is well so far
	collect   bool
	deadline  tick
	failed    bool        // the fence ended with status, and is kept for processes that have not joined yet
	status    wire.Status // valid when failed
}

// participants resolves the processes of a request, sorted, and the key of the set. No name at all stands for the
// caller's namespace.
func (c *core) participants(from *process, procs []wire.Proc) ([]*process, string, error) {
	if len(procs) == 0 {
		return from.space.procs, from.space.everybody, nil
	}
	if len(procs) == 1 && procs[0].Rank == wire.RankWildcard && c.spaces[procs[0].Nspace] != nil { // the usual case
		s := c.spaces[procs[0].Nspace]
		return s.procs, s.everybody, nil
	}
	procs = c.expand(from, procs)
	whole := map[*nspace]bool{}
	var some []*process
	for _, name := range procs {
		s := c.spaces[name.Nspace]
		if s == nil {
			return nil, "", fmt.Errorf("process %v, want one of a namespace that is known here", name)
		}
		if name.Rank == wire.RankWildcard {
			whole[s] = true
			continue
		}
		p := s.find(name.Rank)
		if p == nil {
			return nil, "", fmt.Errorf("process %v, want a rank below %d", name, len(s.procs))
		}
		some = append(some, p)
	}
	some = slices.DeleteFunc(some, func(p *process) bool { return whole[p.space] })
	for s := range whole {
		some = append(some, s.procs...)
	}
	slices.SortFunc(some, func(a, b *process) int { return compareProcs(a.name, b.name) })
	some = slices.Compact(some)
	return some, setKey(some), nil
}

// setKey is FenceID.Procs of sorted processes.
func setKey(procs []*process) string {
	var key strings.Builder
	for len(procs) > 0 {
		s := procs[0].space
		n := len(procs)
		if i := slices.IndexFunc(procs, func(p *process) bool { return p.space != s }); i >= 0 {
			n = i
		}
		if key.Len() > 0 {
			key.WriteByte(';')
		}
		key.WriteString(s.name)
		key.WriteByte(':')
		key.WriteString(ranksOf(procs[:n]))
		procs = procs[n:]
	}
	return key.String()
}

// ranksOf lists ranks of one namespace.
func ranksOf(procs []*process) string {
	if len(procs) == len(procs[0].space.procs) {
		return "*"
	}
	list := make([]byte, 0, 8*len(procs))
	for i, p := range procs {
		if i > 0 {
			list = append(list, ',')
		}
		list = strconv.AppendUint(list, uint64(p.name.Rank), 10)
	}
	return string(list)
}

// takesPart says whether a process is among sorted ones.
func takesPart(procs []*process, p *process) bool {
	_, ok := slices.BinarySearchFunc(procs, p, func(a, b *process) int { return compareProcs(a.name, b.name) })
	return ok
}

// concerns says whether processes of a namespace take part.
func (f *fence) concerns(s *nspace) bool {
	return slices.ContainsFunc(f.procs, func(p *process) bool { return p.space == s })
}

func (c *core) fence(at caller, r *wire.FenceRequest) { c.join(at, opFence, r.Procs, r.Info) }

// join makes the caller one of those who wait for each other.
func (c *core) join(at caller, op Collective, names []wire.Proc, infos []wire.Info) {
	procs, key, err := c.participants(at.process, names)
	if err != nil {
		c.refuse(at, wire.StatusErrBadParam, string(op)+": "+err.Error())
		return
	}
	if !takesPart(procs, at.process) {
		c.refuse(at, wire.StatusErrBadParam, fmt.Sprintf("%s: among %s, want the caller to take part", op, clipped(key)))
		return
	}
	set := FenceSet{Op: op, Procs: key}
	f := c.openFence(set, at.process)
	if f == nil {
		if status, gone := anyGone(procs); gone && !c.spans(procs) {
			c.reply(at, status)
			return
		}
		if c.crowded(set) {
			c.refuse(at, wire.StatusErrOutOfResource, string(op)+": too many under way")
			return
		}
		f = c.newFence(set, procs)
		c.passOverDead(f)
	}
	c.enter(f, at, infos)
}

// crowded says that there is no room for a further fence of a set of processes.
func (c *core) crowded(set FenceSet) bool {
	return len(c.fences[set]) >= maxFences || len(c.fences) >= maxFenceSets ||
		(len(c.sequences) >= maxSequences && c.sequences[set] == nil)
}

// enter adds the caller to those who have joined a fence.
func (c *core) enter(f *fence, at caller, infos []wire.Info) {
	f.joined[at.process] = at
	if f.failed {
		c.reply(at, f.status)
		c.dropHeard(f.id.FenceSet)
		return
	}
	f.missing--
	f.collect = f.collect || wire.Flag(infos, wire.KeyCollectData)
	if by := c.timeout(infos); by != 0 && (f.deadline == 0 || by < f.deadline) {
		f.deadline = by
	}
	if f.missing == 0 {
		c.localDone(f)
	}
}

// openFence returns the first instance that p has not joined, nil when it is the first to join the next one.
func (c *core) openFence(set FenceSet, p *process) *fence {
	for _, f := range c.fences[set] {
		if _, joined := f.joined[p]; !joined {
			return f
		}
	}
	return nil
}

func (c *core) newFence(set FenceSet, procs []*process) *fence {
	f := &fence{id: FenceID{FenceSet: set}, procs: procs, joined: make(map[*process]caller, len(procs))}
	for _, p := range procs {
		if p.local {
			f.missing++
		} else {
			f.elsewhere = true
		}
	}
	if f.elsewhere {
		f.spans = c.remote
		s := c.sequence(set, procs)
		s.last++
		f.id.Seq = s.last
	}
	c.fences[set] = append(c.fences[set], f)
	return f
}

func anyGone(procs []*process) (wire.Status, bool) {
	for _, p := range procs {
		if status, gone := p.gone(); gone {
			return status, true
		}
	}
	return wire.StatusSuccess, false
}

// localDone carries a fence on when the last participant of this node has joined.
func (c *core) localDone(f *fence) {
	switch {
	case !f.elsewhere:
		c.endFence(f)
	case !c.remote:
		c.failFence(f, wire.StatusErrUnreach)
	default:
		c.handIn(f)
	}
}

// contribution is this node's part of a fence that collects: what its participants show to other nodes.
func (c *core) contribution(f *fence) []byte {
	if !f.collect {
		return nil
	}
	var out []byte
	for _, p := range f.procs {
		if !p.local {
			continue
		}
		if data, ok := export(p); ok {
			out = data.Append(out)
		}
	}
	return out
}

// endFence ends a fence well.
func (c *core) endFence(f *fence) {
	switch f.id.Op {
	case opConstruct:
		c.endConstruct(f)
		return
	case opDestruct:
		c.dropGroup(f.group)
		c.answerFence(f, wire.StatusSuccess)
	case opConnect:
		c.answerConnect(f)
	default:
		if s := f.procs[0].space; f.collect && len(f.procs) == len(s.procs) && f.procs[len(f.procs)-1].space == s {
			s.meet()
		}
		c.answerFence(f, wire.StatusSuccess)
	}
	c.removeFence(f)
}

// failFence ends a fence for those who joined, and keeps the news for those who will.
func (c *core) failFence(f *fence, status wire.Status) {
	f.failed, f.status = true, status
	c.answerFence(f, status)
	c.dropHeard(f.id.FenceSet)
}

func (c *core) answerFence(f *fence, status wire.Status) {
	payload := statusReply(status)
	for _, p := range f.procs {
		if at, ok := f.joined[p]; ok && at.conn != 0 {
			c.send(at.conn, at.tag, payload)
		}
	}
}

func (c *core) removeFence(f *fence) {
	set := f.id.FenceSet
	c.setFences(set, slices.DeleteFunc(c.fences[set], func(g *fence) bool { return g == f }))
}

func (c *core) setFences(set FenceSet, fences []*fence) {
	if len(fences) == 0 {
		delete(c.fences, set)
		return
	}
	c.fences[set] = fences
}

// dropHeard forgets failed fences of which every live participant of this node has heard, and the oldest of too many.
func (c *core) dropHeard(set FenceSet) {
	failed := 0
	for _, f := range c.fences[set] {
		if f.over() {
			failed++
		}
	}
	c.setFences(set, slices.DeleteFunc(c.fences[set], func(f *fence) bool {
		if !f.over() {
			return false
		}
		failed--
		return failed >= maxFailedFences || f.allHeard()
	}))
}

func (f *fence) allHeard() bool {
	for _, p := range f.procs {
		_, joined := f.joined[p]
		if _, gone := p.gone(); !joined && !gone && p.local {
			return false
		}
	}
	return true
}

// failFences spoils the fences that wait for p. Those that p has joined are spoiled only if p died.
func (c *core) failFences(p *process, status wire.Status, died bool) {
	for _, set := range c.sortedSets() {
		for _, f := range slices.Clone(c.fences[set]) {
			if f.group != nil || !takesPart(f.procs, p) {
				continue
			}
			if _, joined := f.joined[p]; !f.failed && (died || !joined) {
				c.spoil(f, status)
			}
		}
		c.dropHeard(set)
	}
}

// clipped keeps messages short whatever was asked.
func clipped(s string) string {
	if len(s) > 128 {
		return s[:128] + "..."
	}
	return s
}
