package server

import (
	"fmt"
	"sync"
	"time"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/kvs"
)

// Board has the published data of a job on several nodes. The front end runs it: it lives as long as the job. The servers
// of all nodes pass their clients' requests on to it, as questions to Root.
//
//   - Concurrent calls: all methods.
type Board struct {
	start time.Time
	timer *time.Timer

	mu      sync.Mutex
	clock   clock
	desk    *desk
	replies map[ticket]func(body []byte)
	decoder codec.RequestDecoder
	closed  bool
}

// NewBoard returns an empty board.
func NewBoard() *Board {
	b := &Board{start: time.Now(), replies: map[ticket]func([]byte){}}
	b.clock.second = tick(time.Second / tickLength)
	b.desk = newDesk(&b.clock)
	b.timer = time.AfterFunc(time.Hour, b.expire)
	b.timer.Stop()
	return b
}

// Close ends the board: no reply comes after it.
func (b *Board) Close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.timer.Stop()
	clear(b.replies)
}

// Asked serves a question of a node's server, with its number there. The board calls reply once, now or when the data of a
// lookup has come, unless the server gives up or its node dies. A reply must not block, and must not call the board.
func (b *Board) Asked(node int, number uint64, body []byte, reply func(body []byte)) {
	b.step(func() {
		t := ticket{node, number}
		b.replies[t] = reply
		m, err := parsePeerMessage(body)
		if err == nil && m.op != opRequest {
			err = fmt.Errorf("question of kind %d, want one that the board serves", m.op)
		}
		if err != nil {
			b.desk.decide(t, codec.StatusErrBadParam, err.Error())
			return
		}
		r, err := b.decoder.Decode(m.body)
		if err != nil {
			b.desk.decide(t, codec.StatusErrUnpackFailure, err.Error())
			return
		}
		b.desk.serve(t, kvs.Party{Proc: m.proc, Node: uint32(node), App: uint32(m.number)}, r)
	})
}

// Told takes news of a node's server. It returns an error if a server never says such a thing.
func (b *Board) Told(node int, body []byte) error {
	m, err := parsePeerMessage(body)
	if err != nil {
		return err
	}
	switch m.op {
	case opGiveUp:
		b.step(func() {
			t := ticket{node, m.number}
			b.desk.drop(t)
			delete(b.replies, t)
		})
	case opLifetime:
		b.step(func() {
			if m.proc.Rank != codec.RankUndef {
				b.desk.board.ProcEnded(m.proc)
			}
			b.desk.noteLifetime(node, appName{m.proc.Nspace, uint32(m.number)}, m.nodes, m.flag)
		})
	default:
		return fmt.Errorf("news of kind %d, want such as the board takes", m.op)
	}
	return nil
}

// NodeDead tells the board that a node has died. Nothing of the node comes after it.
func (b *Board) NodeDead(node int) {
	b.step(func() {
		b.desk.endNode(node)
		for t := range b.replies {
			if t.node == node {
				delete(b.replies, t)
			}
		}
	})
}

func (b *Board) expire() {
	b.step(func() {
		b.clock.next = 0
		b.desk.expire()
	})
}

// step lets f change the desk, and carries out what follows.
func (b *Board) step(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.clock.now = tick(time.Since(b.start) / tickLength)
	f()
	for _, v := range b.desk.takeOut() {
		if reply := b.replies[v.ticket]; reply != nil {
			delete(b.replies, v.ticket)
			a := peerAnswer{v.status, v.why, v.reply}
			reply(a.append(nil))
		}
	}
	if b.clock.next != 0 {
		b.timer.Reset(time.Until(b.start.Add(time.Duration(b.clock.next) * tickLength)))
	}
}
