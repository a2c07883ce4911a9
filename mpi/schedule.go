package mpi

import (
	"errors"
	"fmt"
	"slices"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/mpi/sched"
	"github.com/goshmem/goshmem/rma"
)

// # Collectives in messages
//
// A collective that does not wait, or has ranks that share no memory, is a schedule (package sched): its steps are messages, copies and
// folds. The messages are those of a hidden communicator with the same ranks (group.hidden), so they meet no message of the program.
//
//   - A tag is the number of the collective in its communicator, and the label of the message in the schedule. All ranks call the collectives of a
//     communicator in the same order, so they count alike.
//   - A step that ends puts its request into process.finished. Whoever releases the engine's lock next goes on with the schedules that have some
//     there (advanceSchedules). So schedules run in all calls that make progress.
//   - Folds, and long copies, run without the lock. A schedule is busy meanwhile, and only one goroutine goes on with it.
//   - A rank that waits for long asks the ranks that it waits for whether they are in the same collective (ask.go).
//   - The death of a rank ends all schedules of its communicators, at each rank that learns of it. So no rank waits for one that has failed.
//     A rank that gives a collective up tells the others (noticeBroken), which ends theirs.

// collectives are those of a communicator that go in messages. The engine's lock guards them.
type collectives struct {
	g           *group
	schedules   []*schedule // collectives under way
	begun       uint64      // collectives that have begun, other than persistent ones
	persistents int         // persistent collectives that were made
	idups       int         // calls of Idup
	recent      [recentCalls]recentCall
	asks        []ask             // of ranks that are ahead of this one
	dead        []int             // ranks that are known to have died, in the order in which this process has learned of it
	broken      bool              // a rank has given one of them up, or they were not the same at all ranks
	attempts    map[uint64]uint64 // by call of some ranks: how often it was made
	givenUp     []uint64          // attempts of such calls that other ranks have given up
}

// schedule is a collective under way. The engine's lock guards it.
type schedule struct {
	r        *request // the caller's
	run      sched.Run
	tag      int32             // of its messages, without their labels
	areas    [3]unsafe.Pointer // by sched.Area
	fold     func(acc, in unsafe.Pointer, bytes int)
	open     []*request // messages under way
	busy     bool       // a goroutine executes a step of it
	over     bool       // the request is complete
	err      error
	tmp      []uint64
	number   uint64    // of a collective that is not persistent: how many there were up to it
	asked    int       // steps that were left when the peers were asked last
	waitedAt int       // steps that were left when waited was set
	waited   time.Time // since when they are left
	givenUp  time.Time // when a peer has withdrawn a message
	leftSeen time.Time // since when a peer is known to have left
	ranks    []int     // of the plan, by its ranks; nil: all of the communicator
	subset   *subset   // of a collective of some ranks; otherwise nil
	round    uint64    // of that
}

// peer returns the rank of a step's peer.
func (s *schedule) peer(step *sched.Step) int {
	if s.ranks == nil {
		return step.Peer
	}
	return s.ranks[step.Peer]
}

// needs reports whether a rank is one of the schedule.
// A Split needs all: its other ranks may have failed by the death of one that is in another part.
func (s *schedule) needs(rank int) bool {
	return s.ranks == nil || s.subset.number == bySplit || slices.Contains(s.ranks, rank)
}

// call is what a collective does.
type call struct {
	op       string // the public function
	kind     kindOf
	root     int // its root; of an Intercomm, which group has it
	bytes    int // that all ranks give, or get; 0: they differ
	plan     *sched.Plan
	src, dst unsafe.Pointer
	fold     func(acc, in unsafe.Pointer, bytes int) // nil: it reduces nothing
	in       *group                                  // the inner communicator (validate.go), or nil
	rootArg  int                                     // of an Intercomm: the root argument, or AnySource
}

// A tag has 31 bits and tells collectives apart:
//
//	collective    0, its kind (4 bits), how many there were up to it modulo collectivesMost; a label. So different ones never exchange messages
//	persistent    10, a number of its own (13 bits); a label. The ranks make them in the same order, but may start them in any order
//	of some ranks 11, a hash of the attempt and its round (subset.go)
const (
	labelBits       = 16
	sequenceBits    = 10
	collectivesMost = 1 << sequenceBits // under way in a communicator at a time, at most one less
	persistentsMost = 1 << 13
	persistentTags  = 0b10 << 29
	subsetTags      = 0b11 << 29
)

// kindBits is the number of bits of a kind of collectives.
const kindBits = 4

// kindOf is a kind of collectives, whatever their form.
type kindOf uint8

// The kinds of collectives.
const (
	ofBarrier kindOf = iota
	ofBcast
	ofReduce
	ofAllreduce
	ofGather
	ofScatter
	ofAllgather
	ofAlltoall
	ofReduceScatter
	ofScan
	ofExscan
	ofNeighborAllgather
	ofNeighborAlltoall
	ofWords // of Split
)

var kindNames = [1 << kindBits]string{
	"Barrier", "Bcast", "Reduce", "Allreduce", "Gather", "Scatter", "Allgather", "Alltoall", "ReduceScatter", "Scan", "Exscan", "NeighborAllgather",
	"NeighborAlltoall", "Split",
}

// start begins a collective.
func (k *collectives) start(c *call) (*request, error) {
	g := k.g
	e := g.e
	e.job.Waiter.Beat()
	e.mu.Lock()
	defer e.unlock()
	if len(k.schedules) >= collectivesMost-1 {
		return nil, usage(c.op, ErrTooMany, "%d collectives of the communicator are under way, want fewer; hint: wait for some of them", len(k.schedules))
	}
	s := &schedule{}
	k.count(s, c)
	return k.execute(c, s)
}

// takeNumber returns a number for a persistent collective. The caller has the engine's lock.
func (k *collectives) takeNumber() int {
	k.persistents++
	return k.persistents % persistentsMost
}

// execute begins to execute a schedule. The caller has the engine's lock.
func (k *collectives) execute(c *call, s *schedule) (*request, error) {
	g := k.g
	e := g.e
	if e.job.Failures.Epoch() != e.deathEpoch.Load() {
		e.progress()
	}
	if g.ended.Load() && (s.subset == nil || g != e.world || g.freed.Load() || e.closed.Load()) { // calls of some ranks go on in a world that is revoked
		return nil, g.endedError(c.op)
	}
	if err := k.check(c.op, s); err != nil {
		return nil, err
	}
	s.r = g.newRequest(c.op, span{elem: 1})
	s.r.schedule, s.r.rare = s, true
	s.areas[sched.Src], s.areas[sched.Dst], s.fold = c.src, c.dst, c.fold
	if words := (c.plan.Tmp + 7) / 8; words > len(s.tmp) {
		s.tmp = make([]uint64, words)
	}
	s.areas[sched.Tmp] = unsafe.Pointer(unsafe.SliceData(s.tmp))
	s.run.Start(c.plan)
	k.schedules = append(k.schedules, s)
	e.goOn(s)
	return s.r, nil
}

// check returns why collectives of the communicator fail: a rank has died, or one has given a collective up. The caller has the
// engine's lock.
func (k *collectives) check(op string, s *schedule) error {
	g := k.g
	if dead := s.deadOf(g); dead != nil {
		return g.deadError(op, dead...)
	}
	if k.broken && s.subset == nil {
		return g.brokenError(op)
	}
	if s.subset != nil && slices.Contains(k.givenUp, s.subset.attempt) {
		return givenUpError(op)
	}
	return nil
}

// deadOf returns the ranks of the schedule that are known to have died, ascending.
func (s *schedule) deadOf(g *group) (dead []int) {
	for _, rank := range g.collectives.dead {
		if s.needs(rank) {
			dead = append(dead, rank)
		}
	}
	slices.Sort(dead)
	return dead
}

// at returns the address of a span. That of an empty one is nil, as it may be behind the last byte of its memory.
func (s *schedule) at(p sched.Span) unsafe.Pointer {
	if p.N == 0 {
		return nil
	}
	return unsafe.Add(s.areas[p.Area], p.At)
}

// goOn executes the steps of a schedule that may begin, and ends it after the last one. The caller has the engine's lock, which it may release
// and acquire again.
func (e *engine) goOn(s *schedule) {
	if s.busy || s.over {
		return
	}
	s.busy = true
	for s.err == nil {
		i, ok := s.run.Next()
		if !ok {
			break
		}
		e.execute(s, i)
	}
	s.busy = false
	if len(s.open) > 0 || s.err == nil && !s.run.Over() {
		return
	}
	s.over = true
	g := s.r.g
	if at := slices.Index(g.collectives.schedules, s); at >= 0 {
		g.collectives.schedules = slices.Delete(g.collectives.schedules, at, at+1)
	}
	e.complete(s.r, s.err)
}

// execute executes a step of a schedule, or begins to.
func (e *engine) execute(s *schedule, i int) {
	step := s.run.Step(i)
	g := s.r.g.hidden
	switch step.Kind {
	case sched.Send, sched.Recv:
		r, err := g.startStep(s, step)
		switch {
		case err != nil:
		case r != nil && !r.isDone():
			r.rare, r.parent, r.step, r.place = true, s, int32(i), int32(len(s.open))
			s.open = append(s.open, r)
			return
		case r != nil:
			err = s.stepError(r, i)
			r.recycle()
		}
		switch {
		case err == nil && r != nil && s.isStale(i):
			e.execute(s, i)
			return
		case err == nil:
		case errors.Is(err, ErrCanceled):
			s.givenUp = time.Now()
			return
		default:
			e.failSchedule(s, err)
			return
		}
	case sched.Fold:
		s.foldStep(step)
	case sched.Copy:
		to, from := s.at(step.At), s.at(step.From)
		switch n := step.At.N; {
		case to == from || n == 0:
		case n <= lockedMost:
			moveBytes(to, from, n)
		default:
			e.mu.Unlock()
			rma.Move(to, unsafe.Slice((*byte)(from), n))
			e.mu.Lock()
		}
	}
	s.run.Done(i)
}

// foldStep folds without the lock. If the operator panics, the callers find the lock as they expect it, and the collective ends for all.
func (s *schedule) foldStep(step *sched.Step) {
	e := s.r.g.e
	folded := false
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		if !folded {
			s.busy = false
			e.failSchedule(s, usage(s.r.op, ErrArgument, "the operator of this reduction panicked, want one that returns"))
			e.goOn(s)
			s.giveUp()
		}
	}()
	s.fold(s.at(step.At), s.at(step.From), step.At.N)
	folded = true
}

// startStep begins to send or to receive a message of a schedule. It returns nil if the send is complete already.
func (g *group) startStep(s *schedule, step *sched.Step) (*request, error) {
	at := span{at: s.at(step.At), bytes: step.At.N, elem: 1}
	tag := int(s.tag) | int(step.Label)
	if step.Kind == sched.Recv {
		return g.postRecv(s.r.op, at, s.peer(step), tag), nil
	}
	if s.peer(step) == g.me && at.bytes > lockedMost {
		g.e.mu.Unlock()
		err := sendLongToSelf(g, s.r.op, at, tag)
		g.e.mu.Lock()
		return nil, err
	}
	return g.putSend(s.r.op, at, s.peer(step), tag)
}

// postRecv begins to receive a message from one rank. The caller has the engine's lock.
func (g *group) postRecv(op string, s span, src, tag int) *request {
	e, env := g.e, envelope{Src: int32(src), Tag: int32(tag)}
	r := g.newRequest(op, s)
	r.recv = true
	if k, found, ok := g.q.Take(env); ok {
		e.deliverKept(r, found, k)
		return r
	}
	r.pe = g.pe(src)
	r.awaitedPE = int32(r.pe) + 1
	if e.isDead(r.pe) {
		e.failByDeath(r)
		return r
	}
	r.ref, r.posted = g.q.Post(env, r), true
	return r
}

// advanceSchedules goes on with the schedules whose messages have ended, and releases the engine's lock.
func (e *engine) advanceSchedules() {
	defer e.mu.Unlock() // also if an operator panics
	for len(e.finished) > 0 {
		last := len(e.finished) - 1
		r := e.finished[last]
		e.finished[last], e.finished = nil, e.finished[:last]
		if b := r.inBlock; b != nil {
			b.noteDone(r)
			continue
		}
		s, step := r.parent, int(r.step)
		if s == nil {
			if r.agreement != nil && r.recv {
				r.agreement.take(r)
			}
			if r.after != nil {
				r.after(r)
			}
			r.recycle()
			continue
		}
		err := s.stepError(r, step)
		s.remove(r)
		r.parent = nil
		r.recycle()
		switch {
		case err == nil && s.isStale(step):
			if s.err == nil {
				e.execute(s, step)
			}
		case err == nil:
			s.run.Done(step)
		case errors.Is(err, ErrCanceled): // why comes later
			s.givenUp = time.Now()
		default:
			e.failSchedule(s, err)
		}
		e.goOn(s)
	}
}

// stepError returns the error of a message that has ended.
func (s *schedule) stepError(r *request, step int) error {
	if r.err == nil && r.recv && r.status.Bytes != s.run.Step(step).At.N {
		return errMismatch
	}
	return r.err
}

// errMismatch reports a message of another length than a schedule has for it.
var errMismatch = errors.New("length of a message")

// describeAwaited says in words what the schedule waits for.
func (s *schedule) describeAwaited() string {
	if len(s.open) == 0 {
		return "this collective"
	}
	r := s.open[0]
	return fmt.Sprintf("the part of rank %d in this collective", r.g.rank(r.pe))
}

// remove removes a message from those that are under way.
func (s *schedule) remove(r *request) {
	last := s.open[len(s.open)-1]
	s.open[r.place], last.place = last, r.place
	s.open[len(s.open)-1], s.open = nil, s.open[:len(s.open)-1]
}

// failSchedule ends a schedule for cause, as soon as nothing writes to its memory any more. Its caller goes on with it.
func (e *engine) failSchedule(s *schedule, cause error) {
	if s.err != nil {
		return
	}
	g, op := s.r.g, s.r.op
	switch {
	case errors.Is(cause, errMismatch), errors.Is(cause, ErrTruncated):
		cause = ErrCanceled // for the messages under way
		s.err = usage(op, errMismatched, "a rank has sent another number of bytes than this one expects, want the same collective with the same lengths on all ranks")
	default:
		s.err = cause
	}
	if errors.Is(s.err, ErrMismatch) && s.subset == nil {
		defer g.collectives.breakOff(becauseMismatch)
	}
	for _, r := range slices.Clone(s.open) {
		if !r.isDone() && e.cancel(r, cause) {
			s.remove(r)
			r.parent = nil
			r.recycle()
		}
	}
}

// failAll ends the schedules of a communicator for which cause returns an error.
func (k *collectives) failAll(cause func(s *schedule) error) {
	g := k.g
	for _, s := range slices.Clone(k.schedules) {
		if err := cause(s); err != nil {
			g.e.failSchedule(s, err)
			g.e.goOn(s)
		}
	}
}

// Why a communicator is broken, in noticeBroken.
const (
	becauseGivenUp = iota
	becauseMismatch
)

// errMismatched is the cause of errors of ranks that have called different collectives, and so have broken their communicator.
var errMismatched = errors.Join(ErrMismatch, ErrCommBroken)

// failBroken ends the schedules of all ranks of a communicator that is broken.
func (k *collectives) failBroken(because uint64) {
	g := k.g
	k.broken = true
	for of := g; of != nil; of = of.outer {
		of.agreeing.agreement.failLine(lineUniform, of.brokenError)
	}
	k.failAll(func(s *schedule) error {
		switch {
		case s.subset != nil:
			return nil
		case because == becauseMismatch:
			return usage(s.r.op, errMismatched, "ranks called different collectives, or with different roots or lengths, want the same call on all ranks")
		}
		return g.brokenError(s.r.op)
	})
}

// breakOff gives the collectives of a communicator up, and tells the other ranks. The caller has the engine's lock.
func (k *collectives) breakOff(because uint64) {
	g := k.g
	if k.broken {
		return
	}
	k.broken = true
	for rank := range g.pes {
		g.tellOne(rank, noticeBroken, parcel{to: because})
	}
	k.failBroken(because)
}

// noteBroken notes that a rank has given the collectives of a communicator up.
func noteBroken(e *engine, comm uint32, because uint64) {
	if g := e.groups[comm]; g != nil && !g.collectives.broken {
		g.collectives.failBroken(because)
	} else if e.isComing(comm) {
		e.broken = append(e.broken, comm)
	}
}
