package server

import (
	"fmt"

	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/pmix/codec"
)

// raiseExit tells the others of a job how a process has ended, unless it ended well. The event is not for default
// handlers: those of MPI libraries would end the job.
func (es *events) raiseExit(p *process, e Exit) {
	status, what := p.describeEnd(e)
	if status == codec.StatusSuccess {
		return
	}
	code := e.Code
	if e.Signal != 0 {
		code = 128 + e.Signal
	}
	ev := codec.Event{
		Status: status, Source: p.name, Range: codec.RangeNamespace, Affected: []codec.Proc{p.name}, NonDefault: true,
		Info: []codec.Info{
			{Key: codec.KeyEventTextMessage, Value: codec.StringValue(fmt.Sprintf("process %v %s", p.name, what))},
			{Key: codec.KeyExitCode, Value: codec.IntValue(int32(code))},
			{Key: codec.KeyProcTermStatus, Value: codec.StatusValue(status)},
		},
	}
	ev.Info = ev.Pack()
	_ = es.raise(ev) // nothing in it fails to pack
}

// loseNode records that processes have died with their node. All that are alive get one event about all of them.
func (c *core) loseNode(procs []codec.Proc) {
	var lost []*process
	for _, name := range procs {
		if p := c.find(name); p != nil && !p.exited {
			lost = append(lost, p)
		}
	}
	if len(lost) == 0 {
		return
	}
	first := lost[0]
	ev := codec.Event{
		Status: codec.StatusEventNodeDown, Source: codec.Proc{Nspace: first.name.Nspace, Rank: codec.RankUndef},
		Range: codec.RangeNamespace, Affected: names(lost), NonDefault: true,
		Info: []codec.Info{
			{Key: codec.KeyEventTextMessage, Value: codec.StringValue("node " + c.hostOf(first) + " is lost")},
			{Key: codec.KeyHostname, Value: codec.StringValue(c.hostOf(first))},
		},
	}
	ev.Info = ev.Pack()
	_ = c.events.raise(ev) // nothing in it fails to pack
	for _, p := range lost {
		c.recordExit(p, Exit{nodeLost: true})
	}
}

// hostOf returns the name of the node that a process of a job is on.
func (*core) hostOf(p *process) string { return p.space.job.Hosts[p.place.Node] }

// describeEnd returns the status and the text for the end of a process. Success means that no event is raised.
func (p *process) describeEnd(e Exit) (codec.Status, string) {
	what := fmt.Sprintf("exited with status %d", e.Code)
	if e.Signal != 0 {
		what = fmt.Sprintf("was ended by signal %d", e.Signal)
	}
	unfinished := e.Unfinished || p.phase != phaseNew && p.phase != phaseFinalized
	how := ending.End{Signal: e.Signal, Code: e.Code, Unfinished: unfinished}.Judge()
	switch {
	case e.nodeLost:
		return codec.StatusSuccess, ""
	case e.NotStarted:
		return codec.StatusErrProcFailedToStart, "could not be started"
	case p.aborts:
		return codec.StatusErrProcRequestedAbort, "asked for the job's abort and " + what
	case p.condemned && how != ending.Well:
		return codec.StatusErrProcKilledByCmd, "was ended by command: it " + what
	case how == ending.Killed:
		return codec.StatusErrProcAbortedBySig, what
	case how == ending.Exited:
		return codec.StatusErrExitNonzeroTerm, what
	case how == ending.Unfinished:
		return codec.StatusErrProcTermWoSync, what + " without finalize"
	default:
		return codec.StatusSuccess, ""
	}
}

// Notify raises an event at the clients that are in its range and asked for it. Its source, which need not be a
// process, names the sender: with codec.RangeNamespace the event is for the source's namespace.
//
//   - Errors: an event that is invalid or cannot be packed.
func (s *Server) Notify(ev codec.Event) error {
	n := codec.Notification{Status: ev.Status, Source: ev.Source, Info: ev.Pack(), Range: ev.Range}
	if _, err := n.Append(nil); err != nil {
		return fmt.Errorf("pmix server: notify %v: %w", ev.Status, err)
	}
	parsed, err := codec.ParseEvent(n)
	if err == nil && ev.Range == codec.RangeCustom && len(ev.Targets) == 0 {
		err = fmt.Errorf("range %d without targets, want at least one", ev.Range)
	}
	if err != nil {
		return fmt.Errorf("pmix server: notify %v: %w", ev.Status, err)
	}
	s.post(event{kind: evNotify, notice: parsed})
	return nil
}
