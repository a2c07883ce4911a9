package daemon

import (
	"net"
	"time"

	"github.com/goshmem/goshmem/pmix/server"
	pmix "github.com/goshmem/goshmem/pmix/wire"
)

// startServer starts the PMIx server for the first job.
func (s *Step) startServer(j *job) (err error) {
	s.pmix, err = server.Start(server.Config{
		Job: s.describe(j), Host: host{s}, Logger: s.cfg.Logger,
		Authorize: func(conn net.Conn, nspace string, rank uint32) (int, error) {
			return s.authorize(conn, pmix.Proc{Nspace: nspace, Rank: pmix.Rank(rank)})
		},
	})
	return err
}

// describe says of a job what its processes may learn from the server.
func (s *Step) describe(j *job) server.Job {
	d := server.Job{Nspace: j.nspace, Hosts: []string{s.host}}
	for pe := range j.npes() {
		d.Procs = append(d.Procs, server.Proc{Rank: uint32(pe), LocalRank: uint16(pe), AppNum: uint32(j.app(pe))})
	}
	return d
}

// serverEnviron returns the variables by which a PE finds the server.
func (s *Step) serverEnviron(_ *job, pe int) []string { return s.pmix.Environ(uint32(pe)) }

// tellExit tells the server that a PE's process has ended.
func (s *Step) tellExit(p *proc) { s.pmix.ProcExited(uint32(p.id.PE)) }

// host turns calls of the PMIx server into events.
type host struct{ s *Step }

func (h host) with(rank uint32, f func(*proc)) { h.s.with(ID{PE: int(rank)}, f) }

func (h host) ClientConnected(rank uint32, _ int) {
	h.with(rank, (*proc).join)
	h.s.cfg.Logger.Debug().Uint32("pe", rank).Dur("at", time.Since(h.s.begin)).Msg("connected")
}

func (h host) ClientFinalized(rank uint32) { h.with(rank, (*proc).settle) }

func (h host) ClientLost(rank uint32) {
	h.with(rank, func(p *proc) {
		p.lost = true
		p.settle()
		h.s.emit(Event{Kind: Lost, ID: p.id, PID: p.pid()})
	})
}

func (h host) Abort(rank uint32, status int, msg string) {
	h.with(rank, func(p *proc) {
		p.settle() // it has said its last word
		h.s.emit(Event{Kind: Abort, ID: p.id, PID: p.pid(), Status: status, Msg: msg})
	})
}
