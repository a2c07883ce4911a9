package coll_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// No member leaves a barrier before all have entered it.
func TestSyncOrders(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		nd := newNode(t, n)
		members := rand.Perm(n)
		nd.each(t, 5, members, func(me int, tm *coll.Team) error {
			mine := elements[uint64](nd, members[me], 0, 1)
			for r := uint64(1); r <= 3000; r++ {
				mine[0] = r // made visible by the barrier
				if err := tm.Sync(t.Context()); err != nil {
					return err
				}
				for _, pe := range members {
					if v := elements[uint64](nd, pe, 0, 1)[0]; v != r && v != r+1 {
						return fmt.Errorf("round %d: PE %d is at %d after Sync", r, pe, v)
					}
				}
			}
			return nil
		})
	}
}

// Random sequences of all collectives, of random sizes, run on overlapping teams in any order of
// members, one after the other without barriers.
func TestRandomSequences(t *testing.T) {
	for _, crowded := range []bool{false, true} {
		policy := sleepEarly
		policy.Crowded = crowded
		testRandomSequences(t, newNodeWith(t, 4, policy))
	}
}

func testRandomSequences(t *testing.T, nd *node) {
	t.Helper()
	for id, members := range [][]int{{0, 1, 2, 3}, {3, 1}, {2}, {1, 0, 3}} {
		seed := uint64(id + 1)
		t.Logf("team %v: seed %d", members, seed)
		nd.each(t, id, members, func(me int, tm *coll.Team) error {
			rng := rand.New(rand.NewPCG(seed, 0)) // the same on all members
			for step := range 1500 {
				if err := randomCollective(t.Context(), nd, tm, members, me, rng); err != nil {
					return fmt.Errorf("step %d, member %d: %w", step, me, err)
				}
			}
			return nil
		})
	}
}

func randomCollective(ctx context.Context, nd *node, tm *coll.Team, members []int, me int, rng *rand.Rand) error {
	const dst, src = 0, 256 << 10
	kind, size, salt := rng.IntN(4), 1+rng.IntN(40), rng.Uint32()
	if rng.IntN(4) == 0 {
		size = 1 + rng.IntN(6000)
	}
	root := rng.IntN(len(members))
	b := coll.Buffers{Dst: layout.HeapOffset + dst, Src: layout.HeapOffset + src, N: size}
	value := func(m, i int) uint32 { return salt + uint32(m)*1000003 + uint32(i) }
	k := len(members)
	in := elements[uint32](nd, members[me], src, size*k)
	for i := range in {
		in[i] = value(me, i)
	}
	var err error
	var want func(i int) uint32
	n := size
	switch kind {
	case 0:
		err = coll.Broadcast[uint32](ctx, tm, b, root)
		want = func(i int) uint32 { return value(root, i) }
	case 1:
		err = coll.Reduce[uint32](ctx, tm, b, sum)
		want = func(i int) (s uint32) {
			for m := range members {
				s += value(m, i)
			}
			return s
		}
	case 2:
		err = coll.FCollect[uint32](ctx, tm, b)
		n, want = size*k, func(i int) uint32 { return value(i/size, i%size) }
	default:
		err = coll.Alltoall[uint32](ctx, tm, b)
		n, want = size*k, func(i int) uint32 { return value(i/size, me*size+i%size) }
	}
	if err != nil {
		return err
	}
	for i, v := range elements[uint32](nd, members[me], dst, n) {
		if v != want(i) {
			return fmt.Errorf("kind %d, size %d, root %d: element %d is %d, want %d", kind, size, root, i, v, want(i))
		}
	}
	return nil
}

// The root of small broadcasts runs ahead of the others, which still find the data of each step.
// Larger broadcasts in between use whole slots.
func TestRootRunsAhead(t *testing.T) {
	const n, rounds = 3, 20_000
	nd := newNode(t, n)
	members := []int{0, 1, 2}
	nd.each(t, 3, members, func(me int, tm *coll.Team) error {
		rng := rand.New(rand.NewPCG(7, 0)) // the same on all members
		src, dst := elements[uint64](nd, members[me], 64<<10, 512), elements[uint64](nd, members[me], 0, 512)
		for r := range uint64(rounds) {
			b := coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 64<<10, N: 1 + rng.IntN(16)}
			if rng.IntN(50) == 0 {
				b.N = 33 + rng.IntN(300)
			}
			root := 0
			if rng.IntN(200) == 0 {
				root = rng.IntN(n)
			}
			for i := range b.N {
				src[i] = r*uint64(me+1) + uint64(i)
			}
			if err := coll.Broadcast[uint64](t.Context(), tm, b, root); err != nil {
				return err
			}
			for i, v := range dst[:b.N] {
				if want := r*uint64(root+1) + uint64(i); v != want {
					return fmt.Errorf("round %d, member %d: element %d of %d from %d is %d, want %d", r, me, i, b.N, root, v, want)
				}
			}
		}
		return nil
	})
}

// Contributions of a few words lie next to the arrival words as long as each of these has its own
// line. The test sums slightly more and less than what fits there, in teams slightly larger and
// smaller than the limit, with broadcasts in between, whose root does not wait.
func TestFewWords(t *testing.T) {
	const most = layout.EntrySize/4 + 1
	for id, n := range []int{2, 3, layout.MaxEntries, layout.MaxEntries + 1} {
		nd := newNode(t, n)
		members := rand.Perm(n)
		nd.each(t, id, members, func(me int, tm *coll.Team) error {
			src, dst := elements[uint32](nd, members[me], 0, most), elements[uint32](nd, members[me], 4096, most)
			for r := range uint32(30) {
				k := int(r)%most + 1
				for i := range src {
					src[i] = r<<16 + uint32(me*i)
				}
				b := coll.Buffers{Dst: layout.HeapOffset + 4096, Src: layout.HeapOffset, N: k}
				if err := coll.Reduce[uint32](t.Context(), tm, b, sum); err != nil {
					return err
				}
				for i, v := range dst[:k] {
					if want := uint32(n)*(r<<16) + uint32(n*(n-1)/2*i); v != want {
						return fmt.Errorf("%d members, round %d: member %d has %#x in element %d of %d of the sum, want %#x", n, r, me, v, i, k, want)
					}
				}
				root := int(r) % n
				for range 3 {
					if err := coll.Broadcast[uint32](t.Context(), tm, b, root); err != nil {
						return err
					}
				}
				for i, v := range dst[:k] {
					if want := r<<16 + uint32(root*i); v != want {
						return fmt.Errorf("%d members, round %d: member %d has %#x in element %d of %d from member %d, want %#x", n, r, me, v, i, k, root, want)
					}
				}
			}
			return nil
		})
	}
}

// Same tells all members alike whether their words agree.
func TestSame(t *testing.T) {
	nd := newNode(t, 3)
	nd.each(t, 0, []int{0, 1, 2}, func(me int, tm *coll.Team) error {
		for r := range uint64(1000) {
			w := coll.Words{r, 1, 2, 3}
			if r%3 == 2 && me == 2 {
				w[1] = 77
			}
			differs, first, other, err := tm.Same(t.Context(), w)
			want := -1
			if r%3 == 2 {
				want = 2
			}
			if err != nil || differs != want || first[0] != r || (want == 2 && other[1] != 77) {
				return fmt.Errorf("round %d: Same returned %d, %v, %v, %w", r, differs, first, other, err)
			}
		}
		return nil
	})
}

// A canceled collective breaks the team for this member. A second collective in another goroutine
// at the same time is refused.
func TestBrokenAndConcurrent(t *testing.T) {
	nd := newNodeWith(t, 2, wait.PolicyFor(2, 1))
	tm, err := coll.New(coll.Config{Map: nd.m.Map, Waiter: nd.waiters[0], Members: nearMembers(0, 1), ID: 1})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := make(chan error)
	go func() { first <- tm.Sync(ctx) }()
	// Before the first call has begun, this one may be the first: then its own context ends it and
	// it breaks the team.
	short, stop := context.WithCancel(ctx)
	stop()
	for !errors.Is(err, coll.ErrConcurrent) && !errors.Is(err, coll.ErrBroken) {
		err = tm.Sync(short)
	}
	cancel()
	if err := <-first; err == nil {
		t.Error("a barrier without its second member returned no error")
	}
	if err := tm.Sync(t.Context()); !errors.Is(err, coll.ErrBroken) {
		t.Errorf("after a canceled barrier: error %v, want %v", err, coll.ErrBroken)
	}
}

// A member that has left is an error only for members that wait for it.
func TestLeave(t *testing.T) {
	nd := newNode(t, 3)
	members := []int{0, 1, 2}
	nd.each(t, 2, members, func(me int, tm *coll.Team) error {
		for range 10 {
			if err := tm.Sync(t.Context()); err != nil {
				return err
			}
		}
		if me == 2 { // the others may still be in the last barrier
			tm.Leave()
			return nil
		}
		err := tm.Sync(t.Context())
		gone, ok := errors.AsType[*coll.LeftError](err)
		if !ok || gone.Member != 2 {
			return fmt.Errorf("barrier without member 2: %w", err)
		}
		if err := tm.Sync(t.Context()); !errors.Is(err, coll.ErrBroken) {
			return fmt.Errorf("barrier after that: %w", err)
		}
		return nil
	})
}

// A member that sleeps in a step which the leaving member will never enter is woken.
func TestLeaveWakesWaiters(t *testing.T) {
	nd := newNode(t, 3)
	nd.each(t, 2, []int{0, 1, 2}, func(me int, tm *coll.Team) error {
		if me == 2 {
			nd.waitForSleeper(0)
			nd.waitForSleeper(1)
			tm.Leave()
			return nil
		}
		err := tm.Sync(t.Context())
		if gone, ok := errors.AsType[*coll.LeftError](err); !ok || gone.Member != 2 {
			return fmt.Errorf("barrier without member 2: %w", err)
		}
		return nil
	})
}

// A member that sleeps in a step which the leaving member has entered waits for another member, so
// it is not woken.
func TestLeaveKeepsOthersAsleep(t *testing.T) {
	nd := newNode(t, 3)
	var gone sync.WaitGroup
	gone.Add(1)
	canceled := make(chan struct{})
	nd.each(t, 2, []int{0, 1, 2}, func(me int, tm *coll.Team) error {
		switch me {
		case 0:
			defer gone.Done()
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			err := tm.Sync(ctx)
			close(canceled)
			if !errors.Is(err, context.Canceled) {
				return fmt.Errorf("canceled barrier: %w", err)
			}
			nd.waitForSleeper(1)
			tm.Leave()
			if atomic.LoadUint32(&nd.m.Control(1).Bell.Sleeping) == 0 {
				return errors.New("member 1 was woken, but it waits for member 2 only")
			}
		case 1:
			<-canceled // member 0's bell ring would wake this one
			return tm.Sync(t.Context())
		case 2:
			gone.Wait()
			return tm.Sync(t.Context())
		}
		return nil
	})
}

// newMeeting returns a barrier of n that can be used again.
func newMeeting(n int) (meet func() error, count *atomic.Int32) {
	var mu sync.Mutex
	here, next := 0, make(chan struct{})
	count = new(atomic.Int32)
	return func() error {
		mu.Lock()
		wait := next
		if here++; here == n {
			count.Add(1)
			here, next = 0, make(chan struct{})
			close(wait)
		}
		mu.Unlock()
		<-wait
		return nil
	}, count
}

// A team that all members have left can be used again after they have met.
func TestRejoin(t *testing.T) {
	nd := newNode(t, 3)
	for round := range int32(3) {
		meet, count := newMeeting(3)
		nd.each(t, 2, []int{0, 1, 2}, func(_ int, tm *coll.Team) error {
			if err := coll.Rejoin(meet, tm); err != nil {
				return err
			}
			for range 5 {
				if err := tm.Sync(t.Context()); err != nil {
					return err
				}
			}
			tm.Leave()
			return nil
		})
		if got := count.Load(); got != min(2, round*2) {
			t.Errorf("round %d: met %d times, want %d", round, got, min(2, round*2))
		}
	}
}

// A member that is still in an old collective learns there of members that have left, even if they
// have rejoined already.
func TestRejoinEarly(t *testing.T) {
	nd := newNode(t, 2)
	meet, _ := newMeeting(2)
	back := make(chan struct{})
	nd.each(t, 2, []int{0, 1}, func(me int, tm *coll.Team) error {
		if me == 0 {
			tm.Leave()
			return coll.Rejoin(func() error {
				select {
				case <-back:
				default:
					close(back)
				}
				return meet()
			}, tm)
		}
		<-back
		if err := tm.Sync(t.Context()); !errors.As(err, new(*coll.LeftError)) {
			return fmt.Errorf("sync with a member that has left: %w", err)
		}
		tm.Leave()
		return coll.Rejoin(meet, tm)
	})
	nd.each(t, 2, []int{0, 1}, func(_ int, tm *coll.Team) error { return tm.Sync(t.Context()) })
}

// Members that left the team at different steps are in step again after they rejoin.
func TestRejoinInStep(t *testing.T) {
	nd := newNodeWith(t, 3, wait.PolicyFor(3, 1))
	alone := make(chan struct{})
	nd.each(t, 2, []int{0, 1, 2}, func(me int, tm *coll.Team) error {
		if me == 0 {
			defer close(alone)
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := coll.Agree(ctx, tm, 7); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("canceled agreement: %w", err)
			}
			if err := coll.Broadcast[uint32](ctx, tm, large, 1); !errors.Is(err, context.Canceled) {
				return fmt.Errorf("canceled broadcast: %w", err)
			}
		} else {
			<-alone
		}
		tm.Leave()
		return nil
	})
	meet, _ := newMeeting(3)
	nd.each(t, 2, []int{0, 1, 2}, func(me int, tm *coll.Team) error {
		if err := coll.Rejoin(meet, tm); err != nil {
			return err
		}
		// All count on from the numbers of member 0, which are the greatest.
		word, votes := nd.m.Control(0).Entries[2][me].Seq, &nd.m.Control(me).Votes[2]
		if seq := nd.m.Control(me).Teams[2].Seq; seq != 2 || word != 2 || votes[0].Seq != 1 || votes[1].Seq != 1 {
			return fmt.Errorf("member %d is at step %d with word %#x and votes %#x and %#x; want steps 2 and votes 1",
				me, seq, word, votes[0].Seq, votes[1].Seq)
		}
		for r := range uint64(50) {
			elements[uint64](nd, me, 0, 1)[0] = r
			if err := tm.Sync(t.Context()); err != nil {
				return err
			}
			for pe := range 3 {
				if v := elements[uint64](nd, pe, 0, 1)[0]; v != r && v != r+1 {
					return fmt.Errorf("round %d: PE %d is at %d after Sync", r, pe, v)
				}
			}
			if a, err := coll.Agree(t.Context(), tm, 1<<me|r<<8); err != nil || a.Flags != r<<8 {
				return fmt.Errorf("round %d: agreed on %#x: %w", r, a.Flags, err)
			}
		}
		return nil
	})
}

func TestNewRefuses(t *testing.T) {
	nd := newNode(t, 1)
	for _, c := range []coll.Config{
		{Members: nearMembers(0), ID: -1},
		{Members: nearMembers(0), ID: layout.MaxTeams},
		{Members: nil},
		{Members: nearMembers(0), Me: 1},
	} {
		c.Map, c.Waiter = nd.m.Map, nd.waiters[0]
		if _, err := coll.New(c); err == nil {
			t.Errorf("New accepted %+v", c)
		}
	}
}

// The members of a team that exchanges by turns have homes as the first one says.
func TestHomesAreFollowed(t *testing.T) {
	if rma.Processor() == 0 {
		t.Skip("processors are not known here")
	}
	policy := sleepEarly
	policy.Crowded = true
	nd := newNodeWith(t, 3, policy)
	const id, exchanges = 2, 1200 // beyond the trials
	members := []int{2, 0, 1}
	nd.each(t, id, members, func(_ int, tm *coll.Team) error {
		b := coll.Buffers{Dst: layout.HeapOffset, Src: layout.HeapOffset + 256<<10, N: 6000}
		for range exchanges {
			if err := coll.Alltoall[uint32](t.Context(), tm, b); err != nil {
				return err
			}
		}
		return nil
	})
	const pays = 1 << 31
	for last := uint64(0); last < 64; last += 32 {
		first := nd.m.Control(members[0]).Teams[id].Home >> last & (1<<32 - 1)
		for _, pe := range members {
			if home := nd.m.Control(pe).Teams[id].Home >> last & (pays - 1); (home != 0) != (first&pays != 0) {
				t.Errorf("PE %d says home %d, want one: %t, as the first member says", pe, home, first&pays != 0)
			}
		}
	}
}
