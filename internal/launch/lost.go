package launch

import (
	"fmt"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
)

// reportLostNode ends the job because a node is lost, with all its PEs. With --recover the job goes on without them. It
// does so, too, without a node that was added for a spawned job and has no PE that runs. PEs of a job whose spawn is under
// way are not lost: the spawn fails.
func (r *run) reportLostNode(e daemon.Event) {
	node := e.PE
	host := r.o.nameOfNode(r.cluster, node)
	lost := slices.DeleteFunc(pesOn(node, r.gone, r.cluster.home), func(id daemon.ID) bool { return r.cluster.isBegun(id.Job) })
	before := endedOn(node, r.gone, r.cluster.home)
	harmless := len(lost) == 0 && r.cluster.growth.isAdded(node)
	// Otherwise noteClosed judges: output may be missing.
	r.lostNodes[node] = r.ending || !r.o.Recover && !harmless || len(lost) > 0 || !r.cluster.growth.hasHadPEs(node)
	for _, id := range lost {
		r.last = max(r.last, e.At)
		r.left--
		r.gone[id.Job][id.PE] = true
		delete(r.fallen, id)
		r.profiles.noteEnd(daemon.Event{Kind: daemon.Exited, ID: id}, node)
	}
	if !r.ending && (r.o.Recover || harmless || len(lost) == 0 && r.left == 0) { // first of all: PEs wait for it
		for job, pes := range byJob(lost) {
			r.others.tell(daemon.FarFailure{Job: job, PEs: pes, NodeLost: true})
		}
		// PEs may wait for the agent of a node whose PEs have ended. Without this word they would wait for ever.
		for job, pes := range byJob(before) {
			r.others.tell(daemon.FarFailure{Job: job, PEs: pes, NodeLost: true, Before: true})
		}
	}
	what := fmt.Sprintf("node %s is lost with %s: %s", host, countPEs(lost), e.Msg)
	switch {
	case r.ending || len(lost) == 0 && r.left == 0:
	case !r.o.Recover && !harmless:
		r.end(StatusError, "%s", what)
	default:
		r.out.message("%s; %s", what, goOn(r.left-len(r.fallen)))
	}
	for _, id := range lost {
		if r.o.Recover && !r.ending && !isAmong(r.dead, id) {
			r.dead = append(r.dead, failure{id: id, status: StatusError, what: "was lost with its node, " + host, at: e.At.Round(time.Millisecond), tier: "the loss of its node"})
		}
		r.noteParted(id)
	}
	for job := range byJob(lost) {
		r.cluster.endIfOver(job, r.gone[job])
	}
}

// others makes failures known on nodes other than their own. Nil does nothing.
type others struct{ run *run }

// tell makes a failure of PEs of one node known on the others, as long as the job goes on.
func (o *others) tell(f daemon.FarFailure) {
	if o == nil || o.run.ending || len(f.PEs) == 0 {
		return
	}
	if err := o.run.cluster.FarFailed(f); err != nil {
		o.run.log.Error().Err(err).Msg("failure on another node")
	}
}

// tellFailure makes the end of a PE known if it is a failure with which the job goes on.
func (o *others) tellFailure(e daemon.Event) {
	if o == nil {
		return
	}
	if e.Unconnected {
		end := e.End
		end.Unfinished = true // as its own node says it
		o.tell(daemon.FarFailure{Job: e.Job, PEs: []int{e.PE}, End: end})
		return
	}
	if _, failed := failureOf(e, 0); failed && o.run.o.tolerates(e) {
		o.tell(daemon.FarFailure{Job: e.Job, PEs: []int{e.PE}, End: e.End})
	}
}

// pesOn returns the PEs of a node whose processes are not reaped.
func pesOn(node int, gone map[int][]bool, homeOf func(id daemon.ID) int) []daemon.ID {
	return selectPEs(node, gone, homeOf, false)
}

// endedOn returns the PEs of a node whose processes are reaped.
func endedOn(node int, gone map[int][]bool, homeOf func(id daemon.ID) int) []daemon.ID {
	return selectPEs(node, gone, homeOf, true)
}

// selectPEs returns the PEs of a node whose processes are reaped, or those whose processes are not.
func selectPEs(node int, gone map[int][]bool, homeOf func(id daemon.ID) int, reaped bool) (ids []daemon.ID) {
	for _, job := range sortedKeys(gone) {
		for pe, over := range gone[job] {
			if id := (daemon.ID{Job: job, PE: pe}); over == reaped && homeOf(id) == node {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// byJob returns the numbers of PEs by their jobs.
func byJob(ids []daemon.ID) map[int][]int {
	pes := map[int][]int{}
	for _, id := range ids {
		pes[id.Job] = append(pes[id.Job], id.PE)
	}
	return pes
}

// countPEs says how many PEs there are, and which if they are few.
func countPEs(ids []daemon.ID) string {
	switch n := len(ids); n {
	case 0:
		return "no PE that runs"
	case 1:
		return fmt.Sprintf("PE %v", ids[0])
	default:
		return fmt.Sprintf("%d PEs, %v to %v", n, ids[0], ids[n-1])
	}
}
