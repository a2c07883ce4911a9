package server

import (
	"github.com/goshmem/goshmem/pmix/codec"
)

// namespaceInfo lists the jobs, each with its size and command lines. A namespace among the qualifiers selects one job.
func (qs *queries) namespaceInfo(q *question) (codec.Value, bool) {
	var jobs []codec.Info
	_, one := codec.Find(q.infos, codec.KeyNspace)
	for _, name := range sortedKeys(qs.spaces) {
		s := qs.spaces[name]
		if s.job == nil || (one && s != q.space) { // a tool, or another job than the selected one
			continue
		}
		about := []codec.Info{
			{Key: codec.KeyNspace, Value: codec.StringValue(name)},
			{Key: codec.KeyJobSize, Value: codec.Uint32Value(uint32(len(s.procs)))},
		}
		for _, line := range s.job.Commands {
			about = append(about, codec.Info{Key: codec.KeyCommandLine, Value: codec.StringValue(line)})
		}
		jobs = append(jobs, codec.Info{Key: codec.KeyJobInfoArray, Value: codec.InfosValue(about...)})
	}
	return codec.InfosValue(jobs...), len(jobs) > 0
}

// jobStatus returns the state of a job:
//
//   - the status of the first process by rank that has failed, if there is one;
//   - success while the job runs;
//   - the end of the job when all processes have ended well.
func (qs *queries) jobStatus(q *question) (codec.Value, bool) {
	if q.space == nil {
		return codec.Value{}, false
	}
	status := codec.StatusEventJobEnd
	for _, p := range q.space.procs {
		if failure, ended := p.end(); !ended {
			status = codec.StatusSuccess
		} else if failure != codec.StatusSuccess {
			return codec.StatusValue(failure), true
		}
	}
	return codec.StatusValue(status), true
}

func (qs *queries) procTable(q *question) (codec.Value, bool) { return qs.listProcs(q, false) }

func (qs *queries) localProcTable(q *question) (codec.Value, bool) { return qs.listProcs(q, true) }

// listProcs lists the processes of a job, all or those of the node in question.
func (qs *queries) listProcs(q *question, local bool) (codec.Value, bool) {
	if q.space == nil {
		return codec.Value{}, false
	}
	rows := []any{}
	for _, p := range q.space.procs {
		if !local || q.space.tool || int(p.place.Node) == q.node {
			rows = append(rows, p.row())
		}
	}
	return codec.Value{Type: codec.TypeDataArray, Data: codec.Array{Type: codec.TypeProcInfo, Elems: rows}}, true
}

func (p *process) row() codec.ProcInfo {
	row := codec.ProcInfo{Proc: p.name, PID: uint32(p.processID()), State: p.state()}
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
	switch {
	case p.exited && p.exit.nodeLost:
		return codec.ProcStateCommFailed
	case p.seen != nil && (p.seen.ended || !p.exited):
		return p.seen.state
	}
	if !p.exited {
		switch p.phase {
		case phaseNew:
			return codec.ProcStateLaunchUnderway
		case phaseConnected:
			return codec.ProcStateConnected
		default:
			return codec.ProcStateRunning
		}
	}
	switch status, _ := p.describeEnd(p.exit); status {
	case codec.StatusSuccess:
		return codec.ProcStateTerminated
	case codec.StatusErrProcKilledByCmd:
		return codec.ProcStateKilledByCmd
	case codec.StatusErrProcFailedToStart:
		return codec.ProcStateFailedToStart
	case codec.StatusErrProcAbortedBySig:
		return codec.ProcStateAbortedBySig
	case codec.StatusErrProcTermWoSync:
		return codec.ProcStateTermWoSync
	case codec.StatusErrProcRequestedAbort:
		return codec.ProcStateCalledAbort
	default:
		return codec.ProcStateTermNonZero
	}
}

// asked returns the process that the question is about, nil if there is none.
func (q *question) asked() *process {
	if q.space == nil || q.rank == nil {
		return nil
	}
	return q.space.find(*q.rank)
}

func (qs *queries) procPID(q *question) (codec.Value, bool) {
	p := q.asked()
	if p == nil || p.processID() == 0 {
		return codec.Value{}, false
	}
	return codec.Value{Type: codec.TypePID, Data: uint32(p.processID())}, true
}

func (qs *queries) procState(q *question) (codec.Value, bool) {
	p := q.asked()
	if p == nil {
		return codec.Value{}, false
	}
	return codec.Value{Type: codec.TypeProcState, Data: p.state()}, true
}
