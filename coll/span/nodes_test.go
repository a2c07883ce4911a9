package span

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/coll/ftco"
	"github.com/goshmem/goshmem/internal/fold"
	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/sim/explore"
)

// cluster is a case for the explorer whose members are nodes, with their PEs in them. What PEs do in the shared memory of their
// node are choices of the node's own. So no state tells apart which PEs of other nodes have learned of a death, and searches of
// three nodes with two PEs each end.
type cluster struct {
	nodes, pes, radix, steps int
	fine                     bool   // stores, and loads of the agent, are events of their own
	votes                    bool   // FoldBits, otherwise FoldSteps
	folds                    bool   // PEs give elements, otherwise pieces or bits
	mortal                   uint64 // the PEs that may die, at node*pes+index
	leaves, givesUp          uint64 // the PEs that may mark their words in place of entering a step
}

func (s *cluster) N() int     { return s.nodes }
func (s *cluster) Calls() int { return s.steps }
func (s *cluster) String() string {
	text := fmt.Sprintf("%d nodes of %d k=%d steps=%d mortal=%b leave=%b giveup=%b", s.nodes, s.pes, s.radix, s.steps, s.mortal, s.leaves, s.givesUp)
	if s.fine {
		text += " fine"
	}
	if s.votes {
		text += " votes"
	}
	if s.folds {
		text += " folds"
	}
	return text
}

func (s *cluster) Member(me int) (explore.Member, error) {
	c := Config{Nodes: s.nodes, Me: me, Members: s.pes, Radix: s.radix, Least: RecordBytes, Fold: FoldSteps, Check: CheckSteps}
	if s.votes {
		c.Fold, c.Check = FoldBits, nil
	}
	p, err := New(c)
	if err != nil {
		return nil, err
	}
	n := &node{sys: s, me: me, part: p, pes: make([]member, s.pes)}
	n.proceed(nil) // nobody has entered
	return n, nil
}

// number returns the number of a PE in the team. The PEs of one node are not neighbors.
func (s *cluster) number(node, index int) int { return index*s.nodes + node }

// record returns what a PE contributes to a step. Some steps have faults, others statuses, and not all PEs give the same words.
func (s *cluster) record(node, index int, seq uint64) Record {
	i := s.number(node, index)
	r := Record{First: [4]uint64{seq, uint64(i * i % 3)}, And: ^(1 << i), Member: int32(i), Differs: -1, Who: int32(i), Give: uint16(len(s.gives(i, seq)))}
	if s.folds {
		r.Op, r.Elem = howOf(i, seq)
	}
	if !s.folds && seq%2 == 0 || s.folds && seq%8 == 3 { // the other steps show what elements are folded to
		r.Fault = Fault((i + int(seq)) * 2 % 5)
	}
	if r.Fault != NoFault { // such a member gives no elements
		r.Op, r.Elem = fold.KindUser, fold.NoElem
	}
	r.Status = uint32(i * 2 % 3)
	return r
}

// gives returns what a PE gives besides: some give nothing.
func (s *cluster) gives(i int, seq uint64) []byte {
	if s.folds {
		return elementsOf(i, seq)
	}
	data := make([]byte, (3*i+int(seq))%5)
	for at := range data {
		data[at] = byte(1<<(i%8) + at*int(seq))
	}
	return data
}

// contribution returns all that a PE contributes to a step.
func (s *cluster) contribution(node, index int, seq uint64) []byte {
	r, given := s.record(node, index, seq), s.gives(s.number(node, index), seq)
	data := slices.Clone(r.Bytes())
	if s.votes || r.Op != fold.KindUser {
		return append(data, given...)
	}
	return AppendGiven(data, node, index, given)
}

// member is a PE.
type member struct {
	entered    int
	wrote      bool // fine: the contribution to the next step
	dead       bool
	known      bool // the agent knows of its death
	cell, word uint64
}

// node is a part with its driver, and the PEs of the node.
type node struct {
	sys     *cluster
	me      int
	part    *Part
	pes     []member
	results []*Result // the last one is in the result slot
}

// The choices of a PE. A node has perPE choices for each.
const (
	enters = iota
	leaves
	givesUp
	dies
	isMissed // the agent learns of its death
	perPE
)

// answers is the choice that the agent answers the next question, if stores and loads are events of their own.
const answers = explore.MostOwn - 1

// Own returns what may happen on the node. PEs need not die.
func (n *node) Own() (set, optional uint64) {
	s := n.sys
	for i := range n.pes {
		pe, bit := &n.pes[i], uint64(1)<<(n.me*s.pes+i)
		add := func(choice int, can bool) {
			if can {
				set |= 1 << (i*perPE + choice)
			}
		}
		enters0 := !pe.dead && pe.word&board.Marks == 0 && pe.entered < s.steps && len(n.results) >= pe.entered
		add(enters, enters0)
		add(leaves, enters0 && !pe.wrote && s.leaves&bit != 0)
		add(givesUp, enters0 && !pe.wrote && s.givesUp&bit != 0)
		if !pe.dead && s.mortal&bit != 0 {
			add(dies, true)
			optional |= 1 << (i*perPE + dies)
		}
		add(isMissed, pe.dead && !pe.known)
	}
	if _, what := n.part.Next(); s.fine && what != Nothing {
		set |= 1 << answers
	}
	return set, optional
}

// Choose makes a choice.
func (n *node) Choose(number int, out []explore.Effect) []explore.Effect {
	if number == answers {
		return n.proceed(n.answer(out))
	}
	pe := &n.pes[number/perPE]
	switch number % perPE {
	case enters:
		return n.enter(pe, out)
	case leaves:
		pe.word |= board.Left
	case givesUp:
		pe.word |= board.GaveUp
	case dies:
		pe.dead = true
		return out
	case isMissed:
		pe.known = true
	}
	n.part.Look()
	return n.proceed(out)
}

// enter lets a PE take the result of the last step and enter the next one.
func (n *node) enter(pe *member, out []explore.Effect) []explore.Effect {
	next := uint64(pe.entered) + 1
	if pe.entered > 0 && n.results[len(n.results)-1].Seq != uint64(pe.entered) {
		return n.broken(out, "the result of step %d is in the slot, PE waits for %d", n.results[len(n.results)-1].Seq, pe.entered)
	}
	if n.sys.fine && !pe.wrote {
		pe.wrote, pe.cell = true, next
		return out
	}
	pe.wrote, pe.cell, pe.word = false, next, next
	pe.entered++
	n.part.Look()
	return n.proceed(out)
}

func (n *node) broken(out []explore.Effect, format string, args ...any) []explore.Effect {
	return append(out, explore.Effect{Broken: fmt.Errorf("node %d: "+format, append([]any{n.me}, args...)...)})
}

// proceed answers all questions, unless these are events of their own. It makes the part ask its next one in any case: that
// may change the part, and Own must not.
func (n *node) proceed(out []explore.Effect) []explore.Effect {
	for range mostQuestions {
		if _, what := n.part.Next(); what == Nothing || n.sys.fine {
			return out
		}
		out = n.answer(out)
	}
	return n.broken(out, "more than %d questions", mostQuestions)
}

// mostQuestions is more than a part asks in succession.
const mostQuestions = 100

// answer answers what the part asks for.
func (n *node) answer(out []explore.Effect) []explore.Effect {
	switch i, what := n.part.Next(); what {
	case Word:
		n.part.SetWord(n.pes[i].word)
	case News:
		n.part.SetDead(n.pes[i].known)
	case Data:
		var data []byte
		for i := range n.pes {
			if !n.part.Entered(i) {
				continue
			}
			one := n.sys.contribution(n.me, i, n.pes[i].cell)
			if data == nil {
				data = one
			} else {
				data = n.part.cfg.Fold(data, one)
			}
		}
		return n.perform(n.part.SetData(data, nil), out)
	}
	return out
}

func (n *node) perform(outputs []Output, out []explore.Effect) []explore.Effect {
	for _, o := range outputs {
		switch o.Kind {
		case Send:
			out = append(out, explore.Effect{To: o.To, Msg: &letter{body: o.Message.Append(nil)}})
		case Deliver:
			if n.results = append(n.results, o.Result); o.Result.Seq != uint64(len(n.results)) || len(n.results) > n.sys.steps+1 {
				return n.broken(out, "step %d of %d ends after %d others", o.Result.Seq, n.sys.steps, len(n.results)-1)
			}
		case Wrong:
			return n.broken(out, "%w", o.Err)
		}
	}
	return out
}

// mostValues is for how many steps a part may keep values: the last result, the step under way, and the next one.
const mostValues = 3

func (n *node) Recv(from int, msg explore.Message, out []explore.Effect) []explore.Effect {
	l, ok := msg.(*letter)
	if !ok {
		return n.broken(out, "message %v", msg)
	}
	m, err := ParseMessage(l.body)
	var outputs []Output
	if err == nil {
		outputs, err = n.part.Receive(from, m, nil)
	}
	if err != nil {
		return n.broken(out, "%w", err)
	}
	if len(n.part.values) > mostValues*n.sys.nodes {
		return n.broken(out, "%d values are kept", len(n.part.values))
	}
	return n.proceed(n.perform(outputs, out))
}

func (n *node) PeerFailed(q int, out []explore.Effect) []explore.Effect {
	return n.proceed(n.perform(n.part.NodeDead(q, nil), out))
}

func (n *node) Enter(out []explore.Effect) []explore.Effect { return out }
func (n *node) Tick(out []explore.Effect) []explore.Effect  { return out }
func (n *node) Entered() int                                { return n.sys.steps }
func (n *node) Returned() int                               { return n.sys.steps }
func (n *node) Result(int) string                           { return fmt.Sprint(n.results) }
func (n *node) Remains() explore.Member                     { return nil }

func (n *node) Clone() explore.Member {
	c := *n
	c.part, c.pes, c.results = n.part.clone(), slices.Clone(n.pes), slices.Clip(n.results)
	return &c
}

func (n *node) AppendState(b []byte) []byte {
	b = n.part.appendState(b)
	for _, pe := range n.pes {
		b = fmt.Append(b, pe)
	}
	for _, r := range n.results {
		b = r.appendState(append(b, '/'))
	}
	return b
}

// Check checks the theorem of the package when all has happened.
func (s *cluster) Check(g *explore.Group) error {
	var results []*Result // of a node that lives
	for at, m := range g.Members {
		n, ok := m.(*node)
		if !ok || g.IsDead(at) {
			continue
		}
		for i := range n.pes {
			if pe := &n.pes[i]; !pe.dead && pe.word&board.Marks == 0 && (pe.entered < s.steps || len(n.results) < s.steps) {
				return fmt.Errorf("%w: PE %d on node %d, in step %d", errHang, i, at, pe.entered)
			}
		}
		for i, r := range n.results {
			if i == len(results) {
				results = append(results, r)
				if err := s.checkResult(g, r); err != nil {
					return fmt.Errorf("node %d, step %d: %w", at, i+1, err)
				}
			}
			if first := results[i]; string(r.appendState(nil)) != string(first.appendState(nil)) {
				return fmt.Errorf("%w: step %d: %+v and %+v", errAgree, i+1, *first, *r)
			}
		}
	}
	return nil
}

// checkResult compares a result with what has happened.
func (s *cluster) checkResult(g *explore.Group, r *Result) error {
	if !slices.IsSortedFunc(r.Without, compareExceptions) {
		return fmt.Errorf("%w: exceptions %+v", errOnce, r.Without)
	}
	var counted []int // node*pes+index
	for at := range s.nodes {
		missing := slices.Contains(r.Missing, ftco.Node(at))
		if missing && !g.IsDead(at) {
			return fmt.Errorf("%w: node %d; %+v", errValid, at, *r)
		}
		for i := range s.pes {
			why := exceptionOf(r, at, i)
			switch {
			case missing && why != board.Open:
				return fmt.Errorf("%w: PE %d of node %d is listed, with its node", errOnce, i, at)
			case !missing && why == board.Open:
				counted = append(counted, at*s.pes+i)
			}
			if n, ok := g.Members[at].(*node); ok && !g.IsDead(at) {
				if err := n.pes[i].checkReason(why, r.Seq); err != nil {
					return fmt.Errorf("PE %d of node %d: %w; %+v", i, at, err, *r)
				}
			}
		}
	}
	if s.folds && roundsBy(r.Seq) && len(counted) > 0 {
		return s.checkRounded(counted, r) // Check compares the results of all nodes
	}
	if want := s.expect(counted, r.Seq); string(want) != string(r.Data) || (want == nil) != (r.Data == nil) {
		return fmt.Errorf("%w: PEs %v are not excepted, so want %x; %+v", errOnce, counted, want, *r)
	}
	return nil
}

// exceptionOf returns why a result lacks a PE, or Open.
func exceptionOf(r *Result, node, index int) board.Verdict {
	for _, e := range r.Without {
		if int(e.Node) == node && int(e.Member) == index {
			return e.Why
		}
	}
	return board.Open
}

// checkReason checks the reason why a PE whose node lives is not in the result of a step.
func (pe *member) checkReason(why board.Verdict, seq uint64) error {
	entered := uint64(pe.entered) >= seq
	ok := false
	switch why {
	case board.Open:
		ok = entered
	case board.Died:
		ok = pe.dead && !entered
	case board.HasLeft:
		ok = pe.word&board.Left != 0 && !entered
	case board.HasGivenUp:
		ok = pe.word&board.GaveUp != 0 && !entered
	}
	if !ok {
		return fmt.Errorf("%w: verdict %d of a PE with %+v", errValid, why, *pe)
	}
	return nil
}

// expect returns the data of a step to which the given PEs contribute, ascending, by definition of a record.
func (s *cluster) expect(counted []int, seq uint64) []byte {
	if len(counted) == 0 {
		return nil
	}
	if s.folds {
		return s.expectFolded(counted, seq)
	}
	var records []Record
	var pieces, votes, dead []byte
	for _, at := range counted {
		node, index := at/s.pes, at%s.pes
		records = append(records, s.record(node, index, seq))
		given := s.gives(s.number(node, index), seq)
		if len(given) > 0 {
			pieces = AppendPiece(pieces, node, index, given)
		}
		votes = addBits(votes, given)
		if f := records[len(records)-1].Fault; f == Dead || f == Again {
			dead = addBits(dead, given)
		}
	}
	r := combined(records)
	if s.votes {
		return append(slices.Clone(r.Bytes()), votes...)
	}
	if r.Fault != NoFault {
		return withDead(&r, dead)
	}
	return append(slices.Clone(r.Bytes()), pieces...)
}

// withDead returns the data of a step with a fault.
func withDead(r *Record, dead []byte) []byte {
	data := slices.Clone(r.Bytes())
	if len(dead) > 0 {
		data = AppendPiece(data, deadNode, 0, dead)
	}
	return data
}

// addBits sets the bits of more in bits.
func addBits(bits, more []byte) []byte {
	for i, b := range more {
		if i == len(bits) {
			bits = append(bits, 0)
		}
		bits[i] |= b
	}
	return bits
}

// combined is Fold of records of single members by definition.
func combined(records []Record) Record {
	slices.SortFunc(records, func(a, b Record) int { return int(a.Member - b.Member) })
	r := records[0]
	for _, in := range records {
		r.And &= in.And
		r.Fault, r.Status = max(r.Fault, in.Fault), max(r.Status, in.Status)
		if r.Differs < 0 && in.First != r.First {
			r.Differs, r.Other = in.Member, in.First
		}
	}
	for _, in := range slices.Backward(records) {
		if in.Fault == r.Fault && (r.Fault != NoFault || in.Status == r.Status) {
			r.Who = in.Who
		}
	}
	if r.Fault != NoFault && len(records) > 1 {
		r.Op, r.Elem, r.Give = fold.KindUser, fold.NoElem, 0
	}
	return r
}

// Whatever the order of stores, loads and messages, whichever PE and whichever node die when: all survivors return the same.
func TestExploreNodes(t *testing.T) {
	node, nodes := explore.Faults{Deaths: 1}, explore.Faults{Deaths: 2}
	all := func(s cluster) uint64 { return 1<<(s.nodes*s.pes) - 1 }
	for _, c := range []struct {
		cluster
		faults explore.Faults
		each   bool // of the mortal PEs only one dies, on whatever node: a search for each
		long   bool
	}{
		{cluster: cluster{nodes: 1, pes: 3, radix: 2, steps: 2, fine: true}},
		{cluster: cluster{nodes: 2, pes: 2, radix: 2, steps: 2}, faults: node},
		{cluster: cluster{nodes: 2, pes: 2, radix: 2, steps: 1, fine: true, votes: true}, faults: node},
		{cluster: cluster{nodes: 2, pes: 2, radix: 2, steps: 2, fine: true}, faults: node, each: true, long: true},
		{cluster: cluster{nodes: 3, pes: 1, radix: 2, steps: 3}, faults: node, long: true},
		{cluster: cluster{nodes: 3, pes: 2, radix: 2, steps: 1}, faults: node},
		{cluster: cluster{nodes: 3, pes: 2, radix: 2, steps: 1, folds: true}, faults: node},
		{cluster: cluster{nodes: 2, pes: 2, radix: 2, steps: 2, folds: true}, faults: node},
		{cluster: cluster{nodes: 3, pes: 2, radix: 2, steps: 2, folds: true}, faults: nodes, each: true, long: true},
		{cluster: cluster{nodes: 3, pes: 2, radix: 3, steps: 1, votes: true}, faults: nodes, long: true},
		{cluster: cluster{nodes: 3, pes: 2, radix: 2, steps: 1, fine: true}, faults: node, each: true, long: true},
		{cluster: cluster{nodes: 3, pes: 2, radix: 2, steps: 2}, faults: node, each: true},
		{cluster: cluster{nodes: 3, pes: 2, radix: 2, steps: 2}, faults: nodes, each: true, long: true},
		{cluster: cluster{nodes: 4, pes: 1, radix: 2, steps: 1}, faults: nodes, long: true},
	} {
		if c.long && testing.Short() {
			continue
		}
		for mortal := all(c.cluster); mortal != 0; mortal &= mortal - 1 {
			s := c.cluster
			if s.mortal = mortal; c.each {
				s.mortal = mortal & -mortal
			}
			t.Run(fmt.Sprintf("%v deaths=%d", &s, c.faults.Deaths), func(t *testing.T) {
				t.Parallel()
				search(t, &s, c.faults)
			})
			if !c.each {
				break
			}
		}
	}
}

// The same if members leave the team or give it up.
func TestExploreMarks(t *testing.T) {
	for _, s := range []cluster{
		{nodes: 1, pes: 2, radix: 2, steps: 2, fine: true, mortal: 3, leaves: 1, givesUp: 3},
		{nodes: 2, pes: 2, radix: 2, steps: 2, mortal: 2, leaves: 9, givesUp: 4},
		{nodes: 2, pes: 1, radix: 2, steps: 2, fine: true, mortal: 3, leaves: 3, givesUp: 3},
		{nodes: 3, pes: 2, radix: 2, steps: 1, mortal: 1, leaves: 0o12, givesUp: 0o20},
		{nodes: 2, pes: 2, radix: 2, steps: 2, mortal: 2, leaves: 9, givesUp: 4, folds: true},
	} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			search(t, &s, explore.Faults{Deaths: min(1, s.nodes-1)})
		})
	}
}

// search searches all runs of sys.
func search(t *testing.T, sys explore.System, faults explore.Faults) {
	t.Helper()
	testenv.SkipSerial(t)
	count, failure := explore.Exhaustive(t.Context(), sys, faults)
	if failure != nil {
		t.Fatalf("%v\n%s", failure, explore.Trace(explore.Shrink(failure, faults), faults))
	}
	t.Logf("%+v", count)
	if count.Ends == 0 {
		t.Errorf("no end was reached")
	}
}

// TestRandomNodes runs random orders with more nodes, PEs, deaths and marks.
func TestRandomNodes(t *testing.T) {
	t.Parallel()
	runs := uint64(20000)
	if testing.Short() {
		runs /= 20
	}
	for seed := range runs {
		faults, failure := explore.Random(drawCluster, seed)
		if failure != nil {
			t.Fatalf("seed %d: %s", seed, explore.Trace(explore.Shrink(failure, faults), faults))
		}
	}
}

func drawCluster(rng *rand.Rand) (explore.System, explore.Faults) {
	s := &cluster{
		nodes: 1 + rng.IntN(7), pes: 1 + rng.IntN(4), radix: 2 + rng.IntN(3), steps: 1 + rng.IntN(4),
		fine: rng.IntN(2) == 0, mortal: rng.Uint64(),
	}
	s.votes, s.folds = drawContent(rng.IntN(3))
	if rng.IntN(2) == 0 {
		s.leaves, s.givesUp = rng.Uint64()&rng.Uint64(), rng.Uint64()&rng.Uint64()&rng.Uint64()
	}
	return s, explore.Faults{Deaths: rng.IntN(s.nodes)}
}

// A node has room for the choices of its PEs.
const _ = uint(answers - 4*perPE)
