package daemon

import (
	"cmp"
	"errors"
	"maps"
	"runtime"
	"slices"
	"sync"
	"syscall"

	"github.com/goshmem/goshmem/internal/wire"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// table has the jobs of a step and their PEs.
//
// # The lock
//
// The lock guards which jobs and PEs there are, and what changes of them: see localJob and localPE. All parts of the step
// decide under it. It is held for reads and writes of memory, and for system calls that return at once: kill, the close of
// a leash, a futex wake, a wait that does not wait, a packet to the agent if its socket has room. No holder reads /proc,
// starts a process, writes to a file or to any other socket, or yields the processor.
//
// deathWatch.mu may be held when the lock of the table is taken; jobMemory.mu, announcer.mu and leash.mu may be taken while
// it is held. So may nodeAgent.queue and nodeAgent.state, which nobody holds for a wait. nodeAgent.told is
// held while the agent is told something, and no lock of the step outside nodeAgent is taken or held then. No other two locks of the step are held at once.
//
// A part that has to look at a process does so in three steps:
//
//  1. Under the lock, it notes the PE and the number of the process.
//  2. Without the lock, it looks: at /proc/PID and at what descends from it.
//  3. Under the lock, it makes sure that the PE is still what it was, and decides. If the PE's number is still held
//     (life.PE.Ended is false), the process has had that number during all of step 2, because the number is given up only
//     after End has been noted under the lock. Where a process may have been reaped meanwhile, its start time tells it
//     from another one with the same number: see identity.
//
// # Starts
//
// While fork and exec run, the new process is a child of the step that no job has yet. The lock is not held meanwhile.
// Instead, the field starting names the PE. A part that must not take the process for another one waits until the start is
// over: awaitStart, lockBetweenStarts. One thread starts all processes, so there is one such PE at a time.
type table struct {
	name string // what the names of the jobs begin with

	mu       sync.Mutex
	jobs     map[int]*localJob // by number
	enlisted int               // how many jobs there have been
	starting *localPE          // whose process is being started; nil: none is
	refusing bool              // no further job may begin
	killed   bool              // all PEs were sent SIGKILL: no farewell is waited for, and no process started
	toJoin   int               // how many PEs of the first job have not joined yet on this node
	joined   chan struct{}     // closed when toJoin has become 0
}

func newTable(name string) *table {
	return &table{name: name, jobs: map[int]*localJob{}, joined: make(chan struct{})}
}

// errEnding refuses a further job.
var errEnding = errors.New("the job that it would belong to is ending")

// enlistFirst adds the job of the command line.
func (t *table) enlistFirst(j *localJob) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.enlist(j)
	t.toJoin = len(j.near)
}

// enlist gives a job the next number, and its name. The caller holds the lock.
func (t *table) enlist(j *localJob) { t.enlistAs(j, t.enlisted) }

// enlistAs gives a job a number that no job has had, and its name. The caller holds the lock.
func (t *table) enlistAs(j *localJob, number int) {
	j.number, j.nspace = number, wire.JobName(t.name, number)
	t.enlisted = max(t.enlisted, number+1)
	j.crowded = t.exceedsProcessors(j)
	t.jobs[j.number] = j
}

// exceedsProcessors says whether there are more PEs than processors with a job's. It is asked
// once, when the job gets its name, because all its PEs must be told the same: the
// first may have ended before the last is started. The caller holds the lock.
func (t *table) exceedsProcessors(j *localJob) bool {
	running := j.sharers()
	for _, other := range t.jobs {
		running += other.left
	}
	return running > runtime.NumCPU()
}

// refuseJobs lets no further job begin.
func (t *table) refuseJobs() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.refusing = true
}

// remove takes a job out of the table.
func (t *table) remove(j *localJob) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.jobs, j.number)
}

// job returns the job with a number, nil if there is none.
func (t *table) job(number int) *localJob {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.jobs[number]
}

// jobOf returns the job with a namespace, nil if there is none.
func (t *table) jobOf(nspace string) *localJob {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.jobNamed(nspace)
}

// jobNamed is jobOf for a caller who holds the lock.
func (t *table) jobNamed(nspace string) *localJob {
	if j := t.jobs[wire.JobNumber(nspace)]; j != nil && j.nspace == nspace {
		return j
	}
	return nil
}

// inOrder returns the jobs in order. The caller holds the lock.
func (t *table) inOrder() (all []*localJob) {
	for _, number := range slices.Sorted(maps.Keys(t.jobs)) {
		all = append(all, t.jobs[number])
	}
	return all
}

// started returns all PEs that were started, in order. The caller holds the lock.
func (t *table) started() (all []*localPE) {
	for _, j := range t.inOrder() {
		all = append(all, j.started()...)
	}
	return all
}

// allStarted is started for a caller who does not hold the lock.
func (t *table) allStarted() []*localPE {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.started()
}

// hasLivingPE says whether a PE that was started lives. The caller does not hold the lock.
func (t *table) hasLivingPE() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.ContainsFunc(t.started(), func(p *localPE) bool { return !p.life.Dead() })
}

// update calls f with a PE under the lock, if the PE was started.
func (t *table) update(id ID, f func(*localPE)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.jobs[id.Job].pe(id.PE); p != nil {
		f(p)
	}
}

// named returns the PE with a name, nil if there is none or it was not started. The caller holds the lock.
func (t *table) named(name pmix.Proc) *localPE {
	return t.jobNamed(name.Nspace).pe(int(name.Rank))
}

// targets returns the PEs that names stand for and that have been started:
// a wildcard for a whole job, no names for that of from. The caller holds the
// lock.
func (t *table) targets(from pmix.Proc, names []pmix.Proc) (all []*localPE) {
	if len(names) == 0 {
		names = []pmix.Proc{{Nspace: from.Nspace, Rank: pmix.RankWildcard}}
	}
	seen := map[*localPE]bool{}
	for _, name := range names {
		found := []*localPE{t.named(name)}
		if j := t.jobNamed(name.Nspace); j != nil && name.Rank == pmix.RankWildcard {
			found = j.started()
		}
		for _, p := range found {
			if p != nil && !seen[p] {
				seen[p], all = true, append(all, p)
			}
		}
	}
	return all
}

// farTargets returns the PEs of other nodes that names stand for, in order. The caller holds the lock.
func (t *table) farTargets(from pmix.Proc, names []pmix.Proc) (far []ID) {
	if len(names) == 0 {
		names = []pmix.Proc{{Nspace: from.Nspace, Rank: pmix.RankWildcard}}
	}
	for _, name := range names {
		switch j := t.jobNamed(name.Nspace); {
		case j == nil || !j.share.spans():
		case name.Rank == pmix.RankWildcard:
			for pe := range j.npes() {
				far = append(far, ID{j.number, pe})
			}
		case int64(name.Rank) < int64(j.npes()):
			far = append(far, ID{j.number, int(name.Rank)})
		}
	}
	far = slices.DeleteFunc(far, func(id ID) bool { return t.jobs[id.Job].isNear(id.PE) })
	slices.SortFunc(far, func(a, b ID) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.PE, b.PE)) })
	return slices.Compact(far)
}

// nameOf returns what a PE is called in messages.
func (t *table) nameOf(p pmix.Proc) string {
	if j := t.jobOf(p.Nspace); j != nil {
		return "PE " + ID{j.number, int(p.Rank)}.String()
	}
	return p.String()
}

// noteJoin notes that a PE has joined the job, perhaps not for the first time. The caller holds the lock.
func (t *table) noteJoin(p *localPE) {
	if !p.life.Inside() {
		p.departed = make(chan struct{})
	}
	if first := p.life.Join(); first && p.job.number == 0 {
		if t.toJoin--; t.toJoin == 0 {
			close(t.joined)
		}
	}
}

// beginStart notes that the process of a PE is going to be started, unless all were killed.
func (t *table) beginStart(p *localPE) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.killed {
		return errEnding
	}
	t.starting = p
	return nil
}

// endStart notes that the start of a process is over: it has an identity, or there is none. A PE that was being started
// when all were killed was not among them, and is killed now.
func (t *table) endStart(p *localPE, is identity, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starting = nil
	close(p.startOver)
	if err != nil {
		return
	}
	p.identity = is
	p.job.procs[p.id.PE] = p
	if t.killed {
		p.signal(syscall.SIGKILL)
	}
}

// awaitStart returns a PE, which may have connected before its start is noted; nil: it was not started.
func (t *table) awaitStart(j *localJob, pe int) *localPE {
	t.mu.Lock()
	defer t.mu.Unlock()
	for p := t.starting; p != nil && p.job == j && p.id.PE == pe && t.starting == p; {
		t.mu.Unlock()
		<-p.startOver
		t.mu.Lock()
	}
	return j.pe(pe)
}

// lockBetweenStarts takes the lock at a time when no process is being started: each child of this process that was
// started for a PE has its identity in the table.
func (t *table) lockBetweenStarts() {
	t.mu.Lock()
	for t.starting != nil {
		over := t.starting.startOver
		t.mu.Unlock()
		<-over
		t.mu.Lock()
	}
}

// leads says whether pid is the process of a PE that is not reaped yet: after
// that the number may be anybody's. The caller holds the lock.
func (t *table) leads(pid int) bool {
	for _, p := range t.started() {
		if p.pid == pid && !p.life.Reaped() {
			return true
		}
	}
	return false
}

// namespaces returns the names of the jobs. The caller holds the lock.
func (t *table) namespaces() (all []string) {
	for _, j := range t.inOrder() {
		all = append(all, j.nspace)
	}
	return all
}

// lookAt returns what the kernel says of a PE's process; held is false if the process has ended, so that its number may
// have been another one's by then. The caller does not hold the lock.
func (t *table) lookAt(p *localPE) (is process, held bool) {
	is = look(p.pid)
	t.mu.Lock()
	defer t.mu.Unlock()
	return is, !p.life.Ended()
}
