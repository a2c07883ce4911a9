package mpi

import (
	"slices"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap/layout"
)

// # Processes of other jobs on other nodes
//
// The agents also serve the PEs of spawned jobs, by indices behind those of the first job's PEs (layout.FirstGuest). So a message to another job on another node
// goes as one to the own job there. Three things differ:
//
//   - Names. A sender that has no number in the receiver's job is named by its node and its index with the agent there. The receiver looks the name up
//     among the jobs that it has reached. It drops a cell of another job: nothing but a notice can come from there, as the parents send to the children, and these
//     send at all, only when both sides have reached each other. It keeps in mind who has finalized (farSide.gone): it may reach that job later, when the notice
//     does not come again.
//   - Deaths. A death is on the failure page of the other job on this node, after the agent has taken the dead one's last messages. The epochs of that page say
//     whether these are read: foreignJob.seen.
//   - Early messages. The agent takes messages for a process of a spawned job before that has called Init, and so does the inbox. The process reaches its parents
//     before it reads them.

// isNear reports whether a PE, of this job or of another one, is on this node.
func (p *process) isNear(pe layout.PE) (near bool) {
	if p.isForeign(pe) {
		_, near = p.foreign.of(pe).local(pe)
	} else {
		_, near = p.job.Place.Local(pe)
	}
	return near
}

// nameGuests notes by which names the PEs of a spawned job, and of those that an earlier World has reached, are in the inbox.
func (p *persistent) nameGuests(j *job.Job) {
	if j.IsGuest() {
		for pe := range layout.PE(j.NPEs) {
			if _, near := j.Place.Local(pe); !near {
				p.far.name(layout.GuestName(j.FarHome(pe)), pe)
			}
		}
	}
	for _, f := range p.foreign.all() {
		j.Others.Know(f.Peers)
		for pe := f.Base; pe < f.Base+layout.PE(f.NPEs); pe++ {
			if _, near := f.local(pe); !near {
				p.out[pe] = nil // it has the port of the earlier World
			}
		}
	}
}

// name notes the name of a PE in the inbox.
func (f *farSide) name(name, pe layout.PE) {
	if f.lane.names == nil {
		f.lane.names = map[layout.PE]layout.PE{}
	}
	f.lane.names[name] = pe
}

// addFarPeers takes the PEs of another job that are on other nodes. The caller has the engine's lock.
func addFarPeers(e *engine, f *foreignJob) {
	for i := range layout.PE(f.NPEs) {
		if _, near := f.Local(i); near {
			continue
		}
		name := layout.GuestName(f.Home(i))
		e.far.name(name, f.Base+i)
		e.in[f.Base+i] = e.far.lane
		f.recallGone(e.far, i, name)
	}
}

// recallGone notes that a PE of that job has finalized, if it has said so before this process has reached the job.
func (f *foreignJob) recallGone(from *farSide, pe, name layout.PE) {
	if from.gone[name] {
		f.setGone(pe)
		delete(from.gone, name)
	}
}

// dropsCell reports whether a cell of the inbox is from a job that this process has not reached, and skips its data then.
func dropsCell(e *engine, l *inLane, c *layout.Cell, kind uint8, n int) bool {
	if _, known := l.writer(c); known {
		return false
	}
	if _, tag := splitMatch(c.Match); kind == kindNotice && tag == noticeGone {
		if e.far.gone == nil {
			e.far.gone = map[layout.PE]bool{}
		}
		e.far.gone[layout.PE(c.Mark>>layout.InboxPE)] = true
	}
	if kind == kindEager && n > layout.CellBody || kind == kindData {
		l.nextData(n)
	}
	return true
}

// isPublished reports whether the failure page of another job tells of the death of a PE, whose messages are all read.
func (f *foreignJob) isPublished(pe layout.PE) bool {
	if local, near := f.Local(pe); near {
		return f.Failures.Dead(int(pe), f.Map.Control(local).Header.Incarnation)
	}
	death, dead := f.Failures.Failure(int(pe))
	return dead && death.Epoch <= f.seen // otherwise the page of this job gets another epoch soon
}

// setGone notes that a PE of that job has finalized.
func (f *foreignJob) setGone(pe layout.PE) {
	if f.gone == nil {
		f.gone = make([]bool, f.NPEs)
	}
	f.gone[pe] = true
}

// noteGone notes that a process of another job on another node has finalized. The caller has the engine's lock.
func noteGone(e *engine, pe layout.PE) {
	f := e.foreign.of(pe)
	if f == nil {
		return
	}
	f.setGone(pe - f.Base)
	e.wakeProbes(nil, envelope{})
	for _, g := range e.groups {
		if g.rank(pe) >= 0 {
			wakeSleepers(g)
		}
	}
}

// tellFarGone tells the PEs of another job on other nodes that this process has sent its last message: those that it has sent anything. These are all that may
// wait for it, as it has told them that it leaves or revokes their communicators (shutDown, revoke). The others have never met it.
func tellFarGone(e *engine, f *foreignJob) {
	if f.Near == f.NPEs || e.far == nil {
		return
	}
	p := packet{kind: kindNotice, match: matchOf(0, noticeGone)}
	for pe := f.Base; pe < f.Base+layout.PE(f.NPEs); pe++ {
		if _, near := f.local(pe); !near && e.out[pe] != nil && !e.isDead(pe) && !hasFinalized(e, pe) {
			_ = e.out[pe].writeFar(&p, true) // without a single free block the PE learns of it by this PE's end, if at all
		}
	}
}

// ownRanks returns those of some ranks that are of this job.
func ownRanks(g *group, ranks []int) []int {
	return slices.DeleteFunc(slices.Clone(ranks), func(rank int) bool { return g.e.isForeign(g.pe(rank)) })
}
