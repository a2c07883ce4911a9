package far

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// The model does what a PE and its agent do with the words of a Wire and with the agent's bell, one access after the other. A
// PE's stores go through a store buffer: other processors see them later, in their order. A locked instruction of the PE
// empties it, and so does the agent's membarrier. The agent's stores are visible at once. An agent that looks back needs no membarrier.

const (
	modelBlocks = 2 // of each PE
	modelBody   = 2 // records in a block
	modelPEs    = 2
	mostStores  = 8 // in a store buffer
)

// The words of a PE's wire region.
const (
	wordFill  = iota                    // of a block
	wordFirst = wordFill + modelBlocks  // of a block
	wordBody  = wordFirst + modelBlocks // of a block's record
	wordReady = wordBody + modelBlocks*modelBody
	wordState = wordReady + modelBlocks // of a block
	wordTail  = wordState + modelBlocks
	wordDone  = wordTail + 1
	words     = wordDone + 1
)

// The states of a block.
const (
	idle = iota
	queued
	leaving
)

// store is one entry of a store buffer.
type store struct{ word, value uint8 }

// The next access of a PE.
const (
	peOpen = iota
	peRecord
	peFill
	peLoadState
	peQueue
	peReady
	peTail
	peLoadBell
	peRing
	peWait
)

// modelPE is a PE: its words, its store buffer and its registers.
type modelPE struct {
	words  [words]uint8
	buffer [mostStores]store
	stores uint8

	pc, next    uint8              // next: number of the next record
	open, fill  uint8              // open: 1 plus the open block; 0: none
	end         [modelBlocks]uint8 // number after the last record, of a closed block; 0: free
	tail, state uint8
	bell        uint8
}

// The next access of the agent.
const (
	agentLoop = iota
	agentFirst
	agentSend
	agentLeave
	agentBarrier
	agentLook
	agentGoOn
	agentGiveBack
	agentArm
	agentArmLook
	agentAsleep
)

// modelAgent is the agent's registers. pe and block say what it looks at.
type modelAgent struct {
	pc, pe, block uint8
	taken, sent   [modelPEs]uint8
	first, seen   [modelPEs][modelBlocks]uint8
	at            [modelPEs][8]uint8 // the words of the records sent
}

// modelState is all of it.
type modelState struct {
	pes   [modelPEs]modelPE
	agent modelAgent
	batch modelBatch
	bell  uint8 // 1: asleep
	event uint8 // the event descriptor's counter
}

// protocol is the scenario, and which mistake the protocol has.
type protocol struct {
	pes, records int
	batched      bool // the agent is the batched one
	twice        bool // and reads twice in a pass that has sent something

	looksBack bool // the batched agent looks back at the blocks that it has left

	noBarrier    bool // the agent looks a second time without membarrier
	lateLookBack bool // the agent looks back only before it sleeps
	noLook       bool // the agent does not look a second time
	noSwap       bool // the agent goes on with a block by a store
	queuedReuse  bool // the PE uses a block again that is in Ready
	idleEarly    bool // the agent stores idle before its second look
	blindIdle    bool // the agent gives a block back by a store
	noRetry      bool // the PE tries the compare-and-swap once
	plainTail    bool // the PE stores Tail by a plain store
	noArmLook    bool // the agent sleeps without a look at the tails
	stateFirst   bool // the PE loads State before it stores Fill
	bellFirst    bool // the PE loads the bell before it stores Tail
	blindQueue   bool // the PE queues a block by a store
	hastyReuse   bool // the PE uses a closed block again before its records are executed
}

// put stores a word by way of the store buffer.
func (p *modelPE) put(word, value int) {
	if p.stores == mostStores {
		p.drain()
	}
	p.buffer[p.stores] = store{uint8(word), uint8(value)}
	p.stores++
}

// get loads a word: the latest store of the PE itself, or what is in memory.
func (p *modelPE) get(word int) uint8 {
	for i := int(p.stores) - 1; i >= 0; i-- {
		if int(p.buffer[i].word) == word {
			return p.buffer[i].value
		}
	}
	return p.words[word]
}

// drain makes the oldest store visible.
func (p *modelPE) drain() {
	p.words[p.buffer[0].word] = p.buffer[0].value
	copy(p.buffer[:], p.buffer[1:])
	p.stores--
	p.buffer[p.stores] = store{}
}

// flush makes all stores visible.
func (p *modelPE) flush() {
	for p.stores > 0 {
		p.drain()
	}
}

// stepPE makes the next access of a PE. It returns false if the PE waits or is done.
func (m *protocol) stepPE(s *modelState, i int) (moved bool, err error) {
	p := &s.pes[i]
	b := int(p.open) - 1
	switch p.pc {
	case peOpen:
		return m.open(p), nil
	case peRecord:
		p.put(wordBody+b*modelBody+int(p.fill), int(p.next))
		p.fill++
		p.next++
		p.pc = peFill
		if m.stateFirst {
			p.state = p.get(wordState + b)
		}
	case peFill:
		p.put(wordFill+b, int(p.fill))
		p.pc = peLoadState
	case peLoadState:
		if !m.stateFirst {
			p.state = p.get(wordState + b)
		}
		if p.pc = peOpen; p.state != queued {
			p.pc = peQueue
		}
	case peQueue:
		if m.blindQueue {
			p.put(wordState+b, queued)
			p.pc = peReady
			break
		}
		p.flush()
		if p.words[wordState+b] != p.state {
			p.pc = peLoadState
			if m.noRetry {
				p.pc = peOpen
			}
			break
		}
		p.words[wordState+b] = queued
		p.pc = peReady
	case peReady:
		p.put(wordReady+int(p.tail)%modelBlocks, b)
		p.tail++
		p.pc = peTail
		if m.bellFirst {
			p.bell = s.bell
		}
	case peTail:
		p.put(wordTail, int(p.tail))
		if !m.plainTail {
			p.flush()
		}
		p.pc = peLoadBell
	case peLoadBell:
		if !m.bellFirst {
			p.bell = s.bell
		}
		if p.pc = peOpen; p.bell != 0 {
			p.pc = peRing
		}
	case peRing:
		p.flush()
		p.pc = peOpen
		if s.bell != 0 {
			s.bell, s.event = 0, 1
		}
	}
	return true, nil
}

// open begins the next record, in the open block or in a new one.
func (m *protocol) open(p *modelPE) bool {
	if int(p.next) == m.records {
		return false
	}
	if p.open > 0 && p.fill < modelBody {
		p.pc = peRecord
		return true
	}
	if p.open > 0 {
		p.end[p.open-1] = p.next
		p.open = 0
	}
	for b := range modelBlocks {
		if p.end[b] > 0 && (p.get(wordDone) >= p.end[b] || m.hastyReuse) && (p.get(wordState+b) == idle || m.queuedReuse) {
			p.end[b] = 0
		}
		if p.end[b] == 0 {
			p.open, p.fill, p.pc = uint8(b)+1, 0, peRecord
			p.put(wordFirst+b, int(p.next))
			p.put(wordFill+b, 0)
			return true
		}
	}
	return false // waits for Done
}

// barrier is the agent's membarrier.
func (s *modelState) barrier() {
	for i := range s.pes {
		s.pes[i].flush()
	}
}

// stepAgent makes the next access of the agent. It returns false if the agent sleeps.
func (m *protocol) stepAgent(s *modelState) (moved bool, err error) {
	a := &s.agent
	if m.batched && a.pc != agentAsleep {
		return true, m.stepBatch(s)
	}
	p := &s.pes[a.pe]
	b := int(a.block)
	switch a.pc {
	case agentLoop:
		return true, m.take(s)
	case agentFirst:
		if first := p.words[wordFirst+b]; first != a.first[a.pe][b] {
			a.first[a.pe][b], a.seen[a.pe][b] = first, 0
		}
		a.pc = agentSend
	case agentSend:
		if err := m.send(s); err != nil {
			return true, err
		}
		a.pc = agentLeave
	case agentLeave:
		p.words[wordState+b] = leaving
		if m.idleEarly {
			p.words[wordState+b] = idle
		}
		if a.pc = agentBarrier; m.noLook {
			a.pc = agentGiveBack
		}
	case agentBarrier:
		if !m.noBarrier {
			s.barrier()
		}
		a.pc = agentLook
	case agentLook:
		if a.pc = agentGiveBack; p.words[wordFill+b] != a.seen[a.pe][b] {
			a.pc = agentGoOn
		}
	case agentGoOn:
		a.pc = agentLoop
		if state := &p.words[wordState+b]; *state == leaving || *state == idle && m.idleEarly || m.noSwap {
			*state = queued
			a.pc = agentSend
		}
	case agentGiveBack:
		a.pc = agentLoop
		if state := &p.words[wordState+b]; *state == leaving || m.blindIdle {
			*state = idle
		}
	case agentArm:
		s.bell = 1
		if a.pc = agentArmLook; m.noArmLook {
			a.pc = agentAsleep
		}
	case agentArmLook:
		a.pc = agentAsleep
		for i := range s.pes {
			if s.pes[i].words[wordTail] != a.taken[i] {
				a.pc, s.bell = agentLoop, 0
			}
		}
	case agentAsleep:
		if s.event == 0 && m.looksBack { // after a sleep that nobody has ended
			for i := range s.pes {
				moved = m.claimLost(s, i) || moved
			}
			if moved {
				s.bell, a.pc = 0, batchTake
			}
			return moved, nil
		}
		if s.event == 0 {
			return false, nil
		}
		s.event, s.bell = 0, 0
		a.pc = agentLoop
	}
	return true, nil
}

// take takes the next block from a Ready, or begins to fall asleep.
func (m *protocol) take(s *modelState) error {
	a := &s.agent
	for i := range s.pes {
		p := &s.pes[i]
		if unread := p.words[wordTail] - a.taken[i]; unread > 0 {
			if unread > modelBlocks || unread == 2 && p.words[wordReady] == p.words[wordReady+1] {
				return errors.New("a block is in Ready twice")
			}
			a.pe, a.block = uint8(i), p.words[wordReady+int(a.taken[i])%modelBlocks]
			a.taken[i]++
			a.pc = agentFirst
			return nil
		}
	}
	a.pc = agentArm
	return nil
}

// send sends what is new in the block, and checks that it is what comes next.
func (m *protocol) send(s *modelState) error {
	a := &s.agent
	p, b := &s.pes[a.pe], int(a.block)
	seen := &a.seen[a.pe][b]
	for ; *seen < p.words[wordFill+b]; *seen++ {
		if got := p.words[wordBody+b*modelBody+int(*seen)]; got != a.sent[a.pe] {
			return fmt.Errorf("the agent sends record %d of PE %d, want %d", got, a.pe, a.sent[a.pe])
		}
		a.at[a.pe][a.sent[a.pe]] = uint8(wordBody + b*modelBody + int(*seen))
		a.sent[a.pe]++
	}
	return nil
}

// execute stores Done. Until then, the records must be in their blocks, because the agent may have to send them again.
func (m *protocol) execute(s *modelState, i int) error {
	p := &s.pes[i]
	for n := p.words[wordDone]; n < s.agent.sent[i]; n++ {
		if got := p.words[s.agent.at[i][n]]; got != n {
			return fmt.Errorf("record %d of PE %d is overwritten by record %d before it is executed", n, i, got)
		}
	}
	p.words[wordDone] = s.agent.sent[i]
	return nil
}

// modelExplorer visits every state once.
type modelExplorer struct {
	m    *protocol
	seen map[modelState]struct{}
	path []string
	err  error
	ends int
}

func (x *modelExplorer) visit(s *modelState) {
	if _, known := x.seen[*s]; known || x.err != nil {
		return
	}
	x.seen[*s] = struct{}{}
	moved := false
	for i := range x.m.pes {
		next := *s
		if ok, err := x.m.stepPE(&next, i); ok {
			x.follow(&next, fmt.Sprint("PE ", i, " goes on from ", s.pes[i].pc), err)
			moved = true
		}
		if s.pes[i].stores > 0 {
			next := *s
			next.pes[i].drain()
			x.follow(&next, fmt.Sprint("a store of PE ", i, " becomes visible"), nil)
			moved = true
		}
		if s.agent.sent[i] != s.pes[i].words[wordDone] { // news of other nodes comes at any time
			next := *s
			err := x.m.execute(&next, i)
			x.follow(&next, fmt.Sprint("Done of PE ", i), err)
			moved = true
		}
	}
	next := *s
	if ok, err := x.m.stepAgent(&next); ok {
		x.follow(&next, fmt.Sprint("the agent goes on from ", s.agent.pc), err)
		moved = true
	}
	if moved {
		return
	}
	x.ends++
	for i := range x.m.pes {
		if done := s.pes[i].words[wordDone]; int(done) != x.m.records {
			x.fail(fmt.Errorf("all is asleep, and %d of %d records of PE %d are executed", done, x.m.records, i))
		}
	}
}

func (x *modelExplorer) follow(s *modelState, what string, err error) {
	if x.err != nil {
		return
	}
	x.path = append(x.path, what)
	if err != nil {
		x.fail(err)
	} else {
		x.visit(s)
	}
	x.path = x.path[:len(x.path)-1]
}

func (x *modelExplorer) fail(err error) {
	if x.err == nil {
		x.err = fmt.Errorf("%w, after:\n%s", err, strings.Join(x.path, "\n"))
	}
}

func exploreModel(m protocol) *modelExplorer {
	x := &modelExplorer{m: &m, seen: map[modelState]struct{}{}}
	x.visit(new(modelState))
	return x
}

var modelScenarios = []protocol{
	{pes: 1, records: 6},
	{pes: 2, records: 1},
	{pes: 1, records: 5, batched: true},
	{pes: 2, records: 1, batched: true},
	{pes: 1, records: 5, batched: true, twice: true},
	{pes: 2, records: 1, batched: true, twice: true},
	{pes: 1, records: 5, batched: true, looksBack: true},
	{pes: 1, records: 5, batched: true, looksBack: true, noBarrier: true},
	{pes: 2, records: 1, batched: true, looksBack: true, noBarrier: true},
	{pes: 1, records: 5, batched: true, twice: true, looksBack: true, noBarrier: true},
}

// In all orders of accesses, each record is sent once and in order, and the agent sleeps over none.
func TestModel(t *testing.T) {
	testenv.SkipSerial(t)
	all := modelScenarios
	if !testing.Short() {
		all = append(slices.Clip(all), protocol{pes: 1, records: 6, batched: true}, protocol{pes: 1, records: 6, batched: true, twice: true}, protocol{pes: 1, records: 6, batched: true, looksBack: true, noBarrier: true}, protocol{pes: 2, records: 2}) // takes 20 seconds
	}
	for _, m := range all {
		x := exploreModel(m)
		t.Logf("%d PEs, %d records, batched %v, twice %v, without barrier %v: %d states, %d ends", m.pes, m.records, m.batched, m.twice, m.noBarrier, len(x.seen), x.ends)
		if x.err != nil {
			t.Error(x.err)
		}
	}
}

// The exploration finds each mistake.
func TestModelMutants(t *testing.T) {
	testenv.SkipSerial(t)
	for name, spoil := range map[string]func(m *protocol){
		"no membarrier before the second look":     func(m *protocol) { m.noBarrier = true },
		"no order in a look back":                  func(m *protocol) { m.lateLookBack = true },
		"no second look":                           func(m *protocol) { m.noLook = true },
		"the agent goes on by a store":             func(m *protocol) { m.noSwap = true },
		"a block is used again while it is queued": func(m *protocol) { m.queuedReuse = true },
		"idle before the second look":              func(m *protocol) { m.idleEarly = true },
		"given back by a store":                    func(m *protocol) { m.blindIdle = true },
		"the PE does not try again":                func(m *protocol) { m.noRetry = true },
		"Tail by a plain store":                    func(m *protocol) { m.plainTail = true },
		"no look after the bell":                   func(m *protocol) { m.noArmLook = true },
		"State before Fill":                        func(m *protocol) { m.stateFirst = true },
		"the bell before Tail":                     func(m *protocol) { m.bellFirst = true },
		"queued by a store":                        func(m *protocol) { m.blindQueue = true },
		"a block is used again before Done":        func(m *protocol) { m.hastyReuse = true },
	} {
		t.Run(name, func(t *testing.T) {
			for _, m := range modelScenarios {
				if m.looksBack && !strings.Contains(name, "look back") {
					continue
				}
				spoil(&m)
				if x := exploreModel(m); x.err != nil {
					what, _, _ := strings.Cut(x.err.Error(), "\n")
					t.Logf("%d PEs, %d records: %s %d moves", m.pes, m.records, what, strings.Count(x.err.Error(), "\n"))
					return
				}
			}
			t.Error("the exploration does not find this mistake")
		})
	}
}
