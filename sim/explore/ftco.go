package explore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/coll/ftco"
)

// FTCO runs [ftco.Machine].
type FTCO struct {
	Size, Radix int
	Sequence    []ftco.Call
	KeepAlive   int  // the machines' Config.Ticks
	Thrifty     bool // check that no message is sent twice; only if none is lost and states are not compared

	acts  []ftco.Action           // room
	known map[expressionKey]value // values that expression has computed
}

// N returns the number of members.
func (s *FTCO) N() int { return s.Size }

// Calls returns the number of calls of each member.
func (s *FTCO) Calls() int { return len(s.Sequence) }

// String describes the scenario.
func (s *FTCO) String() string {
	words := []string{"ftco", fmt.Sprintf("n=%d", s.Size), fmt.Sprintf("k=%d", s.Radix)}
	if s.KeepAlive > 0 {
		words = append(words, fmt.Sprintf("keepalive=%d", s.KeepAlive))
	}
	for _, c := range s.Sequence {
		words = append(words, callText(c))
	}
	return strings.Join(words, " ")
}

// callText describes a call.
func callText(c ftco.Call) string {
	text := [...]string{"?", "allreduce", "reduce", "bcast", "barrier"}[c.Kind]
	if c.Kind == ftco.Reduce || c.Kind == ftco.Bcast {
		text += fmt.Sprintf("(root %d)", c.Root)
	}
	if c.Uniform {
		text += "/uniform"
	}
	if c.Strict {
		text += "/strict"
	}
	return text
}

// Root returns a call's root.
func (s *FTCO) Root(call int) int { return int(s.Sequence[call].Root) }

// Without returns the scenario without one call.
func (s *FTCO) Without(call int) System {
	return &FTCO{Size: s.Size, Radix: s.Radix, KeepAlive: s.KeepAlive, Thrifty: s.Thrifty, Sequence: slices.Delete(slices.Clone(s.Sequence), call, call+1)}
}

// Member makes member me.
func (s *FTCO) Member(me int) (Member, error) {
	m, err := ftco.New(ftco.Config{N: s.Size, Me: me, Radix: s.Radix, Ticks: s.KeepAlive})
	if err != nil {
		return nil, err
	}
	return &ftcoMember{sys: s, me: me, m: m}, nil
}

// value stands for a buffer's bytes: the members whose contributions are in it, the members whose
// contributions are in it more than once, and how they were combined.
type value struct{ has, twice, assoc uint64 }

// leaf returns the contribution of member p.
func leaf(p int) value { return value{has: 1 << p, assoc: mix(uint64(p)+1, 0x9e3779b97f4a7c15)} }

// with returns v combined with w.
func (v value) with(w value) value {
	return value{v.has | w.has, v.twice | w.twice | v.has&w.has, mix(v.assoc, bits.RotateLeft64(w.assoc, 17)^0xa0761d6478bd642f)}
}

// mix returns 64 bits that depend on both numbers and on their order.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0xe7037ed1a0b428db, b|1)
	return hi ^ lo
}

// result is what a call has returned.
type result struct {
	value           value
	has, fails      bool
	missing, failed uint64
}

// buffer is a buffer that the driver keeps.
type buffer struct {
	name ftco.Buf
	v    value
}

// ftcoMember is a machine with the driver's buffers.
type ftcoMember struct {
	sys     *FTCO
	me      int
	m       *ftco.Machine // nil: dead
	entered int
	told    uint64     // the deaths that it has learned of
	bufs    [][]buffer // of each operation, ordered by name
	results []result
	sent    map[onceMsg]bool // with Thrifty: what it has sent
}

// onceMsg is a message that a member sends to another once, if none is lost.
type onceMsg struct {
	to   ftco.Node
	kind ftco.MsgKind
	seq  uint64
}

// ftcoMsg is a message with its bytes.
type ftcoMsg struct {
	msg ftco.Msg
	v   value
}

// AppendState appends the message to b.
func (m *ftcoMsg) AppendState(b []byte) []byte { return m.v.append(m.msg.AppendState(b)) }

// String describes the message.
func (m *ftcoMsg) String() string {
	kind := [...]string{"?", "Up", "Down", "Have", "Ack", "Commit", "KeepAlive", "Alive"}[m.msg.Kind]
	text := fmt.Sprintf("%s #%d", kind, m.msg.Seq)
	if m.msg.Value != ftco.NoValue {
		text += " value" + m.v.String()
	}
	if m.msg.Committed {
		text += " committed"
	}
	if s := m.msg.Sets; s != nil {
		text += fmt.Sprintf(" missing%v failed%v", s.Missing, s.Failed)
	}
	return text
}

func (v value) append(b []byte) []byte {
	b = binary.AppendUvarint(b, v.has)
	b = binary.AppendUvarint(b, v.twice)
	return binary.LittleEndian.AppendUint64(b, v.assoc)
}

// String returns the contributors.
func (v value) String() string {
	if v.twice != 0 {
		return fmt.Sprintf("%v twice%v", list(v.has), list(v.twice))
	}
	return fmt.Sprint(list(v.has))
}

// list returns the members of a set.
func list(set uint64) []int {
	l := []int{}
	for ; set != 0; set &= set - 1 {
		l = append(l, bits.TrailingZeros64(set))
	}
	return l
}

// setOf returns the set of nodes.
func setOf(nodes []ftco.Node) uint64 {
	set := uint64(0)
	for _, p := range nodes {
		set |= 1 << p
	}
	return set
}

// Enter makes the next call.
func (f *ftcoMember) Enter(out []Effect) []Effect {
	call := f.sys.Sequence[f.entered]
	f.entered++
	if call.Kind == ftco.Allreduce || call.Kind == ftco.Reduce || call.Kind == ftco.Bcast && int(call.Root) == f.me {
		f.set(uint64(f.entered), ftco.Buf(f.me), leaf(f.me))
	}
	return f.step(&ftco.Event{Kind: ftco.Enter, Call: call}, value{}, out)
}

// Recv handles a message.
func (f *ftcoMember) Recv(from int, msg Message, out []Effect) []Effect {
	m, ok := msg.(*ftcoMsg)
	if !ok {
		return append(out, Effect{Broken: fmt.Errorf("a message of another protocol: %v", msg)})
	}
	return f.step(&ftco.Event{Kind: ftco.Recv, From: ftco.Node(from), Msg: m.msg}, m.v, out)
}

// PeerFailed handles the news of q's death.
func (f *ftcoMember) PeerFailed(q int, out []Effect) []Effect {
	f.told |= 1 << q
	return f.step(&ftco.Event{Kind: ftco.PeerFailed, From: ftco.Node(q), Inc: 1}, value{}, out)
}

// Tick handles a tick of the clock.
func (f *ftcoMember) Tick(out []Effect) []Effect {
	return f.step(&ftco.Event{Kind: ftco.Tick}, value{}, out)
}

// Entered returns the number of calls.
func (f *ftcoMember) Entered() int { return f.entered }

// Returned returns the number of calls that have returned.
func (f *ftcoMember) Returned() int { return len(f.results) }

// step gives the machine an event and carries out its actions.
func (f *ftcoMember) step(ev *ftco.Event, in value, out []Effect) []Effect {
	f.sys.acts = f.m.Step(*ev, f.sys.acts[:0])
	if err := f.checkStep(f.sys.acts); err != nil {
		return append(out, Effect{Broken: err})
	}
	for i := range f.sys.acts {
		out = f.carryOut(&f.sys.acts[i], in, out)
	}
	return out
}

// checkStep checks the actions of one step: no message is sent twice, and a decision that is made in it
// lists all deaths that are known here.
func (f *ftcoMember) checkStep(acts []ftco.Action) error {
	decided := uint64(0)
	for i := range acts {
		a := &acts[i]
		if a.Kind == ftco.Decide {
			decided = a.Seq
		}
		listed := uint64(0)
		if a.Msg.Sets != nil {
			listed = setOf(a.Msg.Sets.Failed)
		}
		tells := a.Kind == ftco.Deliver || a.Kind == ftco.Fail || a.Kind == ftco.Send && a.Msg.Kind == ftco.Down
		if tells && decided != 0 && a.Seq == decided && f.told&^listed != 0 {
			return fmt.Errorf("member %d decides that%v failed, knowing of%v", f.me, list(listed), list(f.told))
		}
		for j := range i {
			if b := &acts[j]; a.Kind == ftco.Send && b.Kind == ftco.Send && a.To == b.To && a.Seq == b.Seq && a.Msg.Kind == b.Msg.Kind {
				return fmt.Errorf("member %d sends %v to %d twice in a step", f.me, &ftcoMsg{msg: a.Msg}, a.To)
			}
		}
	}
	return nil
}

// carryOut does what a driver does for one action.
func (f *ftcoMember) carryOut(a *ftco.Action, in value, out []Effect) []Effect {
	switch a.Kind {
	case ftco.Send:
		msg := &ftcoMsg{msg: a.Msg}
		if a.Msg.Value != ftco.NoValue {
			v := f.buf(a.Seq, a.Msg.Value)
			if v == nil {
				return append(out, Effect{Broken: fmt.Errorf("member %d sends %v from empty buffer %d", f.me, msg, a.Msg.Value)})
			}
			msg.v = *v
		}
		if f.isRepeated(a) {
			return append(out, Effect{Broken: fmt.Errorf("member %d sends %v to %d again", f.me, msg, a.To)})
		}
		return append(out, Effect{To: int(a.To), Msg: msg})
	case ftco.Keep:
		if in.has == 0 {
			return append(out, Effect{Broken: fmt.Errorf("member %d keeps bytes as %d that did not come", f.me, a.Dst)})
		}
		f.set(a.Seq, a.Dst, in)
	case ftco.Combine:
		dst, src := f.buf(a.Seq, a.Dst), f.buf(a.Seq, a.Src)
		if dst == nil || src == nil {
			return append(out, Effect{Broken: fmt.Errorf("member %d combines buffers %d and %d, one of which is empty", f.me, a.Dst, a.Src)})
		}
		*dst = dst.with(*src)
	case ftco.Decide:
		v := f.buf(a.Seq, a.Src)
		if v == nil {
			return append(out, Effect{Broken: fmt.Errorf("member %d decides by empty buffer %d", f.me, a.Src)})
		}
		f.set(a.Seq, ftco.Result, *v)
	case ftco.Deliver, ftco.Fail:
		return f.deliver(a, out)
	case ftco.Refuse, ftco.Mismatch:
		return append(out, Effect{Broken: fmt.Errorf("member %d is refused: %+v", f.me, *a)})
	}
	return out
}

// isRepeated reports whether a sends a message again that needs to be sent only once.
func (f *ftcoMember) isRepeated(a *ftco.Action) bool {
	if !f.sys.Thrifty || a.Msg.Kind != ftco.Up && a.Msg.Kind != ftco.Have && a.Msg.Kind != ftco.Ack {
		return false
	}
	if f.sent == nil {
		f.sent = map[onceMsg]bool{}
	}
	msg := onceMsg{a.To, a.Msg.Kind, a.Seq}
	again := f.sent[msg]
	f.sent[msg] = true
	return again
}

// deliver notes the result of a call.
func (f *ftcoMember) deliver(a *ftco.Action, out []Effect) []Effect {
	r := result{fails: a.Kind == ftco.Fail}
	if a.Seq != uint64(len(f.results))+1 || a.Seq > uint64(f.entered) {
		return append(out, Effect{Broken: fmt.Errorf("member %d returns from call %d after %d, having made %d", f.me, a.Seq, len(f.results), f.entered)})
	}
	if a.Src != ftco.NoValue {
		v := f.buf(a.Seq, a.Src)
		if v == nil {
			return append(out, Effect{Broken: fmt.Errorf("member %d returns empty buffer %d", f.me, a.Src)})
		}
		r.value, r.has = *v, true
	}
	if s := a.Msg.Sets; s != nil {
		if !f.sys.ascends(f.sys.Sequence[a.Seq-1].Root, s.Missing) || !f.sys.ascends(f.sys.Sequence[a.Seq-1].Root, s.Failed) {
			return append(out, Effect{Broken: fmt.Errorf("member %d returns sets that do not ascend from the root: %+v", f.me, *s)})
		}
		r.missing, r.failed = setOf(s.Missing), setOf(s.Failed)
	}
	f.results = append(f.results, r)
	return append(out, Effect{Return: true})
}

// ascends reports whether a set ascends from the root on, with each member once. Then equal sets are
// equal lists.
func (s *FTCO) ascends(root ftco.Node, set []ftco.Node) bool {
	node := func(p ftco.Node) int { return (int(p-root) + s.Size) % s.Size }
	for i := 1; i < len(set); i++ {
		if node(set[i-1]) >= node(set[i]) {
			return false
		}
	}
	return true
}

// find returns the index of a buffer, or where it would be.
func (f *ftcoMember) find(seq uint64, name ftco.Buf) (int, bool) {
	for uint64(len(f.bufs)) < seq {
		f.bufs = append(f.bufs, nil)
	}
	return slices.BinarySearchFunc(f.bufs[seq-1], name, func(b buffer, n ftco.Buf) int { return int(b.name) - int(n) })
}

// buf returns a buffer, or nil if it is empty.
func (f *ftcoMember) buf(seq uint64, name ftco.Buf) *value {
	i, ok := f.find(seq, name)
	if !ok {
		return nil
	}
	return &f.bufs[seq-1][i].v
}

// set sets a buffer.
func (f *ftcoMember) set(seq uint64, name ftco.Buf, v value) {
	i, ok := f.find(seq, name)
	if !ok {
		f.bufs[seq-1] = slices.Insert(f.bufs[seq-1], i, buffer{name: name})
	}
	f.bufs[seq-1][i].v = v
}

// Clone returns a member in the same state.
func (f *ftcoMember) Clone() Member {
	c := *f
	c.m = f.m.Clone()
	c.sent = maps.Clone(f.sent)
	c.results = slices.Clone(f.results)
	c.bufs = make([][]buffer, len(f.bufs))
	for i := range c.bufs {
		c.bufs[i] = slices.Clone(f.bufs[i])
	}
	return &c
}

// Remains keeps the results if a uniform call has returned.
func (f *ftcoMember) Remains() Member {
	for i := range f.results {
		if f.sys.Sequence[i].Uniform {
			return &ftcoMember{sys: f.sys, me: f.me, results: f.results}
		}
	}
	return nil
}

// AppendState appends the state to b.
func (f *ftcoMember) AppendState(b []byte) []byte {
	b = append(b, byte(f.entered))
	if f.m != nil {
		b = f.m.AppendState(b)
	}
	for _, bufs := range f.bufs {
		b = append(b, byte(len(bufs)))
		for i := range bufs {
			b = bufs[i].v.append(binary.AppendVarint(b, int64(bufs[i].name)))
		}
	}
	for i := range f.results {
		r := &f.results[i]
		kind := byte(0xf0)
		if r.fails {
			kind++
		}
		b = append(b, kind)
		if r.has {
			b = r.value.append(append(b, 1))
		}
		b = binary.AppendUvarint(b, r.missing)
		b = binary.AppendUvarint(b, r.failed)
	}
	return b
}

// Result describes the result of a call.
func (f *ftcoMember) Result(call int) string {
	r := &f.results[call]
	text := "returns from " + callText(f.sys.Sequence[call])
	if r.fails {
		text = "fails in " + callText(f.sys.Sequence[call])
	}
	if r.has {
		text += " with" + r.value.String()
	}
	return text + fmt.Sprintf(" missing%v failed%v", list(r.missing), list(r.failed))
}

// The oracles.
var (
	ErrHang    = errors.New("P1: a survivor never returns")
	ErrAgree   = errors.New("P2: results differ")
	ErrValid   = errors.New("P3: a survivor is not counted, or a living member is called failed")
	ErrOnce    = errors.New("P4: contributions and the reported set differ")
	ErrAssoc   = errors.New("reproducibility: the association depends on more than who contributed")
	ErrCost    = errors.New("P5: messages without failures")
	ErrLate    = errors.New("a message of a dead member was accepted after the news of its death")
	ErrMachine = errors.New("an action that no driver can do")
)
