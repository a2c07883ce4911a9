package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// letterSizes are lengths of messages in elements: within a cell, within a lane, and beyond.
var letterSizes = []int{0, 1, 5, 6, 100, 2040, 2041, 8000, mostLetters}

// mail is a message of a step: number k of those from one PE to another.
type mail struct {
	from, to, k, n int
	request        mpi.Request
	buf            []uint64
	begun          bool
}

// exchange makes PEs send each other messages of all lengths. They are received by sender or from any source.
func (p *mixedPE) exchange() error {
	var out, in []*mail
	anySource, symmetric := p.rng.IntN(3) == 0, p.rng.IntN(2)
	for from := range p.n {
		count := map[int]int{}
		for range p.rng.IntN(4) {
			l := &mail{from: from, to: p.rng.IntN(p.n), n: letterSizes[p.rng.IntN(len(letterSizes))]}
			l.k = count[l.to]
			count[l.to]++
			if l.from == p.me {
				out = append(out, l)
			}
			if l.to == p.me {
				in = append(in, &mail{from: l.from, to: l.to, k: l.k, n: l.n})
			}
		}
	}
	if !anySource {
		if err := p.expect(in); err != nil {
			return err
		}
	}
	p.pass()
	if err := p.send(out, symmetric == 1); err != nil {
		return err
	}
	receive := p.receive
	if anySource {
		receive = p.receiveAny
	}
	if err := receive(in); err != nil {
		return err
	}
	for _, l := range out {
		if !l.begun {
			continue
		}
		_, err := l.request.Wait()
		if err = p.blame(err, nil, l.to); err != nil {
			return fmt.Errorf("message %d of %d to PE %d: %w", l.k, l.n, l.to, err)
		}
	}
	return nil
}

func (p *mixedPE) tag() int { return int(p.step % (mpi.MaxTag - 1)) }

// expect begins to receive all messages, each from its sender.
func (p *mixedPE) expect(in []*mail) (err error) {
	for _, l := range in {
		l.buf = make([]uint64, l.n)
		l.request, err = mpi.Irecv(p.m.Comm(), l.buf, l.from, p.tag())
		l.begun = err == nil
		if err = p.blame(err, nil, l.from); err != nil {
			return fmt.Errorf("Irecv from PE %d: %w", l.from, err)
		}
	}
	return nil
}

// send begins to send, from symmetric or other memory.
func (p *mixedPE) send(out []*mail, symmetric bool) (err error) {
	at := 0
	for _, l := range out {
		l.buf = make([]uint64, l.n)
		if symmetric && at+l.n <= p.letters[1].Len() {
			l.buf = p.letters[1].Local()[at : at+l.n]
			at += l.n
		}
		for i := range l.buf {
			l.buf[i] = p.gives(l.from, l.to, l.k<<20+i)
		}
		l.request, err = mpi.Isend(p.m.Comm(), l.buf, l.to, p.tag())
		l.begun = err == nil
		if err = p.blame(err, nil, l.to); err != nil {
			return fmt.Errorf("Isend to PE %d: %w", l.to, err)
		}
	}
	return nil
}

// receive ends the receives that expect began.
func (p *mixedPE) receive(in []*mail) error {
	for _, l := range in {
		if !l.begun {
			continue
		}
		s, err := l.request.Wait()
		if err == nil {
			err = l.check(p, s)
		}
		if err = p.blame(err, nil, l.from); err != nil {
			return fmt.Errorf("message %d of %d from PE %d: %w", l.k, l.n, l.from, err)
		}
	}
	return nil
}

// receiveAny receives messages from any source while more may come. All, some or none of the messages of a dead PE may
// arrive.
func (p *mixedPE) receiveAny(in []*mail) error {
	c, buf := p.m.Comm(), make([]uint64, mostLetters)
	comes := func(l *mail) bool { return !slices.Contains(p.unheard, l.from) }
	for slices.ContainsFunc(in, comes) {
		s, err := mpi.Recv(c, buf, mpi.AnySource, p.tag())
		if err == nil {
			if in, err = p.found(in, s, buf); err != nil {
				return fmt.Errorf("from any source: %w", err)
			}
			continue
		}
		if err = p.blame(err, nil); err != nil {
			return fmt.Errorf("message from any source: %w", err)
		}
		p.unheard = c.AckFailed()
	}
	return nil
}

// found removes a received message from those that are awaited. It must be its sender's next one. If the sender has
// died, it may be a later one, because those before may have died with the sender.
func (p *mixedPE) found(in []*mail, s mpi.Status, buf []uint64) ([]*mail, error) {
	err := fmt.Errorf("PE %d, which has sent all, sent another message of %d elements", s.Source, s.Count)
	for i, l := range in {
		if l.from != s.Source {
			continue
		}
		l.buf = buf[:l.n]
		if err = l.check(p, s); err == nil {
			return slices.Delete(in, i, i+1), nil
		}
		if !p.dead(l.from) {
			return nil, fmt.Errorf("message %d of %d from PE %d: %w", l.k, l.n, l.from, err)
		}
	}
	return nil, err
}

// check compares a message with what was sent.
func (l *mail) check(p *mixedPE, s mpi.Status) error {
	if s.Source != l.from || s.Tag != p.tag() || s.Count != l.n {
		return fmt.Errorf("status %+v, want %d elements with tag %d", s, l.n, p.tag())
	}
	for i, v := range l.buf {
		if want := p.gives(l.from, l.to, l.k<<20+i); v != want {
			return fmt.Errorf("element %d is %#x, want %#x", i, v, want)
		}
	}
	return nil
}

// guard is the data that the lock guards, on the first living PE: a number, twice the number, and how often each PE has
// counted. A holder that dies leaves it inconsistent.
const guardCounts = 2

// exclude counts under the lock.
func (p *mixedPE) exclude() (err error) {
	for range 1 + p.own.IntN(3) {
		c, got := p.w.Ctx(), true
		var grant shmem.Grant
		switch p.own.IntN(4) {
		case 0:
			grant, got, err = p.lock.Try(c)
		case 1:
			ctx, stop := context.WithTimeout(context.Background(), time.Duration(p.own.IntN(200))*time.Microsecond)
			grant, err = p.lock.Acquire(c.With(ctx))
			stop()
			if errors.Is(err, context.DeadlineExceeded) {
				continue
			}
		default:
			grant, err = p.lock.Acquire(c)
		}
		if err != nil || !got {
			return err
		}
		if grant.HolderDied {
			if p.accused[grant.PE] = true; !p.dead(grant.PE) {
				return fmt.Errorf("the lock was taken over from PE %d, but known to be dead are %v", grant.PE, p.w.Failed())
			}
			err = p.repair()
		}
		if err == nil {
			err = p.count()
		}
		p.pass()
		if e := p.lock.Release(c); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	return nil // even if the last attempt gave up
}

// guarded reads the guarded data on a PE.
func (p *mixedPE) guarded(pe int) (all []int64, sum int64, err error) {
	all = make([]int64, guardCounts+p.n)
	err = shmem.Get(p.w.Ctx(), all, p.guard, pe)
	for _, n := range all[guardCounts:] {
		sum += n
	}
	return all, sum, err
}

// repair makes the guarded data consistent, wherever the last holder was in its count.
func (p *mixedPE) repair() error {
	for pe := range p.n {
		_, sum, err := p.guarded(pe)
		if err == nil {
			err = shmem.Put(p.w.Ctx(), p.guard.Slice(0, guardCounts), []int64{sum, 2 * sum}, pe)
		}
		if err = p.blame(err, nil, pe); err != nil {
			return err
		}
	}
	return nil
}

// count checks that the guarded data have changed under the lock only, and counts in several stores.
func (p *mixedPE) count() error {
	for pe := range p.n {
		all, sum, err := p.guarded(pe)
		if err == nil && (all[0] != sum || all[1] != 2*sum) {
			if p.dead(pe) { // the previous holder knew of the death, and stopped in the middle
				continue
			}
			return fmt.Errorf("the lock guards %v on PE %d, want the sum and twice the sum in front", all, pe)
		}
		c := p.w.Ctx()
		for _, change := range [][2]int64{{0, all[0] + 1}, {int64(guardCounts + p.me), all[guardCounts+p.me] + 1}, {1, 2 * (all[0] + 1)}} {
			if err == nil {
				err = shmem.P(c, p.guard.At(int(change[0])), change[1], pe)
				spin(time.Duration(p.own.IntN(100)) * time.Microsecond) // time to die in
			}
		}
		if err == nil {
			return nil
		}
		if err = p.blame(err, nil, pe); err != nil {
			return err
		}
	}
	return nil
}

// split makes a team of some survivors, uses it, and destroys it.
func (p *mixedPE) split() error {
	n := len(p.living)
	mode := []shmem.Mode{shmem.ModeTolerant, shmem.ModeStrict}[p.rng.IntN(2)]
	grid, width := p.rng.IntN(2) == 0, 1+p.rng.IntN(n)
	start, stride := p.rng.IntN(n), 1+p.rng.IntN(2)
	size := 1 + p.rng.IntN((n-1-start)/stride+1)
	cfg := &shmem.TeamConfig{Mode: mode}
	var teams []*shmem.Team
	var err error
	p.pass()
	if grid {
		var x, y *shmem.Team
		x, y, err = p.strict.Split2D(width, cfg, cfg)
		teams = []*shmem.Team{x, y}
	} else {
		var x *shmem.Team
		x, err = p.strict.SplitStrided(start, stride, size, cfg)
		teams = []*shmem.Team{x}
	}
	p.note(fmt.Sprint(p.living), "split", err == nil)
	if err != nil {
		return p.blame(err, nil, p.living...)
	}
	for _, tm := range teams {
		if tm == nil {
			continue
		}
		if err = p.use(tm, mode); err != nil {
			return fmt.Errorf("team of %d, %v: %w", tm.NPEs(), mode, err)
		}
	}
	return nil
}

// use reduces on a new team, reads through one of its contexts, and destroys it.
func (p *mixedPE) use(tm *shmem.Team, mode shmem.Mode) error {
	members, err := membersOf(tm, p.w.Team())
	if err != nil {
		return err
	}
	c, err := tm.NewCtx()
	if err != nil {
		return err
	}
	i := p.own.IntN(len(members))
	v, err := shmem.G(c, p.ident, i)
	if err == nil && v != identBase+uint64(members[i]) {
		return fmt.Errorf("read %d of number %d, want %d", v, i, identBase+members[i])
	}
	if err = p.blame(err, nil, members[i]); err != nil {
		return err
	}
	src, dst := p.src.At(0), p.dst.At(0)
	src.Local()[0] = 1 << p.me
	err = shmem.Reduce(tm, dst, src, shmem.Or)
	if mode == shmem.ModeTolerant && err != nil {
		return fmt.Errorf("a tolerant reduction fails: %w", err)
	}
	if err == nil {
		want := uint64(0)
		for _, k := range tm.Outcome().Contributors {
			want |= 1 << members[k]
		}
		if got := dst.Local()[0]; got != want || got>>p.me&1 == 0 {
			return fmt.Errorf("reduced %#x, want %#x of %v", got, want, members)
		}
	}
	if err = p.blame(err, nil, members...); err != nil {
		return err
	}
	return p.blame(tm.Destroy(), nil, members...)
}

// vote makes all survivors agree, and checks that each vote counts.
func (p *mixedPE) vote() error {
	flags, err := p.w.Team().Agree(^(uint64(1) << p.me))
	if err != nil {
		return err
	}
	dead, err := p.w.Team().Validate()
	if err != nil {
		return err
	}
	p.note("world", "vote", flags, dead)
	for _, pe := range dead {
		p.accused[pe] = true
	}
	for pe := range 64 {
		switch voted := flags>>pe&1 == 0; {
		case pe >= p.n && voted:
			return fmt.Errorf("flags %#x have bits beyond those of %d PEs", flags, p.n)
		case pe < p.n && !voted && !slices.Contains(dead, pe):
			return fmt.Errorf("flags %#x lack the vote of PE %d, and %v are dead", flags, pe, dead)
		}
	}
	return nil
}

// object is an object in the symmetric heap. Each element says which PE and object it belongs to.
type object struct {
	x  shmem.Sym[uint64]
	id uint64
}

func (o object) fill(me int) {
	for i := range o.x.Local() {
		o.x.Local()[i] = o.value(me, i)
	}
}

func (o object) value(pe, i int) uint64 { return o.id<<40 | uint64(pe)<<32 | uint64(i) }

// check compares the first n elements with what fill wrote.
func (o object) check(me, n int) error {
	for i, v := range o.x.Local()[:n] {
		if want := o.value(me, i); v != want {
			return fmt.Errorf("element %d of object %d is %#x, want %#x", i, o.id, v, want)
		}
	}
	return nil
}

// allocate creates, resizes or frees an object, on all PEs or on none.
func (p *mixedPE) allocate() (err error) {
	const most = 12
	kind, n, k := p.rng.IntN(3), 1+p.rng.IntN(3000), p.rng.IntN(most)
	if kind > 0 && len(p.objects) == 0 || len(p.objects) < 2 {
		kind = 0
	}
	if len(p.objects) == most {
		kind = 2
	}
	p.pass()
	switch kind {
	case 0:
		err = p.create(n)
	case 1:
		o := &p.objects[k%len(p.objects)]
		kept := min(n, o.x.Len())
		var y shmem.Sym[uint64]
		if y, err = shmem.Realloc(p.w, o.x, n); err == nil {
			o.x = y
			if err = o.check(p.me, kept); err == nil {
				o.fill(p.me)
			}
		}
	case 2:
		k %= len(p.objects)
		o := p.objects[k]
		if err = o.check(p.me, o.x.Len()); err == nil {
			if err = shmem.Free(p.w, o.x); err == nil {
				p.objects = slices.Delete(p.objects, k, k+1)
			}
		}
	}
	p.note("world", "allocation", kind, n, err == nil, p.w.Heap())
	return p.blame(err, nil)
}

// create allocates an object and checks that it is the same object on the next PE.
func (p *mixedPE) create(n int) error {
	p.nextID++
	o := object{id: p.nextID}
	x, err := shmem.Calloc[uint64](p.w, n)
	if err != nil {
		return err
	}
	o.x = x
	for i, v := range x.Local() {
		if v != 0 {
			return fmt.Errorf("element %d of a new object is %#x, want 0", i, v)
		}
	}
	if err = p.w.Team().Sync(); err != nil {
		return err
	}
	next, previous := (p.me+1)%p.n, (p.me+p.n-1)%p.n
	err = shmem.P(p.w.Ctx(), x.At(n-1), o.value(p.me, n-1), next)
	if err = p.blame(err, nil, next); err == nil {
		err = p.w.Barrier()
	}
	if err != nil {
		return err
	}
	if v := x.Local()[n-1]; v != o.value(previous, n-1) && !p.dead(previous) {
		return fmt.Errorf("PE %d's element %d of object %d is %#x, want %#x", previous, n-1, o.id, v, o.value(previous, n-1))
	}
	if err = p.w.Team().Sync(); err != nil {
		return err
	}
	o.fill(p.me)
	p.objects = append(p.objects, o)
	return nil
}
