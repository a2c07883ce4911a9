package server

import (
	"errors"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/kvs"
)

// maxPendingGets bounds how many gets may wait for one process.
const maxPendingGets = 65536

// get is a request for data that is still to come, from a client or from another node's server.
type get struct {
	conn     connID // of the client; zero for another node's request
	tag      uint32 // of the client's request
	request  uint64 // number of another node's request
	key      string
	reader   kvs.Reader
	deadline tick
}

// gets serves the data that processes commit: commits, the gets that wait for them, and data from other nodes.
// The data itself is in nspace.store.
type gets struct {
	*common
	waiting map[codec.Proc][]get // by the process whose data they want
}

// requestData serves a get. One for data that is still to come waits, unless its directives forbid it.
func (gs *gets) requestData(at caller, r *codec.GetRequest) {
	if r.Proc.Rank == codec.RankWildcard {
		gs.requestJobData(at, r)
		return
	}
	target := gs.find(r.Proc)
	if target == nil {
		gs.reply(at, codec.StatusErrNotFound)
		return
	}
	g := get{conn: at.conn, tag: at.tag, key: r.Key, reader: readerOf(target)}
	if codec.Flag(r.Info, codec.KeyImmediate) || codec.Flag(r.Info, codec.KeyOptional) {
		if !gs.answerIfPresent(&g, target) {
			gs.fail(&g, codec.StatusErrNotFound)
		}
		return
	}
	g.deadline = gs.readTimeout(r.Info)
	gs.answerOrKeep(g, target)
}

// requestJobData answers a get for the keys of a job, which its processes have not put.
func (gs *gets) requestJobData(at caller, r *codec.GetRequest) {
	s := gs.spaces[r.Proc.Nspace]
	if s == nil || (r.Key != "" && !s.level.keys[r.Key]) {
		gs.reply(at, codec.StatusErrNotFound)
		return
	}
	gs.send(at.conn, at.tag, s.level.reply)
}

// readerOf returns how processes of this node see the data of another process.
func readerOf(owner *process) kvs.Reader {
	if owner.local {
		return kvs.SameNode
	}
	return kvs.OtherNode
}

// serveNode serves a get that another node's server passes on.
func (gs *gets) serveNode(ev event) {
	g := get{request: ev.request, key: ev.key, reader: kvs.OtherNode}
	p := gs.find(ev.proc)
	if p == nil || !p.local {
		gs.fail(&g, codec.StatusErrNotFound)
		return
	}
	gs.answerOrKeep(g, p)
}

// answerOrKeep answers a get now, or keeps it until the target commits or ends, or time is up.
func (gs *gets) answerOrKeep(g get, p *process) {
	if gs.answerIfPresent(&g, p) {
		return
	}
	if p.phase == phaseFinalized {
		gs.fail(&g, codec.StatusErrNotFound)
		return
	}
	if status, gone := p.gone(); gone {
		gs.fail(&g, status)
		return
	}
	target := p.name
	if len(gs.waiting[target]) >= maxPendingGets {
		gs.fail(&g, codec.StatusErrOutOfResource)
		return
	}
	if !p.local {
		if !gs.remote {
			gs.fail(&g, codec.StatusErrUnreach)
			return
		}
		if !slices.ContainsFunc(gs.waiting[target], func(h get) bool { return h.key == g.key }) {
			gs.emit(action{kind: actFetch, proc: target, key: g.key})
		}
	}
	gs.waiting[target] = append(gs.waiting[target], g)
}

// answerIfPresent answers a get if the data is there.
func (gs *gets) answerIfPresent(g *get, target *process) bool {
	store, rank := target.space.store, target.name.Rank
	if !store.Has(rank, g.reader, g.key) {
		return false
	}
	if g.conn == 0 {
		data, _ := export(target)
		gs.emit(action{kind: actServed, request: g.request, payload: data.Packed})
		return true
	}
	gs.sendData(g, target)
	return true
}

// fail answers a get with an error.
func (gs *gets) fail(g *get, status codec.Status) {
	if g.conn == 0 {
		gs.emit(action{kind: actServed, request: g.request, status: status})
		return
	}
	gs.send(g.conn, g.tag, statusReply(status))
}

// keepWhere drops the waiting gets of one target for which keep returns false.
func (gs *gets) keepWhere(target codec.Proc, keep func(*get) bool) {
	kept := slices.DeleteFunc(gs.waiting[target], func(g get) bool { return !keep(&g) })
	if len(kept) == 0 {
		delete(gs.waiting, target)
		return
	}
	gs.waiting[target] = kept
}

// failWhere fails those waiting gets of one target that end reports as over, with the status that end returns.
func (gs *gets) failWhere(target codec.Proc, end func(*get) (codec.Status, bool)) {
	gs.keepWhere(target, func(g *get) bool {
		status, over := end(g)
		if over {
			gs.fail(g, status)
		}
		return !over
	})
}

// answerWaiting answers the gets that a commit made answerable.
func (gs *gets) answerWaiting(target *process) {
	gs.keepWhere(target.name, func(g *get) bool { return !gs.answerIfPresent(g, target) })
}

// expire fails the gets whose deadline has passed.
func (gs *gets) expire() {
	for _, name := range sortedProcs(gs.waiting) {
		gs.failWhere(name, func(g *get) (codec.Status, bool) {
			return codec.StatusErrTimeout, gs.checkDeadline(g.deadline)
		})
	}
}

// failWaiting fails all gets that wait for a process from which no data will come.
func (gs *gets) failWaiting(target codec.Proc, status codec.Status) {
	gs.failWhere(target, func(*get) (codec.Status, bool) { return status, true })
}

// dropConnection drops the gets of a connection that has ended.
func (gs *gets) dropConnection(conn connID) {
	for _, target := range sortedProcs(gs.waiting) {
		gs.keepWhere(target, func(g *get) bool { return g.conn != conn })
	}
}

// storeFetched stores another node's answer for one of its processes, and answers the gets that wait for it.
func (gs *gets) storeFetched(ev event) {
	p := gs.find(ev.proc)
	if p == nil {
		return
	}
	status := ev.status
	if status == codec.StatusSuccess {
		p.space.unshare()
		if err := p.space.store.Commit(p.name.Rank, codec.ScopeRemote, ev.payload); err != nil {
			status = codec.StatusErrUnpackFailure
		} else {
			gs.answerWaiting(p)
			status = codec.StatusErrNotFound // for gets that the answer does not satisfy
		}
	}
	gs.failWhere(ev.proc, func(g *get) (codec.Status, bool) { return status, g.key == ev.key })
}

// export packs the data that a process shows to other nodes.
func export(p *process) (codec.ProcData, bool) {
	return p.space.store.Export(p.name.Rank, kvs.OtherNode)
}

// storeCollected stores what a fence collected on other nodes.
func (gs *gets) storeCollected(packed []byte) codec.Status {
	d := codec.NewDecoder(packed)
	for d.More() {
		data := codec.UnpackProcData(d)
		p := gs.find(data.Proc)
		switch {
		case d.Err() != nil || p == nil && gs.spaces[data.Proc.Nspace] != nil:
			return codec.StatusErrUnpackFailure
		case p == nil || p.local: // The job is over here. The fence still ends as on the nodes that know the job.
			continue
		}
		p.space.unshare()
		if err := p.space.store.Commit(p.name.Rank, codec.ScopeRemote, data.Packed); err != nil {
			return codec.StatusErrUnpackFailure
		}
		gs.answerWaiting(p)
	}
	return codec.StatusSuccess
}

// commitData serves a commit: it stores the data and answers the gets that wait for it.
func (gs *gets) commitData(at caller, r *codec.CommitRequest) {
	for _, b := range r.Blobs {
		at.space.unshare()
		if err := at.space.store.Commit(at.name.Rank, b.Scope, b.Data); err != nil {
			status := codec.StatusErrUnpackFailure
			if errors.Is(err, kvs.ErrFull) {
				status = codec.StatusErrOutOfResource
			}
			gs.refuse(at, status, err.Error())
			return
		}
	}
	gs.reply(at, codec.StatusSuccess)
	gs.answerWaiting(at.process)
}
