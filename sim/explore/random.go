package explore

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Draw draws a scenario: what runs, and which faults may happen.
type Draw func(rng *rand.Rand) (System, Faults)

// Random runs the schedule of one seed.
func Random(draw Draw, seed uint64) (Faults, *Failure) {
	_, faults, failure := RandomRun(draw, seed)
	return faults, failure
}

// RandomRun also returns the run, as a Failure without Err if nothing is wrong.
func RandomRun(draw Draw, seed uint64) (run *Failure, faults Faults, failure *Failure) {
	rng := rand.New(rand.NewPCG(seed, 0x6f7368))
	sys, faults := draw(rng)
	run = &Failure{System: sys}
	if run.Err = run.runRandom(rng, faults); run.Err != nil {
		failure = run
	}
	return run, faults, failure
}

// runRandom draws and runs a schedule, and notes its choices.
func (f *Failure) runRandom(rng *rand.Rand, faults Faults) error {
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
	rank  []float64 // haste of each member
	news  float64   // haste of news
	among int       // the hastiest of this many ready choices comes next; 1: any choice
	calm  int       // no fault before this step
	step  int
	hunt  int // victims: 0: any member, 1: the first living one from root on, 2: the one that acted last
	root  int
	last  int // the member that acted last
}

// Rooted is a System whose calls have roots. Roots may die one after the other.
type Rooted interface{ Root(call int) int }

// newScheduler draws a scheduler.
func newScheduler(rng *rand.Rand, w *world) *scheduler {
	s := &scheduler{rng: rng, w: w, rank: make([]float64, w.n), among: 1 + rng.IntN(4), hunt: rng.IntN(3)}
	for p := range s.rank {
		s.rank[p] = rng.Float64()
	}
	if r, ok := w.sys.(Rooted); ok && w.sys.Calls() > 0 {
		s.root = r.Root(rng.IntN(w.sys.Calls()))
	}
	s.news = 3*rng.Float64() - 1.5
	s.drawCalm()
	return s
}

// drawCalm draws when the next fault comes. Faults are spread over the run.
func (s *scheduler) drawCalm() {
	faults := s.w.left.Deaths + s.w.left.Losses + s.w.left.Ticks
	length := 4 * s.w.n * s.w.sys.Calls()
	s.calm = s.step + s.rng.IntN(1+2*length/(1+faults))
}

// next returns the next choice, if there is one.
func (s *scheduler) next() (Choice, bool) {
	s.step++
	c, ok := s.draw()
	if s.step <= s.calm {
		return c, ok
	}
	f, isFault := s.drawFault(c, ok)
	if !isFault {
		return c, ok
	}
	s.drawCalm()
	return f, true
}

// draw draws the next choice without a fault.
func (s *scheduler) draw() (Choice, bool) {
	w := s.w
	if w.isIdle() {
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

// drawFault draws a fault, instead of c or while c happens.
func (s *scheduler) drawFault(c Choice, ok bool) (Choice, bool) {
	w := s.w
	kinds := [...]int{w.left.Deaths, w.left.Losses, w.left.Ticks}
	total := kinds[0] + kinds[1] + kinds[2]
	if total == 0 || !ok {
		return c, false
	}
	switch x := s.rng.IntN(total); {
	case x < kinds[0]:
		return s.drawDeath(c)
	case x < kinds[0]+kinds[1]:
		c.Kind = Lose
		return c, w.can(c)
	}
	c = Choice{Kind: Tick, P: s.rng.IntN(w.n)}
	return c, w.can(c)
}

// drawDeath draws a death, instead of c or while c happens.
func (s *scheduler) drawDeath(c Choice) (Choice, bool) {
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

// loseSome loses part of what the dead member p has sent.
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

// RandomAll runs the schedules of count seeds from first on, on a number of cores, up to the first
// failure. It returns how many have run, and the seed that failed.
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
