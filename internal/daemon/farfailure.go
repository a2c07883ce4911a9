package daemon

import (
	"fmt"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/ending"
	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// FarFailure is a failure of PEs of a job on other nodes. It is plain data, which another process can be sent.
type FarFailure struct {
	Job int
	PEs []int
	End ending.End // how each of them has ended, as the event of its own node says
	// NodeLost says that the PEs have died with their node, and End says nothing.
	NodeLost bool
	// Before says of PEs whose node is lost that their own ends were known before, if they were failures. Agents, and PEs
	// that wait for the node, hear of the loss. PMIx clients do not.
	Before bool
}

// cause says in the words of the failure page how the PEs have failed.
func (f *FarFailure) cause() failure.Cause {
	if f.NodeLost {
		return failure.Of(failure.NodeLost)
	}
	return causeOf(f.End)
}

// FarFailed makes a failure of PEs of other nodes known on this one, as the step makes known what fails here: on the
// page, in one epoch; to PEs that wait or have call-backs; to PMIx clients. What was told of a PE before is not told
// again. PEs of other nodes that have ended well need no word: their own node answers for them in fences and gets.
//
//   - Errors: a PE of this node, or one that the job does not have. Nothing is told then. Of a job that is over nobody
//     is told, either.
func (s *Step) FarFailed(f FarFailure) error {
	j := s.table.job(f.Job)
	if j == nil {
		return nil
	}
	hold := &s.failures.hold
	if hold.far == 0 {
		return s.takeFarFailure(j, f)
	}
	if err := j.checkFar(f.PEs); err != nil {
		return err
	}
	hold.after(hold.far, func() {
		if err := s.takeFarFailure(j, f); err != nil {
			s.cfg.Logger.Error().Err(err).Msg("failure of another node")
		}
	})
	return nil
}

// takeFarFailure is FarFailed for a job that is there.
func (s *Step) takeFarFailure(j *localJob, f FarFailure) error {
	s.agent.dropFar(j, &f)
	publish := s.failures.publishFar
	if f.NodeLost && f.Before {
		publish = s.failures.publishLoss
	}
	rung, err := publish(j, f)
	if f.NodeLost && !f.Before && !rung && err == nil { // the deaths of all these PEs may be known, but not the loss of their node
		rung, err = s.failures.publishLoss(j, f)
	}
	s.failures.makeKnown(rung)
	return err
}

// publishFar writes failures of other nodes on the page, rings the bells, and queues the rest for makeKnown.
func (f *failures) publishFar(j *localJob, far FarFailure) (rung bool, err error) {
	if err := j.checkFar(far.PEs); err != nil {
		return false, err
	}
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	if f.silent {
		return false, nil
	}
	var fresh []int
	for _, pe := range far.PEs {
		if !j.farFailed[pe] {
			j.farFailed[pe] = true
			fresh = append(fresh, pe)
		}
	}
	if len(fresh) == 0 || j.isOver() {
		return false, nil
	}
	j.memory.publishAll(fresh, far.cause())
	f.stirJoined(j.number)
	j.alertDue, j.failures = true, j.failures+len(fresh)
	news := &farNews{nodeLost: far.NodeLost, exit: exitOf(far.End)}
	for _, pe := range fresh {
		news.procs = append(news.procs, pmix.Proc{Nspace: j.nspace, Rank: pmix.Rank(pe)})
	}
	f.events.append(announcement{far: news})
	return true, nil
}

// publishLoss is publishFar for PEs that had ended before their node was lost. It does nothing where the agent does not
// serve: then no PE waits for the memory of another node.
func (f *failures) publishLoss(j *localJob, far FarFailure) (rung bool, err error) {
	if err := j.checkFar(far.PEs); err != nil {
		return false, err
	}
	f.table.mu.Lock()
	defer f.table.mu.Unlock()
	if runs, _ := f.agent.isServing(); !runs || f.silent || j.isOver() || !j.memory.publishLoss(far.PEs) {
		return false, nil
	}
	f.stirJoined(j.number)
	j.alertDue, j.failures = true, j.failures+1
	return true, nil
}

// checkFar says what is wrong with numbers of PEs that are not on this node.
func (j *localJob) checkFar(pes []int) error {
	for _, pe := range pes {
		if pe < 0 || pe >= j.npes() || j.isNear(pe) {
			return fmt.Errorf("failure of PE %d on another node, want one of %d PEs that are not on this node", pe, j.npes())
		}
	}
	return nil
}

// farNews is a failure of other nodes as the servers are told of it.
type farNews struct {
	procs    []pmix.Proc
	nodeLost bool
	exit     server.Exit // unless nodeLost
}

// exitOf returns an end in the servers' terms.
func exitOf(e ending.End) server.Exit {
	return server.Exit{Code: e.Code, Signal: e.Signal, Unfinished: e.Unfinished}
}

// announceFar tells the servers of a failure of other nodes.
func (v *servers) announceFar(n *farNews) {
	if n.nodeLost {
		v.pmix.NodeLost(n.procs)
	}
	for _, p := range n.procs {
		if !n.nodeLost {
			v.pmix.ProcExited(p, n.exit)
		}
		v.pmi.ProcExited(p, true)
	}
}
