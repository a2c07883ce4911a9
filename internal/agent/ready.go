package agent

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/internal/agent/stream"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// source is a PE of this node, whose records the agent sends.
type source struct {
	wire *layout.Wire
	head uint64      // entries of Ready that are taken
	left *leftBlocks // nil: the agent has left none
	dead bool        // nothing is taken of it any more; nothing of it is sent, but for messages until parting ends

	parting time.Time // until when its last messages are sent; zero: they are not

	incarnation uint32
	begun       [][2]uint64 // of a dead one, by node and lane: the posts until its death (outbox.begun)
}

// holding is a block that a PE has put into Ready, and that the agent has not given back.
type holding struct {
	pe    layout.Local
	block uint32
	taken uint32 // the Fill that was seen last
}

// takeReady takes the blocks that PEs have put into Ready.
func (a *Agent) takeReady() (some bool) {
	for i := range a.sources {
		s := &a.sources[i]
		if s.dead {
			continue
		}
		if atomic.LoadUint64(&s.wire.Teams) != 0 {
			a.takeTeams(layout.Local(i))
			some = some || a.sender.HasTurn() // otherwise nothing is left of the news
		}
		tail := atomic.LoadUint64(&s.wire.Tail)
		if tail == s.head {
			continue
		}
		some = true
		if tail-s.head > layout.WireBlocks {
			a.accuse(layout.Local(i), "%d blocks in Ready, want at most %d", tail-s.head, layout.WireBlocks)
			continue
		}
		for ; s.head != tail; s.head++ {
			n := s.wire.Ready[s.head%layout.WireBlocks]
			if n >= layout.WireBlocks {
				a.accuse(layout.Local(i), "block %d in Ready, want less than %d", n, layout.WireBlocks)
				break
			}
			a.held = append(a.held, holding{pe: layout.Local(i), block: n})
		}
	}
	return some
}

// takeTeams takes the news of the teams that a PE is in.
func (a *Agent) takeTeams(pe layout.Local) {
	all := atomic.SwapUint64(&a.sources[pe].wire.Teams, 0)
	if a.memory.isGuest(pe) {
		a.accuse(pe, "news of teams %#x, want none of a PE of a spawned job", all)
		return
	}
	for ; all != 0; all &= all - 1 {
		if err := a.teams.Announced(pe, bits.TrailingZeros64(all)); err != nil {
			a.accuse(pe, "%w", err)
		}
	}
}

// readHeld gives the streams what is new in the blocks that the agent holds. Blocks without anything new go to settling. The
// order is that in which blocks became ready, so a stream's earlier block comes before its later one.
func (a *Agent) readHeld() (some bool) {
	held := a.held
	a.held = a.reading[:0]
	for i := range held {
		h := &held[i]
		s := &a.sources[h.pe]
		if s.dead {
			continue
		}
		if atomic.LoadUint32(&s.wire.Blocks[h.block].Fill) == h.taken {
			a.settling = append(a.settling, *h)
			continue
		}
		some = true
		err := readBlock(a, h)
		if err != nil {
			if err = readLost(a, h.pe); err == nil { // they come before what lies in this block
				err = readBlock(a, h)
			}
		}
		if err != nil {
			a.accuse(h.pe, "%w", err)
			continue
		}
		a.held = append(a.held, *h)
	}
	a.reading = held[:0]
	return some
}

// readBlock gives the streams what is new in a block that the agent holds.
func readBlock(a *Agent, h *holding) error {
	b := &a.sources[h.pe].wire.Blocks[h.block]
	switch fill := atomic.LoadUint32(&b.Fill); {
	case fill < h.taken || fill > layout.WireBody:
		return fmt.Errorf("block %d has a fill of %d, want %d to %d", h.block, fill, h.taken, layout.WireBody)
	case int(b.Node) == a.cfg.Node:
		return fmt.Errorf("block %d is for this node, want another one", h.block)
	default:
		h.taken = fill
		return a.sender.Add(&stream.Block{
			Local: h.pe, Number: int(h.block), Node: int(b.Node), Class: int(b.Class), First: b.First, Body: b.Body[:fill],
		})
	}
}

// readLost reads the blocks of a PE that were left with records in them, and holds them again.
func readLost(a *Agent, pe layout.Local) error {
	before := len(a.held)
	a.held = findLost(a, a.held, pe)
	for i := before; i < len(a.held); i++ {
		if err := readBlock(a, &a.held[i]); err != nil {
			return err
		}
	}
	return nil
}

// readAgain takes and reads, once more in a pass, what PEs have added. Blocks that had brought nothing new are held again: one of
// them may have got a record, and the stream's next record then lies in a block that is in Ready.
func (a *Agent) readAgain() (some bool) {
	a.holdAgain()
	some = a.takeReady()
	return a.readHeld() || some
}

// holdAgain puts the blocks in settling before those that the agent holds. It comes before each further reading of a pass.
func (a *Agent) holdAgain() {
	a.settling = append(a.settling, a.held...)
	a.held, a.settling = a.settling, a.held[:0]
}

// settle gives the blocks in settling back to their PEs, by the second look of symheap/layout. Blocks that have got more in
// the meantime are held again. If arm is set, settle also arms the bell, and looks at all Tails: unless it finds something,
// the next Poll sleeps. One membarrier serves all.
func (a *Agent) settle(arm bool) {
	if len(a.settling) == 0 && !arm {
		return
	}
	for _, h := range a.settling {
		atomic.StoreUint32(&a.sources[h.pe].wire.Blocks[h.block].State, layout.BlockLeaving)
	}
	if arm {
		a.armed = true
		atomic.OrUint32(&a.cfg.Page.Bell.Sleeping, layout.BellAsleep)
	}
	// For the States, and for what PEs have read of full inboxes. PEs store Tail by a locked instruction.
	waits := arm && a.inboxes.full > 0
	if a.cfg.Expedited && (len(a.settling) > 0 || waits) {
		_ = xunix.Membarrier() // it has worked before, and cannot fail then
	}
	some := false
	for _, h := range a.settling {
		b := &a.sources[h.pe].wire.Blocks[h.block]
		if atomic.LoadUint32(&b.Fill) == h.taken {
			noteLeft(a, &h, b)
			atomic.CompareAndSwapUint32(&b.State, layout.BlockLeaving, layout.BlockIdle) // otherwise it is in Ready
			continue
		}
		some = true
		if atomic.CompareAndSwapUint32(&b.State, layout.BlockLeaving, layout.BlockQueued) {
			a.held = append(a.held, h)
		}
	}
	a.settling = a.settling[:0]
	if !arm {
		return
	}
	if waits && a.inboxes.refill() {
		a.memory.ring()
		some = true
	}
	for i := range a.sources {
		s := &a.sources[i]
		some = some || !s.dead && (atomic.LoadUint64(&s.wire.Tail) != s.head || atomic.LoadUint64(&s.wire.Teams) != 0)
	}
	if some {
		a.disarm()
	}
}

// disarm says that the agent is awake: PEs need not ring.
func (a *Agent) disarm() {
	if a.armed {
		a.armed = false
		atomic.AndUint32(&a.cfg.Page.Bell.Sleeping, layout.BellAsk)
	}
}

// dropSource sends nothing of a PE any more.
func (a *Agent) dropSource(pe layout.Local) {
	if s := &a.sources[pe]; !s.dead {
		s.dead = true
		s.begun = a.countPosts()
		a.sender.DropPE(pe)
		if a.express != nil {
			a.express.dropLine(pe)
		}
	}
}
