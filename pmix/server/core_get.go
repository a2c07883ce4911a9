package server

import (
	"errors"
	"slices"

	"github.com/goshmem/goshmem/pmix/kvs"
	"github.com/goshmem/goshmem/pmix/wire"
)

// maxPendingGets bounds how many gets may wait for one process.
const maxPendingGets = 65536

// get is a request for data that is still to come.
type get struct {
	conn     connID // zero: it came from another node
	tag      uint32
	request  uint64
	key      string
	reader   kvs.Reader
	deadline tick
}

func (c *core) get(at caller, r *wire.GetRequest) {
	if r.Proc.Rank == wire.RankWildcard {
		c.getLevel(at, r)
		return
	}
	target := c.find(r.Proc)
	if target == nil {
		c.reply(at, wire.StatusErrNotFound)
		return
	}
	g := get{conn: at.conn, tag: at.tag, key: r.Key, reader: readerOf(target)}
	if wire.Flag(r.Info, wire.KeyImmediate) || wire.Flag(r.Info, wire.KeyOptional) {
		if !c.answerGet(&g, target) {
			c.endGet(&g, wire.StatusErrNotFound)
		}
		return
	}
	g.deadline = c.timeout(r.Info)
	c.await(g, target)
}

// getLevel answers a get of what is known of a job without its processes having put it.
func (c *core) getLevel(at caller, r *wire.GetRequest) {
	s := c.spaces[r.Proc.Nspace]
	if s == nil || (r.Key != "" && !s.level.keys[r.Key]) {
		c.reply(at, wire.StatusErrNotFound)
		return
	}
	c.send(at.conn, at.tag, s.level.reply)
}

// readerOf says how processes of this node see the data of another.
func readerOf(owner *process) kvs.Reader {
	if owner.local {
		return kvs.SameNode
	}
	return kvs.OtherNode
}

// serve answers a get that another node's server passes on.
func (c *core) serve(ev event) {
	g := get{request: ev.request, key: ev.key, reader: kvs.OtherNode}
	p := c.find(ev.proc)
	if p == nil || !p.local {
		c.endGet(&g, wire.StatusErrNotFound)
		return
	}
	c.await(g, p)
}

// await answers a get now or keeps it until the target commits, ends, or time is up.
func (c *core) await(g get, p *process) {
	if c.answerGet(&g, p) {
		return
	}
	if p.phase == phaseFinalized {
		c.endGet(&g, wire.StatusErrNotFound)
		return
	}
	if status, gone := p.gone(); gone {
		c.endGet(&g, status)
		return
	}
	target := p.name
	if len(c.gets[target]) >= maxPendingGets {
		c.endGet(&g, wire.StatusErrOutOfResource)
		return
	}
	if !p.local {
		if !c.remote {
			c.endGet(&g, wire.StatusErrUnreach)
			return
		}
		if !slices.ContainsFunc(c.gets[target], func(h get) bool { return h.key == g.key }) {
			c.act(action{kind: actFetch, proc: target, key: g.key})
		}
	}
	c.gets[target] = append(c.gets[target], g)
}

// answerGet answers a get if the data is there.
func (c *core) answerGet(g *get, target *process) bool {
	store, rank := target.space.store, target.name.Rank
	if !store.Has(rank, g.reader, g.key) {
		return false
	}
	if g.conn == 0 {
		data, _ := export(target)
		c.act(action{kind: actServed, request: g.request, payload: data.Packed})
		return true
	}
	c.replyTo(g, target)
	return true
}

func (c *core) endGet(g *get, status wire.Status) {
	if g.conn == 0 {
		c.act(action{kind: actServed, request: g.request, status: status})
		return
	}
	c.send(g.conn, g.tag, statusReply(status))
}

// keepGets keeps the pending gets of one target for which keep says so.
func (c *core) keepGets(target wire.Proc, keep func(*get) bool) {
	kept := slices.DeleteFunc(c.gets[target], func(g get) bool { return !keep(&g) })
	if len(kept) == 0 {
		delete(c.gets, target)
		return
	}
	c.gets[target] = kept
}

// endGets answers those pending gets of one target that end says are over.
func (c *core) endGets(target wire.Proc, end func(*get) (wire.Status, bool)) {
	c.keepGets(target, func(g *get) bool {
		status, over := end(g)
		if over {
			c.endGet(g, status)
		}
		return !over
	})
}

// settleGets answers what a commit made answerable.
func (c *core) settleGets(target *process) {
	c.keepGets(target.name, func(g *get) bool { return !c.answerGet(g, target) })
}

// failGets ends all gets that wait for a process from which nothing will come.
func (c *core) failGets(target wire.Proc, status wire.Status) {
	c.endGets(target, func(*get) (wire.Status, bool) { return status, true })
}

// forgetGets drops what a connection that is over was waiting for.
func (c *core) forgetGets(conn connID) {
	for _, target := range sortedProcs(c.gets) {
		c.keepGets(target, func(g *get) bool { return g.conn != conn })
	}
}

// fetched takes another node's answer for one of its processes.
func (c *core) fetched(ev event) {
	p := c.find(ev.proc)
	if p == nil {
		return
	}
	status := ev.status
	if status == wire.StatusSuccess {
		p.space.unshare()
		if err := p.space.store.Commit(p.name.Rank, wire.ScopeRemote, ev.payload); err != nil {
			status = wire.StatusErrUnpackFailure
		} else {
			c.settleGets(p)
			status = wire.StatusErrNotFound // for a get that the answer did not help
		}
	}
	c.endGets(ev.proc, func(g *get) (wire.Status, bool) { return status, g.key == ev.key })
}

func export(p *process) (wire.ProcData, bool) {
	return p.space.store.Export(p.name.Rank, kvs.OtherNode)
}

// importAll stores what a fence collected on other nodes.
func (c *core) importAll(packed []byte) wire.Status {
	d := wire.NewDecoder(packed)
	for d.More() {
		data := d.ProcData()
		p := c.find(data.Proc)
		switch {
		case d.Err() != nil || p == nil && c.spaces[data.Proc.Nspace] != nil:
			return wire.StatusErrUnpackFailure
		case p == nil || p.local: // of a job that is over here: the fence ends as on the nodes that know it
			continue
		}
		p.space.unshare()
		if err := p.space.store.Commit(p.name.Rank, wire.ScopeRemote, data.Packed); err != nil {
			return wire.StatusErrUnpackFailure
		}
		c.settleGets(p)
	}
	return wire.StatusSuccess
}

func (c *core) commit(at caller, r *wire.CommitRequest) {
	for _, b := range r.Blobs {
		at.space.unshare()
		if err := at.space.store.Commit(at.name.Rank, b.Scope, b.Data); err != nil {
			status := wire.StatusErrUnpackFailure
			if errors.Is(err, kvs.ErrFull) {
				status = wire.StatusErrOutOfResource
			}
			c.refuse(at, status, err.Error())
			return
		}
	}
	c.reply(at, wire.StatusSuccess)
	c.settleGets(at.process)
}
