//go:build explore

package coll_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"iter"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The package's own code is explored. Its members run one at a time. Before each access to shared
// memory another member may go on, or this one may die. All schedules with a few such changes are
// tried, and many more at random. A waiting member sleeps until its bell is rung, so a missing
// wake-up is a hang.
//
// Where a schedule says so, memory is that of a processor that may make a member's store visible
// after its later loads (amd64).

var (
	againFlag = flag.String("explore.again", "", "repeat one schedule, as named by a failure")
	timesFlag = flag.Int("explore.times", 1, "draw this many times as many random schedules")
	seedFlag  = flag.Uint64("explore.seed", 1, "seed of the random schedules")
)

// budget limits how often each kind of event may happen in a schedule.
type budget struct {
	switches int // away from a member that could go on
	deaths   int
	cancels  int // ends of contexts
	delays   int // stores that become visible later
}

// scenario is what is explored.
type scenario struct {
	name    string
	n       int
	busy    bool     // more PEs than processors: only contributions up to a slot are small
	on      []uint32 // the members' processors; nil: they are not known
	roams   bool     // members are on any of two processors, or it is not known on which, each time
	locked  bool     // membarrier does not work: a bell is read after a locked instruction
	budgets []budget // all schedules of each are tried
	dying   int      // deaths that a play adds to the budget
	draws   int      // schedules that are drawn at random, with the budget most
	most    budget
	play    func(r *run) // sets the members' bodies and the checks of the run
	focus   []string     // functions in which random schedules take any option as likely as going on
}

// member is one process.
type member struct {
	next         func() (struct{}, bool)
	yield        func(struct{}) bool
	stop         func()
	done         bool // its program has ended
	killed       bool
	seen         bool   // its death can be read from the failure page
	told         uint64 // the epoch in which its death is published; 0: not yet
	canceled     bool   // its context has ended
	keepsContext bool   // it uses another context by now, which does not end
	armed        bool   // its bell is set
	asleep       bool
	late         *uint64 // a store that the others do not see yet
	lateVal      uint64
	err          error
}

// run is one schedule.
type run struct {
	*scenario
	nd      *node
	choices choices
	left    budget
	members []*member
	cur     *member
	then    *member // goes on next; nil: chosen
	steps   int
	epoch   uint64
	err     error
	log     []string
	verbose bool
	focused map[[4]uintptr]bool // see inFocus
	options []func()
	names   []string

	body  func(me int) error // a member's body
	check func() error       // called when all members have ended
	teams []*coll.Team
	ended []bool // of the members: the latest act has ended well, and may have failed on others
	alien privateMemory
}

// choices make up a schedule.
type choices struct {
	path   []choice
	at     int
	rng    *rand.Rand  // nil: follow path, then take the first option
	forced map[int]int // by number; nil: see rng
}

type choice struct{ taken, of int }

// choose returns one of n options. The first one lets members go on as they are, which is likely.
func (c *choices) choose(n int, likely bool) (k int) {
	if n == 1 {
		return 0
	}
	switch {
	case c.forced != nil:
		k = min(c.forced[c.at], n-1)
		c.path = append(c.path[:c.at], choice{k, n})
	case c.rng != nil:
		if k = c.rng.IntN(n); likely && c.rng.IntN(12) > 0 {
			k = 0
		}
		c.path = append(c.path[:c.at], choice{k, n})
	case c.at == len(c.path):
		c.path = append(c.path, choice{0, n})
	default:
		if k = c.path[c.at].taken; c.path[c.at].of != n {
			panic(fmt.Sprintf("a schedule differs when it is repeated: choice %d of %d and of %d", c.at, c.path[c.at].of, n))
		}
	}
	c.at++
	return k
}

// following makes the next path of a full search, or returns false if there is none.
func (c *choices) following() bool {
	c.path = c.path[:c.at]
	for len(c.path) > 0 {
		last := &c.path[len(c.path)-1]
		if last.taken++; last.taken < last.of {
			c.at = 0
			return true
		}
		c.path = c.path[:len(c.path)-1]
	}
	return false
}

func (c *choices) String() string {
	var words []string
	for i, x := range c.path[:c.at] {
		if x.taken != 0 {
			words = append(words, fmt.Sprintf("%d=%d", i, x.taken))
		}
	}
	return strings.Join(words, ",")
}

type killed struct{}

// mine returns the running member, or ends it if it is dead.
func (r *run) mine() *member {
	if r.cur.killed {
		panic(killed{})
	}
	return r.cur
}

// Point runs before each access of the running member.
func (r *run) Point() {
	m := r.mine()
	if r.steps++; r.steps > 100_000 {
		r.fail(errors.New("no end after 100,000 accesses"))
		r.leave(m)
	}
	r.options, r.names = r.options[:0], r.names[:0]
	r.offer("", nil)
	if r.left.switches > 0 {
		for i, o := range r.members {
			if o != m && o.runnable() {
				r.offer("member %d goes on", func() { r.left.switches--; r.then = o; r.leave(m) }, i)
			}
		}
		r.offerNews(func() { r.left.switches-- })
	}
	if r.left.deaths > 0 {
		r.offer("member %d dies", func() { r.left.deaths--; m.killed = true; r.leave(m) }, r.index(m))
	}
	r.take(len(r.options) == 1 || !r.inFocus())
}

// inFocus reports whether the running member is in one of the functions of the focus.
func (r *run) inFocus() bool {
	if r.focus == nil {
		return false
	}
	var pcs [4]uintptr // the caller of Point, and its callers
	n := runtime.Callers(3, pcs[:])
	in, known := r.focused[pcs]
	if known {
		return in
	}
	frames := runtime.CallersFrames(pcs[:n])
	for more := n > 0; more && !in; {
		var f runtime.Frame
		f, more = frames.Next()
		in = slices.ContainsFunc(r.focus, func(name string) bool { return strings.Contains(f.Function, name) })
	}
	if r.focused == nil {
		r.focused = map[[4]uintptr]bool{}
	}
	r.focused[pcs] = in
	return in
}

func (r *run) index(m *member) int { return slices.Index(r.members, m) }

// offer adds an event that may happen now.
func (r *run) offer(name string, f func(), args ...any) {
	r.options = append(r.options, f)
	if r.verbose {
		r.names = append(r.names, fmt.Sprintf(name, args...))
	}
}

// offerNews adds the publications of deaths as events.
func (r *run) offerNews(cost func()) {
	for i, o := range r.members {
		if o.killed && o.told == 0 {
			r.offer("the death of member %d is published", func() { cost(); r.publish(i) }, i)
			if !o.seen {
				r.offer("the death of member %d can be seen", func() { cost(); o.flush(); o.seen = true }, i)
			}
		}
	}
}

func (r *run) take(likely bool) {
	number := r.choices.at
	k := r.choices.choose(len(r.options), likely)
	if r.options[k] == nil {
		return
	}
	f := r.options[k]
	if r.verbose {
		r.log = append(r.log, fmt.Sprintf("%d=%d: %s%s", number, k, r.names[k], place()))
	}
	f()
}

// place says where in the package the running member is.
func place() string {
	var pcs [20]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		file := filepath.Base(f.File)
		if strings.Contains(f.Function, "goshmem/coll.") && file != "explored.go" {
			return fmt.Sprintf(" (at %s in %s:%d)", f.Function[strings.LastIndexByte(f.Function, '/')+1:], file, f.Line)
		}
		if !more {
			return ""
		}
	}
}

// leave lets other members run.
func (r *run) leave(m *member) {
	if !m.yield(struct{}{}) {
		m.killed = true
		panic(killed{})
	}
}

func (m *member) runnable() bool { return !m.done && !m.killed && (!m.asleep || !m.armed) }

func (m *member) flush() {
	if m.late != nil {
		atomic.StoreUint64(m.late, m.lateVal)
		m.late = nil
	}
}

// Barrier makes the member's stores visible.
func (r *run) Barrier() { r.mine().flush() }

// Release stores a value that others may see later.
func (r *run) Release(p *uint64, v uint64) {
	m := r.mine()
	m.flush() // stores become visible in their order
	if r.left.delays > 0 {
		r.options, r.names = r.options[:0], r.names[:0]
		r.offer("", nil)
		r.offer("the store of member %d becomes visible later", func() { r.left.delays--; m.late, m.lateVal = p, v }, r.index(m))
		r.take(true)
	}
	if m.late == nil {
		rma.StoreRelease(p, v)
	}
}

// Load returns what the member sees.
func (r *run) Load(p *uint64) uint64 {
	if m := r.mine(); m.late == p {
		return m.lateVal
	}
	return atomic.LoadUint64(p)
}

// Ring wakes the member that sleeps on a bell.
func (r *run) Ring(b *layout.Bell) {
	if m := r.mine(); r.locked {
		m.flush()
	}
	for i, m := range r.members {
		if &r.nd.m.Control(i).Bell == b {
			m.armed = false
		}
	}
}

// Wait returns as wait.Waiter.Wait does. It arms the bell, which makes all stores visible
// (membarrier), looks at the word, the context and the failure page, and sleeps.
func (r *run) Wait(ctx context.Context, c wait.Cond) (uint64, error) {
	for m := r.mine(); ; {
		for _, o := range r.members {
			if o == m || !r.locked {
				o.flush()
			}
		}
		m.armed = true
		switch x := c.Load(); {
		case c.Ready():
			return x, nil
		case ctx.Err() != nil:
			return x, ctx.Err()
		case r.epoch > c.Seen:
			return x, wait.ErrFailure
		}
		m.asleep = true
		r.leave(m)
		m.asleep = false
		r.mine()
	}
}

// publish publishes a death and wakes all members.
func (r *run) publish(i int) {
	m := r.members[i]
	m.flush()
	r.epoch++
	m.seen, m.told = true, r.epoch
	for _, m := range r.members {
		m.armed = false
	}
}

// Epoch returns the number of published deaths.
func (r *run) Epoch() uint64 {
	r.mine()
	return r.epoch
}

// Dead reports whether a death can be seen.
func (r *run) Dead(pe int) bool {
	r.mine()
	return r.members[pe].seen
}

// Failure returns a published death.
func (r *run) Failure(pe int) (failure.Failure, bool) {
	r.mine()
	told := r.members[pe].told
	return failure.Failure{PE: pe, Incarnation: 1, Epoch: told}, told != 0
}

// ending is a context that ends when the schedule says so.
type ending struct {
	context.Context
	m *member
}

func (e ending) Err() error {
	if e.m.canceled && !e.m.keepsContext {
		return context.Canceled
	}
	return nil
}

// ctx returns the context of member me.
func (r *run) ctx(me int) context.Context { return ending{context.Background(), r.members[me]} }

func (r *run) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// program runs one member.
func (r *run) program(me int) iter.Seq[struct{}] {
	return func(yield func(struct{}) bool) {
		m := r.members[me]
		m.yield = yield
		defer func() {
			if e := recover(); e != nil && e != (killed{}) {
				r.fail(fmt.Errorf("member %d panicked: %v%s", me, e, place()))
			}
		}()
		m.err = r.body(me)
		m.done = true
		m.flush()
	}
}

// once runs one schedule.
func (r *run) once() error {
	r.reset()
	r.play(r)
	coll.Explored = r
	defer func() { coll.Explored = nil }()
	for i, m := range r.members {
		m.next, m.stop = iter.Pull(r.program(i))
	}
	for r.err == nil && r.step() {
	}
	for _, m := range r.members {
		m.killed = m.killed || !m.done
		r.cur = m
		m.stop()
	}
	coll.Explored = nil
	if r.err == nil {
		for i, m := range r.members {
			if m.err != nil {
				return fmt.Errorf("member %d: %w", i, m.err)
			}
		}
		r.err = r.check()
	}
	return r.err
}

// step chooses the next member and lets it run. It returns false if all members have ended.
func (r *run) step() bool {
	if m := r.then; m != nil {
		r.then = nil
		r.resume(m)
		return true
	}
	r.options, r.names = r.options[:0], r.names[:0]
	waits := false
	for i, m := range r.members {
		if m.runnable() {
			r.offer("member %d goes on", func() { r.resume(m) }, i)
		}
		waits = waits || !m.done && !m.killed
	}
	if !waits {
		return false
	}
	r.offerNews(func() {})
	if len(r.options) == 0 {
		r.fail(errors.New("members wait forever: " + r.waiting()))
		return false
	}
	for i, m := range r.members {
		if r.left.cancels > 0 && m.asleep && !m.killed && !m.canceled && !m.keepsContext {
			r.offer("the context of member %d ends", func() { r.left.cancels--; m.canceled, m.armed = true, false }, i)
		}
	}
	r.take(false)
	return true
}

func (r *run) resume(m *member) {
	r.cur = m
	m.next()
	if m.killed {
		m.flush() // a processor's stores become visible in the end
		m.stop()
	}
}

// ids are the ids of teams in scenarios.
var ids = []int{0, 1, 2, 3, 4}

// reset returns memory to its initial state, with no member dead.
func (r *run) reset() {
	coll.ForgetTeams()
	for i := range r.n {
		c := r.nd.m.Control(i)
		c.Bell.Sleeping = 0
		clear(c.Teams[:])
		clear(c.Votes[:])
		clear(c.Voted[:])
		for _, id := range ids {
			clear(c.Entries[id][:])
			c.Slots[id] = [2][layout.SlotSize]byte{}
		}
	}
	r.members = nil
	for range r.n {
		r.members = append(r.members, &member{})
	}
	r.cur, r.then, r.steps, r.epoch, r.err, r.log, r.choices.at = nil, nil, 0, 0, nil, nil, 0
	r.body, r.check, r.teams = nil, func() error { return nil }, nil
}

// team returns member me's side of the team of all members.
func (r *run) team(me, id int, tolerant bool) *coll.Team {
	return r.teamOf(me, id, firstPEs(r.n), tolerant)
}

// teamOf returns member me's side of a team of some members, in their order.
func (r *run) teamOf(me, id int, members []int, tolerant bool) *coll.Team {
	cfg := r.nd.config(id, slices.Index(members, me), members)
	cfg.Tolerant = tolerant
	tm, err := coll.New(cfg)
	if err != nil {
		panic(err)
	}
	return tm
}

// explore tries the schedules of a scenario.
func explore(t *testing.T, s *scenario) {
	t.Helper()
	policy := sleepEarly
	policy.Crowded = s.busy
	r := &run{scenario: s, nd: newNodeOf(t, s.n, 1<<20, policy)}
	if name, list, again := strings.Cut(*againFlag, ":"); again {
		if name == s.name {
			r.again(t, list)
		}
		return
	}
	count := 0
	for _, b := range s.budgets {
		for r.choices = (choices{}); ; {
			r.left = b
			if count++; r.once() != nil {
				r.report(t, b)
				return
			}
			if !r.choices.following() {
				break
			}
		}
	}
	for k := range s.draws * *timesFlag {
		r.choices = choices{rng: rand.New(rand.NewPCG(*seedFlag, uint64(k)))}
		r.left = s.most
		if count++; r.once() != nil {
			r.report(t, s.most)
			return
		}
	}
	t.Logf("%d schedules", count)
}

// report repeats a schedule that failed, and logs its events.
func (r *run) report(t *testing.T, b budget) {
	t.Helper()
	path := r.choices.String()
	r.again(t, fmt.Sprintf("%d/%d/%d/%d,%s", b.switches, b.deaths, b.cancels, b.delays, path))
}

// again runs one schedule, given by its budget and the choices that are not the first.
func (r *run) again(t *testing.T, list string) {
	t.Helper()
	r.choices = choices{forced: map[int]int{}}
	for i, word := range strings.Split(list, ",") {
		if i == 0 {
			if _, err := fmt.Sscanf(word, "%d/%d/%d/%d", &r.left.switches, &r.left.deaths, &r.left.cancels, &r.left.delays); err != nil {
				t.Fatalf("budget %q: %v", word, err)
			}
		} else if at, k, ok := strings.Cut(word, "="); ok {
			number, _ := strconv.Atoi(at)
			r.choices.forced[number], _ = strconv.Atoi(k)
		}
	}
	r.verbose = true
	err := r.once()
	t.Errorf("%v, after:\n%s\nto reproduce: -test.run '^%s$' -explore.again '%s:%s'", err, strings.Join(r.log, "\n"), t.Name(), r.name, list)
}
