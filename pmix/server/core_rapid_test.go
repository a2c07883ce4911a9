package server

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Whatever clients do in whatever order, each request is answered at most once, and exactly once if its connection
// stays open until the end. When all processes have ended, the core keeps no fence, get or deadline.
func TestEveryRequestIsAnsweredOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 4).Draw(rt, "n")
		w := newWorld(t, testJob(n), false)
		type request struct {
			conn connID
			tag  uint32
		}
		asked, answered := map[request]bool{}, map[request]int{}
		step := func(ev event) {
			ev.now = w.now
			for _, a := range w.core.Step(ev, nil) {
				if a.kind == actSend {
					answered[request{a.conn, a.tag}]++
				}
			}
		}
		ask := func(rank codec.Rank, r codec.Request) {
			body, err := codec.AppendRequest(nil, r)
			if err != nil {
				rt.Fatal(err)
			}
			conn := w.conns[rank]
			w.tags[conn] = max(w.tags[conn], codec.TagFirstDynamic-1) + 1
			asked[request{conn, w.tags[conn]}] = true
			step(event{kind: evFrame, conn: conn, tag: w.tags[conn], payload: body})
		}
		for range rapid.IntRange(0, 60).Draw(rt, "steps") {
			rank := codec.Rank(rapid.IntRange(0, n-1).Draw(rt, "rank"))
			if w.conns[rank] == 0 {
				w.last++
				before := len(w.core.conns)
				step(event{kind: evClaim, conn: w.last, proc: first(rank)})
				if len(w.core.conns) > before {
					w.conns[rank] = w.last
				}
				continue
			}
			other := codec.Rank(rapid.IntRange(0, n-1).Draw(rt, "other"))
			switch rapid.IntRange(0, 9).Draw(rt, "what") {
			case 0, 1, 2:
				ask(rank, fenceOf())
			case 3:
				ask(rank, fenceOf(rank, other))
			case 4:
				r := fenceOf()
				r.Info = []codec.Info{seconds(1)}
				ask(rank, r)
			case 5:
				ask(rank, commitOf(codec.ScopeLocal, rapid.SampledFrom([]string{"a=1", "b=1"}).Draw(rt, "pair")))
			case 6:
				ask(rank, getOf(other, rapid.SampledFrom([]string{"a", "b", ""}).Draw(rt, "key"), seconds(2)))
			case 7:
				ask(rank, &codec.FinalizeRequest{})
			case 8:
				step(event{kind: evClosed, conn: w.conns[rank]})
				for r := range asked {
					if r.conn == w.conns[rank] && answered[r] == 0 {
						delete(asked, r)
					}
				}
				delete(w.conns, rank)
			case 9:
				if rapid.Bool().Draw(rt, "exits") {
					step(event{kind: evExited, proc: first(other)})
				}
				w.now += 50
				step(event{kind: evTick})
			}
		}
		for r := range n {
			step(event{kind: evExited, proc: first(codec.Rank(r))})
		}
		w.now += 10000
		step(event{kind: evTick})
		for r := range asked {
			// a process that finalizes gives up the pending requests of its other threads
			if p := w.core.conns[r.conn]; p != nil && answered[r] == 0 && p.hasLink(r.conn) {
				rt.Fatalf("request %v was not answered", r)
			}
		}
		for r, times := range answered {
			if times > 1 {
				rt.Fatalf("request %v was answered %d times", r, times)
			}
		}
		if len(w.core.fences.bySet) != 0 || len(w.core.gets.waiting) != 0 || w.core.deadline() != 0 {
			rt.Fatalf("kept %d fences, %d gets, deadline %d", len(w.core.fences.bySet), len(w.core.gets.waiting), w.core.deadline())
		}
	})
}
