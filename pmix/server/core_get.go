package server

import (
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

func (c *core) get(conn connID, tag uint32, p *process, r *wire.GetRequest) {
	target := c.process(r.Proc.Rank)
	if target == nil || r.Proc.Nspace != c.nspace {
		c.reply(conn, tag, wire.StatusErrNotFound)
		return
	}
	g := get{conn: conn, tag: tag, key: r.Key, reader: readerOf(p.Node, target.Node)}
	if flag(r.Info, wire.KeyImmediate) || flag(r.Info, wire.KeyOptional) {
		if !c.answerGet(&g, r.Proc.Rank) {
			c.endGet(&g, wire.StatusErrNotFound)
		}
		return
	}
	g.deadline = c.timeout(r.Info)
	c.await(g, r.Proc.Rank)
}

func readerOf(reader, owner uint32) kvs.Reader {
	if reader == owner {
		return kvs.SameNode
	}
	return kvs.OtherNode
}

// serve answers a get that another node's server passes on.
func (c *core) serve(ev event) {
	g := get{request: ev.request, key: ev.key, reader: kvs.OtherNode}
	if p := c.process(ev.rank); p == nil || p.Node != c.node {
		c.endGet(&g, wire.StatusErrNotFound)
		return
	}
	c.await(g, ev.rank)
}

// await answers a get now or keeps it until the target commits, ends, or time is up.
func (c *core) await(g get, target wire.Rank) {
	if c.answerGet(&g, target) {
		return
	}
	p := c.process(target)
	if p.phase == phaseFinalized {
		c.endGet(&g, wire.StatusErrNotFound)
		return
	}
	if status, gone := p.gone(); gone {
		c.endGet(&g, status)
		return
	}
	if len(c.gets[target]) >= maxPendingGets {
		c.endGet(&g, wire.StatusErrOutOfResource)
		return
	}
	if p.Node != c.node {
		if !c.remote {
			c.endGet(&g, wire.StatusErrUnreach)
			return
		}
		if !slices.ContainsFunc(c.gets[target], func(h get) bool { return h.key == g.key }) {
			c.act(action{kind: actFetch, rank: target, key: g.key})
		}
	}
	c.gets[target] = append(c.gets[target], g)
}

// answerGet answers a get if the data is there.
func (c *core) answerGet(g *get, target wire.Rank) bool {
	if !c.store.Has(target, g.reader, g.key) {
		return false
	}
	if g.conn == 0 {
		data, _ := c.export(target)
		c.act(action{kind: actServed, request: g.request, payload: data.Packed})
		return true
	}
	payload, _ := c.store.Reply(target, g.reader)
	c.send(g.conn, g.tag, payload)
	return true
}

func (c *core) endGet(g *get, status wire.Status) {
	if g.conn == 0 {
		c.act(action{kind: actServed, request: g.request, status: status})
		return
	}
	c.reply(g.conn, g.tag, status)
}

// keepGets keeps the pending gets of one target for which keep says so.
func (c *core) keepGets(target wire.Rank, keep func(*get) bool) {
	kept := slices.DeleteFunc(c.gets[target], func(g get) bool { return !keep(&g) })
	if len(kept) == 0 {
		delete(c.gets, target)
		return
	}
	c.gets[target] = kept
}

// endGets answers those pending gets of one target that end says are over.
func (c *core) endGets(target wire.Rank, end func(*get) (wire.Status, bool)) {
	c.keepGets(target, func(g *get) bool {
		status, over := end(g)
		if over {
			c.endGet(g, status)
		}
		return !over
	})
}

// settleGets answers what a commit made answerable.
func (c *core) settleGets(target wire.Rank) {
	c.keepGets(target, func(g *get) bool { return !c.answerGet(g, target) })
}

// failGets ends all gets that wait for a process from which nothing will come.
func (c *core) failGets(target wire.Rank, status wire.Status) {
	c.endGets(target, func(*get) (wire.Status, bool) { return status, true })
}

// forgetGets drops what a connection that is over was waiting for.
func (c *core) forgetGets(conn connID) {
	for _, target := range sortedKeys(c.gets) {
		c.keepGets(target, func(g *get) bool { return g.conn != conn })
	}
}

// fetched takes another node's answer for one of its processes.
func (c *core) fetched(ev event) {
	status := ev.status
	if status == wire.StatusSuccess {
		if err := c.store.Commit(ev.rank, wire.ScopeRemote, ev.payload); err != nil {
			status = wire.StatusErrUnpackFailure
		} else {
			c.settleGets(ev.rank)
			status = wire.StatusErrNotFound // for a get that the answer did not help
		}
	}
	c.endGets(ev.rank, func(g *get) (wire.Status, bool) { return status, g.key == ev.key })
}

func (c *core) export(rank wire.Rank) (wire.ProcData, bool) {
	return c.store.Export(rank, kvs.OtherNode)
}

// importAll stores what a fence collected on other nodes.
func (c *core) importAll(packed []byte) wire.Status {
	d := wire.NewDecoder(packed)
	for d.More() {
		data := d.ProcData()
		p := c.process(data.Proc.Rank)
		if d.Err() != nil || p == nil || data.Proc.Nspace != c.nspace {
			return wire.StatusErrUnpackFailure
		}
		if p.Node == c.node {
			continue
		}
		if err := c.store.Commit(data.Proc.Rank, wire.ScopeRemote, data.Packed); err != nil {
			return wire.StatusErrUnpackFailure
		}
		c.settleGets(data.Proc.Rank)
	}
	return wire.StatusSuccess
}
