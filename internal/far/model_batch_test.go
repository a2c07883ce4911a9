package far

import "errors"

// The batched agent of the model goes through its blocks as package agent does: it takes all that is in Ready, reads all blocks
// that it holds, and has one membarrier for the second looks at all blocks without anything new. Then it arms its bell.

// The next access of the batched agent. It sleeps in agentAsleep.
const (
	batchTake = 100 + iota
	batchRead
	batchLeave
	batchBarrier
	batchLook
	batchGoOn
	batchGiveBack
	batchTails
)

const mostHeld = modelPEs * modelBlocks

// holding is a block that the batched agent holds.
type holding struct{ pe, block, taken uint8 }

// modelBatch is the registers of the batched agent.
type modelBatch struct {
	held, settling       [mostHeld]holding
	holds, settles, next uint8 // next: position in held or settling
	fresh                bool  // this pass has found something
	found                bool  // the second looks have
	again                bool  // this pass reads for the second time
}

// add puts a block at the end of held.
func (b *modelBatch) add(h holding) error {
	if b.holds == mostHeld {
		return errors.New("the agent holds more blocks than there are")
	}
	b.held[b.holds] = h
	b.holds++
	return nil
}

// stepBatch makes the next access of the batched agent.
func (m *protocol) stepBatch(s *modelState) error {
	a, b := &s.agent, &s.batch
	switch a.pc {
	case agentLoop, batchTake:
		b.fresh, b.found, b.next = false, false, 0 // again stays
		a.pc = batchRead
		return m.takeAll(s)
	case batchRead:
		return m.readHeld(s)
	case batchLeave:
		if b.next < b.settles {
			h := b.settling[b.next]
			s.pes[h.pe].words[wordState+int(h.block)] = leaving
			b.next++
			return nil
		}
		b.again = false
		if b.next, a.pc = 0, batchBarrier; !b.fresh {
			s.bell = 1
		}
	case batchBarrier:
		if !m.noBarrier && b.settles > 0 {
			s.barrier()
		}
		a.pc = batchLook
	case batchLook:
		if b.next == b.settles {
			b.settles, b.settling = 0, [mostHeld]holding{}
			if a.pc = batchTails; b.fresh {
				a.pc = batchTake
			}
			return nil
		}
		h := b.settling[b.next]
		if a.pc = batchGiveBack; s.pes[h.pe].words[wordFill+int(h.block)] != h.taken {
			a.pc, b.found = batchGoOn, true
		}
	case batchGoOn, batchGiveBack:
		return m.endLook(s)
	case batchTails:
		for i := range s.pes {
			b.found = b.found || s.pes[i].words[wordTail] != a.taken[i]
		}
		if a.pc = agentAsleep; b.found {
			a.pc, s.bell = batchTake, 0
		}
	}
	return nil
}

// takeAll takes all that is in the Readys.
func (m *protocol) takeAll(s *modelState) error {
	a, b := &s.agent, &s.batch
	for i := range s.pes {
		p := &s.pes[i]
		for ; a.taken[i] != p.words[wordTail]; a.taken[i]++ {
			b.fresh = true
			if err := b.add(holding{pe: uint8(i), block: p.words[wordReady+int(a.taken[i])%modelBlocks]}); err != nil {
				return err
			}
		}
	}
	return nil
}

// readHeld reads the next block that is held. One without anything new goes to settling.
func (m *protocol) readHeld(s *modelState) error {
	a, b := &s.agent, &s.batch
	if b.next == b.holds {
		b.next, a.pc = 0, batchLeave
		if m.twice && b.fresh && !b.again {
			b.again, a.pc = true, batchTake
			return holdAgain(b)
		}
		return nil
	}
	h := &b.held[b.next]
	p, k := &s.pes[h.pe], int(h.block)
	if fill := p.words[wordFill+k]; fill != h.taken {
		if fill < h.taken {
			return errors.New("the fill of a block that is held has fallen")
		}
		b.fresh, h.taken = true, fill
		b.next++
		if first := p.words[wordFirst+k]; first != a.first[h.pe][k] {
			a.first[h.pe][k], a.seen[h.pe][k] = first, 0
		}
		if m.looksBack && !m.lateLookBack && a.seen[h.pe][k] < fill && p.words[wordBody+k*modelBody+int(a.seen[h.pe][k])] != a.sent[h.pe] {
			before := *h
			if err := m.sendLost(s, int(h.pe)); err != nil {
				return err
			}
			*h = before
		}
		a.pe, a.block = h.pe, h.block
		return m.send(s)
	}
	if b.settles == mostHeld {
		return errors.New("the agent settles more blocks than there are")
	}
	b.settling[b.settles] = *h
	b.settles++
	copy(b.held[b.next:], b.held[b.next+1:])
	b.holds--
	b.held[b.holds] = holding{}
	return nil
}

// claimLost holds those blocks of a PE again that were left with a record in them, and reports whether there are such.
func (m *protocol) claimLost(s *modelState, pe int) (some bool) {
	p, a := &s.pes[pe], &s.agent
	for k := range modelBlocks {
		if p.words[wordState+k] == idle && p.words[wordFirst+k] == a.first[pe][k] && p.words[wordFill+k] > a.seen[pe][k] && a.seen[pe][k] > 0 {
			p.words[wordState+k] = queued
			_ = s.batch.add(holding{pe: uint8(pe), block: uint8(k)}) // there is room: an idle block is held by nobody
			some = true
		}
	}
	return some
}

// sendLost sends what lies in the blocks of a PE that were left with a record in them.
func (m *protocol) sendLost(s *modelState, pe int) error {
	a, b := &s.agent, &s.batch
	before := b.holds
	m.claimLost(s, pe)
	for i := before; i < b.holds; i++ {
		h := &b.held[i]
		h.taken = s.pes[pe].words[wordFill+int(h.block)]
		a.pe, a.block = h.pe, h.block
		if err := m.send(s); err != nil {
			return err
		}
	}
	return nil
}

// holdAgain holds the blocks without anything new again, before the others, for the second reading.
func holdAgain(b *modelBatch) error {
	all := append(b.settling[:b.settles:b.settles], b.held[:b.holds]...)
	b.held, b.settling, b.holds, b.settles = [mostHeld]holding{}, [mostHeld]holding{}, 0, 0
	for _, h := range all {
		if err := b.add(h); err != nil {
			return err
		}
	}
	return nil
}

// endLook ends the second look at a block by the compare-and-swap.
func (m *protocol) endLook(s *modelState) error {
	a, b := &s.agent, &s.batch
	h := b.settling[b.next]
	state := &s.pes[h.pe].words[wordState+int(h.block)]
	goOn := a.pc == batchGoOn
	b.next++
	a.pc = batchLook
	if *state != leaving {
		return nil
	}
	if !goOn {
		*state = idle
		return nil
	}
	*state = queued
	return b.add(h)
}
