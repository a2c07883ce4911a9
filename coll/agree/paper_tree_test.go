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
			runScript(t, Config{Algorithm: algorithm, N: 8, Rebalance: rebalance}, func(w *world) {
				w.kill(4)
				w.tellAll(4)
				w.callAll(0, 1, 2, 3, 5, 6, 7)
				w.passAll()
				w.wantOutcome(1, Decided, 0, 1, 2, 3, 5, 6, 7)
				w.call(7)
				parent := 6
				if rebalance { // node 6 of seven, below node 4
					parent = 5
				}
				if len(w.links[[2]int{7, parent}]) != 1 {
					w.fail("7 sends %v, want one message to %d", w.links, parent)
				}
				w.callAll(0, 1, 2, 3, 5, 6)
				w.passAll()
				w.wantOutcome(2, Decided, 0, 1, 2, 3, 5, 6, 7)
			})
		}
	}
}

// Section 4's trees change only after a success. A member that saw a success unknown to the
// survivors votes in a tree that they do not have.
func TestVoteInAnotherTree(t *testing.T) {
	t.Parallel()
	runScript(t, Config{Algorithm: Log, N: 8, Rebalance: true, Promote: true}, func(w *world) {
		w.kill(1)
		w.tell(0, 1)
		w.callAll(0, 2, 3, 4, 5, 6, 7)
		w.passVotes()
		w.pass(0, 4)
		w.wantOutcome(1, Decided, 0, 4)
		w.call(4)
		w.wantPending(4, 3, MsgVote) // without 1 it is node 3, below node 2
		w.killSilently(0)
		w.kill(4)
		w.cut([2]int{4, 5}, 0)
		w.cut([2]int{4, 6}, 0)
		w.tell(2, 0)
		w.tell(2, 1)
		w.tell(2, 4)
		w.passAll(3)
		w.pass(2, 3)
		w.wantOutcome(1, Undecided, 2, 3)
		w.call(3) // without 0 it is node 2 and has the child 4, at node 3
		w.pass(4, 3)
		if w.procs[3].m.two.now.voted {
			w.fail("3 votes without a vote for its tree from 4")
		}
		w.tellAll(0, 1, 4)
		w.callAll(2, 5, 6, 7)
		w.passAll()
		w.wantOutcome(1, Undecided, 2, 3, 5, 6, 7)
		w.wantOutcome(2, Undecided, 2, 3, 5, 6, 7) // whose coordinator was 1
		w.callAll(2, 3, 5, 6, 7)
		w.passAll()
		w.wantOutcome(3, Decided, 2, 3, 5, 6, 7)
	})
}

// Section 4: dependent children "do not need to be queried since they cannot make a different
// decision than that of their parent". But a child may learn the end of a round before its parent
// does, from the next round. It then tells the parent.
func TestChildKnowsFirst(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.callAll(1, 3, 5, 7) // 2, 4 and 6 have not voted yet
		w.call(2)
		w.pass(3, 2) // 2 and 3 have voted
		w.killSilently(0)
		w.tell(1, 0)
		w.tell(2, 0)
		w.wantSentTo(2, msgTermQuery, 1, 4)
		w.call(4)
		w.tell(4, 0)
		w.wantOutcome(1, Undecided, 4)
		w.call(4) // in the next round 3 is below 1 and 4 is below 3
		w.passAll(1, 2, 3)
		w.call(6)
		w.call(5)
		w.call(7)
		w.passAll(1, 2, 3)
		w.wantOutcome(1, 0, 2, 3)
		w.wantPending(4, 3, MsgVote)
		w.cut([2]int{4, 2}, 0)
		w.cut([2]int{4, 1}, 0)
		w.pass(4, 3)
		w.wantOutcome(1, Undecided, 3)
		w.wantPending(3, 2, msgDecision)
		w.pass(3, 2)
		w.wantOutcome(1, Undecided, 2)
	})
}

// The same, further down: a member that learns the end from below tells its parent, which tells
// its own. Members that know the end make no further call, so there is no other way to learn it.
func TestGrandchildKnowsFirst(t *testing.T) {
	t.Parallel()
	runScript(t, Config{Algorithm: Log, N: 9}, func(w *world) {
		w.callAll(0, 1, 2, 3, 4, 5, 6, 7)
		w.passVotes()
		w.killSilently(0)
		w.tell(8, 0)
		w.call(8)
		w.wantOutcome(1, Undecided, 8)
		w.call(8)
		w.wantPending(8, 7, MsgVote) // without 0 it is node 7, below node 6
		w.pass(8, 7)
		w.killSilently(8)
		w.wantOutcome(1, Undecided, 7)
		w.tellAll(0, 8)
		w.passAll()
		w.wantOutcome(1, Undecided, 1, 2, 3, 4, 5, 6, 7)
	})
}

// An orphan that enters after its parent's death votes to its grandparent. The grandparent may end
// the round without knowing of the death; then it tells the orphan the result exactly once.
func TestOrphanOfAnUnknownDeath(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.killSilently(6)
		w.tell(7, 6)
		w.call(7)
		w.wantPending(7, 4, MsgVote)
		w.put([2]int{7, 4}, w.links[[2]int{7, 4}][0])
		w.pass(7, 4)
		w.pass(7, 4)
		w.killSilently(0)
		w.tell(4, 0)
		w.call(4)
		w.wantOutcome(1, Undecided, 4)
		w.wantPending(4, 7, msgDecision)
		w.pass(4, 7)
		w.wantOutcome(1, Undecided, 7)
	})
}

// The decider's own list counts as well: it contains a member that died without sending anything.
func TestDeciderListsTheDead(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{Linear, Log, EarlyReturning} {
		runScript(t, Config{Algorithm: algorithm, N: 8}, func(w *world) {
			w.callAll(0, 1, 2, 3, 4, 6, 7)
			w.kill(5)
			w.passAll()
			w.tellAll(5)
			w.passAll()
			w.wantOutcome(1, Decided, 0, 1, 2, 3, 4, 6, 7)
			if got := w.procs[3].out[0].Failed; !slices.Equal(got, []Node{5}) {
				w.fail("failed %v, want 5", got)
			}
		})
	}
}

// An UNDECIDED round reports only its dead coordinator, because that is all that the survivors
// agree on.
func TestNextCoordinator(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.kill(0)
		w.kill(4)
		w.tellAll(0, 4)
		w.callAll(1, 2, 3, 5, 6, 7)
		w.wantOutcome(1, Undecided, 1, 2, 3, 5, 6, 7)
		w.callAll(1, 2, 3, 5, 6, 7)
		w.passAll()
		w.wantOutcome(2, Decided, 1, 2, 3, 5, 6, 7)
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
			runScript(t, cfg, func(w *world) {
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
