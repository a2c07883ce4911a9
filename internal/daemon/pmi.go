package daemon

import (
	"os"

	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
)

// Every PE can speak PMI-1 beside PMIx, so that programs of MPICH run like all
// others. PMI-1 has no sockets of its own: a PE inherits its connection.

// firstExtra is the number that the first of a PE's extra files has there.
const firstExtra = 3

// startPMI starts the PMI-1 server, which ends with the step.
func (s *Step) startPMI() (err error) {
	s.pmi, err = pmi1.Start(pmi1.Config{Host: pmiHost{s}, Logger: s.cfg.Logger})
	if err != nil {
		return err
	}
	s.serving.Go(func() {
		<-s.closing
		if err := s.pmi.Close(); err != nil {
			s.cfg.Logger.Error().Err(err).Msg("PMI-1 server")
		}
	})
	return nil
}

// describePMI says of a job what its processes may learn by PMI-1.
func (s *Step) describePMI(j *job) pmi1.WorldSpec {
	d := pmi1.WorldSpec{Nspace: j.nspace, Procs: make([]pmi1.Proc, j.npes()), Spawned: j.number > 0}
	for pe := range d.Procs {
		d.Procs[pe].AppNum = j.app(pe)
	}
	return d
}

// connectPMI makes a PE's connection. It is one more extra file of the process,
// whose environment tells its number.
func (s *Step) connectPMI(p *proc) (*os.File, error) {
	name := p.name()
	conn, err := s.pmi.Connect(name)
	if err != nil {
		return nil, err
	}
	p.cmd.Env = append(p.cmd.Env, s.pmi.Environ(name, firstExtra+len(p.cmd.ExtraFiles))...)
	p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, conn)
	return conn, nil
}

// pmiHost turns calls of the PMI-1 server into events.
type pmiHost struct{ s *Step }

func (h pmiHost) with(name pmix.Proc, f func(*proc)) {
	if j := h.s.jobOf(name.Nspace); j != nil {
		h.s.with(ID{j.number, int(name.Rank)}, f)
	}
}

func (h pmiHost) ClientJoined(name pmix.Proc) { h.with(name, h.s.noteJoin) }

func (h pmiHost) ClientFinalized(name pmix.Proc) { h.with(name, h.s.leave) }

func (h pmiHost) ClientLost(name pmix.Proc) { h.with(name, h.s.forsake) }

func (h pmiHost) Abort(name pmix.Proc, status int) {
	h.with(name, func(p *proc) { h.s.abort(p, status, "") })
}
