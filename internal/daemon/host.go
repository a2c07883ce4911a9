package daemon

import (
	"path/filepath"
	"strings"
	"time"

	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// startServer starts the PMIx server for the first job.
func (s *Step) startServer(j *job) (err error) {
	cfg := server.Config{Job: s.describe(j), Host: host{s}, Logger: s.cfg.Logger, Authorize: s.authorize, Foreign: foreign}
	if s.cfg.Tools {
		cfg.AuthorizeTool = s.authorizeTool
	}
	s.pmix, err = server.Start(cfg)
	return err
}

// ToolURI returns what tools need to attach; empty if none may.
func (s *Step) ToolURI() string { return s.pmix.ToolURI() }

// describe says of a job what its processes may learn from the server.
func (s *Step) describe(j *job) server.JobLayout {
	d := server.JobLayout{Nspace: j.nspace, Hosts: []string{s.host}, TmpDir: s.private.jobDir(j.number)}
	for i := range j.apps {
		program, err := filepath.Abs(j.apps[i].Path)
		if err != nil { // where oshrun is has no name any more
			program = j.apps[i].Path
		}
		d.Programs = append(d.Programs, program)
		d.Commands = append(d.Commands, strings.Join(append([]string{j.apps[i].Path}, j.apps[i].Args...), " "))
	}
	for pe := range j.npes() {
		d.Procs = append(d.Procs, server.Proc{Rank: uint32(pe), LocalRank: uint16(pe), AppNum: uint32(j.app(pe))})
	}
	return d
}

// name returns the name of a PE in the server's terms.
func (p *proc) name() pmix.Proc {
	return pmix.Proc{Nspace: p.job.nspace, Rank: pmix.Rank(p.id.PE)}
}

// host turns calls of the PMIx server into events.
type host struct{ s *Step }

// with calls f with a PE's process, if there is one, under the lock.
func (h host) with(name pmix.Proc, f func(*proc)) {
	if j := h.s.jobOf(name.Nspace); j != nil {
		h.s.with(ID{j.number, int(name.Rank)}, f)
	}
}

func (h host) ClientConnected(name pmix.Proc, pid int) {
	var joined *proc
	h.with(name, func(p *proc) { h.s.noteJoin(p); joined = p })
	if joined != nil {
		h.s.followMember(joined, pid)
	}
	h.s.cfg.Logger.Debug().Stringer("pe", name).Dur("at", time.Since(h.s.begin)).Msg("connected")
}

func (h host) ClientFinalized(name pmix.Proc) { h.with(name, h.s.leave) }

func (h host) ClientLost(name pmix.Proc) { h.with(name, h.s.forsake) }

// forsake takes the end of a PE's connection that was not announced. The caller
// holds the lock.
func (s *Step) forsake(p *proc) {
	if p.life.Lose() {
		close(p.departed)
	}
	s.emit(Event{Kind: Lost, ID: p.id, PID: p.pid()})
}

// abort takes a PE's wish to end its job. The caller holds the lock.
func (s *Step) abort(p *proc, status int, msg string) {
	s.leave(p) // it has said its last word
	s.emit(Event{Kind: Abort, ID: p.id, PID: p.pid(), Status: status, Msg: msg, Said: p.said()})
}

// Log passes on what a PE has logged through PMIx.
func (h host) Log(_ pmix.Proc, toStderr bool, text []byte) {
	if h.s.cfg.Log == nil {
		return
	}
	stream := Stdout
	if toStderr {
		stream = Stderr
	}
	h.s.cfg.Log(stream, text)
}
