package far

import (
	"context"
	"math/bits"
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
)

// # Who waits for a slot, and for what
//
// A node may take a slot by quota. A request that wants a piece needs both, with one exception: while other nodes have all
// pieces, it gets a slot alone, and its data go through the slot's room. So pieces that stopped nodes have stop no other node.
//
// No two waits wait for each other:
//
//   - A goroutine that has claimed a slot waits for its answer, or for a block of the stream to the same node, and then
//     leaves it. It never waits for another slot meanwhile: a transfer with parts under way asks by claimMore, which
//     does not wait.
//   - The slots of a Pending have no goroutine. Whoever looks for a slot takes their answers (harvest), and that
//     frees them. So a goroutine may start requests to node A, and then wait for a slot of node B: nothing of A needs it.
//   - Blocks become free without slots, when records are executed. The agent has room for the answer before the record.
//
// So each slot of a node that executes and answers becomes free, whatever other nodes do. Let a node that lives be refused a
// slot:
//
//   - It holds some. They become free. The last one leaves it without any, so that it may have that one again.
//   - It holds none, and no slot is free. That takes more than reserveSlots nodes that hold some, and ends with the
//     first of them that answers or is lost.
//
// # No wake-up is lost
//
// A waiter sleeps on this PE's bell (package wait), which is armed before its last look. What can make that look succeed
// later rings after it has happened:
//
//   - The answer to a request of the node: the agent rings. The waiter does not look at all slots in each Poll, which
//     would hold the lock against goroutines that talk to other nodes. It watches one, whose answer comes first:
//     the oldest request of its node, as a node answers in order.
//   - Another goroutine frees a slot of the node, perhaps the one that is watched: freeSlot counts it in freed, and rings
//     because of counts the waiter in of. The slot may have a new request of another node by then. The count tells the waiter.
//   - Any slot becomes free when none was: freeSlot rings because all counts the waiter.
//   - A death: the failure page rings. The waiter looks at all, because a lost node's slots become free.
//
// Another slot that becomes free while some are free rings nobody. It may raise what the node of a waiter can have. The
// waiter has that when its own node answers, as it does not need it to go on.

// slotWaits is who waits for slots. The Port's lock guards it, except that waits read freed without it.
type slotWaits struct {
	freed []uint32 // by node: counts its slots that have become free
	of    []int32  // by node: goroutines that wait for one of its slots
	all   int32    // the sum of of
}

// mayTake is may after a harvest if need be. The Port is locked.
func (p *Port) mayTake(node int, wantsPiece bool) (piece, ok bool) {
	if piece, ok = p.quotas.may(node, wantsPiece); !ok {
		p.harvest()
		piece, ok = p.quotas.may(node, wantsPiece)
	}
	return piece, ok
}

// claim gives the caller a slot, as its only waiter. If the caller wants a piece, the slot has one, unless other nodes have all
// of them. If the node can have no slot, claim waits. The caller holds no slot, except by Pendings.
func (p *Port) claim(ctx context.Context, to target, wantsPiece bool) (k int, err error) {
	for {
		if k, ok := p.claimNow(to, wantsPiece); ok {
			return k, nil
		}
		s := &slotWait{p: p, to: to, wantsPiece: wantsPiece, epoch: p.waiter.Epoch()}
		if err := s.wait(ctx); err != nil {
			return 0, err
		}
	}
}

// claimNow is claim without a wait. It returns false if the node can have no slot.
func (p *Port) claimNow(to target, wantsPiece bool) (k int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	piece, ok := p.mayTake(to.node, wantsPiece)
	if ok {
		k = p.takeSlot(to, piece)
	}
	return k, ok
}

// claimMore is claimNow for a caller that has slots of the node. It gives way to goroutines that wait for their first one.
func (p *Port) claimMore(to target, wantsPiece bool) (k int, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.waits.of[to.node] > 0 {
		return 0, false
	}
	piece, ok := p.mayTake(to.node, wantsPiece)
	if ok {
		k = p.takeSlot(to, piece)
	}
	return k, ok
}

// takeSlot takes what may has allowed.
func (p *Port) takeSlot(to target, piece bool) int {
	k := int(p.freeSlots[len(p.freeSlots)-1])
	p.freeSlots = p.freeSlots[:len(p.freeSlots)-1]
	s := &p.slots[k]
	*s = slot{node: int32(to.node), waiters: 1, piece: -1, used: true}
	p.quotas.slots.take(to.node)
	if piece {
		s.piece = int8(bits.TrailingZeros32(p.pieces))
		p.pieces &^= 1 << s.piece
		p.quotas.pieces.take(to.node)
	}
	rma.StoreRelease(&p.wire.Slots[k].Seq, 0)
	return k
}

// slotWait is a wait for a slot.
type slotWait struct {
	p          *Port
	to         target
	wantsPiece bool
	watched    int    // a slot of the node, whose answer comes first; -1: none, so each Poll looks at all slots
	number     uint64 // of the request there
	freed      uint32 // slotWaits.freed at the last look
	epoch      uint64
	err        error
}

// Poll looks once. It makes the progress that Wait would make for peers.
func (s *slotWait) Poll() wait.Look {
	p := s.p
	died := false
	if e := p.waiter.Epoch(); e != s.epoch {
		s.epoch, died = e, true
		if s.err = p.deaths.gone(s.to); s.err != nil {
			return wait.Over
		}
	}
	if _, ok := p.quotas.may(s.to.node, s.wantsPiece); ok {
		return wait.Over
	}
	if died || s.isStale() {
		p.mu.Lock()
		ok := s.look()
		p.mu.Unlock()
		if ok {
			return wait.Over
		}
	}
	if p.waiter.ServePeers() {
		return wait.Moved
	}
	return wait.Nothing
}

// isStale says whether a look at all slots may find more than the last one did.
func (s *slotWait) isStale() bool {
	w := s.p.wire
	return s.watched < 0 || atomic.LoadUint32(&s.p.waits.freed[s.to.node]) != s.freed || atomic.LoadUint64(&w.Slots[s.watched].Seq) == s.number+1
}

// look says whether the node may have a slot, after a harvest, and chooses the slot to watch if not. The Port is locked.
//
// A slot whose answer is there, and for which goroutines wait, is not watched: these will leave it, and then it counts in freed.
// One that nobody waits for was answered since the harvest. It is watched, so the next Poll looks again.
func (s *slotWait) look() bool {
	p := s.p
	if _, ok := p.mayTake(s.to.node, s.wantsPiece); ok {
		return true
	}
	s.watched, s.freed = -1, p.waits.freed[s.to.node]
	for k := range p.slots {
		x := &p.slots[k]
		if !x.sent || int(x.node) != s.to.node || x.waiters > 0 && p.answered(k) {
			continue
		}
		if s.watched < 0 || x.number < s.number {
			s.watched, s.number = k, x.number
		}
	}
	return false
}

// Awaits returns the number plus 1 of the PE that the wait is for.
func (s *slotWait) Awaits() int { return int(s.to.pe) + 1 }

// wait waits until a request to the target may have a slot, or the target is dead. Others may be faster: the caller looks
// again.
func (s *slotWait) wait(ctx context.Context) error {
	p, node := s.p, s.to.node
	if err := p.deaths.gone(s.to); err != nil {
		return err
	}
	p.mu.Lock()
	p.waits.of[node]++
	p.waits.all++
	ok := s.look()
	p.mu.Unlock()
	var err error
	if !ok {
		err = p.waiter.WaitPoll(s, ctx)
	}
	p.mu.Lock()
	p.waits.of[node]--
	p.waits.all--
	p.mu.Unlock()
	if err != nil {
		return err
	}
	return s.err
}
