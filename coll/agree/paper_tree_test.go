package agree

import (
	"slices"
	"testing"
)

// Section 4: "The tree structure remains static between successful completions of
// the algorithm. Upon successful completion, the agreed upon list of failed
// processes is used to rebalance the tree structure."
func TestRebalancing(t *testing.T) {
	t.Parallel()
	for _, rebalance := range []bool{false, true} {
		for _, algorithm := range []Algorithm{Log, EarlyReturning} {
			script(t, Config{Algorithm: algorithm, N: 8, Rebalance: rebalance}, func(w *world) {
				w.kill(4)
				w.tellAll(4)
				w.calls(0, 1, 2, 3, 5, 6, 7)
				w.flow()
				w.outcome(1, Decided, 0, 1, 2, 3, 5, 6, 7)
				w.call(7)
				parent := 6
				if rebalance { // node 6 of seven, below node 4
					parent = 5
				}
				if len(w.links[[2]int{7, parent}]) != 1 {
					w.fail("7 sends %v, want one message to %d", w.links, parent)
				}
				w.calls(0, 1, 2, 3, 5, 6)
				w.flow()
				w.outcome(2, Decided, 0, 1, 2, 3, 5, 6, 7)
			})
		}
	}
}

// Section 4's trees change at success only. A member that saw a success of which
// the survivors know nothing votes in a tree that they do not have.
func TestVoteInAnotherTree(t *testing.T) {
	t.Parallel()
	script(t, Config{Algorithm: Log, N: 8, Rebalance: true, Promote: true}, func(w *world) {
		w.kill(1)
		w.tell(0, 1)
		w.calls(0, 2, 3, 4, 5, 6, 7)
		w.votes()
		w.pass(0, 4)
		w.outcome(1, Decided, 0, 4)
		w.call(4)
		w.pending(4, 3, MsgVote) // without 1 it is node 3, below node 2
		w.lost(0)
		w.kill(4)
		w.cut([2]int{4, 5}, 0)
		w.cut([2]int{4, 6}, 0)
		w.tell(2, 0)
		w.tell(2, 1)
		w.tell(2, 4)
		w.flow(3)
		w.pass(2, 3)
		w.outcome(1, Undecided, 2, 3)
		w.call(3) // without 0 it is node 2 and has the child 4, at node 3
		w.pass(4, 3)
		if w.procs[3].m.two.now.voted {
			w.fail("3 votes without a vote for its tree from 4")
		}
		w.tellAll(0, 1, 4)
		w.calls(2, 5, 6, 7)
		w.flow()
		w.outcome(1, Undecided, 2, 3, 5, 6, 7)
		w.outcome(2, Undecided, 2, 3, 5, 6, 7) // whose coordinator was 1
		w.calls(2, 3, 5, 6, 7)
		w.flow()
		w.outcome(3, Decided, 2, 3, 5, 6, 7)
	})
}

// Section 4: dependent children "do not need to be queried since they cannot make
// a different decision than that of their parent". But they may hear of the end of
// a round before it, from the next round; then they tell it.
func TestChildKnowsFirst(t *testing.T) {
	t.Parallel()
	eight(t, func(w *world) {
		w.calls(1, 3, 5, 7) // 2, 4 and 6 have not voted
		w.call(2)
		w.pass(3, 2) // 2 and 3 have
		w.lost(0)
		w.tell(1, 0)
		w.tell(2, 0)
		w.to(2, msgTermQuery, 1, 4)
		w.call(4)
		w.tell(4, 0)
		w.outcome(1, Undecided, 4)
		w.call(4) // in the next round 3 is below 1 and 4 is below 3
		w.flow(1, 2, 3)
		w.call(6)
		w.call(5)
		w.call(7)
		w.flow(1, 2, 3)
		w.outcome(1, 0, 2, 3)
		w.pending(4, 3, MsgVote)
		w.cut([2]int{4, 2}, 0)
		w.cut([2]int{4, 1}, 0)
		w.pass(4, 3)
		w.outcome(1, Undecided, 3)
		w.pending(3, 2, msgDecision)
		w.pass(3, 2)
		w.outcome(1, Undecided, 2)
	})
}

// The same, further down: who hears of the end from below tells the one above, and
// that one the next. Those who know do not call again, so nobody learns it otherwise.
func TestGrandchildKnowsFirst(t *testing.T) {
	t.Parallel()
	script(t, Config{Algorithm: Log, N: 9}, func(w *world) {
		w.calls(0, 1, 2, 3, 4, 5, 6, 7)
		w.votes()
		w.lost(0)
		w.tell(8, 0)
		w.call(8)
		w.outcome(1, Undecided, 8)
		w.call(8)
		w.pending(8, 7, MsgVote) // without 0 it is node 7, below node 6
		w.pass(8, 7)
		w.lost(8)
		w.outcome(1, Undecided, 7)
		w.tellAll(0, 8)
		w.flow()
		w.outcome(1, Undecided, 1, 2, 3, 4, 5, 6, 7)
	})
}

// An orphan that enters after its parent's death votes to its grandparent, which may not know
// of the death when it ends the round: it tells the orphan, and tells it once.
func TestOrphanOfAnUnknownDeath(t *testing.T) {
	t.Parallel()
	eight(t, func(w *world) {
		w.lost(6)
		w.tell(7, 6)
		w.call(7)
		w.pending(7, 4, MsgVote)
		w.put([2]int{7, 4}, w.links[[2]int{7, 4}][0])
		w.pass(7, 4)
		w.pass(7, 4)
		w.lost(0)
		w.tell(4, 0)
		w.call(4)
		w.outcome(1, Undecided, 4)
		w.pending(4, 7, msgDecision)
		w.pass(4, 7)
		w.outcome(1, Undecided, 7)
	})
}

// The decider's list counts too: who dies unheard is in it.
func TestDeciderListsTheDead(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{Linear, Log, EarlyReturning} {
		script(t, Config{Algorithm: algorithm, N: 8}, func(w *world) {
			w.calls(0, 1, 2, 3, 4, 6, 7)
			w.kill(5)
			w.flow()
			w.tellAll(5)
			w.flow()
			w.outcome(1, Decided, 0, 1, 2, 3, 4, 6, 7)
			if got := w.procs[3].out[0].Failed; !slices.Equal(got, []Node{5}) {
				w.fail("failed %v, want 5", got)
			}
		})
	}
}

// An UNDECIDED round takes its dead coordinator away, and nobody else: that is all
// that survivors agree on.
func TestNextCoordinator(t *testing.T) {
	t.Parallel()
	eight(t, func(w *world) {
		w.kill(0)
		w.kill(4)
		w.tellAll(0, 4)
		w.calls(1, 2, 3, 5, 6, 7)
		w.outcome(1, Undecided, 1, 2, 3, 5, 6, 7)
		w.calls(1, 2, 3, 5, 6, 7)
		w.flow()
		w.outcome(2, Decided, 1, 2, 3, 5, 6, 7)
		if got := w.procs[7].out[1].Failed; !slices.Equal(got, []Node{0, 4}) {
			w.fail("failed %v, want 0 and 4", got)
		}
	})
}

// Section 3: the message complexity of the log-scaling variant is "O(2 log(n))",
// where the linear one has two hops and n messages at one member.
func TestDepth(t *testing.T) {
	t.Parallel()
	for levels, n := 1, 2; n <= 64; levels, n = levels+1, 2*n {
		for _, cfg := range []Config{{Algorithm: Linear, N: n}, {Algorithm: Log, N: n}, {Algorithm: EarlyReturning, N: n}} {
			script(t, cfg, func(w *world) {
				for p := range n {
					w.call(p)
				}
				hops := 0
				for ; len(w.keys) > 0; hops++ {
					for _, k := range slices.Clone(w.keys) {
						w.pass(k[0], k[1])
					}
				}
				want := 2 * levels
				if cfg.Algorithm == Linear {
					want = 2
				}
				if hops != want {
					w.fail("%d hops, want %d", hops, want)
				}
			})
		}
	}
}
