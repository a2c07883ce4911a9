package server

import (
	"github.com/goshmem/goshmem/pmix/wire"
)

// namespaceInfo lists the jobs, each with its size and command lines. A namespace among the qualifiers selects one job.
func (qs *queries) namespaceInfo(q *question) (wire.Value, bool) {
	var jobs []wire.Info
	_, one := wire.Find(q.infos, wire.KeyNspace)
	for _, name := range sortedKeys(qs.spaces) {
		s := qs.spaces[name]
		if s.job == nil || (one && s != q.space) { // a tool, or another job than the selected one
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

// jobStatus returns the state of a job:
//
//   - the status of the first process by rank that has failed, if there is one;
//   - success while the job runs;
//   - the end of the job when all processes have ended well.
func (qs *queries) jobStatus(q *question) (wire.Value, bool) {
	if q.space == nil {
		return wire.Value{}, false
	}
	status := wire.StatusEventJobEnd
	for _, p := range q.space.procs {
		if !p.exited {
			status = wire.StatusSuccess
		} else if failure, _ := p.describeEnd(p.exit); failure != wire.StatusSuccess {
			return wire.StatusValue(failure), true
		}
	}
	return wire.StatusValue(status), true
}

func (qs *queries) procTable(q *question) (wire.Value, bool) { return qs.listProcs(q, false) }

func (qs *queries) localProcTable(q *question) (wire.Value, bool) { return qs.listProcs(q, true) }

// listProcs lists the processes of a job, all or those of this node.
func (qs *queries) listProcs(q *question, local bool) (wire.Value, bool) {
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
	switch status, _ := p.describeEnd(p.exit); status {
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

// asked returns the process that the question is about, nil if there is none.
func (q *question) asked() *process {
	if q.space == nil || q.rank == nil {
		return nil
	}
	return q.space.find(*q.rank)
}

func (qs *queries) procPID(q *question) (wire.Value, bool) {
	p := q.asked()
	if p == nil || p.pid == 0 {
		return wire.Value{}, false
	}
	return wire.Value{Type: wire.TypePID, Data: uint32(p.pid)}, true
}

func (qs *queries) procState(q *question) (wire.Value, bool) {
	p := q.asked()
	if p == nil {
		return wire.Value{}, false
	}
	return wire.Value{Type: wire.TypeProcState, Data: p.state()}, true
}
