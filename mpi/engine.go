package mpi

import (
	"slices"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/mpi/match"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Limits of what is copied through a lane in one piece. Below eagerMost a message is
// sent at once, whether a receive waits for it or not.
const (
	eagerMost    = 16 << 10
	fragmentMost = 16 << 10
)

// engine moves the messages of a process. It does so inside of calls of this package
// and of all waits of the process (wait.Waiter.Serve), on the goroutine that calls.
type engine struct {
	*wires
	job      *job.Job
	me       int
	eager    int // longest message that is sent at once
	fragment int // longest part of one that goes through a lane in parts
	own      *layout.Control
	closed   atomic.Bool

	// mu guards what follows, the lanes and the queues of communicators. Nobody
	// waits for another process while holding it.
	mu       wait.Lock
	groups   map[uint32]*group // communicators of this process, by their numbers
	early    map[uint32]*queue // of communicators that others have made already
	latest   *group            // that was asked for last
	stuck    []*outLane        // in which something waits for room
	waiting  atomic.Int32      // len(stuck)
	taken    uint64            // cells out of lanes, but for those that receives have taken directly
	pulls    []*request        // receives that copy their messages
	helps    []*request        // sends that copy theirs to their receivers
	carried  []*request        // receives to which this process copies messages to itself
	copying  atomic.Int32      // how many all three are
	reach    []uint8           // by PE: what reaches has found; 0: nothing yet
	epoch    atomic.Uint64     // of the failure page, up to which all is done that is to be done
	dead     []bool            // PEs, as of epoch; nil: none
	finished int               // requests since the lock was taken
	directs  uint              // receives without a request
	issued   issued            // requests that were given out
	spare    []*message        // for use again
	kept     int               // bytes of buffers in spare
}

// queue is one communicator's.
type queue = match.Queue[*request, *message]

// wires is the part of an engine that outlives Finalize, as the lanes do: what is in them
// may be of before, and then its numbers are of nothing any more.
type wires struct {
	shape   layout.LaneShape
	out     []*outLane                // by PE; nil: not used yet
	in      []*inLane                 // by PE; nil: not used yet
	callers []uint64                  // those in in, as in layout.Control
	active  atomic.Pointer[[]*inLane] // those in in
	newest  [layout.MaxTeams]uint32   // of the communicators so far, by their teams
	table   []entry                   // requests that other processes have the number of
	vacant  []uint32                  // entries of table
}

// laid has the wires of a process's jobs. Guarded by initMu.
var laid = map[*symheap.Map]*wires{}

// shapeOfLanes is a variable for tests.
var shapeOfLanes = layout.ShapeOfLanes

func newEngine(j *job.Job) *engine {
	w := laid[j.Map]
	if w == nil {
		w = &wires{
			shape: shapeOfLanes(j.Map.Len()), out: make([]*outLane, j.NPEs), in: make([]*inLane, j.NPEs),
			callers: make([]uint64, (j.NPEs+63)/64),
		}
		w.active.Store(new([]*inLane))
		laid[j.Map] = w
	}
	w.reclaim(func(int32) bool { return true })       // since Finalize nobody uses any share
	most := w.shape.Data / 3 &^ (layout.CellSize - 1) // even if it does not fit behind the last ones, there is room in the end
	e := &engine{
		wires: w, job: j, me: j.PE, eager: min(eagerMost, most), fragment: min(fragmentMost, most),
		own: j.Map.Control(j.PE), groups: map[uint32]*group{}, early: map[uint32]*queue{},
		reach: make([]uint8, j.NPEs),
	}
	e.publish()
	return e
}

// unlock wakes those who sleep for a request that has been completed meanwhile, and gives the lock
// back: in this order, as Unlock may let other goroutines run first.
func (e *engine) unlock() {
	if e.finished > 0 {
		e.finished = 0
		rma.RingBell(&e.own.Bell)
	}
	e.mu.Unlock()
}

// lane returns the lane to a PE.
func (e *engine) lane(pe int) *outLane {
	if l := e.out[pe]; l != nil {
		return l
	}
	c := e.job.Map.Control(pe)
	l := &outLane{bell: &c.Bell, shape: e.shape, pe: pe}
	l.head, l.first, l.room = c.Lane(e.shape, e.me)
	e.out[pe] = l
	atomic.OrUint64(&c.Callers[e.me/64], 1<<(e.me%64))
	return l
}

// send has a packet written, now or when there is room.
func (e *engine) send(l *outLane, p *packet) {
	if e.closed.Load() || e.dead != nil && e.dead[l.pe] {
		return
	}
	if l.idle() && l.put(e, p) {
		return
	}
	l.queue = append(l.queue, *p)
	e.stick(l)
}

// stick puts a lane into the list of those in which something waits.
func (e *engine) stick(l *outLane) {
	if l.stuck {
		return
	}
	l.stuck = true
	atomic.StoreUint32(&l.head.Want, 1)
	e.stuck = append(e.stuck, l)
	e.waiting.Store(int32(len(e.stuck)))
}

// pump writes what waits for room.
func (e *engine) pump() (did bool) {
	for i := 0; i < len(e.stuck); {
		l := e.stuck[i]
		did = l.pump(e) || did
		if !l.idle() {
			i++
			continue
		}
		l.stuck = false
		atomic.StoreUint32(&l.head.Want, 0)
		e.stuck = slices.Delete(e.stuck, i, i+1)
		e.waiting.Store(int32(len(e.stuck)))
	}
	return did
}

// stirring says whether progress may find anything. It takes no lock.
func (e *engine) stirring() bool {
	for _, l := range *e.active.Load() {
		if l.ready() {
			return true
		}
	}
	if e.waiting.Load() != 0 || e.copying.Load() != 0 || e.job.Failures.Epoch() != e.epoch.Load() {
		return true
	}
	for i := range e.callers {
		if atomic.LoadUint64(&e.own.Callers[i]) != atomic.LoadUint64(&e.callers[i]) {
			return true
		}
	}
	return false
}

// serve makes progress for a wait that is not this package's.
func (e *engine) serve() bool {
	if !e.stirring() {
		return false
	}
	e.mu.Lock()
	defer e.unlock()
	return e.progress()
}

// progress does what there is to do, and says whether there was anything. Of a lane it takes
// no more than cellsMost: so it looks at all else as well, however fast its sender is. The
// deaths that are acted on are those published before the lanes were looked at: what
// the dead have sent is received first.
func (e *engine) progress() (did bool) { return e.progressUpTo(cellsMost, nil) }

// progressFor is progress for receives of a group, of which so many wait. Of a lane it takes no
// more cells than that: a message that no receive waits for would be kept, which costs more than to
// leave it in its lane and to look there again when a receive comes for it. Nor does it take more than
// half of cellsMost, as request.progress may take as many again.
func (e *engine) progressFor(receives int) (did bool) {
	return e.progressUpTo(min(max(receives, 1), cellsMost/2), nil)
}

// progressUpTo is progress that takes so many cells of a lane at most, and leaves one lane alone,
// which the caller empties himself.
func (e *engine) progressUpTo(most int, but *inLane) (did bool) {
	epoch := e.job.Failures.Epoch()
	for i := range e.callers {
		if now := atomic.LoadUint64(&e.own.Callers[i]); now != e.callers[i] {
			e.meet(i, now)
		}
	}
	for _, l := range *e.active.Load() {
		if l != but {
			did = e.empty(l, most) || did
		}
	}
	if epoch != e.epoch.Load() {
		e.bury(epoch)
		did = true
	}
	if len(e.stuck) > 0 {
		did = e.pump() || did
	}
	if len(e.pulls)+len(e.helps) > 0 {
		did = e.copyOn() || did
	}
	return did
}

// cellsMost is how many cells of a lane progress takes at most: senders that never pause hold
// up neither each other nor the looks of a wait at its deadline.
const cellsMost = 64

// empty takes up to so many cells of a lane, and says whether there were any.
func (e *engine) empty(l *inLane, most int) (did bool) {
	for ; most > 0 && l.ready(); most-- {
		e.receive(l)
		did = true
	}
	return did
}

// takeAll is progress that receives all that was in the lanes when it was called, for deaths and the
// end. It meets new callers first: a first message is in a lane that nobody has looked at yet.
func (e *engine) takeAll() {
	e.progress()
	e.emptyAll()
}

// emptyAll takes all that was in the lanes of met callers when it was called.
func (e *engine) emptyAll() {
	for _, l := range *e.active.Load() {
		e.empty(l, e.shape.Cells)
	}
}

// meet makes the lanes of callers that are new in word i.
func (e *engine) meet(i int, now uint64) {
	active := slices.Clone(*e.active.Load())
	for bit := range 64 {
		pe := 64*i + bit
		if now>>bit&1 == 0 || pe >= len(e.in) || e.in[pe] != nil {
			continue
		}
		l := &inLane{bell: &e.job.Map.Control(pe).Bell, shape: e.shape, pe: pe}
		l.head, l.first, l.room = e.own.Lane(e.shape, pe)
		e.in[pe] = l
		active = append(active, l)
	}
	e.active.Store(&active)
	atomic.StoreUint64(&e.callers[i], now)
}

// receive takes what is next in a lane.
func (e *engine) receive(l *inLane) {
	e.taken++
	c := l.next()
	kind := uint8(c.Mark >> 32)
	rank, n := splitSize(c.Size)
	switch kind {
	case kindEager:
		data := unsafe.Pointer(&c.Body)
		if n > layout.CellBody {
			data = l.behind(n)
		}
		comm, tag := splitMatch(c.Match)
		e.arrive(comm, match.Envelope{Src: int32(rank), Tag: tag}, data, n)
	case kindAnnounce:
		p := (*parcel)(unsafe.Pointer(&c.Body))
		comm, tag := splitMatch(c.Match)
		e.announced(comm, message{
			env: match.Envelope{Src: int32(rank), Tag: tag}, pe: l.pe, size: n, sender: p.from, offset: p.offset, addr: p.addr,
		})
	case kindClear:
		e.cleared(l.pe, (*parcel)(unsafe.Pointer(&c.Body)))
	case kindData:
		e.part((*parcel)(unsafe.Pointer(&c.Body)).to, l.behind(n), n)
	case kindDone:
		e.done((*parcel)(unsafe.Pointer(&c.Body)))
	case kindHelp:
		e.help(l.pe, (*parcel)(unsafe.Pointer(&c.Body)))
	case kindRefuse:
		if r := e.strike((*parcel)(unsafe.Pointer(&c.Body)).to); r != nil {
			e.complete(r, ErrCanceled)
		}
	}
	l.free()
}

// queue returns the queue of a communicator: nil if it has been freed, or this
// process has never been in it. Messages may come before it is made here.
func (e *engine) queue(comm uint32) *queue {
	if e.latest != nil && e.latest.number == comm {
		return &e.latest.q
	}
	if g := e.groups[comm]; g != nil {
		e.latest = g
		return &g.q
	}
	if q := e.early[comm]; q != nil || comm <= e.newest[comm%layout.MaxTeams] {
		return q
	}
	q := new(queue)
	e.early[comm] = q
	return q
}

// arrive takes a whole message.
func (e *engine) arrive(comm uint32, env match.Envelope, data unsafe.Pointer, n int) {
	q := e.queue(comm)
	if q == nil {
		return
	}
	if r, ok := q.Arrive(env); ok {
		e.fill(r, env, data, n)
		return
	}
	m := e.newMessage(n)
	m.env, m.size = env, n
	if n > 0 {
		copyBytes(unsafe.Pointer(&m.data[0]), data, n)
	}
	q.Keep(env, m)
}

// fill completes a receive with a whole message. If that is long, which only messages to this
// process itself are, the lock is free meanwhile.
func (e *engine) fill(r *request, env match.Envelope, data unsafe.Pointer, n int) {
	switch n := r.took(env, n); {
	case n > lockedMost:
		e.carry(r, data)
		return
	case n > 0:
		copyBytes(r.buf, data, n)
	}
	e.complete(r, nil)
}

// message is one that waits for a receive.
type message struct {
	env    match.Envelope
	data   []byte // of a whole message
	size   int    // bytes
	pe     int    // of one that has been announced: where it is
	sender uint64 // and the request there; 0: a whole message
	offset uint64 // and where the data are in that PE's segment, 0: nowhere there
	addr   uint64 // and in its memory
}

const (
	spareMost = 1 << 20 // bytes of buffers that are kept for use again
	spareRoom = 128     // bytes of a new buffer at least
)

// newMessage returns a message with room for n bytes.
func (e *engine) newMessage(n int) *message {
	if last := len(e.spare) - 1; last >= 0 {
		m := e.spare[last]
		e.spare = e.spare[:last]
		e.kept -= cap(m.data) + spareRoom
		if cap(m.data) < n {
			m.data = make([]byte, n)
		}
		m.data = m.data[:n]
		return m
	}
	m := &message{}
	if n > 0 {
		m.data = make([]byte, n, max(n, spareRoom))
	}
	return m
}

// drop gives a message back.
func (e *engine) drop(m *message) {
	if e.kept+cap(m.data)+spareRoom > spareMost {
		return
	}
	*m = message{data: m.data[:0]}
	e.kept += cap(m.data) + spareRoom
	e.spare = append(e.spare, m)
}
