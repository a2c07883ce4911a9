package server

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Bounds on I/O forwarding.
const (
	maxPulls     = 64      // of one process
	maxPullProcs = 4096    // that one pull names
	maxPush      = 1 << 20 // bytes of one push
)

// listener is somebody who gets what processes write. It does not change.
type listener struct {
	id       uint64 // the server's name for it
	ref      uint64 // the client's
	conn     connID
	owner    wire.Proc
	tool     bool
	channels wire.IOFChannel
	procs    map[wire.Proc]bool // a wildcard rank stands for a namespace
}

// wants says whether text of a process goes to the listener, and never back to its source.
func (l *listener) wants(p wire.Proc, channel wire.IOFChannel) bool {
	return l.channels&channel != 0 && p != l.owner &&
		(l.procs[p] || l.procs[wire.Proc{Nspace: p.Nspace, Rank: wire.RankWildcard}])
}

func (c *core) iofPull(at caller, r *wire.IOFPullRequest) {
	procs, status, err := c.streams(at, r.Procs)
	switch {
	case err != nil:
		c.refuse(at, status, "I/O forwarding: "+err.Error())
		return
	case r.Channels&(wire.IOFStdout|wire.IOFStderr|wire.IOFDiag) == 0 || r.Channels&wire.IOFStdin != 0:
		c.refuse(at, wire.StatusErrNotSupported, fmt.Sprintf("I/O forwarding: channels %#x, want outputs", r.Channels))
		return
	}
	n := 0
	for _, l := range c.listeners {
		if l.conn == at.conn {
			n++
		}
	}
	if n >= maxPulls {
		c.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("I/O forwarding: more than %d requests", maxPulls))
		return
	}
	l := c.listen(at, procs)
	l.ref, l.channels = r.ID, r.Channels
	c.send(at.conn, at.tag, wire.AppendIOFPullReply(nil, l.id))
	c.setListeners(append(slices.Clip(c.listeners), l))
}

// streams checks the processes whose streams the caller wants to read or feed. A tool may take all, any other client
// those of its own job and of jobs that come from it.
func (c *core) streams(at caller, names []wire.Proc) (map[wire.Proc]bool, wire.Status, error) {
	if len(names) == 0 || len(names) > maxPullProcs {
		return nil, wire.StatusErrBadParam, fmt.Errorf("%d processes named, want 1 to %d", len(names), maxPullProcs)
	}
	procs := make(map[wire.Proc]bool, len(names))
	for _, name := range names {
		s := c.spaces[name.Nspace]
		if s == nil || (name.Rank != wire.RankWildcard && s.find(name.Rank) == nil) {
			return nil, wire.StatusErrNotFound, fmt.Errorf("process %v, want one that is known here", name)
		}
		if !at.space.tool && !s.comesFrom(at.space) {
			return nil, wire.StatusErrNoPermissions, fmt.Errorf("process %v, want one of this job or spawned by it", name)
		}
		procs[name] = true
	}
	return procs, wire.StatusSuccess, nil
}

// comesFrom says whether a job is another or was spawned by it, at however many removes.
func (s *nspace) comesFrom(other *nspace) bool {
	for ; s != nil; s = s.origin {
		if s == other {
			return true
		}
	}
	return false
}

func (c *core) iofDeregister(at caller, r *wire.IOFDeregisterRequest) {
	found := false
	c.dropListeners(func(l *listener) bool {
		drop := l.id == r.ID && l.conn == at.conn
		found = found || drop
		return drop
	})
	if !found {
		c.reply(at, wire.StatusErrNotFound)
		return
	}
	c.reply(at, wire.StatusSuccess)
}

func (c *core) iofPush(at caller, r *wire.IOFPushRequest) {
	if _, status, err := c.streams(at, r.Procs); err != nil {
		c.refuse(at, status, "I/O forwarding: "+err.Error())
		return
	}
	if len(r.Data) > maxPush {
		c.refuse(at, wire.StatusErrOutOfResource,
			fmt.Sprintf("I/O forwarding: %d bytes at once, want at most %d", len(r.Data), maxPush))
		return
	}
	end := len(r.Data) == 0 || wire.Flag(r.Info, wire.KeyIOFComplete)
	c.act(action{kind: actStdin, procs: r.Procs, payload: r.Data, flag: end})
	c.reply(at, wire.StatusSuccess)
}

// listen makes a listener, which is not yet in use.
func (c *core) listen(at caller, procs map[wire.Proc]bool) *listener {
	c.lastPull++
	return &listener{id: c.lastPull, conn: at.conn, owner: at.name, tool: at.space.tool, procs: procs}
}

// setListeners replaces the table, which the driver reads while it is in use.
func (c *core) setListeners(all []*listener) {
	c.listeners = all
	c.act(action{kind: actListen, listen: all})
}

func (c *core) dropListeners(drop func(*listener) bool) {
	if slices.ContainsFunc(c.listeners, drop) {
		c.setListeners(slices.DeleteFunc(slices.Clone(c.listeners), drop))
	}
}

// listenEarly gives a new job's output to the process that asked for it with its spawn request: it may write before the
// host says that it is there. The oldest request of the parent that has no job yet is the one.
func (c *core) listenEarly(space *nspace, parent *process) {
	for _, s := range c.spawns {
		if s.at.process == parent && s.nspace == "" {
			c.listenSpawned(s, space.name)
			return
		}
	}
}

// listenSpawned gives a spawned job's output to the process that asked for it with the request.
func (c *core) listenSpawned(s *spawning, name string) {
	if s.nspace == name {
		return
	}
	s.nspace = name
	c.dropListeners(func(l *listener) bool { return l == s.listener })
	if s.channels != 0 {
		s.listener = c.listen(s.at, map[wire.Proc]bool{{Nspace: name, Rank: wire.RankWildcard}: true})
		s.listener.channels = s.channels
		c.setListeners(append(slices.Clip(c.listeners), s.listener))
	}
}

// forgetListeners ends the forwarding to a connection that is over.
func (c *core) forgetListeners(conn connID) {
	c.dropListeners(func(l *listener) bool { return l.conn == conn })
}

// forgetSources ends the forwarding of what comes from a namespace that is over and from nowhere else.
func (c *core) forgetSources(name string) {
	c.dropListeners(func(l *listener) bool {
		for p := range l.procs {
			if p.Nspace != name {
				return false
			}
		}
		return true
	})
}
