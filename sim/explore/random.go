package explore

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Draw makes the scenario of a seed: what runs and what may go wrong.
type Draw func(rng *rand.Rand) (System, Faults)

// Random runs the schedule of one seed.
func Random(draw Draw, seed uint64) (Faults, *Failure) {
	_, faults, failure := RandomRun(draw, seed)
	return faults, failure
}

// RandomRun also says what has happened, as a Failure that may have no Err.
func RandomRun(draw Draw, seed uint64) (run *Failure, faults Faults, failure *Failure) {
	rng := rand.New(rand.NewPCG(seed, 0x6f7368))
	sys, faults := draw(rng)
	run = &Failure{System: sys}
	if run.Err = run.random(rng, faults); run.Err != nil {
		failure = run
	}
	return run, faults, failure
}

func (f *Failure) random(rng *rand.Rand, faults Faults) error {
	w, err := newWorld(f.System, faults)
	if err != nil {
		return err
	}
	s := newScheduler(rng, w)
	for {
		c, ok := s.next()
		if !ok {
			return f.System.Check(w.group(true))
		}
		f.Choices = append(f.Choices, c)
		if err := w.do(c); err != nil {
			return err
		}
		if w.isDead(c.P) && (c.Dies || c.Kind == Die) {
			f.Choices = s.loseSome(c.P, f.Choices)
		}
	}
}

// scheduler draws what happens next.
type scheduler struct {
	rng   *rand.Rand
	w     *world
	rank  []float64 // members' haste
	news  float64   // news' haste
	among int       // the hastiest of so many is taken; 1: any
	calm  int       // choices until the next fault, at least
	step  int
	hunt  int // 0: anybody dies, 1: the first living member from a root on, 2: who spoke last
	root  int
	last  int
}

// Rooted is a System whose calls have roots, of which one after the other may die.
type Rooted interface{ Root(call int) int }

func newScheduler(rng *rand.Rand, w *world) *scheduler {
	s := &scheduler{rng: rng, w: w, rank: make([]float64, w.n), among: 1 + rng.IntN(4), hunt: rng.IntN(3)}
	for p := range s.rank {
		s.rank[p] = rng.Float64()
	}
	if r, ok := w.sys.(Rooted); ok && w.sys.Calls() > 0 {
		s.root = r.Root(rng.IntN(w.sys.Calls()))
	}
	s.news = 3*rng.Float64() - 1.5
	s.again()
	return s
}

// again draws when the next fault comes: the faults are spread over the run.
func (s *scheduler) again() {
	faults := s.w.left.Deaths + s.w.left.Losses + s.w.left.Ticks
	length := 4 * s.w.n * s.w.sys.Calls()
	s.calm = s.step + s.rng.IntN(1+2*length/(1+faults))
}

// next is the next choice, if there is one.
func (s *scheduler) next() (Choice, bool) {
	s.step++
	c, ok := s.draw()
	if s.step <= s.calm {
		return c, ok
	}
	f, isFault := s.fault(c, ok)
	if !isFault {
		return c, ok
	}
	s.again()
	return f, true
}

func (s *scheduler) draw() (Choice, bool) {
	w := s.w
	if w.ready.len() == 0 {
		c := Choice{Kind: TickAll}
		return c, w.can(c) && w.unfinished()
	}
	best, score := Choice{}, -100.0
	for range s.among {
		c := w.choice(int(w.ready.list[s.rng.IntN(w.ready.len())]))
		v := s.rank[c.P] + s.rng.Float64()/4
		if c.Kind == News {
			v += s.news
		}
		if v > score {
			best, score = c, v
		}
	}
	s.last = best.P
	return best, true
}

// fault is what goes wrong now, instead of or while c happens.
func (s *scheduler) fault(c Choice, ok bool) (Choice, bool) {
	w := s.w
	kinds := [...]int{w.left.Deaths, w.left.Losses, w.left.Ticks}
	total := kinds[0] + kinds[1] + kinds[2]
	if total == 0 || !ok {
		return c, false
	}
	switch x := s.rng.IntN(total); {
	case x < kinds[0]:
		return s.death(c)
	case x < kinds[0]+kinds[1]:
		c.Kind = Lose
		return c, w.can(c)
	}
	c = Choice{Kind: Tick, P: s.rng.IntN(w.n)}
	return c, w.can(c)
}

func (s *scheduler) death(c Choice) (Choice, bool) {
	if c.Kind != TickAll && s.rng.IntN(2) == 0 { // within the step
		c.Dies, c.Keep = true, s.rng.IntN(5)
		return c, s.w.can(c)
	}
	victim := s.rng.IntN(s.w.n)
	switch s.hunt {
	case 1:
		for victim = s.root; s.w.isDead(victim); victim = (victim + 1) % s.w.n {
		}
	case 2:
		victim = s.last
	}
	c = Choice{Kind: Die, P: victim}
	return c, s.w.can(c)
}

// loseSome loses part of what a dead member had sent.
func (s *scheduler) loseSome(p int, done []Choice) []Choice {
	for q := range s.w.n {
		if l := len(s.w.links[p*s.w.n+q]); l > 0 && s.rng.IntN(3) == 0 {
			c := Choice{Kind: Cut, P: q, Q: p, Keep: s.rng.IntN(l)}
			s.w.note("%v", c)
			s.w.cut(p, q, c.Keep)
			done = append(done, c)
		}
	}
	return done
}

// RandomAll runs the schedules of count seeds from first on, on so many cores,
// up to the first failure, and says how many have run and which seed failed.
func RandomAll(ctx context.Context, draw Draw, first uint64, count, cores int) (ran int, seed uint64, failure *Failure) {
	var (
		next, done atomic.Int64
		mu         sync.Mutex
		wg         sync.WaitGroup
	)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range cores {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := next.Add(1) - 1
				if i >= int64(count) {
					return
				}
				_, f := Random(draw, first+uint64(i))
				done.Add(1)
				if f == nil {
					continue
				}
				mu.Lock()
				if failure == nil || first+uint64(i) < seed {
					failure, seed = f, first+uint64(i)
				}
				mu.Unlock()
				cancel()
			}
		})
	}
	wg.Wait()
	return int(done.Load()), seed, failure
}
