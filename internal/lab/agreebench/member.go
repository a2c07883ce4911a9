package agreebench

import (
	"fmt"
	"slices"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/coll/ftco"
)

// member is a PE's part in the agreements of a variant: a machine and what drives it.
type member interface {
	// enter calls the next agreement.
	enter(v agree.Vote)
	// receive handles a message of another PE.
	receive(from int, message []byte) error
	// peerFailed handles the death of a PE.
	peerFailed(pe int)
	// taken returns and forgets the decision of the call. ok is false if the call has not returned. An error says that the
	// call cannot return.
	taken() (d agree.Decision, ok bool, err error)
}

// sender sends a message to another PE. The message is the sender's only during the call.
type sender func(to int, message []byte)

// newMember makes this PE's part in a variant among pes PEs. Deaths that are known come by peerFailed; of an allreduce
// they are dead, ascending.
func newMember(v Variant, pes, me int, dead []int, send sender) (member, error) {
	if v.Algorithm == Allreduce {
		return newReducer(pes, me, dead, send)
	}
	m, err := agree.New(agree.Config{Algorithm: v.kind(), N: pes, Me: me, Radix: radix, Rebalance: v.Rebalanced, Combine: agree.Sum})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", v, err)
	}
	return &agreer{machine: m, send: send}, nil
}

// returned is a call's return.
type returned struct {
	decision agree.Decision
	here     bool
	err      error
}

func (r *returned) taken() (agree.Decision, bool, error) {
	d, ok := r.decision, r.here
	r.decision, r.here = agree.Decision{}, false
	return d, ok, r.err
}

// agreer drives a machine of package agree.
type agreer struct {
	returned
	machine *agree.Machine
	send    sender
	actions []agree.Action
	message []byte
}

func (a *agreer) enter(v agree.Vote) { a.step(agree.Event{Kind: agree.Enter, Vote: v}) }

func (a *agreer) peerFailed(pe int) {
	a.step(agree.Event{Kind: agree.PeerFailed, From: agree.Node(pe), Inc: 1})
}

func (a *agreer) receive(from int, message []byte) error {
	m, err := agree.ReadMsg(message)
	if err != nil {
		return fmt.Errorf("PE %d: %w", from, err)
	}
	a.step(agree.Event{Kind: agree.Recv, From: agree.Node(from), Msg: m})
	return nil
}

func (a *agreer) step(ev agree.Event) {
	a.actions = a.machine.Step(ev, a.actions[:0])
	for i := range a.actions {
		switch act := &a.actions[i]; act.Kind {
		case agree.Send:
			a.message = agree.AppendMsg(a.message[:0], &act.Msg)
			a.send(int(act.To), a.message)
		case agree.Deliver:
			a.decision, a.here = act.Decision, true
		case agree.Blocked:
			a.err = fmt.Errorf("agreement %d is blocked: the coordinator is dead", act.Seq)
		case agree.Refuse:
			a.err = fmt.Errorf("agreement %d has not returned and the next one was called", act.Seq)
		}
	}
}

// reducer drives a machine of package ftco, by which the survivors alone do an allreduce of votes.
type reducer struct {
	returned
	machine *ftco.Machine
	members []int // PEs that are left: the machine's nodes
	me      ftco.Node
	send    sender
	entered uint64
	stores  [4]reduction // by number of the call modulo 4: at most three calls in succession are alive
	actions []ftco.Action
	message []byte
}

// reduction holds the values of a call.
type reduction struct {
	seq    uint64
	values map[ftco.Buf]agree.Vote
}

func newReducer(pes, me int, dead []int, send sender) (*reducer, error) {
	r := &reducer{send: send}
	for q := range pes {
		if !slices.Contains(dead, q) {
			r.members = append(r.members, q)
		}
	}
	r.me = ftco.Node(slices.Index(r.members, me))
	m, err := ftco.New(ftco.Config{N: len(r.members), Me: int(r.me), Radix: radix})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", Allreduce, err)
	}
	r.machine = m
	return r, nil
}

// store returns the values of a call.
func (r *reducer) store(seq uint64) *reduction {
	s := &r.stores[seq%uint64(len(r.stores))]
	if s.values == nil {
		s.values = make(map[ftco.Buf]agree.Vote)
	}
	if s.seq < seq {
		s.seq = seq
		clear(s.values)
	}
	return s
}

func (r *reducer) enter(v agree.Vote) {
	r.entered++
	r.store(r.entered).values[ftco.Buf(r.me)] = v
	r.step(ftco.Event{Kind: ftco.Enter, Call: ftco.Call{Kind: ftco.Allreduce}}, nil)
}

func (r *reducer) peerFailed(pe int) {
	if v := slices.Index(r.members, pe); v >= 0 {
		r.step(ftco.Event{Kind: ftco.PeerFailed, From: ftco.Node(v), Inc: 1}, nil)
	}
}

func (r *reducer) receive(from int, message []byte) error {
	v := slices.Index(r.members, from)
	m, value, err := agree.ReadAllreduce(message)
	if err == nil && v < 0 {
		err = fmt.Errorf("%w of an allreduce: the sender is not in it", agree.ErrMessage)
	}
	if err != nil {
		return fmt.Errorf("PE %d: %w", from, err)
	}
	r.step(ftco.Event{Kind: ftco.Recv, From: ftco.Node(v), Msg: m}, &value)
	return nil
}

// step steps the machine. value came with the event's message.
func (r *reducer) step(ev ftco.Event, value *agree.Vote) {
	r.actions = r.machine.Step(ev, r.actions[:0])
	for i := range r.actions {
		a := &r.actions[i]
		values := r.store(a.Seq).values
		switch a.Kind {
		case ftco.Send:
			v := values[a.Msg.Value] // zeros for ftco.NoValue
			r.message = agree.AppendAllreduce(r.message[:0], &a.Msg, &v)
			r.send(r.members[a.To], r.message)
		case ftco.Keep:
			values[a.Dst] = *value
		case ftco.Combine:
			dst, src := values[a.Dst], values[a.Src]
			dst.Flags &= src.Flags
			agree.Sum(&dst.Payload, &src.Payload)
			values[a.Dst] = dst
		case ftco.Decide:
			values[ftco.Result] = values[a.Src]
		case ftco.Deliver:
			r.decision = agree.Decision{Seq: a.Seq, Outcome: agree.Decided, Vote: values[a.Src]}
			if sets := a.Msg.Sets; sets != nil {
				for _, v := range sets.Failed {
					r.decision.Failed = append(r.decision.Failed, agree.Node(r.members[v]))
				}
			}
			r.here = true
		case ftco.Fail, ftco.Refuse, ftco.Mismatch: // a call that is loose, one at a time, and the same on all PEs
			r.err = fmt.Errorf("allreduce %d cannot be: action %d of its machine", a.Seq, a.Kind)
		}
	}
}
