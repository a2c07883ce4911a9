package server

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/pmix/wire"
)

// everybody is the key of a fence of all the job's processes, however they were named.
const everybody = "*"

// Bounds on what clients can make the server keep.
const (
	maxFailedFences = 64    // ended fences of one set of processes, kept for those who have yet to hear of it
	maxFences       = 1024  // instances of one set of processes under way at once
	maxFenceSets    = 65536 // sets of processes with a fence under way
)

// FenceID names one fence of a job on all its nodes: the set of processes and its number in the sequence of their fences.
type FenceID struct {
	Procs string // ranks in ascending order, or "*"
	Seq   uint64
}

// fence is one instance. A rank's n-th fence of a set of processes is the n-th instance of that set.
type fence struct {
	id        FenceID
	ranks     []wire.Rank
	joined    map[wire.Rank]waiter
	missing   int  // processes of this node that have not joined
	elsewhere bool // there are participants on other nodes
	collect   bool
	deadline  tick
	failed    bool        // ended with status; kept for those who have not joined yet
	status    wire.Status // valid when failed
}

type waiter struct {
	conn connID
	tag  uint32
}

// participants resolves the processes of a request to sorted ranks and the key of the set.
func (c *core) participants(procs []wire.Proc) ([]wire.Rank, string, error) {
	var ranks []wire.Rank
	for _, p := range procs {
		if p.Nspace != c.nspace {
			return nil, "", fmt.Errorf("process %v, want one of %s", p, c.nspace)
		}
		if p.Rank == wire.RankWildcard {
			return c.all(), everybody, nil
		}
		if c.process(p.Rank) == nil {
			return nil, "", fmt.Errorf("process %v, want a rank below %d", p, len(c.procs))
		}
		ranks = append(ranks, p.Rank)
	}
	if len(ranks) == 0 {
		return c.all(), everybody, nil
	}
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	if len(ranks) == len(c.procs) {
		return ranks, everybody, nil
	}
	var key strings.Builder
	for i, r := range ranks {
		if i > 0 {
			key.WriteByte(',')
		}
		key.WriteString(strconv.FormatUint(uint64(r), 10))
	}
	return ranks, key.String(), nil
}

func (c *core) all() []wire.Rank {
	ranks := make([]wire.Rank, len(c.procs))
	for i := range ranks {
		ranks[i] = wire.Rank(i)
	}
	return ranks
}

func (c *core) fence(conn connID, tag uint32, p *process, r *wire.FenceRequest) {
	rank := wire.Rank(p.Rank)
	ranks, key, err := c.participants(r.Procs)
	if err != nil {
		c.refuse(conn, tag, wire.StatusErrBadParam, "fence: "+err.Error())
		return
	}
	if _, ok := slices.BinarySearch(ranks, rank); !ok {
		c.refuse(conn, tag, wire.StatusErrBadParam, fmt.Sprintf("fence: among %s, want the caller to take part", key))
		return
	}
	f := c.openFence(key, rank)
	if f == nil {
		if status, gone := c.anyGone(ranks); gone {
			c.reply(conn, tag, status)
			return
		}
		if len(c.fences[key]) >= maxFences || len(c.fences) >= maxFenceSets {
			c.refuse(conn, tag, wire.StatusErrOutOfResource, "fence: too many under way")
			return
		}
		f = c.newFence(key, ranks)
	}
	f.joined[rank] = waiter{conn, tag}
	if f.failed {
		c.reply(conn, tag, f.status)
		c.dropHeard(key)
		return
	}
	f.missing--
	f.collect = f.collect || flag(r.Info, wire.KeyCollectData)
	if at := c.timeout(r.Info); at != 0 && (f.deadline == 0 || at < f.deadline) {
		f.deadline = at
	}
	if f.missing == 0 {
		c.localDone(f)
	}
}

// openFence returns the first instance that rank has not joined, nil when it is the first to join the next one.
func (c *core) openFence(key string, rank wire.Rank) *fence {
	for _, f := range c.fences[key] {
		if _, joined := f.joined[rank]; !joined {
			return f
		}
	}
	return nil
}

func (c *core) newFence(key string, ranks []wire.Rank) *fence {
	f := &fence{ranks: ranks, joined: map[wire.Rank]waiter{}, id: FenceID{Procs: key}}
	for _, r := range ranks {
		if c.procs[r].Node == c.node {
			f.missing++
		} else {
			f.elsewhere = true
		}
	}
	if f.elsewhere {
		c.fenceSeq[key]++
		f.id.Seq = c.fenceSeq[key]
	}
	c.fences[key] = append(c.fences[key], f)
	return f
}

func (c *core) anyGone(ranks []wire.Rank) (wire.Status, bool) {
	for _, r := range ranks {
		if status, gone := c.procs[r].gone(); gone {
			return status, true
		}
	}
	return wire.StatusSuccess, false
}

// localDone goes on when the last participant of this node has joined.
func (c *core) localDone(f *fence) {
	switch {
	case !f.elsewhere:
		c.endFence(f)
	case !c.remote:
		c.failFence(f, wire.StatusErrUnreach)
	default:
		c.act(action{kind: actFence, fence: f.id, ranks: toUint32(f.ranks), payload: c.contribution(f)})
	}
}

// contribution is this node's part of a fence that collects: what its participants show to other nodes.
func (c *core) contribution(f *fence) []byte {
	if !f.collect {
		return nil
	}
	var out []byte
	for _, r := range f.ranks {
		if c.procs[r].Node != c.node {
			continue
		}
		if data, ok := c.export(r); ok {
			out = data.Append(out)
		}
	}
	return out
}

// endFence ends a fence well.
func (c *core) endFence(f *fence) {
	c.answerFence(f, wire.StatusSuccess)
	c.removeFence(f)
}

// failFence ends a fence for those who joined, and keeps the news for those who will.
func (c *core) failFence(f *fence, status wire.Status) {
	f.failed, f.status = true, status
	c.answerFence(f, status)
	c.dropHeard(f.id.Procs)
}

func (c *core) answerFence(f *fence, status wire.Status) {
	payload := wire.AppendStatusReply(nil, status)
	for _, r := range f.ranks {
		if w, ok := f.joined[r]; ok {
			c.send(w.conn, w.tag, payload)
		}
	}
}

func (c *core) removeFence(f *fence) {
	key := f.id.Procs
	c.setFences(key, slices.DeleteFunc(c.fences[key], func(g *fence) bool { return g == f }))
}

func (c *core) setFences(key string, fences []*fence) {
	if len(fences) == 0 {
		delete(c.fences, key)
		return
	}
	c.fences[key] = fences
}

// dropHeard forgets failed fences of which every live participant of this node has heard, and the oldest of too many.
func (c *core) dropHeard(key string) {
	failed := 0
	for _, f := range c.fences[key] {
		if f.failed {
			failed++
		}
	}
	c.setFences(key, slices.DeleteFunc(c.fences[key], func(f *fence) bool {
		if !f.failed {
			return false
		}
		failed--
		return failed >= maxFailedFences || c.allHeard(f)
	}))
}

func (c *core) allHeard(f *fence) bool {
	for _, r := range f.ranks {
		_, joined := f.joined[r]
		if _, gone := c.procs[r].gone(); !joined && !gone && c.procs[r].Node == c.node {
			return false
		}
	}
	return true
}

// failFences ends the fences that wait for rank, those that it has joined only if it died.
func (c *core) failFences(rank wire.Rank, status wire.Status, died bool) {
	for _, key := range sortedKeys(c.fences) {
		for _, f := range slices.Clone(c.fences[key]) {
			if _, takesPart := slices.BinarySearch(f.ranks, rank); !takesPart {
				continue
			}
			if _, joined := f.joined[rank]; !f.failed && (died || !joined) {
				c.failFence(f, status)
			}
		}
		c.dropHeard(key)
	}
}

// fenceDone takes the result of a fence with participants on other nodes.
func (c *core) fenceDone(ev event) {
	for _, f := range c.fences[ev.fence.Procs] {
		status := ev.status
		if f.id != ev.fence || f.failed || (status == wire.StatusSuccess && f.missing > 0) {
			continue
		}
		if status == wire.StatusSuccess {
			status = c.importAll(ev.payload)
		}
		if status != wire.StatusSuccess {
			c.failFence(f, status)
			return
		}
		c.endFence(f)
		return
	}
}

func toUint32(ranks []wire.Rank) []uint32 {
	out := make([]uint32, len(ranks))
	for i, r := range ranks {
		out[i] = uint32(r)
	}
	return out
}
