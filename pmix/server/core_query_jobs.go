package server

import (
	"github.com/goshmem/goshmem/pmix/wire"
)

// namespaceInfo lists the jobs, or the one that a namespace was given for, each with its size and command lines.
func (c *core) namespaceInfo(q *question) (wire.Value, bool) {
	var jobs []wire.Info
	_, one := wire.Find(q.infos, wire.KeyNspace)
	for _, name := range sortedKeys(c.spaces) {
		s := c.spaces[name]
		if s.job == nil || (one && s != q.space) { // a tool, or not the one
			continue
		}
		about := []wire.Info{
			{Key: wire.KeyNspace, Value: wire.StringValue(name)},
			{Key: wire.KeyJobSize, Value: wire.Uint32Value(uint32(len(s.procs)))},
		}
		for _, line := range s.job.Commands {
			about = append(about, wire.Info{Key: wire.KeyCommandLine, Value: wire.StringValue(line)})
		}
		jobs = append(jobs, wire.Info{Key: wire.KeyJobInfoArray, Value: wire.InfosValue(about...)})
	}
	return wire.InfosValue(jobs...), len(jobs) > 0
}

// jobStatus says how a job is doing: success while it runs, the status of the first process by rank that has failed, and
// the end when all processes have ended well.
func (c *core) jobStatus(q *question) (wire.Value, bool) {
	if q.space == nil {
		return wire.Value{}, false
	}
	status := wire.StatusEventJobEnd
	for _, p := range q.space.procs {
		if !p.exited {
			status = wire.StatusSuccess
		} else if failure, _ := p.verdict(p.exit); failure != wire.StatusSuccess {
			return wire.StatusValue(failure), true
		}
	}
	return wire.StatusValue(status), true
}

func (c *core) procTable(q *question) (wire.Value, bool) { return c.table(q, false) }

func (c *core) localProcTable(q *question) (wire.Value, bool) { return c.table(q, true) }

// table lists the processes of a job, all or those of this node.
func (c *core) table(q *question, local bool) (wire.Value, bool) {
	if q.space == nil {
		return wire.Value{}, false
	}
	rows := []any{}
	for _, p := range q.space.procs {
		if p.local || !local {
			rows = append(rows, p.row())
		}
	}
	return wire.Value{Type: wire.TypeDataArray, Data: wire.Array{Type: wire.TypeProcInfo, Elems: rows}}, true
}

func (p *process) row() wire.ProcInfo {
	row := wire.ProcInfo{Proc: p.name, PID: uint32(p.pid), State: p.state()}
	job := p.space.job
	if job == nil { // a tool
		return row
	}
	row.Hostname = job.Hosts[p.place.Node]
	if app := int(p.place.AppNum); app < len(job.Programs) {
		row.Executable = job.Programs[app]
	}
	return row
}

func (p *process) state() uint8 {
	if !p.exited {
		switch p.phase {
		case phaseNew:
			return wire.ProcStateLaunchUnderway
		case phaseConnected:
			return wire.ProcStateConnected
		default:
			return wire.ProcStateRunning
		}
	}
	switch status, _ := p.verdict(p.exit); status {
	case wire.StatusSuccess:
		return wire.ProcStateTerminated
	case wire.StatusErrProcKilledByCmd:
		return wire.ProcStateKilledByCmd
	case wire.StatusErrProcFailedToStart:
		return wire.ProcStateFailedToStart
	case wire.StatusErrProcAbortedBySig:
		return wire.ProcStateAbortedBySig
	case wire.StatusErrProcTermWoSync:
		return wire.ProcStateTermWoSync
	case wire.StatusErrProcRequestedAbort:
		return wire.ProcStateCalledAbort
	default:
		return wire.ProcStateTermNonZero
	}
}

// asked returns the process in question, nil if there is none.
func (q *question) asked() *process {
	if q.space == nil || q.rank == nil {
		return nil
	}
	return q.space.find(*q.rank)
}

func (c *core) procPID(q *question) (wire.Value, bool) {
	p := q.asked()
	if p == nil || p.pid == 0 {
		return wire.Value{}, false
	}
	return wire.Value{Type: wire.TypePID, Data: uint32(p.pid)}, true
}

func (c *core) procState(q *question) (wire.Value, bool) {
	p := q.asked()
	if p == nil {
		return wire.Value{}, false
	}
	return wire.Value{Type: wire.TypeProcState, Data: p.state()}, true
}
