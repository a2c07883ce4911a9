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

// oneSided is memory in which each PE writes parts on all others, and a model of these parts.
type oneSided struct {
	room, words   shmem.Sym[uint64] // for each PE, boxRoom elements and one word
	model         [][]uint64        // of this PE's parts, by the PE that has them in memory
	tally         []uint64
	source, there []uint64
}

const boxRoom = 24

func (b *oneSided) begin(w *shmem.World) (err error) {
	b.tally, b.model = make([]uint64, w.NPEs()), make([][]uint64, w.NPEs())
	for pe := range b.model {
		b.model[pe] = make([]uint64, boxRoom)
	}
	b.source, b.there = make([]uint64, boxRoom), make([]uint64, boxRoom)
	if b.room, err = shmem.Calloc[uint64](w, boxRoom*w.NPEs()); err == nil {
		b.words, err = shmem.Calloc[uint64](w, w.NPEs())
	}
	return err
}

// move puts into this PE's part on other PEs, updates its word there, and reads both back.
func (p *mixedPE) move() error {
	for range 1 + p.own.IntN(6) {
		pe := p.own.IntN(p.n)
		p.pass()
		if err := p.blame(p.put(pe), nil, pe); err != nil {
			return fmt.Errorf("put to PE %d: %w", pe, err)
		}
		if err := p.blame(p.update(pe), nil, pe); err != nil {
			return fmt.Errorf("atomic operation on PE %d: %w", pe, err)
		}
	}
	return nil
}

func (p *mixedPE) put(pe int) (err error) {
	b, c := &p.box, p.w.Ctx()
	first := p.own.IntN(boxRoom)
	n := 1 + p.own.IntN(boxRoom-first)
	model, values := b.model[pe][first:first+n], b.source[:n]
	for i := range values {
		values[i] = p.own.Uint64()
	}
	mine := b.room.Slice(p.me*boxRoom, (p.me+1)*boxRoom)
	dst := mine.Slice(first, first+n)
	switch p.own.IntN(4) {
	case 0:
		err = shmem.Put(c, dst, values, pe)
	case 1:
		err = shmem.PutNBI(c, dst, values, pe)
	case 2:
		for i, v := range values {
			if err == nil {
				err = shmem.P(c, dst.At(i), v, pe)
			}
		}
	case 3:
		err = shmem.IPut(c, dst, values, shmem.Stride{Dst: 1, Src: 1, N: n}, pe)
	}
	if err == nil {
		err = c.Quiet()
	}
	if err != nil {
		return err
	}
	copy(model, values)
	got := b.there
	if p.own.IntN(2) == 0 {
		err = shmem.Get(c, got, mine, pe)
	} else {
		var later shmem.Pending[[]uint64]
		if later, err = shmem.GetNBI(c, got, mine, pe); err == nil {
			got, err = later.Wait()
		}
	}
	if err == nil && !slices.Equal(got, b.model[pe]) {
		err = fmt.Errorf("read %#x, want %#x", got, b.model[pe])
	}
	return err
}

func (p *mixedPE) update(pe int) (err error) {
	c, word, want, v := p.w.Ctx(), p.box.words.At(p.me), p.box.tally[pe], p.own.Uint64()
	var old, next uint64
	switch p.own.IntN(4) {
	case 0:
		next = want + v
		old, err = shmem.AtomicFetchAdd(c, word, v, pe)
	case 1:
		next = v
		old, err = shmem.AtomicSwap(c, word, v, pe)
	case 2:
		next = v
		old, err = shmem.AtomicCompareSwap(c, word, want, v, pe)
	case 3:
		next = want ^ v
		var later shmem.Pending[uint64]
		if later, err = shmem.AtomicFetchXorNBI(c, word, v, pe); err == nil {
			old, err = later.Wait()
		}
	}
	if err != nil {
		return err
	}
	p.box.tally[pe] = next
	if old != want {
		return fmt.Errorf("fetched %#x, want %#x", old, want)
	}
	return nil
}

const mostLetters = 40000 // the most elements of a message or of a put with a signal

// signal makes each PE put a letter to another PE, with a signal, and wait for its own.
func (p *mixedPE) signal() error {
	distance, n := 1+p.rng.IntN(p.n), 1+p.rng.IntN(200)
	if p.rng.IntN(8) == 0 {
		n = mostLetters
	}
	next, previous := (p.me+distance)%p.n, (p.me+p.n-distance%p.n)%p.n
	p.signaled[previous]++
	letter := make([]uint64, n)
	for i := range letter {
		letter[i] = p.gives(p.me, next, i)
	}
	c, box := p.w.Ctx(), p.letters[0].Slice(0, n)
	p.pass()
	err := shmem.PutSignal(c, box, letter, p.signals.At(p.me), 1, shmem.SignalAdd, next)
	if err = p.blame(err, nil, next); err != nil {
		return fmt.Errorf("PutSignal to PE %d: %w", next, err)
	}
	for came := false; !came && !slices.Contains(p.acked, previous); {
		_, err = c.SignalWaitUntil(p.signals.At(previous), shmem.GE, p.signaled[previous])
		came = err == nil
		if err = p.blame(err, nil); err != nil {
			return fmt.Errorf("wait for PE %d's signal: %w", previous, err)
		}
		if !came {
			p.acked = p.w.AckFailed()
		}
		for i, v := range box.Local() {
			if want := p.gives(previous, p.me, i); came && v != want {
				return fmt.Errorf("PE %d's letter of %d has %#x at %d, want %#x", previous, n, v, i, want)
			}
		}
	}
	return p.w.Team().Sync() // before the letters of the next step arrive
}

// collective runs a collective of a tolerant team: of all PEs, or of half of them.
func (p *mixedPE) collective() error {
	a, k := p.draw(), p.rng.IntN(len(p.teams)+1)
	tm, group := p.halves[p.me%2], []string{"even", "odd"}[p.me%2]
	if k < len(p.teams) {
		tm, group = p.teams[k], "world"
	} else if a.name == "barrier" { // the world has its own barrier, a half uses its team's
		a.trial = trials[0]
	}
	p.pass()
	saw, err := p.try(tm, a)
	p.note(group, saw)
	return err
}

// strictly runs a collective of the survivors' strict team. It succeeds completely or fails because of a death. After a
// failure, all later ones must fail, too.
func (p *mixedPE) strictly() (err error) {
	kind, n, root := p.rng.IntN(3), 1+p.rng.IntN(300), p.rng.IntN(len(p.living))
	if p.rng.IntN(4) == 0 {
		n = mostGiven
	}
	tm, me := p.strict, p.strict.MyPE()
	src, dst := p.src.Slice(0, n), p.dst.Slice(0, n)
	if kind == 1 {
		dst = p.dst.Slice(0, n*len(p.living))
	}
	p.pass()
	if p.failing[0] {
		if err = tm.Sync(); err == nil {
			return errors.New("a strict team still works after the death of a member")
		}
		return p.blame(err, nil, p.living...)
	}
	for j := range src.Local() {
		src.Local()[j] = p.gives(me, 0, j)
	}
	want := func(j int) uint64 { return p.gives(root, 0, j) }
	switch kind {
	case 0:
		err = shmem.Reduce(tm, dst, src, shmem.Sum)
		want = func(j int) (v uint64) { return p.total(j) }
	case 1:
		err = shmem.FCollect(tm, dst, src)
		want = func(j int) uint64 { return p.gives(j/n, 0, j%n) }
	case 2:
		err = shmem.Broadcast(tm, dst, src, root)
	}
	if err != nil {
		p.failing[0] = true
		return p.blame(err, nil, p.living...)
	}
	for j, v := range dst.Local() {
		if w := want(j); v != w {
			return fmt.Errorf("collective %d of %d elements among %v has %#x at %d, want %#x", kind, n, p.living, v, j, w)
		}
	}
	return nil
}

// total returns element j of the sum of what all members of the strict team give.
func (p *mixedPE) total(j int) (v uint64) {
	for i := range p.living {
		v += p.gives(i, 0, j)
	}
	return v
}

// collectiveOfMPI does the same with the communicator.
func (p *mixedPE) collectiveOfMPI() (err error) {
	kind, n, root := p.rng.IntN(4), 1+p.rng.IntN(300), p.rng.IntN(len(p.living))
	if p.rng.IntN(4) == 0 {
		n = 20000
	}
	p.pass()
	if p.failing[1] {
		if err = p.comm.Barrier(); err == nil {
			return errors.New("a communicator still works after the death of a rank")
		}
		return p.blame(err, p.living, p.living...)
	}
	me := p.comm.Rank()
	src, dst := make([]uint64, n), make([]uint64, n)
	for j := range src {
		src[j] = p.gives(me, 0, j)
	}
	has, want := true, p.total
	switch kind {
	case 0:
		err = mpi.Allreduce(p.comm, dst, src, mpi.Sum)
	case 1:
		err = mpi.Reduce(p.comm, dst, src, mpi.Sum, root)
		has = me == root
	case 2:
		dst, want = src, func(j int) uint64 { return p.gives(root, 0, j) }
		err = mpi.Bcast(p.comm, src, root)
	case 3:
		has, err = false, p.comm.Barrier()
	}
	if err != nil {
		p.failing[1] = true
		return p.blame(err, p.living, p.living...)
	}
	for j, v := range dst {
		if w := want(j); has && v != w {
			return fmt.Errorf("collective %d of %d elements among %v has %#x at %d, want %#x", kind, n, p.living, v, j, w)
		}
	}
	return nil
}

// giveUp waits until a deadline for a message that no PE sends.
func (p *mixedPE) giveUp() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Duration(p.own.IntN(200))*time.Microsecond)
	defer stop()
	pe := p.own.IntN(p.n)
	_, err := mpi.Recv(p.m.Comm().With(ctx), make([]uint64, 1), pe, mpi.MaxTag)
	if err == nil {
		return fmt.Errorf("received a message that PE %d has not sent", pe)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return nil
	}
	return p.blame(err, nil, pe)
}
