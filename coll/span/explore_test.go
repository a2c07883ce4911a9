package span

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/coll/board"
	"github.com/goshmem/goshmem/sim/explore"
)

// scenario is a case for the explorer. Its first members are the agents of the nodes, the others are PEs, node after node.
//
// A PE and its agent share memory. A store by one is a message to the other: it may die between any two stores, and others see
// them at any moment, in order. A load is a step of its own: the agent, or the PE, sends itself a message for each. The death of
// an agent is that of its node, so what its PEs do then means nothing.
type scenario struct {
	nodes, pes, radix, steps int
	coarse                   bool // stores and loads of a step are one
}

func (s *scenario) N() int     { return s.nodes + s.nodes*s.pes }
func (s *scenario) Calls() int { return s.steps }
func (s *scenario) String() string {
	return fmt.Sprintf("span of %d nodes with %d PEs each, k=%d, %d steps, coarse: %t", s.nodes, s.pes, s.radix, s.steps, s.coarse)
}

// agentOf returns the agent of a PE; index is the PE's in its part.
func (s *scenario) agentOf(member int) (agent, index int) {
	return (member - s.nodes) / s.pes, (member - s.nodes) % s.pes
}

// peOf is the inverse.
func (s *scenario) peOf(agent, index int) int { return s.nodes + agent*s.pes + index }

func (s *scenario) Member(me int) (explore.Member, error) {
	if me >= s.nodes {
		at, index := s.agentOf(me)
		return &pe{sys: s, agent: at, index: index}, nil
	}
	p, err := New(Config{Nodes: s.nodes, Me: me, Members: s.pes, Radix: s.radix, Fold: addBytes})
	if err != nil {
		return nil, err
	}
	a := &agent{sys: s, me: me, part: p}
	a.words, a.cells, a.dead = make([]uint64, s.pes), make([][]byte, s.pes), make([]bool, s.pes)
	return a, nil
}

// addBytes adds numbers of one byte.
func addBytes(acc, in []byte) []byte {
	for i := range acc {
		acc[i] += in[i]
	}
	return acc
}

// contribution is what a PE gives to a step: 1 at its own place, and the number of the step behind that.
func (s *scenario) contribution(agent, index int, seq uint64) []byte {
	data := make([]byte, 2*s.nodes*s.pes)
	at := 2 * (agent*s.pes + index)
	data[at], data[at+1] = 1, byte(seq)
	return data
}

// letter is a message: a message of a part, a store, or what a member sends itself before a load.
type letter struct {
	kind letterKind
	body []byte // of a message; data of a store
	seq  uint64
	r    *Result
}

type letterKind byte

const (
	network letterKind = iota
	storeCell
	storeWord
	storeResult
	storeSeq
	load
)

func (l *letter) AppendState(b []byte) []byte {
	b = append(append(b, byte(l.kind), byte(l.seq)), l.body...)
	if l.r != nil {
		b = l.r.appendState(b)
	}
	return b
}

func (l *letter) String() string {
	if l.kind == network {
		m, err := ParseMessage(l.body)
		return fmt.Sprintf("%+v %v", m, err)
	}
	return fmt.Sprintf("%s %d %v %v", [...]string{"", "cell", "word", "result", "seq", "load"}[l.kind], l.seq, l.body, l.r)
}

func (r *Result) appendState(b []byte) []byte {
	b = append(b, byte(r.Seq))
	for _, n := range r.Missing {
		b = append(b, byte(n))
	}
	return r.Value.appendState(append(b, '|'))
}

// agent is a part with its driver, and the memory that it shares with the PEs of its node.
type agent struct {
	sys   *scenario
	me    int
	part  *Part
	words []uint64
	cells [][]byte
	dead  []bool // PEs whose death is known
	looks bool   // a load is under way
}

func (a *agent) broken(out []explore.Effect, format string, args ...any) []explore.Effect {
	return append(out, explore.Effect{Broken: fmt.Errorf("node %d: "+format, append([]any{a.me}, args...)...)})
}

// proceed begins the next load, if the part asks for anything.
func (a *agent) proceed(out []explore.Effect) []explore.Effect {
	if _, what := a.part.Next(); what == Nothing || a.looks {
		return out
	}
	if a.sys.coarse {
		return a.answer(out)
	}
	a.looks = true
	return append(out, explore.Effect{To: a.me, Msg: &letter{kind: load}})
}

// answer answers what the part asks for.
func (a *agent) answer(out []explore.Effect) []explore.Effect {
	switch i, what := a.part.Next(); what {
	case Word:
		a.part.SetWord(a.words[i])
	case News:
		a.part.SetDead(a.dead[i])
	case Data:
		var data []byte
		for i := range a.cells {
			switch {
			case !a.part.Entered(i):
			case data == nil:
				data = slices.Clone(a.cells[i])
			default:
				addBytes(data, a.cells[i])
			}
		}
		out = a.perform(a.part.SetData(data, nil), out)
	}
	return a.proceed(out)
}

func (a *agent) perform(outputs []Output, out []explore.Effect) []explore.Effect {
	for _, o := range outputs {
		switch o.Kind {
		case Send:
			if o.Message.Value == nil {
				return a.broken(out, "sends no value")
			}
			out = append(out, explore.Effect{To: o.To, Msg: &letter{body: o.Message.Append(nil)}})
		case Deliver:
			for i := range a.sys.pes {
				if a.sys.coarse {
					out = append(out, explore.Effect{To: a.sys.peOf(a.me, i), Msg: &letter{kind: storeSeq, r: o.Result, seq: o.Result.Seq}})
					continue
				}
				out = append(out, explore.Effect{To: a.sys.peOf(a.me, i), Msg: &letter{kind: storeResult, r: o.Result}},
					explore.Effect{To: a.sys.peOf(a.me, i), Msg: &letter{kind: storeSeq, seq: o.Result.Seq}})
			}
		case Wrong:
			return a.broken(out, "%w", o.Err)
		}
	}
	return out
}

func (a *agent) Recv(from int, msg explore.Message, out []explore.Effect) []explore.Effect {
	l, ok := msg.(*letter)
	if !ok {
		return a.broken(out, "message %v", msg)
	}
	switch l.kind {
	case load:
		a.looks = false
		return a.answer(out)
	case network:
		m, err := ParseMessage(l.body)
		var outputs []Output
		if err == nil {
			outputs, err = a.part.Receive(from, m, nil)
		}
		if err != nil {
			return a.broken(out, "%w", err)
		}
		return a.proceed(a.perform(outputs, out))
	}
	_, i := a.sys.agentOf(from)
	if a.dead[i] { // its stores came before the news
		return out
	}
	if l.kind == storeCell {
		a.cells[i] = l.body
		return out
	}
	if a.words[i] = l.seq; l.body != nil {
		a.cells[i] = l.body
	}
	a.part.Look()
	return a.proceed(out)
}

func (a *agent) PeerFailed(q int, out []explore.Effect) []explore.Effect {
	if q < a.sys.nodes {
		return a.proceed(a.perform(a.part.NodeDead(q, nil), out))
	}
	if at, i := a.sys.agentOf(q); at == a.me {
		a.dead[i] = true
		a.part.Look()
	}
	return a.proceed(out)
}

func (a *agent) Enter(out []explore.Effect) []explore.Effect { return out }
func (a *agent) Tick(out []explore.Effect) []explore.Effect  { return out }
func (a *agent) Entered() int                                { return a.sys.steps }
func (a *agent) Returned() int                               { return a.sys.steps }
func (a *agent) Result(int) string                           { return "" }
func (a *agent) Remains() explore.Member                     { return nil }

func (a *agent) Clone() explore.Member {
	c := *a
	c.part = a.part.clone()
	c.words, c.cells, c.dead = slices.Clone(a.words), slices.Clone(a.cells), slices.Clone(a.dead)
	return &c
}

func (a *agent) AppendState(b []byte) []byte {
	b = a.part.appendState(b)
	for i := range a.words {
		b = append(b, byte(a.words[i]))
		b = append(b, a.cells[i]...)
		if a.dead[i] {
			b = append(b, 'd')
		}
	}
	if a.looks {
		b = append(b, 'l')
	}
	return b
}

// pe is a PE that makes steps.
type pe struct {
	sys          *scenario
	agent, index int
	entered      int
	result       *Result // the result slot
	seq          uint64
	results      []*Result
	gone         bool // its node is dead
}

func (p *pe) Enter(out []explore.Effect) []explore.Effect {
	p.entered++
	seq := uint64(p.entered)
	if p.sys.coarse {
		return append(out, explore.Effect{To: p.agent, Msg: &letter{kind: storeWord, body: p.sys.contribution(p.agent, p.index, seq), seq: seq}})
	}
	return append(out,
		explore.Effect{To: p.agent, Msg: &letter{kind: storeCell, body: p.sys.contribution(p.agent, p.index, seq)}},
		explore.Effect{To: p.agent, Msg: &letter{kind: storeWord, seq: seq}})
}

func (p *pe) Recv(_ int, msg explore.Message, out []explore.Effect) []explore.Effect {
	l, ok := msg.(*letter)
	if !ok {
		return append(out, explore.Effect{Broken: fmt.Errorf("message %v", msg)})
	}
	if p.gone {
		return out
	}
	switch l.kind {
	case storeResult:
		p.result = l.r
	case storeSeq:
		if p.seq = l.seq; p.sys.coarse {
			p.result = l.r
			return p.load(out)
		}
		return append(out, explore.Effect{To: p.sys.peOf(p.agent, p.index), Msg: &letter{kind: load}})
	case load:
		return p.load(out)
	}
	return out
}

// load reads the result slot if it has the result that the PE waits for.
func (p *pe) load(out []explore.Effect) []explore.Effect {
	if p.seq < uint64(p.entered) || len(p.results) == p.entered {
		return out
	}
	p.results = append(p.results, p.result)
	return append(out, explore.Effect{Return: true})
}

func (p *pe) PeerFailed(q int, out []explore.Effect) []explore.Effect {
	p.gone = p.gone || q == p.agent
	return out
}

func (p *pe) Tick(out []explore.Effect) []explore.Effect { return out }
func (p *pe) Entered() int                               { return p.entered }
func (p *pe) Returned() int                              { return len(p.results) }
func (p *pe) Result(call int) string                     { return fmt.Sprintf("%+v", *p.results[call]) }
func (p *pe) Remains() explore.Member                    { return nil }

func (p *pe) Clone() explore.Member {
	c := *p
	c.results = slices.Clone(p.results)
	return &c
}

func (p *pe) AppendState(b []byte) []byte {
	b = append(b, byte(p.entered), byte(p.seq))
	if p.gone {
		b = append(b, 'g')
	}
	if p.result != nil {
		b = p.result.appendState(b)
	}
	for _, r := range p.results {
		b = r.appendState(append(b, '/'))
	}
	return b
}

var (
	errAgree = errors.New("survivors return different results")
	errOnce  = errors.New("a result has other contributions than it says")
	errValid = errors.New("a survivor is not counted")
	errHang  = errors.New("a survivor never returns")
)

// Check checks the theorem of the package for the steps that have returned so far.
func (s *scenario) Check(g *explore.Group) error {
	lives := func(member int) bool {
		at, _ := s.agentOf(member)
		return !g.IsDead(member) && !g.IsDead(at)
	}
	for seq := uint64(1); seq <= uint64(s.steps); seq++ {
		var first *Result
		for member := s.nodes; member < s.N(); member++ {
			if !lives(member) {
				continue
			}
			p, ok := g.Members[member].(*pe)
			if !ok || uint64(len(p.results)) < seq {
				if g.Final {
					return fmt.Errorf("%w: member %d, step %d", errHang, member, seq)
				}
				continue
			}
			r := p.results[seq-1]
			if err := s.checkResult(r, seq, lives); err != nil {
				return fmt.Errorf("member %d, step %d: %w", member, seq, err)
			}
			if first == nil {
				first = r
			} else if string(r.appendState(nil)) != string(first.appendState(nil)) {
				return fmt.Errorf("%w: step %d: %+v and %+v", errAgree, seq, *first, *r)
			}
		}
	}
	return nil
}

// checkResult compares the contributions in a result with those that it says to be in it.
func (s *scenario) checkResult(r *Result, seq uint64, lives func(member int) bool) error {
	if r == nil || r.Seq != seq {
		return fmt.Errorf("%w: result %+v", errOnce, r)
	}
	for at := range s.nodes {
		for i := range s.pes {
			counts := !slices.Contains(r.Missing, int32(at)) && !slices.ContainsFunc(r.Without, func(e Exception) bool { return int(e.Node) == at && int(e.Member) == i })
			want := []byte{0, 0}
			if counts {
				want = []byte{1, byte(seq)}
			}
			has := []byte{0, 0}
			if r.Data != nil {
				place := 2 * (at*s.pes + i)
				has = r.Data[place : place+2]
			}
			if string(has) != string(want) {
				return fmt.Errorf("%w: %v of PE %d on node %d, want %v; %+v", errOnce, has, i, at, want, *r)
			}
			if !counts && lives(s.peOf(at, i)) {
				return fmt.Errorf("%w: PE %d on node %d; %+v", errValid, i, at, *r)
			}
		}
	}
	for _, e := range r.Without {
		if e.Why != board.Died {
			return fmt.Errorf("%w: %+v", errValid, e)
		}
	}
	return nil
}

// Whatever the order of stores, loads and messages, and whoever dies when: all survivors return the same. TestExploreNodes searches
// larger cases.
func TestExplore(t *testing.T) {
	for _, c := range []struct {
		scenario
		faults explore.Faults
	}{
		{scenario{nodes: 1, pes: 2, radix: 2, steps: 2}, explore.Faults{}},
		{scenario{nodes: 1, pes: 2, radix: 2, steps: 2}, explore.Faults{Deaths: 1}},
		{scenario{nodes: 2, pes: 1, radix: 2, steps: 2}, explore.Faults{}},
		{scenario{nodes: 2, pes: 1, radix: 2, steps: 2}, explore.Faults{Deaths: 1}},
		{scenario{nodes: 2, pes: 1, radix: 2, steps: 1}, explore.Faults{Deaths: 2}},
		{scenario{nodes: 2, pes: 2, radix: 2, steps: 1}, explore.Faults{Deaths: 1}},
		{scenario{nodes: 3, pes: 1, radix: 2, steps: 2, coarse: true}, explore.Faults{Deaths: 1}},
		{scenario{nodes: 3, pes: 1, radix: 2, steps: 1, coarse: true}, explore.Faults{Deaths: 2}},
	} {
		t.Run(fmt.Sprintf("%v %+v", &c.scenario, c.faults), func(t *testing.T) {
			t.Parallel()
			search(t, &c.scenario, c.faults)
		})
	}
}

// The same in random orders, with more nodes and PEs.
func TestRandom(t *testing.T) {
	t.Parallel()
	runs := uint64(20000)
	if testing.Short() {
		runs /= 20
	}
	for seed := range runs {
		_, failure := explore.Random(drawScenario, seed)
		if failure != nil {
			t.Fatalf("seed %d: %v\n%v", seed, failure, failure.Choices)
		}
	}
}

func drawScenario(rng *rand.Rand) (explore.System, explore.Faults) {
	s := &scenario{nodes: 1 + rng.IntN(8), pes: 1 + rng.IntN(4), radix: 2 + rng.IntN(3), steps: 1 + rng.IntN(4), coarse: rng.IntN(2) == 0}
	return s, explore.Faults{Deaths: rng.IntN(6)}
}
