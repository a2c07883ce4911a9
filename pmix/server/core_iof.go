package server

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Bounds on I/O forwarding.
const (
	maxPulls     = 64      // listeners of one connection
	maxPullProcs = 4096    // processes that one pull names
	maxPush      = 1 << 20 // bytes of one push
)

// listener names a client that gets the output of processes. It does not change once it is in the table.
type listener struct {
	id       uint64 // the server's number for it
	ref      uint64 // the client's number for it
	conn     connID
	owner    codec.Proc
	tool     bool
	channels codec.IOFChannel
	procs    map[codec.Proc]bool // a wildcard rank stands for a namespace
}

// wants reports whether text of a process goes to the listener. It never goes back to its source.
func (l *listener) wants(p codec.Proc, channel codec.IOFChannel) bool {
	return l.channels&channel != 0 && p != l.owner &&
		(l.procs[p] || l.procs[codec.Proc{Nspace: p.Nspace, Rank: codec.RankWildcard}])
}

// forwarding decides who gets the output of processes, and passes input on to them. The output itself never enters the
// core: Server.Output sends it by the table of listeners.
type forwarding struct {
	*common
	errands   *errands
	listeners []*listener // the table that the driver uses; each change makes a new one
	last      uint64      // number of the last listener
}

// pull serves a request for the output of processes.
func (fw *forwarding) pull(at caller, r *codec.IOFPullRequest) {
	procs, status, err := fw.checkStreams(at, r.Procs)
	switch {
	case err != nil:
		fw.refuse(at, status, "I/O forwarding: "+err.Error())
		return
	case r.Channels&(codec.IOFStdout|codec.IOFStderr|codec.IOFDiag) == 0 || r.Channels&codec.IOFStdin != 0:
		fw.refuse(at, codec.StatusErrNotSupported, fmt.Sprintf("I/O forwarding: channels %#x, want standard output, standard error or diagnostics", r.Channels))
		return
	}
	n := 0
	for _, l := range fw.listeners {
		if l.conn == at.conn {
			n++
		}
	}
	if n >= maxPulls {
		fw.refuse(at, codec.StatusErrOutOfResource, fmt.Sprintf("I/O forwarding: more than %d requests", maxPulls))
		return
	}
	l := fw.newListener(at, procs)
	l.ref, l.channels = r.ID, r.Channels
	fw.replaceListeners(append(slices.Clip(fw.listeners), l)) // before the answer: what is written after it must not be lost
	fw.send(at.conn, at.tag, codec.AppendIOFPullReply(nil, l.id))
}

// checkStreams returns the processes whose streams the caller wants to read or feed. A tool may name all processes, any
// other client those of its own job and of jobs that come from it.
func (fw *forwarding) checkStreams(at caller, names []codec.Proc) (map[codec.Proc]bool, codec.Status, error) {
	if len(names) == 0 || len(names) > maxPullProcs {
		return nil, codec.StatusErrBadParam, fmt.Errorf("%d processes named, want 1 to %d", len(names), maxPullProcs)
	}
	procs := make(map[codec.Proc]bool, len(names))
	for _, name := range names {
		s := fw.spaces[name.Nspace]
		if s == nil || (name.Rank != codec.RankWildcard && s.find(name.Rank) == nil) {
			return nil, codec.StatusErrNotFound, fmt.Errorf("process %v is unknown here, want a process of a job of this server", name)
		}
		if !at.space.tool && !s.comesFrom(at.space) {
			return nil, codec.StatusErrNoPermissions, fmt.Errorf("process %v, want a process of the caller's job or of a job spawned by it", name)
		}
		procs[name] = true
	}
	return procs, codec.StatusSuccess, nil
}

// comesFrom reports whether a job is another job, or one of its descendants.
func (s *nspace) comesFrom(other *nspace) bool {
	for ; s != nil; s = s.origin {
		if s == other {
			return true
		}
	}
	return false
}

// deregister serves the end of a pull.
func (fw *forwarding) deregister(at caller, r *codec.IOFDeregisterRequest) {
	found := false
	fw.dropListeners(func(l *listener) bool {
		drop := l.id == r.ID && l.conn == at.conn
		found = found || drop
		return drop
	})
	if !found {
		fw.reply(at, codec.StatusErrNotFound)
		return
	}
	fw.reply(at, codec.StatusSuccess)
}

// push passes input on to processes.
func (fw *forwarding) push(at caller, r *codec.IOFPushRequest) {
	if _, status, err := fw.checkStreams(at, r.Procs); err != nil {
		fw.refuse(at, status, "I/O forwarding: "+err.Error())
		return
	}
	if len(r.Data) > maxPush {
		fw.refuse(at, codec.StatusErrOutOfResource,
			fmt.Sprintf("I/O forwarding: %d bytes at once, want at most %d", len(r.Data), maxPush))
		return
	}
	end := len(r.Data) == 0 || codec.Flag(r.Info, codec.KeyIOFComplete)
	fw.emit(action{kind: actStdin, procs: r.Procs, payload: r.Data, flag: end})
	if nodes, _ := fw.errands.nodesOf(r.Procs); fw.peered {
		for _, node := range nodes {
			fw.errands.tell(node, &peerMessage{op: opInput, procs: r.Procs, flag: end, body: r.Data})
		}
	}
	fw.reply(at, codec.StatusSuccess)
}

// newListener returns a listener that is not in the table yet.
func (fw *forwarding) newListener(at caller, procs map[codec.Proc]bool) *listener {
	fw.last++
	return &listener{id: fw.last, conn: at.conn, owner: at.name, tool: at.space.tool, procs: procs}
}

// replaceListeners replaces the table. The driver reads the old one meanwhile, so that stays as it is.
func (fw *forwarding) replaceListeners(all []*listener) {
	fw.listeners = all
	fw.emit(action{kind: actListen, listen: all})
}

// dropListeners replaces the table by one without some listeners, if it has any of them.
func (fw *forwarding) dropListeners(drop func(*listener) bool) {
	if slices.ContainsFunc(fw.listeners, drop) {
		fw.replaceListeners(slices.DeleteFunc(slices.Clone(fw.listeners), drop))
	}
}

// dropConnection ends the forwarding to a connection that has ended.
func (fw *forwarding) dropConnection(conn connID) {
	fw.dropListeners(func(l *listener) bool { return l.conn == conn })
}

// dropSource drops the listeners all of whose processes are of a namespace that is over.
func (fw *forwarding) dropSource(name string) {
	fw.dropListeners(func(l *listener) bool {
		for p := range l.procs {
			if p.Nspace != name {
				return false
			}
		}
		return true
	})
}
