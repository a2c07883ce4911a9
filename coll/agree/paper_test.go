package agree

import (
	"slices"
	"testing"
)

// The paper: Hursey, Naughton, Vallee, Graham, A Log-Scaling Fault Tolerant Agreement Algorithm
// for a Fault Tolerant MPI, EuroMPI 2011. Most tests below use the binomial tree of eight members:
// 0 has the children 1, 2 and 4; 2 has 3; 4 has 5 and 6; and 6 has 7.

// runScript runs body on a group in which nothing happens by itself.
func runScript(t *testing.T, cfg Config, body func(w *world)) {
	t.Helper()
	w := newWorld(cfg, 1, true)
	w.rounds = 9
	defer func() {
		if v := recover(); v != nil {
			f, ok := v.(failure)
			if !ok {
				panic(v)
			}
			for _, l := range w.log {
				t.Log(l)
			}
			t.Fatal(f)
		}
	}()
	body(w)
}

func runOnEight(t *testing.T, body func(w *world)) {
	t.Helper()
	runScript(t, Config{Algorithm: Log, N: 8}, body)
}

func (w *world) callAll(list ...int) {
	for _, p := range list {
		w.call(p)
	}
}

// passAll delivers all messages except those to the held members.
func (w *world) passAll(held ...int) {
	for {
		i := slices.IndexFunc(w.keys, func(k [2]int) bool { return !slices.Contains(held, k[1]) })
		if i < 0 {
			return
		}
		w.pass(w.keys[i][0], w.keys[i][1])
	}
}

// passVotes delivers all votes on their way up, and no decision.
func (w *world) passVotes() {
	for p := w.n - 1; p > 0; p-- {
		for q := range p {
			for len(w.links[[2]int{p, q}]) > 0 {
				w.pass(p, q)
			}
		}
	}
}

// killSilently kills p and drops all its messages on the way.
func (w *world) killSilently(p int) {
	w.kill(p)
	for q := range w.n {
		if k := [2]int{p, q}; len(w.links[k]) > 0 {
			w.cut(k, 0)
		}
	}
}

// tellAll tells all living members that the members in list are dead.
func (w *world) tellAll(list ...int) {
	for _, q := range list {
		for p := range w.n {
			if w.procs[p].alive && slices.Contains(w.news, [2]int{p, q}) {
				w.tell(p, q)
			}
		}
	}
}

// wantPending checks that the messages on the way from p to q are of these kinds.
func (w *world) wantPending(p, q int, want ...MsgKind) {
	var got []MsgKind
	for _, m := range w.links[[2]int{p, q}] {
		got = append(got, m.Kind)
	}
	if !slices.Equal(got, want) {
		w.fail("from %d to %d: messages %v, want %v", p, q, got, want)
	}
}

// wantSentTo checks that p has messages of kind on the way to these members and to no other.
func (w *world) wantSentTo(p int, kind MsgKind, want ...int) {
	var got []int
	for q := range w.n {
		for _, m := range w.links[[2]int{p, q}] {
			if m.Kind == kind {
				got = append(got, q)
			}
		}
	}
	if !slices.Equal(got, want) {
		w.fail("from %d: messages %d to %v, want %v", p, kind, got, want)
	}
}

// wantOutcome checks that these members returned from round seq with this outcome, or did not
// return if want is 0.
func (w *world) wantOutcome(seq int, want Outcome, list ...int) {
	for _, p := range list {
		var got Outcome
		if out := w.procs[p].out; len(out) >= seq {
			got = out[seq-1].Outcome
		}
		if got != want {
			w.fail("round %d: outcome %d at %d, want %d", seq, got, p, want)
		}
	}
}

// Section 3: "the vote request round can be eliminated ... the unsolicited vote
// optimization".
func TestUnsolicitedVote(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.call(0)
		w.wantSentTo(0, MsgVote)
		if len(w.keys) > 0 {
			w.fail("the coordinator sends %v", w.links)
		}
		w.call(7)
		w.wantPending(7, 6, MsgVote)
		w.call(6) // the vote of its child is on the way
		w.wantSentTo(6, MsgVote)
		w.pass(7, 6)
		w.wantPending(6, 4, MsgVote)
	})
	runScript(t, Config{Algorithm: Linear, N: 8}, func(w *world) {
		w.call(7)
		w.wantPending(7, 0, MsgVote)
	})
}

// Section 3: the coordinator "gathers the contributions of each participant
// (skipping failed processes)", and the decision is a "list of globally known
// failed processes constructed from the local list at each process".
func TestDecisionHoldsAllLists(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.kill(5)
		w.kill(1)
		w.tell(4, 5) // only member 4 knows
		w.tell(0, 1)
		w.callAll(0, 2, 3, 4, 6, 7)
		w.passAll()
		for _, p := range []int{0, 2, 3, 4, 6, 7} {
			w.wantOutcome(1, Decided, p)
			if got := w.procs[p].out[0].Failed; !slices.Equal(got, []Node{1, 5}) {
				w.fail("member %d: failed %v, want 1 and 5", p, got)
			}
		}
	})
}

// Section 3: "If the coordinator fails before a participant sends its vote, then
// the participant can safely decide UNDECIDED and exit the algorithm". Section 4
// says so of parents ({Parent_B, Child_A}).
func TestCoordinatorDiesBeforeTheVote(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{Linear, Log} {
		runScript(t, Config{Algorithm: algorithm, N: 8}, func(w *world) {
			w.kill(0)
			w.tell(3, 0)
			w.call(3)
			w.wantOutcome(1, Undecided, 3)
		})
	}
	runOnEight(t, func(w *world) {
		w.callAll(4, 5) // 4 waits for 6
		w.pass(5, 4)
		w.kill(0)
		w.tell(4, 0)
		w.wantOutcome(1, Undecided, 4)
		w.wantSentTo(4, msgDecision, 5, 6)
		w.pass(4, 5)
		w.wantOutcome(1, Undecided, 5)
		w.pass(4, 6)
		w.wantOutcome(1, 0, 6) // 6 will not vote
		w.call(6)
		w.wantOutcome(1, Undecided, 6)
		w.wantSentTo(6, MsgVote)
	})
}

// Section 3: "the uncertain participant linearly asks all other participants if
// they have decided or not. If a peer participant has decided (either DECIDED or
// UNDECIDED), then the uncertain participant decides with them. Otherwise, if no
// other alive participant has decided, then this process blocks".
func TestUncertainParticipant(t *testing.T) {
	t.Parallel()
	four := Config{Algorithm: Linear, N: 4}
	runScript(t, four, func(w *world) {
		w.callAll(0, 1, 2, 3)
		w.passAll(1, 2, 3)
		w.pass(0, 1)
		w.killSilently(0)
		w.tell(2, 0)
		w.wantSentTo(2, msgTermQuery, 1, 3)
		w.pass(2, 1)
		w.pass(1, 2)
		w.wantOutcome(1, Decided, 1, 2)
	})
	runScript(t, four, func(w *world) {
		w.callAll(0, 1, 2) // 3 has not voted, and need not know why it is asked
		w.passAll()
		w.killSilently(0)
		w.tell(2, 0)
		w.passAll()
		w.wantOutcome(1, Undecided, 1, 2)
		w.call(3)
		w.wantOutcome(1, Undecided, 3)
	})
	runScript(t, four, func(w *world) {
		w.callAll(0, 1, 2, 3)
		w.passAll(1, 2, 3)
		w.killSilently(0)
		w.tellAll(0)
		w.passAll()
		w.wantOutcome(1, 0, 1, 2, 3)
		for _, p := range []int{1, 2, 3} {
			if !w.procs[p].blocked {
				w.fail("member %d is not blocked", p)
			}
		}
	})
}

// Section 3: "a runtime option is provided to allow the user to promote the
// uncertain state to an UNDECIDED decision".
func TestPromotion(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{Linear, Log} {
		runScript(t, Config{Algorithm: algorithm, N: 8, Promote: true}, func(w *world) {
			w.callAll(0, 1, 2, 3, 4, 5, 6, 7)
			w.passVotes()
			w.wantOutcome(1, Decided, 0)
			w.killSilently(0)
			w.tellAll(0)
			w.passAll()
			w.wantOutcome(1, Undecided, 1, 2, 3, 4, 5, 6, 7)
		})
	}
}

// Section 3: two log entries: "One entry stores the last decision made by the
// group used to catchup a process"; Section 4: "If the new parent had
// successfully completed the collective operation, then it replies with the
// decision value and the child decides with the new parent".
func TestLogHelpsLaggards(t *testing.T) {
	t.Parallel()
	for _, rebalance := range []bool{false, true} {
		runScript(t, Config{Algorithm: Log, N: 8, Rebalance: rebalance}, func(w *world) {
			w.kill(1)
			w.tell(0, 1)
			w.callAll(0, 2, 3, 4, 5, 6, 7)
			w.passAll(4) // all messages except the decision for 4
			for len(w.procs[0].out) == 0 {
				w.pass(5, 4)
				w.pass(6, 4)
				w.pass(4, 0)
			}
			w.killSilently(4)
			w.passAll()
			w.callAll(0, 2, 3) // the next round, in a different tree
			w.tell(5, 4)
			w.wantSentTo(5, msgQuery, 0)
			w.passAll()
			w.wantOutcome(1, Decided, 5)
			w.wantOutcome(1, 0, 6)
			w.tellAll(4)
			w.passAll()
			w.wantOutcome(1, Decided, 6, 7)
			w.callAll(5, 6, 7)
			w.passAll()
			w.wantOutcome(2, Decided, 0, 2, 3, 5, 6, 7)
		})
	}
}

// Section 4: "parent participants of a failed child must recursively adopt the
// grandchildren", in the gather operation ({Coord_A, Parent_A}).
func TestAdoptionInGather(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.kill(4)
		w.kill(6)
		w.callAll(0, 1, 2, 3, 5, 7)
		w.passAll()
		w.tell(0, 4)
		w.tell(0, 6)
		w.wantOutcome(1, 0, 0) // the votes of 5 and 7 are lost
		w.tell(5, 4)
		w.passAll()
		w.wantOutcome(1, 0, 0)
		w.tell(7, 6)
		w.tell(7, 4)
		w.passAll()
		w.wantOutcome(1, Decided, 0, 1, 2, 3, 5, 7)
	})
}

// The same in the broadcast operation ({Coord_B, Parent_D}).
func TestAdoptionInBroadcast(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.callAll(0, 2, 3, 4, 5, 6, 7)
		w.passAll() // the votes of all except 1 have reached the coordinator
		w.kill(4)
		w.kill(6)
		w.tell(0, 4)
		w.tell(0, 6)
		w.call(1)
		w.pass(1, 0)
		w.wantSentTo(0, msgDecision, 1, 2, 5, 7)
		w.passAll()
		w.wantOutcome(1, Decided, 0, 1, 2, 3, 5, 7)
	})
}

// Section 4: "If the dependent child has not yet voted (in {Parent_B, Child_A})
// then the new parent tells it to participate in the gather phase".
func TestOrphanThatHasNotVoted(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.callAll(0, 6) // 6 waits for 7
		w.kill(4)
		w.tell(6, 4)
		w.wantPending(6, 0, msgQuery)
		w.pass(6, 0)
		w.wantPending(0, 6, msgGather)
		w.call(7)
		w.pass(7, 6)
		w.wantPending(6, 0) // not before 6 is told to vote
		w.pass(0, 6)
		w.wantPending(6, 0, MsgVote)
	})
}

// Section 4: "If the child has voted (in {Parent_C, Child_B}), the new parent
// tells it to either participate in the gather phase (if the old parent failed
// before propagating the message up the tree), or the decision phase (if the old
// parent failed after propagating the message up the tree)".
func TestOrphanThatHasVoted(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.callAll(0, 6, 7)
		w.pass(7, 6)
		w.pass(6, 4)
		w.kill(4) // before its own vote
		w.tell(6, 4)
		w.pass(6, 0)
		w.wantPending(0, 6, msgGather)
		w.pass(0, 6)
		w.wantPending(6, 0, MsgVote)
	})
	runOnEight(t, func(w *world) {
		w.callAll(0, 4, 5, 6, 7)
		w.passAll() // the vote of 4 has reached the coordinator, which waits for 1 and 2
		w.kill(4)
		w.tell(6, 4)
		w.pass(6, 0)
		w.wantPending(0, 6, msgWait)
		w.callAll(1, 2, 3)
		w.passAll()
		w.wantOutcome(1, Decided, 6, 7)
		w.wantOutcome(1, 0, 5) // 5 does not know of the death
		w.tell(5, 4)
		w.passAll()
		w.wantOutcome(1, Decided, 0, 1, 2, 3, 5, 6, 7)
	})
}

// Section 4: "If the new parent also fails, the child queries the next alive
// parent".
func TestNewParentFailsToo(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.callAll(0, 7)
		w.kill(6)
		w.tell(7, 6)
		w.wantSentTo(7, msgQuery, 4)
		w.kill(4)
		w.tell(7, 4)
		w.wantSentTo(7, msgQuery, 0)
	})
}

// Section 4: "the uncertain participant only asks the parent participants
// dependent upon the coordinator", "which may involve a parent at a lower level in
// the tree for cases where a first level parent failed". Without the optimisation
// it asks all.
func TestTerminationAsksDependants(t *testing.T) {
	t.Parallel()
	for _, askAll := range []bool{false, true} {
		runScript(t, Config{Algorithm: Log, N: 8, AskAll: askAll}, func(w *world) {
			w.callAll(1, 2, 3, 4, 5, 6, 7)
			w.passAll()
			w.killSilently(0)
			w.killSilently(4)
			w.tell(6, 0)
			w.wantSentTo(6, msgTermQuery)
			w.tell(6, 4)
			want := []int{1, 2, 5}
			if askAll {
				want = []int{1, 2, 3, 5, 7}
			}
			w.wantSentTo(6, msgTermQuery, want...)
			w.tell(7, 0)
			w.tell(7, 4)
			w.wantSentTo(7, msgTermQuery) // its parent lives
		})
	}
}

// Section 4: "When a parent participant makes a decision, it must propagate that
// decision down the tree using the reliable broadcast operation", and "children in
// the sub-tree below the parent only decide with their direct ancestors".
func TestTerminationPropagates(t *testing.T) {
	t.Parallel()
	runOnEight(t, func(w *world) {
		w.callAll(1, 2, 3, 4, 5, 6, 7)
		w.passAll()
		w.call(0)
		w.pass(0, 1)
		w.killSilently(0)
		w.tellAll(0)
		w.passAll()
		w.wantOutcome(1, Decided, 1, 2, 3, 4, 5, 6, 7)
	})
}
