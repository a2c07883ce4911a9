package server

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Bounds on spawn requests.
const (
	maxSpawns    = 64      // requests of one process that wait for the host
	maxApps      = 1024    // of one request
	maxSpawnText = 4 << 20 // bytes of arguments and environment of one request
)

// spawning is a request for a job that the host has not answered.
type spawning struct {
	id       uint64
	at       caller
	channels codec.IOFChannel // the output of the job that the caller asked for
	nspace   string           // the job's namespace; empty: not known yet
	listener *listener        // of the job's output; nil if the caller did not ask for any
}

// spawns passes requests for further jobs to the host, and answers the callers.
type spawns struct {
	*common
	forwarding *forwarding
	waiting    []*spawning // the oldest first
	last       uint64      // number of the last request
}

// requestJob serves a spawn request: it passes the request to the host and keeps the caller.
func (sp *spawns) requestJob(at caller, r *codec.SpawnRequest) {
	apps, status, err := sp.spawnApps(r)
	if err != nil {
		sp.refuse(at, status, "spawn: "+err.Error())
		return
	}
	waiting := 0
	for _, s := range sp.waiting {
		if s.at.process == at.process {
			waiting++
		}
	}
	if waiting >= maxSpawns {
		sp.refuse(at, codec.StatusErrOutOfResource, fmt.Sprintf("spawn: more than %d under way", maxSpawns))
		return
	}
	sp.last++
	sp.waiting = append(sp.waiting, &spawning{id: sp.last, at: at, channels: spawnChannels(at, r.Info)})
	sp.emit(action{kind: actSpawn, spawn: &SpawnRequest{ID: sp.last, From: at.name, Infos: r.Info, Apps: apps}})
}

// spawnApps translates the applications of a request, and checks them.
func (sp *spawns) spawnApps(r *codec.SpawnRequest) ([]SpawnApp, codec.Status, error) {
	if n := len(r.Apps); n == 0 || n > maxApps {
		return nil, codec.StatusErrBadParam, fmt.Errorf("%d applications, want 1 to %d", n, maxApps)
	}
	if key, found := sp.findUnmet("PMIx_Spawn", r.Info); found {
		return nil, codec.StatusErrNotSupported, fmt.Errorf("directive %.64q is required but not supported", key)
	}
	text := 0
	out := make([]SpawnApp, len(r.Apps))
	for i, a := range r.Apps {
		if key, found := sp.findUnmet("PMIx_Spawn", a.Info); found {
			return nil, codec.StatusErrNotSupported, fmt.Errorf("application %d: directive %.64q is required but not supported", i, key)
		}
		for _, list := range [][]string{a.Argv, a.Env} {
			for _, s := range list {
				text += len(s) + 1
			}
		}
		switch {
		case a.Cmd == "" && len(a.Argv) == 0:
			return nil, codec.StatusErrBadParam, fmt.Errorf("application %d: no command", i)
		case a.MaxProcs < 1:
			return nil, codec.StatusErrBadParam, fmt.Errorf("application %d (%s): %d processes, want at least 1", i, clipped(a.Cmd), a.MaxProcs)
		case text > maxSpawnText:
			return nil, codec.StatusErrBadParam, fmt.Errorf("arguments and environment: more than %d bytes", maxSpawnText)
		}
		out[i] = spawnApp(a, r.Info)
	}
	return out, codec.StatusSuccess, nil
}

// spawnApp translates an application. Its working directory comes from the first of these that names one: the
// directives of the application, the directives of the job, the structure. libpmix puts the caller's own directory into
// the structure if nothing is there.
func spawnApp(a codec.App, ofJob []codec.Info) SpawnApp {
	app := SpawnApp{Cmd: a.Cmd, Args: a.Argv, Env: a.Env, Dir: a.Cwd, MaxProcs: int(a.MaxProcs), Infos: a.Info}
	if app.Cmd == "" {
		app.Cmd = a.Argv[0]
	}
	if len(app.Args) == 0 {
		app.Args = []string{a.Cmd}
	}
	for _, infos := range [][]codec.Info{ofJob, a.Info} {
		v, _ := codec.Find(infos, codec.KeyWDir)
		if dir, ok := v.Str(); ok && dir != "" {
			app.Dir = dir
		}
	}
	return app
}

// spawnChannels returns the output of the new job that goes to the caller: what it asked for. A tool that says nothing
// about a channel gets it.
func spawnChannels(at caller, infos []codec.Info) codec.IOFChannel {
	channels := codec.IOFChannel(0)
	for key, channel := range map[string]codec.IOFChannel{codec.KeyFwdStdout: codec.IOFStdout, codec.KeyFwdStderr: codec.IOFStderr} {
		_, said := codec.Find(infos, key)
		if codec.Flag(infos, key) || (at.space.tool && !said) {
			channels |= channel
		}
	}
	return channels
}

// answerSpawn answers the caller of a spawn with the host's result.
func (sp *spawns) answerSpawn(ev event) {
	s := sp.removeSpawn(ev.request)
	if s == nil {
		return // the caller's connection has ended
	}
	if ev.status != codec.StatusSuccess {
		sp.forwarding.dropListeners(func(l *listener) bool { return l == s.listener })
		sp.reply(s.at, ev.status)
		return
	}
	sp.forwardOutput(s, ev.proc.Nspace)
	if space := sp.spaces[ev.proc.Nspace]; space != nil {
		sp.send(s.at.conn, s.at.tag, codec.AppendSpawnReply(nil, space.info))
		return
	}
	info := codec.JobInfo{Nspace: ev.proc.Nspace} // the job runs on other nodes only
	packed, err := info.Append(nil)
	if err != nil {
		sp.reply(s.at, codec.StatusErrPackFailure)
		return
	}
	sp.send(s.at.conn, s.at.tag, codec.AppendSpawnReply(nil, packed))
}

// forwardEarly forwards a new job's output to the process that asked for it with its spawn request: the job may write
// before the host answers the request. The job belongs to the parent's oldest request that has no job yet.
func (sp *spawns) forwardEarly(space *nspace, parent *process) {
	for _, s := range sp.waiting {
		if s.at.process == parent && s.nspace == "" {
			sp.forwardOutput(s, space.name)
			return
		}
	}
}

// forwardOutput forwards a spawned job's output to the process that asked for it with the request.
func (sp *spawns) forwardOutput(s *spawning, name string) {
	if s.nspace == name {
		return
	}
	s.nspace = name
	sp.forwarding.dropListeners(func(l *listener) bool { return l == s.listener })
	if s.channels != 0 {
		s.listener = sp.forwarding.newListener(s.at, map[codec.Proc]bool{{Nspace: name, Rank: codec.RankWildcard}: true})
		s.listener.channels = s.channels
		sp.forwarding.replaceListeners(append(slices.Clip(sp.forwarding.listeners), s.listener))
	}
}

// removeSpawn removes a request from those that wait, and returns it; nil if there is none of this number.
func (sp *spawns) removeSpawn(id uint64) *spawning {
	for i, s := range sp.waiting {
		if s.id == id {
			sp.waiting = append(sp.waiting[:i:i], sp.waiting[i+1:]...)
			return s
		}
	}
	return nil
}

// dropConnection drops the requests of a connection that has ended.
func (sp *spawns) dropConnection(conn connID) {
	kept := sp.waiting[:0:0]
	for _, s := range sp.waiting {
		if s.at.conn != conn {
			kept = append(kept, s)
		}
	}
	sp.waiting = kept
}
