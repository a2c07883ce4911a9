package view

import (
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// search visits each state of a scenario once.
type search struct {
	seen    map[[16]byte]bool // false: its runs are not all visited yet
	path    []choice
	failure error
}

// appendState appends all that the future of a world depends on. Times are relative.
func (w *world) appendState(b []byte) []byte {
	c := w.core
	for p := range Node(w.n) {
		m := &c.nodes[p]
		b = append(b, byte(w.life[p]), w.apart[p], w.said[p], byte(w.probe[p]), byte(w.last[p]))
		var flags byte
		for _, is := range []bool{m.in, m.deferred, m.stale, m.doubtful, m.silent, m.unfenced, m.linkless} {
			flags <<= 1
			if is {
				flags |= 1
			}
		}
		since, left := int64(0), int64(0)
		if m.silent {
			since = min(c.now-m.silentAt, c.cfg.Window)
		}
		if m.linkless {
			left = max(m.graceEnd-c.now, 0)
		}
		b = append(b, flags, byte(m.task), byte(since), byte(left))
	}
	var said [most * most]byte
	for _, a := range c.accusations {
		at := byte(1)
		if a.answered {
			at = 2 + byte(min(c.now-a.at, c.cfg.Window))
		}
		said[int(a.by)*w.n+int(a.node)] = at
	}
	b = append(b, said[:w.n*w.n]...)
	flags := byte(0)
	if w.held {
		flags |= 1
	}
	if c.ended {
		flags |= 2
	}
	behind := byte(0) // the core's clock, when the world's has moved on without an event
	if !w.held {
		behind = byte(w.now - c.paused - c.now)
	}
	return append(b, byte(w.stage), w.proved, w.linkless, w.fence, w.askedIn, w.fresh, w.deaths, w.resets, w.holds, w.passes, flags, behind)
}

// visit visits all runs from w on.
func (s *search) visit(w *world) {
	h := fnv.New128a()
	h.Write(w.appendState(make([]byte, 0, 128)))
	key := [16]byte(h.Sum(nil))
	switch done, is := s.seen[key]; {
	case is && !done:
		s.failure = fmt.Errorf("a run that never ends")
		return
	case is:
		return
	}
	s.seen[key] = false
	w.seen.states++
	may, must := w.choices()
	if len(must) == 0 {
		if s.failure = w.checkEnd(); s.failure != nil {
			return
		}
	}
	for _, c := range append(must, may...) {
		next := w.clone()
		s.path = append(s.path, c)
		if s.failure = next.apply(c); s.failure == nil {
			s.visit(next)
		}
		if s.failure != nil {
			return
		}
		s.path = s.path[:len(s.path)-1]
	}
	s.seen[key] = true
}

// explore visits all runs of a scenario.
func explore(t *testing.T, sc *scenario, sum *tally) {
	t.Helper()
	w := newWorld(sc)
	w.seen = sum
	s := search{seen: map[[16]byte]bool{}}
	if s.visit(w); s.failure != nil {
		t.Fatalf("%+v: %v: %v", *sc, s.path, s.failure)
	}
}

// cuts returns ways to cut the network of n nodes and a front end: each part without the front end is cut off from the
// rest, and each pair is cut; in both directions or in one.
func cuts(n int) (list [][most + 1]uint8) {
	all := uint8(1)<<(n+1) - 1
	add := func(a, b uint8) {
		for way := range 3 {
			var c [most + 1]uint8
			for p := range Node(n + 1) {
				if has(a, p) && way != 1 {
					c[p] |= b
				}
				if has(b, p) && way != 2 {
					c[p] |= a
				}
			}
			if !slices.Contains(list, c) {
				list = append(list, c)
			}
		}
	}
	for part := uint8(1); part < 1<<n; part++ {
		add(part, all&^part)
	}
	for p := range Node(n + 1) {
		for q := range p {
			add(bit(p), bit(q))
		}
	}
	return list
}

// TestSmallWorlds visits all runs of small worlds: cuts, healed or not, and deaths, in any order with accusations, results
// and ticks. Of four and five nodes it tries some of the cuts. world.step has the safety properties. Liveness: no run is endless, and at each end no member is
// dead, cut off, without a link or accused.
func TestSmallWorlds(t *testing.T) {
	t.Parallel()
	testenv.SkipSerial(t)
	total := &tally{}
	for _, c := range []struct {
		name   string
		stride int // of the cuts each so many is tried
		short  int // the same in short mode
		base   scenario
	}{
		{"2 nodes", 1, 9, scenario{n: 2, heals: true, deaths: 2, observers: 1, stale: true}},
		{"2 nodes, resets", 1, 9, scenario{n: 2, heals: true, deaths: 1, resets: 1, observers: 1, stale: true}},
		{"2 nodes, holds", 1, 18, scenario{n: 2, heals: true, deaths: 1, holds: 1, passes: 1, observers: 1}},
		{"2 nodes, continue", 1, 4, scenario{n: 2, heals: true, deaths: 1, observers: 1, goesOn: true}},
		{"3 nodes", 1, 13, scenario{n: 3, heals: true, observers: 2}},
		{"3 nodes, stale", 1, 13, scenario{n: 3, observers: 2, stale: true}},
		{"3 nodes, deaths", 1, 13, scenario{n: 3, deaths: 1, observers: 1}},
		{"3 nodes, resets", 1, 20, scenario{n: 3, resets: 1, passes: 1, observers: 1}},
		{"3 nodes, holds", 1, 13, scenario{n: 3, holds: 1, observers: 1}},
		{"3 nodes, continue", 1, 13, scenario{n: 3, observers: 2, goesOn: true}},
		{"4 nodes", 1, 37, scenario{n: 4, observers: 1}},
		{"4 nodes, accused by two", 4, 37, scenario{n: 4, observers: 2}},
		{"4 nodes, deaths", 8, 74, scenario{n: 4, deaths: 1, observers: 1}},
		{"4 nodes, healed", 8, 74, scenario{n: 4, heals: true, observers: 1}},
		{"5 nodes", 13, 130, scenario{n: 5, observers: 1}},
	} {
		sum := &tally{}
		scenarios, begun, stride := 0, time.Now(), c.stride
		if testing.Short() {
			stride = c.short
		}
		for i, shape := range cuts(c.base.n) {
			if i%stride != 0 {
				continue
			}
			sc := c.base
			sc.cut = shape
			explore(t, &sc, sum)
			scenarios++
		}
		t.Logf("%s: %d scenarios in %v, %+v", c.name, scenarios, time.Since(begun), *sum)
		total.add(sum)
	}
	if total.proven == 0 || total.silent == 0 || total.fenced == 0 || total.unfenced == 0 || total.over == 0 || total.empty == 0 {
		t.Errorf("%+v: something never happens", *total)
	}
}

// add adds another tally.
func (y *tally) add(o *tally) {
	y.states += o.states
	y.ends += o.ends
	y.proven += o.proven
	y.silent += o.silent
	y.fenced += o.fenced
	y.unfenced += o.unfenced
	y.over += o.over
	y.empty += o.empty
}

// TestRandomWorlds draws runs of larger worlds, with the same checks. Each run happens twice, and the actions are the
// same.
func TestRandomWorlds(t *testing.T) {
	t.Parallel()
	rounds := testenv.Rounds(20000)
	if testing.Short() {
		rounds = testenv.Rounds(4000)
	}
	shapes := map[int][][most + 1]uint8{}
	for n := 2; n <= most; n++ {
		shapes[n] = cuts(n)
	}
	sum := &tally{}
	for seed := range uint64(rounds) {
		var logs [2][]Action
		for i := range logs {
			rng := rand.New(rand.NewPCG(seed, 1))
			n := 2 + rng.IntN(most-1)
			w := newWorld(&scenario{
				n: n, cut: shapes[n][rng.IntN(len(shapes[n]))], heals: rng.IntN(2) == 0, deaths: uint8(rng.IntN(n + 1)),
				resets: uint8(rng.IntN(4)), holds: uint8(rng.IntN(3)), passes: uint8(rng.IntN(8)), observers: 1 + rng.IntN(n),
				stale: true, goesOn: rng.IntN(4) == 0,
			})
			w.seen, w.log = sum, &logs[i]
			if path, err := w.run(rng); err != nil {
				t.Fatalf("seed %d: %+v: %v: %v", seed, *w.scenario, path, err)
			}
		}
		if !slices.Equal(logs[0], logs[1]) {
			t.Fatalf("seed %d: %+v, then %+v", seed, logs[0], logs[1])
		}
	}
	t.Logf("%d rounds, %+v", rounds, *sum)
}

// run makes random choices until nothing must happen.
func (w *world) run(rng *rand.Rand) (path []choice, err error) {
	for range 10000 {
		may, must := w.choices()
		all := append(must, may...)
		if len(all) == 0 || len(must) == 0 && rng.IntN(4) == 0 {
			return path, w.checkEnd()
		}
		c := all[rng.IntN(len(all))]
		path = append(path, c)
		if err := w.apply(c); err != nil {
			return path, err
		}
	}
	return path, fmt.Errorf("no end")
}
