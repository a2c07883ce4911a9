package agreebench

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/sim"
)

// newTestPE returns PE 0 of two, whose victims are dead. It is in no job.
func newTestPE(t *testing.T, dead ...int) *pe {
	t.Helper()
	net, err := sim.New(sim.Config{Nodes: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	p := &pe{plan: plan{Dead: dead, Variants: []Variant{{Algorithm: Linear}}}}
	p.link = newLink(net.Node(0), 2, p.take)
	return p
}

// TestLearn: the machines learn of the victims' deaths. A death that was not planned is an error.
func TestLearn(t *testing.T) {
	t.Parallel()
	p := newTestPE(t, 1)
	m, err := newMember(p.Variants[0], 2, 0, nil, func(int, []byte) {})
	if err != nil {
		t.Fatal(err)
	}
	p.members = []member{m}
	m.enter(voteOf(0, 1))
	if _, ok, _ := m.taken(); ok {
		t.Fatal("the coordinator decides without the vote of PE 1, which lives")
	}
	p.news = []int{1}
	if err := p.wait(time.Minute, func() bool { return len(p.dead) == 1 }); err != nil {
		t.Fatal(err)
	}
	want := expected(2, p.Dead, 1, false)
	if d, ok, err := m.taken(); !ok || err != nil || differs(&d, &want) != "" {
		t.Errorf("%v, %v: %s, want the decision of PE 0 alone", ok, err, differs(&d, &want))
	}
	p.news = []int{2}
	if err := p.wait(time.Minute, func() bool { return true }); err == nil || !strings.Contains(err.Error(), "PE 2 has failed, want only [1]") {
		t.Errorf("%v, want that PE 2 was not to fail", err)
	}
}

// TestWaitEnds: a wait ends with its timeout, and says which connection is broken.
func TestWaitEnds(t *testing.T) {
	t.Parallel()
	p := newTestPE(t)
	if err := p.link.send(1, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	cut := errors.New("cut")
	p.link.transport.Cut(1, transport.Out, cut)
	err := p.wait(time.Millisecond, func() bool { return false })
	if !errors.Is(err, cut) || !strings.Contains(err.Error(), "not done after 1ms") {
		t.Errorf("%v, want the timeout and why", err)
	}
	bad := errors.New("cannot send")
	p.sendErr = bad
	if err := p.wait(time.Minute, func() bool { return true }); !errors.Is(err, bad) {
		t.Errorf("%v, want the error of a message", err)
	}
	if err := p.take(1, 3, nil); !errors.Is(err, agree.ErrMessage) {
		t.Errorf("message of a variant that is none: %v", err)
	}
}
