package agent

import (
	"bytes"
	"testing"
	"time"

	"github.com/goshmem/goshmem/symheap/layout"
	"github.com/goshmem/goshmem/transport"
)

// ownPair is two agents that run when the test calls step. The first one sends messages to the second one.
type ownPair struct {
	t        *testing.T
	step     func()
	own      *ownStream
	from, to *Agent
	sent     uint64 // records
}

func newOwnPair(t *testing.T) *ownPair {
	nodes, step := stepNodes(t)
	return &ownPair{t: t, step: step, own: &nodes[0].agent.own, from: nodes[0].agent, to: nodes[1].agent}
}

// send sends a message, and returns when the other agent has it. What that says of it may have come, too.
func (p *ownPair) send(bytes int, follow bool) {
	p.t.Helper()
	before := p.to.cfg.Page.Carried.Received
	p.own.send(1, make([]byte, bytes), follow)
	p.sent += uint64((bytes + chunk - 1) / chunk)
	for p.to.cfg.Page.Carried.Received < before+uint64(bytes) {
		check(p.t, p.t.Context().Err())
		p.step()
	}
}

// await makes passes until the other agent has said that it has everything.
func (p *ownPair) await() {
	p.t.Helper()
	for p.from.sender.IsBusy(1) {
		check(p.t, p.t.Context().Err())
		p.step()
	}
	if p.own.used != 0 || len(p.own.nodes[1].blocks) != 0 {
		p.t.Errorf("%d blocks are in use, %d of them of the stream, want none", p.own.used, len(p.own.nodes[1].blocks))
	}
}

// An agent that has a message which others follow sends nothing for it, until so much time has passed as a sleep takes.
func TestLateWords(t *testing.T) {
	p := newOwnPair(t)
	p.send(100, false) // opens the connection
	p.await()
	batches := p.to.cfg.Page.Carried.Batches
	for range 5 {
		p.send(100, true)
	}
	if got := p.to.cfg.Page.Carried.Batches - batches; got != 0 || !p.from.sender.IsBusy(1) || !p.to.receiver.Owes() {
		t.Fatalf("after 5 messages there are %d posts for them, the sender waits: %t, the receiver owes: %t; want 0, true, true", got, p.from.sender.IsBusy(1), p.to.receiver.Owes())
	}
	now := time.Now()
	p.to.owes = time.Time{}
	for _, x := range []struct {
		after time.Duration
		want  bool
	}{{0, false}, {longestSleep - 1, false}, {longestSleep, true}} {
		if got := p.to.tellLate(now.Add(x.after)); got != x.want {
			t.Errorf("after %v something is to be told: %t, want %t", x.after, got, x.want)
		}
	}
	p.await()
	if got := p.to.cfg.Page.Carried.Batches - batches; got != 1 {
		t.Errorf("%d posts for 5 messages, want 1", got)
	}
}

// Agents that nobody moves on tell the counts that they owe by themselves.
func TestLateWordsByTime(t *testing.T) {
	nodes := startNodes(t, 2)
	nodes[0].do(func(a *Agent) { a.own.send(1, []byte("message"), true) })
	for busy := true; busy; {
		check(t, t.Context().Err())
		nodes[0].do(func(a *Agent) { busy = a.sender.IsBusy(1) })
	}
}

// The word comes at once for a message that no other follows, and for those before it.
func TestLastWord(t *testing.T) {
	p := newOwnPair(t)
	p.send(100, true)
	p.to.receiver.TellAll()
	p.await()
	p.to.owes = time.Now().Add(time.Hour) // no time passes
	p.send(100, true)
	p.send(100, false)
	p.await()
}

// A stream of small messages takes two blocks, however many they are and though no time passes. Long ones, in parts, take few more.
func TestBlocksOfLateWords(t *testing.T) {
	for _, size := range []int{50, 500, chunk, 5 * chunk} {
		p := newOwnPair(t)
		most := 2 + size/chunk
		for range 300 {
			p.to.owes = time.Now().Add(time.Hour)
			p.send(size, true)
			for p.own.used > most { // the word is under way
				check(t, t.Context().Err())
				p.step()
			}
		}
		if len(p.own.nodes[1].waiting) != 0 {
			t.Errorf("%d messages of %d bytes wait for blocks, want none", len(p.own.nodes[1].waiting), size)
		}
	}
}

// Agents whose blocks are half in use want to hear at once.
func TestWordsForBlocks(t *testing.T) {
	p := newOwnPair(t)
	p.to.owes = time.Now().Add(time.Hour)
	p.own.used = layout.WireBlocks / 2
	p.own.send(1, make([]byte, 100), true)
	for p.from.sender.IsBusy(1) {
		check(t, t.Context().Err())
		p.step()
	}
}

// A count that was owed when the connection broke comes with the next one. Messages come once.
func TestLateWordsOfLostConnection(t *testing.T) {
	p := newOwnPair(t)
	for range 3 {
		p.send(100, true)
	}
	p.to.owes = time.Now().Add(time.Hour)
	for _, lane := range []transport.Lane{transport.Out, transport.In} {
		p.from.cfg.Transport.Cut(1, lane, errCut)
	}
	p.await()
	if got := p.to.receiver; got.Owes() {
		got.TellAll()
	}
	if n := p.own.nodes[1].next; n != p.sent || !bytes.Equal(p.to.own.nodes[0].begun, nil) {
		t.Errorf("%d records were sent, want %d", n, p.sent)
	}
}
