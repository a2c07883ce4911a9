package daemon

import (
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// sendPeers sends a PE what it needs to exchange messages with the PEs of another job: as many of the segments on this node as fit, and with the first ones
// the job's failure page, the passages, and where its PEs are if some are on other nodes.
func (a *attachService) sendPeers(conn *net.UnixConn, p *localPE, req wire.AttachRequest) (err error) {
	refuse := func(err error) error {
		reply := wire.AttachReply{Err: err.Error()}
		return errors.Join(err, xunix.SendFDs(conn, reply.Append(nil), nil))
	}
	j := a.table.job(int(req.Job))
	switch {
	case j == nil:
		return refuse(fmt.Errorf("job %d is over: all its processes have ended", req.Job))
	case j == p.job:
		return refuse(fmt.Errorf("job %d is that of the PE, want another one", req.Job))
	case req.First > 0 && int64(req.First) >= int64(len(j.near)):
		return refuse(fmt.Errorf("first segment %d, want below %d", req.First, len(j.near)))
	}
	isFar := len(j.near) < j.npes()
	if isFar {
		if err := a.checkReach(p.job, j); err != nil {
			return refuse(err)
		}
	}
	files, err := j.memory.lend()
	if err != nil {
		return refuse(fmt.Errorf("job %d is over: all its processes have ended", req.Job))
	}
	defer func() { err = errors.Join(err, j.memory.endLoan()) }()
	reply := wire.AttachReply{
		Job: j.key, NPEs: uint32(j.npes()), Nodes: uint32(j.nodes()), Near: uint32(len(j.near)), First: req.First,
		Page: req.First == 0, Incarnation: incarnation, Processors: uint32(a.cfg.processors(p.job)), Recover: !a.cfg.EndsFirst,
		Homes: isFar && req.First == 0,
	}
	end := min(len(files.heaps), int(req.First)+wire.MaxSegments)
	var fds []int
	for _, f := range files.heaps[req.First:end] {
		fds = append(fds, int(f.Fd()))
	}
	if len(fds) > 0 {
		info, err := files.heaps[0].Stat()
		if err != nil {
			return err
		}
		reply.FirstPE, reply.SegmentSize, reply.Count = uint32(j.near[0]), uint64(info.Size()), uint32(len(fds))
	}
	if req.First == 0 {
		more, err := a.joinJobs(p, j, isFar)
		if err != nil {
			return refuse(fmt.Errorf("job %d: %w", req.Job, err))
		}
		fds = append(fds, int(files.page.Fd()))
		defer closeAll(more) // the PE has them
		for _, f := range more {
			fds = append(fds, int(f.Fd()))
		}
	}
	return xunix.SendFDs(conn, reply.Append(nil), fds)
}

// joinJobs lets a PE hear of deaths in another job. It returns the passages between the jobs, if there are some, and the homes of the other one, if some of
// its PEs are on other nodes.
func (a *attachService) joinJobs(p *localPE, j *localJob, isFar bool) (files []*os.File, err error) {
	f, err := a.passages.lend(p.job, j)
	if err != nil {
		return nil, err
	}
	if f != nil {
		files = append(files, f)
	}
	if isFar {
		if f, err = j.createHomes(); err != nil {
			for _, f := range files {
				_ = f.Close() // nobody has it
			}
			return nil, err
		}
		files = append(files, f)
	}
	p.job.memory.beginEpochs()
	a.table.mu.Lock()
	p.connected = true
	a.table.mu.Unlock()
	return files, nil
}

// checkReach says why PEs of a job that are on this node cannot exchange messages with those of another job on other nodes.
func (a *attachService) checkReach(from, to *localJob) error {
	if lack := from.lackAt(a.agent); lack != "" {
		return fmt.Errorf("job %d has PEs on other nodes, want an agent of this node to reach them: %s", to.number, lack)
	}
	if to.number == 0 {
		return nil
	}
	for pe := range to.npes() {
		if !to.isServedOn(to.nodeOf(pe)) {
			return fmt.Errorf("job %d: messages do not reach its PE %d: %s", to.number, pe, to.unservedBecause(a.agent))
		}
	}
	return nil
}

// closeAll closes files.
func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}
