package match

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// naive does what a Queue must do, in the words of the standard.
type naive struct {
	posted, messages []waiting
}

type waiting struct {
	env  Envelope
	item int
	ref  Ref[int]
}

func (n *naive) take(e Envelope) (m waiting) {
	if i := slices.IndexFunc(n.messages, func(m waiting) bool { return e.Fits(m.env) }); i >= 0 {
		m = n.messages[i]
		n.messages = slices.Delete(n.messages, i, i+1)
	}
	return m
}

func (n *naive) arrive(m Envelope) int {
	i := slices.IndexFunc(n.posted, func(r waiting) bool { return r.env.Fits(m) })
	if i < 0 {
		return 0
	}
	item := n.posted[i].item
	n.posted = slices.Delete(n.posted, i, i+1)
	return item
}

// pair is a Queue and its model, which get the same calls.
type pair struct {
	q    Queue[int, int]
	n    naive
	next int
}

// receive makes a receive on both and returns an error if they differ.
func (p *pair) receive(e Envelope) error {
	p.next++
	want := p.n.take(e)
	if seen, from, ok := p.q.Peek(e); seen != want.item || from != want.env || ok != (want.item != 0) {
		return fmt.Errorf("peek for %v: got message %d with %v, %v, want %v", e, seen, from, ok, want)
	}
	if got, from, ok := p.q.Take(e); got != want.item || from != want.env || ok != (want.item != 0) {
		return fmt.Errorf("receive for %v: got message %d with %v, %v, want %v", e, got, from, ok, want)
	}
	if want.item == 0 {
		p.n.posted = append(p.n.posted, waiting{e, p.next, p.q.Post(e, p.next)})
	}
	return p.count()
}

// message makes a message arrive at both and returns an error if they differ.
func (p *pair) message(e Envelope) error {
	p.next++
	want := p.n.arrive(e)
	if got, ok := p.q.Arrive(e); got != want || ok != (want != 0) {
		return fmt.Errorf("message %v: got receive %d, %v, want %d", e, got, ok, want)
	}
	if want == 0 {
		p.n.messages = append(p.n.messages, waiting{env: e, item: p.next})
		p.q.Keep(e, p.next)
	}
	return p.count()
}

// withdraw withdraws the i-th receive, twice.
func (p *pair) withdraw(i int) error {
	ref := p.n.posted[i].ref
	p.n.posted = slices.Delete(p.n.posted, i, i+1)
	if !p.q.Withdraw(ref) || p.q.Withdraw(ref) {
		return fmt.Errorf("receive %v was not withdrawn exactly once", ref)
	}
	return p.count()
}

// sweep withdraws all receives from a source.
func (p *pair) sweep(src int32) error {
	var want, got []int
	p.n.posted = slices.DeleteFunc(p.n.posted, func(r waiting) bool {
		if r.env.Src == src {
			want = append(want, r.item)
		}
		return r.env.Src == src
	})
	p.q.Sweep(func(e Envelope, r int) bool {
		if e.Src == src {
			got = append(got, r)
		}
		return e.Src == src
	})
	slices.Sort(got)
	if !slices.Equal(got, want) {
		return fmt.Errorf("swept %v, want %v", got, want)
	}
	return p.count()
}

// list compares the messages, one after the other.
func (p *pair) list() error {
	rest := p.n.messages
	for e, m := range p.q.Messages {
		if len(rest) == 0 || rest[0].item != m || rest[0].env != e {
			return fmt.Errorf("the iterator has message %d with %v, want that before %v", m, e, rest)
		}
		rest = rest[1:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("the iterator ends before %v", rest)
	}
	return nil
}

func (p *pair) count() error {
	if r, m := p.q.Waiting(); r != len(p.n.posted) || m != len(p.n.messages) {
		return fmt.Errorf("%d receives and %d messages wait, want %d and %d", r, m, len(p.n.posted), len(p.n.messages))
	}
	return nil
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p pair
		src, tag := rapid.Int32Range(0, 3), rapid.Int32Range(0, 4)
		fails := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"message": func(t *rapid.T) { fails(p.message(Envelope{src.Draw(t, "src"), tag.Draw(t, "tag")})) },
			"receive": func(t *rapid.T) {
				fails(p.receive(Envelope{src.Draw(t, "src"), tag.Draw(t, "tag")}.as(rapid.IntRange(0, kinds-1).Draw(t, "kind"))))
			},
			"withdraw": func(t *rapid.T) {
				if len(p.n.posted) == 0 {
					t.Skip("nothing is posted")
				}
				fails(p.withdraw(rapid.IntRange(0, len(p.n.posted)-1).Draw(t, "i")))
			},
			"sweep": func(t *rapid.T) { fails(p.sweep(src.Draw(t, "src"))) },
			"list":  func(*rapid.T) { fails(p.list()) },
		})
	})
}

// Long queues with many envelopes: tables grow, and lists come and go.
func TestLongQueues(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, srcs := range []int32{1, 3, 1000} {
		var p pair
		for step := range 20_000 {
			e := Envelope{rng.Int32N(srcs), rng.Int32N(300)}
			var err error
			// Messages run ahead, then receives catch up and run ahead, and so on.
			switch messages := step/5000%2 == 0; {
			case rng.IntN(50) == 0 && len(p.n.posted) > 0:
				err = p.withdraw(rng.IntN(len(p.n.posted)))
			case messages == (rng.IntN(4) > 0):
				err = p.message(e)
			default:
				if rng.IntN(8) == 0 {
					e = e.as(rng.IntN(kinds))
				}
				err = p.receive(e)
			}
			if err != nil {
				t.Fatalf("%d sources, step %d: %v", srcs, step, err)
			}
		}
	}
}

// Receives that were posted with any order of wildcards take messages in the order of posting.
func TestEarliestOfKinds(t *testing.T) {
	all := []Envelope{{1, 2}, {1, Any}, {Any, 2}, {Any, Any}}
	order := []int{0, 1, 2, 3}
	for range 24 {
		var q Queue[int, int]
		for _, i := range order {
			q.Post(all[i], i)
		}
		for _, want := range order {
			if got, ok := q.Arrive(Envelope{1, 2}); got != want || !ok {
				t.Fatalf("posted in order %v: got receive %d, want %d", order, got, want)
			}
		}
		permute(order)
	}
}

// permute makes the next permutation.
func permute(p []int) {
	i := len(p) - 2
	for i >= 0 && p[i] > p[i+1] {
		i--
	}
	if i >= 0 {
		j := len(p) - 1
		for p[j] < p[i] {
			j--
		}
		p[i], p[j] = p[j], p[i]
	}
	slices.Reverse(p[i+1:])
}

// A reference becomes invalid when its node is used again.
func TestStaleRef(t *testing.T) {
	var q Queue[int, int]
	old := q.Post(Envelope{1, 1}, 1)
	q.Arrive(Envelope{1, 1})
	q.Post(Envelope{1, 1}, 2)
	if q.Withdraw(old) || q.Withdraw(Ref[int]{}) {
		t.Error("a stale reference withdrew another receive")
	}
	if r, _ := q.Waiting(); r != 1 {
		t.Errorf("%d receives wait, want 1", r)
	}
}

// However much is waiting, one more message needs bounded memory: only the table of lists is
// copied.
func TestGrowsInSteps(t *testing.T) {
	const messages, step, most = 300_000, 1000, 8 << 20
	for name, tags := range map[string]int32{"one list": 1, "many lists": messages} {
		t.Run(name, func(t *testing.T) {
			var q Queue[*int, *int]
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			for i := range int32(messages) {
				if q.Keep(Envelope{0, i % tags}, nil); i%step == 0 {
					before := stats.TotalAlloc
					if runtime.ReadMemStats(&stats); stats.TotalAlloc-before > most {
						t.Errorf("%d bytes for %d messages after %d others, want at most %d", stats.TotalAlloc-before, step, i, most)
					}
				}
			}
			if m, _, ok := q.Take(Envelope{0, messages / 2 % tags}); !ok || m != nil {
				t.Error("a message is missing")
			}
		})
	}
}

// In steady state nothing is allocated, even for tags that were never used before.
func TestNoAllocation(t *testing.T) {
	var q Queue[*int, *int]
	x, tag := new(int), int32(0)
	round := func() {
		for range 50 {
			tag++
			for i := range int32(5) {
				q.Keep(Envelope{i, tag}, x)
			}
			for i := range int32(5) {
				if _, _, ok := q.Take(Envelope{i, tag}.as(int(i) % kinds)); !ok {
					t.Fatal("no message")
				}
			}
			for i := range int32(5) {
				q.Post(Envelope{i, tag}.as(int(i)%kinds), x)
			}
			for i := range int32(5) {
				if _, ok := q.Arrive(Envelope{i, tag}); !ok {
					t.Fatal("no receive")
				}
			}
		}
	}
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations a round, want none", n)
	}
	u := q.posted.used + q.messages.exact.used
	for _, t := range q.messages.wild {
		u += t.used
	}
	if u != 0 {
		t.Errorf("%d lists are in use although nothing waits, want none", u)
	}
}

// record is an item as that of package mpi: three words without pointers.
type record [3]uint64

// A message that waits takes at most 64 bytes, its record of 24 bytes included. A kind of wildcard that was named takes 8 more.
// With a million messages, no call takes long, and all come out in their order.
func TestMemoryOfMessages(t *testing.T) {
	const messages, sources = 1_000_000, 7
	for _, x := range []struct {
		name string
		tags int32 // of a source
		most int
	}{{"few lists", 3, 50}, {"a list for each", messages, 64}} {
		t.Run(x.name, func(t *testing.T) {
			var q Queue[*int, record]
			heap := heapInUse()
			for i := range int32(messages) {
				q.Keep(Envelope{i % sources, i / sources % x.tags}, record{uint64(i)})
			}
			each := float64(heapInUse()-heap) / messages
			t.Logf("%.1f bytes a message", each)
			if each > float64(x.most) {
				t.Errorf("%.1f bytes a message, want at most %d", each, x.most)
			}
			for i, kind := range []int{0, anySrc, anyTag, anyTag | anySrc} {
				begin := time.Now()
				m, from, ok := q.Take(Envelope{int32(i % sources), int32(i / sources)}.as(kind))
				t.Logf("kind %d: %v", kind, time.Since(begin))
				if !ok || m[0] != uint64(i) || from != (Envelope{int32(i), 0}) {
					t.Fatalf("kind %d: message %d with %v, %v, want %d", kind, m[0], from, ok, i)
				}
			}
			if each := float64(heapInUse()-heap) / messages; each > float64(x.most+2*8+1) && x.tags < messages {
				t.Errorf("%.1f bytes a message with lists of all kinds, want at most %d", each, x.most+2*8)
			}
			for i := int32(4); i < messages; i++ {
				e := Envelope{i % sources, i / sources % x.tags}
				if m, _, ok := q.Take(e.as(int(i) % kinds)); !ok || m[0] != uint64(i) {
					t.Fatalf("message %d, %v, want %d", m[0], ok, i)
				}
			}
		})
	}
}

// heapInUse returns the bytes of the heap that are in use.
func heapInUse() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

func BenchmarkLone(b *testing.B) {
	var q Queue[int, int]
	for b.Loop() {
		q.Post(Envelope{2, 7}, 1)
		q.Arrive(Envelope{2, 7})
	}
}

func BenchmarkPosted(b *testing.B) {
	var q Queue[int, int]
	for i := range 1000 {
		q.Post(Envelope{1, int32(i)}, i)
	}
	for b.Loop() {
		q.Post(Envelope{2, 7}, 1)
		q.Arrive(Envelope{2, 7})
	}
}

func BenchmarkUnexpected(b *testing.B) {
	var q Queue[int, int]
	for i := range 1000 {
		q.Keep(Envelope{1, int32(i)}, i)
	}
	for b.Loop() {
		q.Keep(Envelope{2, 7}, 1)
		q.Take(Envelope{2, 7})
	}
}
