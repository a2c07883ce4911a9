package server

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Bounds on what clients can make the server keep.
const (
	maxFailedFences = 64    // failed fences of one set of processes, kept for participants that have not joined yet
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

// FenceID names one fence on all its nodes: the set of processes, and the fence's number in the sequence of their
// fences.
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

// fences holds all collectives in which processes wait for each other: fences, connects and disconnects, and those in
// which a group comes about or ends (groups opens these). The rules of fences that span nodes are in core_span.go.
type fences struct {
	*common
	gets      *gets
	groups    *groups
	bySet     map[FenceSet][]*fence  // by set, the oldest first: fences under way, and failed ones that some have yet to hear of
	sequences map[FenceSet]*sequence // sets with participants on other nodes
}

// sortedSets returns the sets with a fence under way, or a failed one.
func (fs *fences) sortedSets() []FenceSet { return slices.SortedFunc(maps.Keys(fs.bySet), compareSets) }

// Collective names what processes do together when they meet in a fence.
type Collective string

const (
	opFence      Collective = "fence"
	opConnect    Collective = "connect"
	opDisconnect Collective = "disconnect"
)

// fence is one instance of a collective. A process's n-th fence of a set of processes is the n-th instance of that set.
type fence struct {
	id        FenceID
	group     *group              // the group that the fence makes or ends; nil for other collectives
	procs     []*process          // the participants, sorted by name; nobody changes the slice
	joined    map[*process]caller // participants of this node that have joined, or that the fence does without
	missing   int                 // number of participants of this node that have not joined
	elsewhere bool                // Some participants are on other nodes.
	spans     bool                // Some participants are elsewhere, and this server can ask theirs: part says how the fence ends.
	part      partState           // state of this node's part, if the fence spans nodes
	cause     codec.Status        // the error of this node's part; success: the part is well so far
	collect   bool                // A participant asked for the exchange of data.
	deadline  tick
	failed    bool         // The fence ended with status; it stays for processes that have not joined yet.
	status    codec.Status // valid when failed
}

// concerns reports whether processes of a namespace take part.
func (f *fence) concerns(s *nspace) bool {
	return slices.ContainsFunc(f.procs, func(p *process) bool { return p.space == s })
}

// join serves a fence request.
func (fs *fences) join(at caller, r *codec.FenceRequest) {
	fs.joinCollective(at, opFence, r.Procs, r.Info)
}

// joinCollective makes the caller join the first instance that it has not joined yet. The first to join opens the
// instance.
func (fs *fences) joinCollective(at caller, op Collective, names []codec.Proc, infos []codec.Info) {
	procs, key, err := fs.groups.resolveParticipants(at.process, names)
	if err != nil {
		fs.refuse(at, codec.StatusErrBadParam, string(op)+": "+err.Error())
		return
	}
	if !takesPart(procs, at.process) {
		fs.refuse(at, codec.StatusErrBadParam, fmt.Sprintf("%s: among %s, want the caller to take part", op, clipped(key)))
		return
	}
	set := FenceSet{Op: op, Procs: key}
	f := fs.findOpen(set, at.process)
	if f == nil {
		if status, gone := anyGone(procs); gone && !fs.spans(procs) {
			fs.reply(at, status)
			return
		}
		if fs.isCrowded(set) {
			fs.refuse(at, codec.StatusErrOutOfResource, string(op)+": too many under way")
			return
		}
		f = fs.add(set, procs)
		fs.passOverDead(f)
	}
	fs.addParticipant(f, at, infos)
}

// isCrowded reports whether there is no room for a further fence of a set of processes.
func (fs *fences) isCrowded(set FenceSet) bool {
	return len(fs.bySet[set]) >= maxFences || len(fs.bySet) >= maxFenceSets ||
		(len(fs.sequences) >= maxSequences && fs.sequences[set] == nil)
}

// addParticipant adds the caller to those who have joined a fence. The last of this node carries the fence on.
func (fs *fences) addParticipant(f *fence, at caller, infos []codec.Info) {
	f.joined[at.process] = at
	if f.failed {
		fs.reply(at, f.status)
		fs.dropHeardFailures(f.id.FenceSet)
		return
	}
	f.missing--
	f.collect = f.collect || codec.Flag(infos, codec.KeyCollectData)
	if by := fs.readTimeout(infos); by != 0 && (f.deadline == 0 || by < f.deadline) {
		f.deadline = by
	}
	if f.missing == 0 {
		fs.finishLocal(f)
	}
}

// findOpen returns the first instance that p has not joined, or nil if p is the first to join the next instance.
func (fs *fences) findOpen(set FenceSet, p *process) *fence {
	for _, f := range fs.bySet[set] {
		if _, joined := f.joined[p]; !joined {
			return f
		}
	}
	return nil
}

// add opens an instance. One with participants on other nodes gets the next number of its sequence.
func (fs *fences) add(set FenceSet, procs []*process) *fence {
	f := &fence{id: FenceID{FenceSet: set}, procs: procs, joined: make(map[*process]caller, len(procs))}
	for _, p := range procs {
		if p.local {
			f.missing++
		} else {
			f.elsewhere = true
		}
	}
	if f.elsewhere {
		f.spans = fs.remote
		s := fs.openSequence(set, procs)
		s.last++
		f.id.Seq = s.last
	}
	fs.bySet[set] = append(fs.bySet[set], f)
	return f
}

// anyGone reports whether one of some processes is gone, and with which status.
func anyGone(procs []*process) (codec.Status, bool) {
	for _, p := range procs {
		if status, gone := p.gone(); gone {
			return status, true
		}
	}
	return codec.StatusSuccess, false
}

// finishLocal carries a fence on when the last participant of this node has joined.
func (fs *fences) finishLocal(f *fence) {
	switch {
	case !f.elsewhere:
		fs.complete(f)
	case !fs.remote:
		fs.fail(f, codec.StatusErrUnreach)
	default:
		fs.decidePart(f)
	}
}

// packContribution packs this node's part of a fence: the data that its participants show to other nodes, if it collects,
// and what a group needs that comes about.
func (fs *fences) packContribution(f *fence) []byte {
	var out []byte
	if f.collect {
		out = fs.packShown(f)
	}
	if f.id.Op == opConstruct {
		return fs.groups.packPart(f, out)
	}
	return out
}

// packShown packs the data that the participants of this node show to other nodes.
func (*fences) packShown(f *fence) (out []byte) {
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

// complete ends a fence well.
func (fs *fences) complete(f *fence) {
	switch f.id.Op {
	case opConstruct:
		fs.groups.completeConstruct(f)
		return
	case opDestruct:
		fs.groups.drop(f.group)
		fs.answer(f, codec.StatusSuccess)
	case opConnect:
		fs.answerConnect(f)
	default:
		if s := f.procs[0].space; f.collect && len(f.procs) == len(s.procs) && f.procs[len(f.procs)-1].space == s {
			s.noteMeeting()
		}
		fs.answer(f, codec.StatusSuccess)
	}
	fs.remove(f)
}

// expire fails the fences whose deadline has passed.
func (fs *fences) expire() {
	for _, set := range fs.sortedSets() {
		for _, f := range slices.Clone(fs.bySet[set]) {
			if !f.failed && fs.checkDeadline(f.deadline) {
				fs.expireFence(f)
			}
		}
	}
}

// dropJob drops the fences of a namespace that ends, unless the other nodes still owe an answer. It drops all its
// sequences, because no request can name its processes again.
func (fs *fences) dropJob(s *nspace) {
	for _, set := range fs.sortedSets() {
		fs.replaceSet(set, slices.DeleteFunc(fs.bySet[set], func(f *fence) bool { return f.concerns(s) && !f.owed() }))
	}
	maps.DeleteFunc(fs.sequences, func(_ FenceSet, q *sequence) bool { return slices.Contains(q.spaces, s) })
}

// fail ends a fence for the processes that have joined, and keeps the status for those that join later.
func (fs *fences) fail(f *fence, status codec.Status) {
	f.failed, f.status = true, status
	fs.answer(f, status)
	fs.dropHeardFailures(f.id.FenceSet)
}

// answer sends a status to all who have joined.
func (fs *fences) answer(f *fence, status codec.Status) {
	payload := statusReply(status)
	for _, p := range f.procs {
		if at, ok := f.joined[p]; ok && at.conn != 0 {
			fs.send(at.conn, at.tag, payload)
		}
	}
}

// remove drops a fence whose participants all have their answer.
func (fs *fences) remove(f *fence) {
	set := f.id.FenceSet
	fs.replaceSet(set, slices.DeleteFunc(fs.bySet[set], func(g *fence) bool { return g == f }))
}

// replaceSet makes some fences those of a set.
func (fs *fences) replaceSet(set FenceSet, fences []*fence) {
	if len(fences) == 0 {
		delete(fs.bySet, set)
		return
	}
	fs.bySet[set] = fences
}

// dropHeardFailures drops the failed fences of a set of which every live participant of this node has heard, and the
// oldest of too many.
func (fs *fences) dropHeardFailures(set FenceSet) {
	failed := 0
	for _, f := range fs.bySet[set] {
		if f.over() {
			failed++
		}
	}
	fs.replaceSet(set, slices.DeleteFunc(fs.bySet[set], func(f *fence) bool {
		if !f.over() {
			return false
		}
		failed--
		return failed >= maxFailedFences || f.allHeard()
	}))
}

// allHeard reports whether every live participant of this node has joined the fence, and so has got its status.
func (f *fence) allHeard() bool {
	for _, p := range f.procs {
		_, joined := f.joined[p]
		if _, gone := p.gone(); !joined && !gone && p.local {
			return false
		}
	}
	return true
}

// failWaitingFor spoils the fences that wait for p, except for those of groups, which groups.removeDead looks at.
// Fences that p has joined fail only if p died.
func (fs *fences) failWaitingFor(p *process, status codec.Status, died bool) {
	for _, set := range fs.sortedSets() {
		for _, f := range slices.Clone(fs.bySet[set]) {
			if f.group != nil || !takesPart(f.procs, p) {
				continue
			}
			if _, joined := f.joined[p]; !f.failed && (died || !joined) {
				fs.spoil(f, status)
			}
		}
		fs.dropHeardFailures(set)
	}
}

// clipped cuts a name from a request to a length for messages.
func clipped(s string) string {
	if len(s) > 128 {
		return s[:128] + "..."
	}
	return s
}
