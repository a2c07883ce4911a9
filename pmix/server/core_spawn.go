package server

import (
	"fmt"

	"github.com/goshmem/goshmem/pmix/wire"
)

// Bounds on spawn requests.
const (
	maxSpawns    = 64      // that wait for the host, of one process
	maxApps      = 1024    // of one request
	maxSpawnText = 4 << 20 // bytes of arguments and environment of one request
)

// spawning is a request for a job that the host has not answered.
type spawning struct {
	id       uint64
	at       caller
	channels wire.IOFChannel // of the job's output that the caller asked for
	nspace   string          // of the job, once it is known
	listener *listener       // for the job's output; nil if the caller did not ask
}

// spawn passes a request for a further job to the host.
func (c *core) spawn(at caller, r *wire.SpawnRequest) {
	apps, status, err := spawnApps(r)
	if err != nil {
		c.refuse(at, status, "spawn: "+err.Error())
		return
	}
	waiting := 0
	for _, s := range c.spawns {
		if s.at.process == at.process {
			waiting++
		}
	}
	if waiting >= maxSpawns {
		c.refuse(at, wire.StatusErrOutOfResource, fmt.Sprintf("spawn: more than %d under way", maxSpawns))
		return
	}
	c.lastSpawn++
	c.spawns = append(c.spawns, &spawning{id: c.lastSpawn, at: at, channels: spawnChannels(at, r.Info)})
	c.act(action{kind: actSpawn, spawn: &SpawnRequest{ID: c.lastSpawn, From: at.name, Infos: r.Info, Apps: apps}})
}

func spawnApps(r *wire.SpawnRequest) ([]SpawnApp, wire.Status, error) {
	if n := len(r.Apps); n == 0 || n > maxApps {
		return nil, wire.StatusErrBadParam, fmt.Errorf("%d applications, want 1 to %d", n, maxApps)
	}
	if key, found := unmet("PMIx_Spawn", r.Info); found {
		return nil, wire.StatusErrNotSupported, fmt.Errorf("directive %.64q is required, but not known", key)
	}
	text := 0
	out := make([]SpawnApp, len(r.Apps))
	for i, a := range r.Apps {
		if key, found := unmet("PMIx_Spawn", a.Info); found {
			return nil, wire.StatusErrNotSupported, fmt.Errorf("application %d: directive %.64q is required, but not known", i, key)
		}
		for _, list := range [][]string{a.Argv, a.Env} {
			for _, s := range list {
				text += len(s) + 1
			}
		}
		switch {
		case a.Cmd == "" && len(a.Argv) == 0:
			return nil, wire.StatusErrBadParam, fmt.Errorf("application %d: no command", i)
		case a.MaxProcs < 1:
			return nil, wire.StatusErrBadParam, fmt.Errorf("application %d (%s): %d processes, want at least 1", i, clipped(a.Cmd), a.MaxProcs)
		case text > maxSpawnText:
			return nil, wire.StatusErrBadParam, fmt.Errorf("arguments and environment: more than %d bytes", maxSpawnText)
		}
		out[i] = spawnApp(a, r.Info)
	}
	return out, wire.StatusSuccess, nil
}

// spawnApp translates an application. A working directory among its directives counts most, then one among those of the
// job, and least that of the structure, into which libpmix puts the caller's own when nothing is there.
func spawnApp(a wire.App, ofJob []wire.Info) SpawnApp {
	app := SpawnApp{Cmd: a.Cmd, Args: a.Argv, Env: a.Env, Dir: a.Cwd, MaxProcs: int(a.MaxProcs), Infos: a.Info}
	if app.Cmd == "" {
		app.Cmd = a.Argv[0]
	}
	if len(app.Args) == 0 {
		app.Args = []string{a.Cmd}
	}
	for _, infos := range [][]wire.Info{ofJob, a.Info} {
		v, _ := wire.Find(infos, wire.KeyWDir)
		if dir, ok := v.Str(); ok && dir != "" {
			app.Dir = dir
		}
	}
	return app
}

// spawnChannels says which output of the new job goes to the caller: what it asked for, and all of it to a tool that
// did not say.
func spawnChannels(at caller, infos []wire.Info) wire.IOFChannel {
	channels := wire.IOFChannel(0)
	for key, channel := range map[string]wire.IOFChannel{wire.KeyFwdStdout: wire.IOFStdout, wire.KeyFwdStderr: wire.IOFStderr} {
		_, said := wire.Find(infos, key)
		if wire.Flag(infos, key) || (at.space.tool && !said) {
			channels |= channel
		}
	}
	return channels
}

// spawned answers a spawn.
func (c *core) spawned(ev event) {
	s := c.takeSpawn(ev.request)
	if s == nil {
		return // who asked has gone
	}
	if ev.status != wire.StatusSuccess {
		c.dropListeners(func(l *listener) bool { return l == s.listener })
		c.reply(s.at, ev.status)
		return
	}
	c.listenSpawned(s, ev.proc.Nspace)
	if space := c.spaces[ev.proc.Nspace]; space != nil {
		c.send(s.at.conn, s.at.tag, wire.AppendSpawnReply(nil, space.info))
		return
	}
	info := wire.JobInfo{Nspace: ev.proc.Nspace} // it runs on other nodes only
	packed, err := info.Append(nil)
	if err != nil {
		c.reply(s.at, wire.StatusErrPackFailure)
		return
	}
	c.send(s.at.conn, s.at.tag, wire.AppendSpawnReply(nil, packed))
}

// takeSpawn removes a request from those that wait.
func (c *core) takeSpawn(id uint64) *spawning {
	for i, s := range c.spawns {
		if s.id == id {
			c.spawns = append(c.spawns[:i:i], c.spawns[i+1:]...)
			return s
		}
	}
	return nil
}

// forgetSpawns drops what a connection that is over was waiting for.
func (c *core) forgetSpawns(conn connID) {
	kept := c.spawns[:0:0]
	for _, s := range c.spawns {
		if s.at.conn != conn {
			kept = append(kept, s)
		}
	}
	c.spawns = kept
}
