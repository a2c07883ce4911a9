package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/far"
	shared "github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/shmem"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-faults"] = testFaults
	}
}

// Sizes of what a PE of testFaults puts.
const (
	faultBlock   = 700 // elements put with a signal: more than a block of the wire region holds
	faultStrided = 40
	faultOwn     = 300 // elements that others get: more than a reply slot holds
	faultTrips   = 4   // how often words of each PE are got and added to after each Quiet
)

// faulty is a PE of testFaults. Each PE puts on all others, in places of its own there, so that each place has one writer.
type faulty struct {
	w     *shmem.World
	c     *shmem.Ctx
	port  *far.Port
	me, n int

	words   shmem.Sym[uint64] // element i is put by PE i
	blocks  shmem.Sym[uint64] // faultBlock elements for each PE, put with its signal
	signals shmem.Sym[uint64]
	strided shmem.Sym[uint64] // 2*faultStrided elements for each PE, every second of which is put
	own     shmem.Sym[uint64] // faultOwn elements, written by this PE
	shared  shmem.Sym[uint64] // one element, to which all add
	single  shmem.Sym[uint64] // element i: PE i alone adds
	plain   shmem.Sym[uint64] // the same, without a fetch
	counted shmem.Sym[uint64] // one element, on PE 0, that the lock guards
	lock    shmem.Lock

	seq     uint64
	before  []uint64           // what the last look at the places has found
	theirs  [][faultOwn]uint64 // what was got of the others' own elements
	last    []uint64           // of the shared element of each PE, as the last fetch found it
	frozen  map[int][]uint64   // by PE that the page calls dead: its places, as they were when this PE learnt of it
	buf     []uint64
	Report  faultReport
	unheard map[int]bool // PEs of errors
}

// faultReport is what a PE says at its end.
type faultReport struct {
	PE, Rounds            int
	Failed                []int    // as the page says
	Accused               []int    // PEs that errors have named
	Fetched, Added        []uint64 // by PE: what this PE has added there
	Shared                uint64   // what was added here
	Single, Plain         []uint64 // by PE
	Wrong                 []string
	Longest, LongestQuiet time.Duration // of an operation
	Locked                uint64        // how often this PE has had the lock, if nobody is to die
	Counted               uint64        // on PE 0: how often all have, by a word that the lock guards
	Trips                 uint64        // round trips by express sockets
}

// faultStamp is a word that PE pe puts on PE to in a round: 16 bits of it show whether anybody has put it.
func faultStamp(pe, to int, seq uint64) uint64 {
	x := (uint64(pe)<<8|uint64(to))<<40 | seq
	x *= 0x9e3779b97f4a7c15
	return uint64(pe)<<56 | seq<<16 | x>>48
}

// faultSeq returns the round of a word that PE pe has put on PE to, 0 for none; ok is false for a word that it has not put.
func faultSeq(word uint64, pe, to int) (seq uint64, ok bool) {
	seq = word << 8 >> 24
	return seq, word == 0 || word == faultStamp(pe, to, seq)
}

// testFaults is the program of PEs that put, add and get on all others until the file "stop" is in a directory. Then it
// waits for the file "check", which lists the PEs that have died by then, and reports. Nothing in it needs all PEs but Init
// and the allocation.
func testFaults(args []string, stdout, stderr io.Writer) int {
	w, err := shmem.Init()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	p := &faulty{w: w, c: w.Ctx(), me: w.MyPE(), n: w.NPEs()}
	if err := p.begin(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "began %d %d %s\n", p.me, os.Getpid(), os.Getenv("PMIX_HOSTNAME"))
	stop, last := filepath.Join(args[0], "stop"), filepath.Join(args[0], "check")
	for calm := len(args) > 1; !p.isOver(calm, exists(stop)); {
		p.round()
		if p.Report.Rounds == 3 {
			fmt.Fprintf(stdout, "busy %d\n", p.me)
		}
	}
	p.judge("Quiet", -1, p.c.Quiet())
	known, err := json.Marshal(w.Failed())
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "stopped %d %s\n", p.me, known)
	for !exists(last) {
		p.look()
		<-time.After(5 * time.Millisecond)
	}
	text, err := os.ReadFile(last)
	var dead []int
	if err == nil {
		err = json.Unmarshal(text, &dead)
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	for since := time.Now(); !slices.Equal(w.Failed(), dead) && time.Since(since) < testPatience; <-time.After(time.Millisecond) {
		p.look()
	}
	p.finish()
	line, err := json.Marshal(&p.Report)
	if err == nil {
		fmt.Fprintf(stdout, "report %s\n", line)
		err = w.Finalize()
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	fmt.Fprintf(stdout, "left %d\n", p.me)
	return 0
}

// isOver says whether the rounds are over. If nobody is to die, all PEs meet after some rounds and agree on that, and exclude each
// other.
func (p *faulty) isOver(calm, stops bool) bool {
	if !calm {
		return stops
	}
	if p.seq%4 != 3 {
		return false
	}
	if l := p.lock; p.seq%8 == 3 && p.enter("Lock.Acquire", func() error { _, err := l.Acquire(p.c); return err }) {
		v, err := shmem.G(p.c, p.counted, 0)
		if err == nil {
			err = shmem.P(p.c, p.counted, v+1, 0)
		}
		p.judge("a word that a lock guards", -1, errors.Join(err, l.Release(p.c)))
		p.Report.Locked++
	}
	word, most := 0, 0
	if stops {
		word = 1
	}
	return !p.enter("Barrier", p.w.Barrier) || !p.enter("ReduceValue", func() (err error) {
		most, err = shmem.ReduceValue(p.w.Team(), word, shmem.Max)
		return err
	}) || most > 0
}

// enter calls something that needs all PEs. Nobody is dead, so it must not fail.
func (p *faulty) enter(op string, call func() error) bool {
	var err error
	p.timed(&p.Report.Longest, func() { err = call() })
	if err != nil {
		p.wrong("%s: %v", op, err)
	}
	return err == nil
}

// exists says whether a file is there.
func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// begin allocates.
func (p *faulty) begin() (err error) {
	for _, x := range []struct {
		sym  *shmem.Sym[uint64]
		each int
	}{{&p.words, 1}, {&p.blocks, faultBlock}, {&p.signals, 1}, {&p.strided, 2 * faultStrided}, {&p.own, faultOwn}, {&p.shared, 1}, {&p.single, 1}, {&p.plain, 1}, {&p.counted, 1}} {
		if *x.sym, err = shmem.Calloc[uint64](p.w, x.each*p.n); err != nil {
			return err
		}
	}
	if p.lock, err = shmem.NewLock(p.w); err != nil {
		return err
	}
	j, err := shared.Acquire(context.Background()) // the world has it already
	if err == nil {
		err = j.Release(context.Background())
	}
	if err != nil {
		return err
	}
	p.port = j.Far
	p.before = make([]uint64, p.n*(2+faultBlock+2*faultStrided+2))
	p.theirs, p.last = make([][faultOwn]uint64, p.n), make([]uint64, p.n)
	p.frozen, p.unheard = map[int][]uint64{}, map[int]bool{}
	p.Report.PE, p.Report.Fetched, p.Report.Added = p.me, make([]uint64, p.n), make([]uint64, p.n)
	p.Report.Wrong = []string{}
	return nil
}

// wrong notes something that must not be.
func (p *faulty) wrong(format string, args ...any) {
	if len(p.Report.Wrong) < 20 {
		p.Report.Wrong = append(p.Report.Wrong, fmt.Sprintf(format, args...))
	}
}

// judge notes an error of an operation, see judgeError. It returns whether there was none.
func (p *faulty) judge(op string, to int, err error) bool {
	return judgeError(p.w, op, to, err, p.wrong, func(pe int) { p.unheard[pe] = true })
}

// judgeError checks an error of an operation on a PE, or on several if to is negative: it has to name PEs that are dead on the
// page by then, the target among them. Named is called for each. It returns whether there was no error.
func judgeError(w *shmem.World, op string, to int, err error, wrong func(format string, args ...any), named func(pe int)) bool {
	if err == nil {
		return true
	}
	dead, is := errors.AsType[*shmem.PEError](err)
	if !is || !errors.Is(err, shmem.ErrPEDied) || to >= 0 && !slices.Contains(dead.PEs, to) {
		wrong("%s on PE %d: %v", op, to, err)
		return false
	}
	failed := w.Failed()
	for _, pe := range dead.PEs {
		named(pe)
		if !slices.Contains(failed, pe) {
			wrong("%s on PE %d: %v; the page has %v", op, to, err, failed)
		}
	}
	return false
}

// isDead says whether the page calls a PE dead.
func (p *faulty) isDead(pe int) bool { _, is := p.frozen[pe]; return is }

// timed measures operations.
func (p *faulty) timed(longest *time.Duration, f func()) {
	began := time.Now()
	f()
	*longest = max(*longest, time.Since(began))
}

// round puts, adds and gets on all other PEs, and looks at what they have done here.
func (p *faulty) round() {
	p.seq++
	p.Report.Rounds++
	for i := range faultOwn {
		p.judge("AtomicSet", p.me, shmem.AtomicSet(p.c, p.own.At(i), faultStamp(p.me, 0, p.seq), p.me))
	}
	p.look()
	for _, to := range rand.Perm(p.n) {
		if to == p.me {
			continue
		}
		dead := p.isDead(to)
		if !dead || p.seq%16 == 0 { // operations on the dead fail, also later
			p.timed(&p.Report.Longest, func() { p.operate(to, dead) })
		}
	}
	if p.seq%8 == 5 {
		p.burst()
	}
	if p.seq%4 != 0 {
		return
	}
	p.timed(&p.Report.LongestQuiet, func() { p.judge("Quiet", -1, p.c.Quiet()) })
	for to := range p.n {
		if to != p.me && !p.isDead(to) {
			p.timed(&p.Report.Longest, func() { p.goThere(to) })
		}
	}
}

// goThere makes round trips to a PE while nothing else of this PE is under way to it. So they go by an express socket if there is
// one.
func (p *faulty) goThere(to int) {
	for range faultTrips {
		got, err := shmem.G(p.c, p.words.At(p.me), to)
		if !p.judge("G", to, err) {
			return
		}
		if want := faultStamp(p.me, to, p.seq); got != want {
			p.wrong("after Quiet, PE %d has %#x of this PE, want %#x", to, got, want)
		}
		old, err := p.fetchAdd(p.plain.At(p.me), to)
		if !p.judge("AtomicFetchAdd", to, err) {
			return
		}
		if want := p.Report.Added[to]; old != want {
			p.wrong("after Quiet, the element of PE %d to which this PE adds was %d, want %d", to, old, want)
		}
		p.Report.Added[to]++
	}
}

// operate works on one other PE. An operation on a PE that is known to be dead must fail.
func (p *faulty) operate(to int, dead bool) {
	ok := func(op string, err error) bool {
		if dead && err == nil {
			p.wrong("%s on PE %d, which is dead, returns no error", op, to)
		}
		return p.judge(op, to, err)
	}
	stamp := faultStamp(p.me, to, p.seq)
	p.buf = p.buf[:0]
	for range faultBlock {
		p.buf = append(p.buf, stamp)
	}
	block := p.blocks.Slice(p.me*faultBlock, (p.me+1)*faultBlock)
	ok("PutSignal", shmem.PutSignal(p.c, block, p.buf, p.signals.At(p.me), stamp, shmem.SignalSet, to))
	half := p.strided.Slice(2*p.me*faultStrided, 2*(p.me+1)*faultStrided)
	ok("IPut", shmem.IPut(p.c, half, p.buf, shmem.Stride{Dst: 2, Src: 1, N: faultStrided}, to))
	if p.seq%3 == 0 {
		ok("PutNBI", shmem.PutNBI(p.c, p.words.At(p.me), p.buf[:1], to))
		p.buf = nil // it stays as it is until Quiet
	} else {
		ok("P", shmem.P(p.c, p.words.At(p.me), stamp, to))
	}
	p.add(to, ok)
	if ok("AtomicAdd", shmem.AtomicAdd(p.c, p.plain.At(p.me), 1, to)) {
		p.Report.Added[to]++
	}
	p.get(to, ok)
}

// burst gives one other PE more than the blocks and slots for its node hold. So operations have to wait for these.
func (p *faulty) burst() {
	to := rand.IntN(p.n)
	if to == p.me || p.isDead(to) {
		return
	}
	stamp := faultStamp(p.me, to, p.seq)
	p.buf = slices.Repeat([]uint64{stamp}, faultBlock)
	block := p.blocks.Slice(p.me*faultBlock, (p.me+1)*faultBlock)
	for range 80 {
		if !p.judge("PutSignal", to, shmem.PutSignal(p.c, block, p.buf, p.signals.At(p.me), stamp, shmem.SignalSet, to)) {
			return
		}
	}
	var all []shmem.Pending[uint64]
	for range 150 {
		f, err := shmem.AtomicFetchAddNBI(p.c, p.plain.At(p.me), 1, to)
		if !p.judge("AtomicFetchAddNBI", to, err) {
			break
		}
		all = append(all, f)
	}
	for _, f := range all {
		old, err := f.Wait()
		if !p.judge("Pending.Wait", to, err) {
			return
		}
		if want := p.Report.Added[to]; old != want {
			p.wrong("the element of PE %d to which this PE adds many was %d, want %d", to, old, want)
		}
		p.Report.Added[to]++
	}
}

// add adds to the shared element of a PE, and then to this PE's own one there.
func (p *faulty) add(to int, ok func(string, error) bool) {
	old, err := p.fetchAdd(p.shared, to)
	if !ok("AtomicFetchAdd", err) {
		return
	}
	if old < p.last[to] {
		p.wrong("the element of PE %d to which all add was %d after %d", to, old, p.last[to])
	}
	p.last[to] = old + 1
	old, err = p.fetchAdd(p.single.At(p.me), to)
	if !ok("AtomicFetchAdd", err) {
		return
	}
	if want := p.Report.Fetched[to]; old != want {
		p.wrong("the element of PE %d to which this PE adds was %d, want %d", to, old, want)
	}
	p.Report.Fetched[to]++
}

// fetchAdd adds 1 to an element of a PE, and waits at once or in two steps.
func (p *faulty) fetchAdd(x shmem.Sym[uint64], to int) (old uint64, err error) {
	if p.seq%2 == 0 {
		return shmem.AtomicFetchAdd(p.c, x, 1, to)
	}
	f, err := shmem.AtomicFetchAddNBI(p.c, x, 1, to)
	if err != nil {
		return 0, err
	}
	return f.Wait()
}

// get gets the elements that a PE writes.
func (p *faulty) get(to int, ok func(string, error) bool) {
	n := faultOwn
	if p.seq%2 == 0 {
		n = 20
	}
	got := make([]uint64, n)
	var err error
	if p.seq%3 == 0 {
		var g shmem.Pending[[]uint64]
		if g, err = shmem.GetNBI(p.c, got, p.own.Slice(0, n), to); err == nil {
			_, err = g.Wait()
		}
	} else {
		err = shmem.Get(p.c, got, p.own.Slice(0, n), to)
	}
	if !ok("Get", err) {
		return
	}
	for i, word := range got {
		p.compare(word, &p.theirs[to][i], to, 0, "own element", i)
	}
}

// compare checks a word that PE pe has put on PE to, and that it is not older than before.
func (p *faulty) compare(word uint64, before *uint64, pe, to int, what string, i int) {
	seq, ok := faultSeq(word, pe, to)
	if was, _ := faultSeq(*before, pe, to); !ok || seq < was {
		p.wrong("%s %d of PE %d is %#x after %#x", what, i, pe, word, *before)
	}
	*before = word
}

// look checks what other PEs have put here, and that the dead put nothing.
func (p *faulty) look() {
	failed := p.w.Failed() // before the look: what a PE puts before the page calls it dead may still come
	for pe := range p.n {
		if pe == p.me {
			continue
		}
		places := p.places(pe)
		if was, dead := p.frozen[pe]; dead && !slices.Equal(was, places) {
			p.wrong("PE %d, which is dead on the page, has put %x over %x", pe, places, was)
			p.frozen[pe] = places
		} else if !dead && slices.Contains(failed, pe) {
			p.frozen[pe] = places
		}
		before := p.before[pe*len(places):][:len(places)]
		since, _ := faultSeq(places[0], pe, p.me)
		for i, word := range places[:len(places)-2] {
			if isGap := i >= 2+faultBlock && (i-2-faultBlock)%2 == 1; isGap {
				if word != 0 {
					p.wrong("a strided put of PE %d has written %#x between elements", pe, word)
				}
				continue
			}
			p.compare(word, &before[i], pe, p.me, "place", i)
			if seq, _ := faultSeq(word, pe, p.me); i >= 2 && i < 2+faultBlock && seq < since {
				p.wrong("PE %d has put the signal of round %d before element %d, which has round %d", pe, since, i-2, seq)
			}
		}
	}
}

// places returns what a PE has put here, the signal first.
func (p *faulty) places(pe int) []uint64 {
	sig, err := p.c.SignalFetch(p.signals.At(pe))
	p.judge("SignalFetch", p.me, err)
	all := make([]uint64, 0, 4+faultBlock+2*faultStrided)
	all = append(all, sig, p.words.Local()[pe])
	all = append(all, p.blocks.Local()[pe*faultBlock:(pe+1)*faultBlock]...)
	all = append(all, p.strided.Local()[2*pe*faultStrided:2*(pe+1)*faultStrided]...)
	return append(all, p.single.Local()[pe], p.plain.Local()[pe])
}

// finish completes the report.
func (p *faulty) finish() {
	p.look()
	for pe := range p.n {
		if p.isDead(pe) {
			p.operate(pe, true)
		}
	}
	r := &p.Report
	r.Failed, r.Shared = p.w.Failed(), p.shared.Local()[0]
	r.Counted, r.Trips = p.counted.Local()[0], far.ExpressTrips(p.port)
	r.Single, r.Plain = p.single.Local()[:p.n], p.plain.Local()[:p.n]
	for pe := range p.unheard {
		r.Accused = append(r.Accused, pe)
	}
	slices.Sort(r.Accused)
}
