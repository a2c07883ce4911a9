package daemon

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/ending"
	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
)

// servers are the servers of PMIx and of PMI-1. Every PE can speak both, so that programs of MPICH run like all
// others. PMI-1 has no sockets of its own: a PE inherits its connection. What the servers are told is queued there: no call
// but that of close waits for a client.
type servers struct {
	host string         // the name of this node
	pmix *server.Server // nil: not started
	pmi  *pmi1.Server   // nil: not started

	crossing *crossing // to the servers of other nodes; nil: there are none
}

// startPMIx starts the PMIx server for the first job.
func (v *servers) startPMIx(j *localJob, files *private, h server.Host, a *authorizer, step *settings) (err error) {
	cfg := server.Config{Job: v.describe(j, files), Host: h, Logger: step.Logger, Authorize: a.authorize, Foreign: isForeign}
	if step.Tools {
		cfg.AuthorizeTool = a.authorizeTool
	}
	if v.crossing != nil {
		cfg.Remote, cfg.Peers = v.crossing.remote, v.crossing.peers
	}
	if v.pmix, err = server.Start(cfg); err == nil && v.crossing != nil {
		v.crossing.Server = v.pmix
	}
	return err
}

// startPMI starts the PMI-1 server for the first job. It ends with the step.
func (v *servers) startPMI(j *localJob, h pmi1.Host, b *background, logger zerolog.Logger) (err error) {
	cfg := pmi1.Config{Host: h, Logger: logger}
	if v.crossing != nil {
		cfg.Remote = v.crossing
		if v.crossing.peers != nil {
			cfg.Names = v.crossing
		}
	}
	if v.pmi, err = pmi1.Start(cfg); err != nil {
		return err
	}
	if v.crossing != nil {
		v.crossing.pmi = v.pmi
	}
	b.serve(func() {
		<-b.closing
		if err := v.pmi.Close(); err != nil {
			logger.Error().Err(err).Msg("PMI-1 server")
		}
	})
	return v.pmi.AddJob(describePMI(j))
}

// close ends the PMIx server.
func (v *servers) close() error {
	if v.pmix == nil {
		return nil
	}
	return v.pmix.Close()
}

// describe says of a job what its processes may learn from the server.
func (v *servers) describe(j *localJob, files *private) server.JobLayout {
	d := server.JobLayout{Nspace: j.nspace, Hosts: []string{v.host}, TmpDir: files.jobDir(j.number)}
	for i := range j.apps {
		program, err := filepath.Abs(j.apps[i].Path)
		if err != nil { // where oshrun is has no name any more
			program = j.apps[i].Path
		}
		d.Programs = append(d.Programs, program)
		d.Commands = append(d.Commands, strings.Join(append([]string{j.apps[i].Path}, j.apps[i].Args...), " "))
	}
	if j.share.spans() {
		d.Hosts, d.ThisNode = j.share.Hosts, uint32(j.share.Node)
	}
	counts := make([]uint16, len(d.Hosts)) // processes so far, by node
	for pe := range j.npes() {
		node := j.nodeOf(pe)
		d.Procs = append(d.Procs, server.Proc{Rank: uint32(pe), Node: uint32(node), LocalRank: counts[node], AppNum: uint32(j.appOf(pe))})
		counts[node]++
	}
	return d
}

// describePMI says of a job what its processes may learn by PMI-1.
func describePMI(j *localJob) pmi1.WorldSpec {
	d := pmi1.WorldSpec{Nspace: j.nspace, Procs: make([]pmi1.Proc, j.npes()), Spawned: j.number > 0}
	if j.share.spans() {
		d.ThisNode = j.share.Node
	}
	for pe := range d.Procs {
		d.Procs[pe] = pmi1.Proc{AppNum: j.appOf(pe), Node: j.nodeOf(pe)}
	}
	return d
}

// addJob makes a spawned job known to both servers, with what PMI-1 clients find stored.
func (v *servers) addJob(j *localJob, files *private, parent pmix.Proc, preput []pmi1.Pair) error {
	if err := v.pmix.AddJob(v.describe(j, files), parent); err != nil {
		return err
	}
	d := describePMI(j)
	d.Preput = preput
	return v.pmi.AddJob(d)
}

// removeJob ends what the servers know of a job.
func (v *servers) removeJob(nspace string) {
	v.pmix.RemoveJob(nspace)
	v.pmi.RemoveJob(nspace)
}

// processExited tells the servers how a PE has ended.
func (v *servers) processExited(p *localPE, e ending.End) {
	v.pmix.ProcExited(p.name(), exitOf(e))
	v.pmi.ProcExited(p.name(), e.Judge() != ending.Well)
}

// passOutput gives the text of a PE's output to tools that want it.
func (v *servers) passOutput(p *localPE, stderr bool, text []byte) {
	if v.pmix != nil {
		v.pmix.Output(p.name(), stderr, text)
	}
}

// environ returns the variables by which a PE finds the PMIx server.
func (v *servers) environ(j *localJob, pe int) []string {
	return v.pmix.Environ(pmix.Proc{Nspace: j.nspace, Rank: pmix.Rank(pe)})
}

// firstExtra is the number that the first of a PE's extra files has there.
const firstExtra = 3

// connectPMI makes a PE's connection to the PMI-1 server. It is one more extra file of the process,
// whose environment tells its number.
func (v *servers) connectPMI(p *localPE) (*os.File, error) {
	name := p.name()
	conn, err := v.pmi.Connect(name)
	if err != nil {
		return nil, err
	}
	p.cmd.Env = append(p.cmd.Env, v.pmi.Environ(name, firstExtra+len(p.cmd.ExtraFiles))...)
	p.cmd.ExtraFiles = append(p.cmd.ExtraFiles, conn)
	return conn, nil
}
