package coll_test

import (
	"context"
	"fmt"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goshmem/goshmem/coll"
)

// trials is more than the number of collectives by which two members choose a way.
const trials = 200

// stopwatch is the time of two members. One of them looks at it at the beginning and at the end of a trial, and accesses
// the other one's memory between if the trial is direct.
type stopwatch struct {
	sync.Mutex
	accesses *atomic.Int32
	before   int32 // accesses when the trial began
	running  bool
	ways     [2]int // trials by direct copies and through areas
	// took returns the time of the k-th trial of a way, counted from 0.
	took func(way, k int) time.Duration
}

func (s *stopwatch) look() time.Duration {
	s.Lock()
	defer s.Unlock()
	if s.running = !s.running; s.running {
		s.before = s.accesses.Load()
		return 0
	}
	way := 1
	if s.accesses.Load() != s.before {
		way = 0
	}
	s.ways[way]++
	return s.took(way, s.ways[way]-1)
}

// watchTrials lets trials last as took says.
func watchTrials(t *testing.T, took func(way, k int) time.Duration) *stopwatch {
	t.Helper()
	s := &stopwatch{accesses: refuseFrom(t, -1, nil), took: took}
	t.Cleanup(coll.SetClock(s.look))
	return s
}

// watchNothing lets all trials last as long. Then members copy directly.
func watchNothing(t *testing.T) {
	t.Helper()
	t.Cleanup(coll.SetClock(func() time.Duration { return 0 }))
}

// directly makes a collective, and reports whether it was made by direct copies.
func (s *stopwatch) directly(ctx context.Context, tm *coll.Team, me, root, bytes int, reduces bool) (bool, error) {
	before := s.accesses.Load()
	err := pairwise(ctx, tm, me, root, bytes, reduces)
	return s.accesses.Load() != before, err
}

// pairwise makes a collective of so many bytes, and checks its result.
func pairwise(ctx context.Context, tm *coll.Team, me, root, bytes int, reduces bool) error {
	src, dst := make([]uint32, bytes/4), make([]uint32, bytes/4)
	for i := range src {
		src[i] = uint32(i * (2 + me))
	}
	of := func(i int) uint32 { return uint32(i * (2 + root)) }
	var err error
	if reduces {
		of = func(i int) uint32 { return uint32(5 * i) }
		err = coll.ReducePrivate(ctx, tm, dst, src, sum, root)
	} else {
		err = coll.BroadcastDirect(ctx, tm, bytesOfWords(src), root)
		dst = src
	}
	if err != nil || reduces && me != root {
		return err
	}
	for i, v := range dst {
		if v != of(i) {
			return fmt.Errorf("%d bytes, root %d: element %d at member %d is %d, want %d", bytes, root, i, me, v, of(i))
		}
	}
	return nil
}

// Two members keep the way that is faster, each class of collectives its own one. The time of the fastest trial for a
// byte counts: not that of a member that was preempted, and not the number of bytes. What one member measures counts for
// both, whether roots change or not.
func TestDirectChoice(t *testing.T) {
	const ms = time.Millisecond
	disturbed := func(direct, areas time.Duration) func(way, k int) time.Duration {
		return func(way, k int) time.Duration {
			if k != 20+way {
				return 1000 * ms // another process had the processor
			}
			return []time.Duration{direct, areas}[way]
		}
	}
	for _, c := range []struct {
		name string
		took func(way, k int) time.Duration
		root func(k int) int // nil: 0
		want bool
	}{
		{name: "direct copies", took: disturbed(4*ms, 5*ms), want: true},
		{name: "as fast", took: disturbed(4*ms, 4*ms), want: true},
		{name: "areas", took: disturbed(5*ms, 4*ms)},
		{name: "areas by changing roots", took: disturbed(5*ms, 4*ms), root: func(k int) int { return k & 1 }},
		{name: "direct copies by changing roots", took: disturbed(4*ms, 5*ms), root: func(k int) int { return k / 7 & 1 }, want: true},
		{name: "too long for a number", took: func(int, int) time.Duration { return math.MaxInt64 }, want: true},
	} {
		for _, reduces := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, reduces %v", c.name, reduces), func(t *testing.T) {
				s := watchTrials(t, c.took)
				root := func(int) int { return 0 }
				if c.root != nil {
					root = c.root
				}
				newPair(t).each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
					const bytes = 40_000
					for k := range trials {
						if err := pairwise(unending(t), tm, me, root(k), bytes, reduces); err != nil {
							return err
						}
					}
					for k := range 4 {
						if is, err := s.directly(unending(t), tm, me, root(k), bytes, reduces); err != nil || is != c.want {
							return fmt.Errorf("after the trials: directly %v, want %v; error %w", is, c.want, err)
						}
					}
					for _, other := range []struct {
						bytes   int
						reduces bool
					}{{300_000, reduces}, {bytes, !reduces}} {
						if is, err := s.directly(unending(t), tm, me, 0, other.bytes, other.reduces); err != nil || !is {
							return fmt.Errorf("the first one of another class: directly %v, want true; error %w", is, err)
						}
					}
					return nil
				})
				if s.ways[0] < 20 || s.ways[0]-s.ways[1] > 2 || s.ways[1]-s.ways[0] > 2 {
					t.Errorf("%d trials by direct copies and %d through areas, want as many", s.ways[0], s.ways[1])
				}
			})
		}
	}
}

// More bytes of the same class take longer either way. The time for a byte decides.
func TestDirectChoiceForBytes(t *testing.T) {
	var bytes [2]int // of the trial under way, as either member knows it
	s := watchTrials(t, func(way, _ int) time.Duration {
		return time.Duration(bytes[1]) * time.Duration(1000+way)
	})
	newPair(t).each(t, 5, []int{0, 1}, func(me int, tm *coll.Team) error {
		for k := range trials {
			if bytes[me] = 60_000; bits.OnesCount(uint(k))&1 != 0 {
				bytes[me] = 36_000 // through areas
			}
			if err := pairwise(unending(t), tm, me, 0, bytes[me], false); err != nil {
				return err
			}
		}
		if is, err := s.directly(unending(t), tm, me, 0, 40_000, false); err != nil || !is {
			return fmt.Errorf("after the trials: directly %v, want true; error %w", is, err)
		}
		return nil
	})
}
