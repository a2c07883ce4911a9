package far

import (
	"fmt"
	"strings"
	"testing"
)

// This model is of the waits for slots: the goroutines of a PE, the answers of nodes, the bell. Sections under the Port's
// lock are one move, except for the look of a wait, in whose middle an answer may come. Nodes answer in order. A node
// that has stopped answers nothing, from the start or from any time on.

const (
	mostSlots      = 4
	mostSlotNodes  = 4
	mostGoroutines = 4
	modelWindow    = 2 // of a transfer
)

// What a goroutine does, step after step.
const (
	doFetch    = iota // a request, and the wait for its answer
	doStart           // a request whose answer a Pending gets
	doTransfer        // three requests, of which modelWindow are under way together
)

type slotStep struct{ what, node uint8 }

// slotScene is a scenario, and which mistake the waits have.
type slotScene struct {
	slots   int
	nodes   uint8
	scripts [][]slotStep
	stopped [mostSlotNodes]bool // from the start
	flaky   [mostSlotNodes]bool // may stop at any time

	noQuota    bool // any node may have any slot
	noReserve  bool // nothing is kept for nodes without a slot
	noHarvest  bool // goroutines do not take the answers of Pendings
	noRing     bool // who frees a slot rings nobody
	noOwnRing  bool // who frees a slot rings only if none was free
	noLastRing bool // who frees a slot rings only who waits for the same node
	noLook     bool // the wait does not look between the bell and the sleep
	noFreed    bool // the wait does not notice that its slot has another request
	newest     bool // the wait watches the newest request
	skipsThere bool // the wait watches no slot whose answer is there
	greedy     bool // a transfer waits for more slots while it has some
	uncounted  bool // who frees a slot does not know of the waits
}

// modelSlot is a slot. seq is 1 plus the number that was answered.
type modelSlot struct {
	used, sent, pending, waited bool
	node, number, seq           uint8
}

// The next move of a goroutine.
const (
	sgBegin     = iota
	sgClaim     // claim, or claimMore for a transfer with slots
	sgCount     // count the wait, and look
	sgLook      // harvest
	sgChoose    // what to watch; the end of the look
	sgArm       // the bell
	sgMay       // the look without the lock
	sgStale     // is a look with the lock due?
	sgSleep     // until the bell rings
	sgUncount   // the wait is over
	sgSend      // the request
	sgAwait     // the answer
	sgLeave     // the slot
	sgEnd       // all is done
	lockedMoves = 1<<sgClaim | 1<<sgCount | 1<<sgLook | 1<<sgUncount | 1<<sgSend | 1<<sgLeave
)

// modelGoroutine is a goroutine. Its slots are those of its requests under way, the oldest first.
type modelGoroutine struct {
	pc, step, left uint8
	slots          [modelWindow]uint8
	count          uint8
	claimed        uint8
	watched        int8
	number         uint8
	freed          bool // a slot of the node has become free since the look
	armed          bool // the bell has not rung since this goroutine armed it
	asleep         bool // it has armed the bell: after its next look it sleeps
}

type slotState struct {
	slots   [mostSlots]modelSlot
	next    [mostSlotNodes]uint8 // number of the next request
	answers [mostSlotNodes]uint8 // number of the next answer
	stopped [mostSlotNodes]bool
	waits   [mostSlotNodes]uint8
	locked  uint8 // 1 plus the goroutine in the middle of its look
	ringDue bool  // the agent has not rung since an answer
	gs      [mostGoroutines]modelGoroutine
}

// watches says whether the goroutine has chosen what to watch, for a slot of a node.
func (g *modelGoroutine) watches(script []slotStep, node uint8) bool {
	return g.pc >= sgArm && g.pc <= sgSleep && script[g.step].node == node
}

// held returns how many slots a node has, how many are free, and how many nodes have none.
func (m *slotScene) held(s *slotState, node uint8) (held, free, without uint32) {
	var by [mostSlotNodes]uint32
	for k := range m.slots {
		if x := &s.slots[k]; x.used {
			by[x.node]++
		} else {
			free++
		}
	}
	for _, n := range by[:m.nodes] {
		if n == 0 {
			without++
		}
	}
	return by[node], free, without
}

func (m *slotScene) may(s *slotState, node uint8) bool {
	held, free, without := m.held(s, node)
	switch {
	case m.noQuota:
		return free > 0
	case m.noReserve:
		return isWithin(held, free, 0)
	default:
		return isWithin(held, free, without)
	}
}

func (s *slotState) ring() {
	for i := range s.gs {
		s.gs[i].armed = false
	}
}

// free frees a slot as freeSlot does.
func (m *slotScene) free(s *slotState, k int) {
	node := s.slots[k].node
	_, free, _ := m.held(s, node)
	s.slots[k] = modelSlot{seq: s.slots[k].seq}
	for i := range m.scripts {
		if g := &s.gs[i]; g.watches(m.scripts[i], node) {
			g.freed = true
		}
	}
	all := uint8(0)
	for _, n := range s.waits {
		all += n
	}
	if !m.noRing && (s.waits[node] > 0 && !m.noOwnRing || free == 0 && all > 0 && !m.noLastRing) {
		s.ring()
	}
}

func (s *slotState) answered(k int) bool {
	return s.slots[k].sent && s.slots[k].seq == s.slots[k].number+1
}

func (m *slotScene) harvest(s *slotState) {
	for k := range m.slots {
		if x := &s.slots[k]; x.pending && s.answered(k) && !m.noHarvest {
			x.pending = false
			if !x.waited {
				m.free(s, k)
			}
		}
	}
}

// mayTake is may after a harvest if need be.
func (m *slotScene) mayTake(s *slotState, node uint8) bool {
	if m.may(s, node) {
		return true
	}
	m.harvest(s)
	return m.may(s, node)
}

// move makes the next move of a goroutine. It returns false if the goroutine waits or is done.
func (m *slotScene) move(s *slotState, i int) bool {
	g := &s.gs[i]
	if s.locked > 0 && int(s.locked) != i+1 && lockedMoves>>g.pc&1 == 1 {
		return false
	}
	if g.pc == sgEnd {
		return false
	}
	at := m.scripts[i][g.step]
	switch g.pc {
	case sgClaim:
		m.claim(s, g, at)
	case sgCount:
		if !m.uncounted {
			s.waits[at.node]++
		}
		s.locked, g.pc = uint8(i)+1, sgLook
	case sgLook:
		s.locked, g.pc = uint8(i)+1, sgChoose
		if m.mayTake(s, at.node) {
			s.locked, g.pc = 0, sgUncount
		}
	case sgChoose:
		m.choose(s, g, at.node)
		if s.locked, g.pc = 0, sgArm; g.asleep {
			g.pc = sgSleep
		}
	case sgArm:
		g.armed, g.asleep, g.pc = true, true, sgMay
		if m.noLook {
			g.pc = sgSleep
		}
	case sgMay:
		if g.pc = sgStale; m.may(s, at.node) {
			g.pc = sgUncount
		}
	case sgStale:
		if g.pc = sgSleep; m.isStale(s, g, at.node) {
			g.pc = sgLook
		}
	case sgSleep:
		if g.armed {
			return false
		}
		g.asleep, g.pc = false, sgArm
	case sgUncount:
		if !m.uncounted {
			s.waits[at.node]--
		}
		g.armed, g.asleep, g.watched, g.number, g.freed, g.pc = false, false, 0, 0, false, sgClaim
	case sgSend:
		m.send(s, g, at)
	case sgAwait:
		if !s.answered(int(g.slots[0])) {
			return false
		}
		g.pc = sgLeave
	case sgLeave:
		s.slots[g.slots[0]].waited = false
		m.free(s, int(g.slots[0]))
		g.slots[0], g.slots[1] = g.slots[1], 0
		g.count--
		m.goOn(g)
	}
	m.begin(s, i)
	return true
}

// begin begins the next step of a goroutine that is done with one.
func (m *slotScene) begin(s *slotState, i int) {
	g := &s.gs[i]
	switch {
	case g.pc != sgBegin:
	case i >= len(m.scripts) || int(g.step) == len(m.scripts[i]):
		g.pc = sgEnd
	case m.scripts[i][g.step].what == doTransfer:
		g.pc, g.left = sgClaim, 3
	default:
		g.pc, g.left = sgClaim, 1
	}
}

// claim is claim or claimMore.
func (m *slotScene) claim(s *slotState, g *modelGoroutine, at slotStep) {
	waits := g.count == 0 || m.greedy
	switch {
	case (waits || s.waits[at.node] == 0) && m.mayTake(s, at.node):
		k := 0
		for s.slots[k].used {
			k++
		}
		s.slots[k] = modelSlot{used: true, waited: true, node: at.node}
		g.claimed, g.pc = uint8(k), sgSend
	case waits:
		g.pc = sgCount
	default:
		g.pc = sgAwait
	}
}

// send makes the request in the slot that was claimed.
func (m *slotScene) send(s *slotState, g *modelGoroutine, at slotStep) {
	x := &s.slots[g.claimed]
	x.sent, x.number = true, s.next[at.node]
	s.next[at.node]++
	g.left--
	if at.what == doStart {
		x.pending, x.waited = true, false
		g.step++
		g.claimed, g.pc = 0, sgBegin
		return
	}
	g.slots[g.count] = g.claimed
	g.count++
	g.claimed = 0
	if g.pc = sgAwait; g.left > 0 && g.count < modelWindow {
		g.pc = sgClaim
	}
}

// goOn is what follows after an answer.
func (*slotScene) goOn(g *modelGoroutine) {
	switch {
	case g.left > 0:
		g.pc = sgClaim
	case g.count > 0:
		g.pc = sgAwait
	default:
		g.step++
		g.pc = sgBegin
	}
}

func (m *slotScene) choose(s *slotState, g *modelGoroutine, node uint8) {
	g.watched, g.number, g.freed = -1, 0, false
	for k := range m.slots {
		x := &s.slots[k]
		if !x.sent || x.node != node || s.answered(k) && (x.waited || m.skipsThere) {
			continue
		}
		if g.watched < 0 || x.number < g.number != m.newest {
			g.watched, g.number = int8(k), x.number
		}
	}
}

func (m *slotScene) isStale(s *slotState, g *modelGoroutine, node uint8) bool {
	return g.watched < 0 || g.freed && !m.noFreed || s.slots[g.watched].seq == g.number+1
}

// answer is the next answer of a node.
func (m *slotScene) answer(s *slotState, node uint8) bool {
	if s.stopped[node] || s.answers[node] == s.next[node] {
		return false
	}
	for k := range m.slots {
		if x := &s.slots[k]; x.sent && x.node == node && x.number == s.answers[node] {
			x.seq = x.number + 1
			s.answers[node]++
			s.ringDue = true
			return true
		}
	}
	return false
}

// check says what is wrong when nothing moves any more.
func (m *slotScene) check(s *slotState) error {
	for i := range m.scripts {
		g := &s.gs[i]
		if g.pc == sgEnd {
			continue
		}
		node := m.scripts[i][g.step].node
		if !s.stopped[node] {
			return fmt.Errorf("goroutine %d waits for node %d, which answers", i, node)
		}
		if g.pc == sgSleep && m.missed(s, g, node) {
			return fmt.Errorf("goroutine %d sleeps and has missed what makes its node %d have a slot", i, node)
		}
	}
	return nil
}

// missed says whether a slot that a wait is for has become free, or would by a harvest. Another node's slot is one if this
// node has none.
func (m *slotScene) missed(s *slotState, g *modelGoroutine, node uint8) bool {
	now := *s
	before, _, _ := m.held(s, node)
	m.harvest(&now)
	held, free, _ := m.held(&now, node)
	return held < before || g.freed && m.may(&now, node) || held == 0 && free > 0
}

// slotExplorer visits every state once.
type slotExplorer struct {
	m    *slotScene
	seen map[slotState]struct{}
	path []string
	err  error
}

func (x *slotExplorer) visit(s *slotState) {
	if _, known := x.seen[*s]; known || x.err != nil {
		return
	}
	x.seen[*s] = struct{}{}
	moved := false
	follow := func(next *slotState, what string, number int) {
		moved = true
		x.path = append(x.path, fmt.Sprint(what, " ", number))
		x.visit(next)
		x.path = x.path[:len(x.path)-1]
	}
	for i := range x.m.scripts {
		if next := *s; x.m.move(&next, i) {
			follow(&next, fmt.Sprint("from ", s.gs[i].pc, " goroutine"), i)
		}
	}
	if s.ringDue {
		next := *s
		next.ringDue = false
		next.ring()
		follow(&next, "the agent rings", 0)
	}
	for node := range x.m.nodes {
		if next := *s; x.m.answer(&next, node) {
			follow(&next, "answer of node", int(node))
		}
	}
	quiet := !moved
	for node := range x.m.nodes {
		if x.m.flaky[node] && !s.stopped[node] {
			next := *s
			next.stopped[node] = true
			follow(&next, "stop of node", int(node))
		}
	}
	if quiet && x.err == nil {
		if err := x.m.check(s); err != nil {
			x.err = fmt.Errorf("%w, after:\n%s", err, strings.Join(x.path, "\n"))
		}
	}
}

func exploreSlots(m slotScene) *slotExplorer {
	x := &slotExplorer{m: &m, seen: map[slotState]struct{}{}}
	s := &slotState{stopped: m.stopped}
	for i := range s.gs {
		m.begin(s, i)
	}
	x.visit(s)
	return x
}

// starts is a script of so many steps.
func starts(n int, what, node uint8) (script []slotStep) {
	for range n {
		script = append(script, slotStep{what, node})
	}
	return script
}

// slotScenes are small jobs: more goroutines than slots, more stopped nodes than a fixed share of the slots allows, transfers, a
// node that stops at any time, goroutines that use two nodes, a stopped node and one that answers.
var slotScenes = []slotScene{
	{slots: 2, nodes: 3, scripts: [][]slotStep{starts(1, doFetch, 0), starts(1, doFetch, 1), starts(1, doFetch, 2)}},
	{slots: 4, nodes: 4, stopped: [mostSlotNodes]bool{true, true, true}, scripts: [][]slotStep{
		starts(2, doStart, 0), starts(1, doStart, 1), starts(1, doStart, 2), starts(1, doFetch, 3),
	}},
	{slots: 4, nodes: 1, scripts: [][]slotStep{starts(1, doTransfer, 0), starts(1, doTransfer, 0)}},
	{slots: 4, nodes: 2, flaky: [mostSlotNodes]bool{true}, scripts: [][]slotStep{starts(4, doStart, 0), starts(2, doStart, 1)}},
	{slots: 4, nodes: 2, scripts: [][]slotStep{{{doStart, 0}, {doStart, 0}, {doFetch, 1}}, {{doStart, 1}, {doStart, 1}, {doFetch, 0}}}},
	{slots: 4, nodes: 2, stopped: [mostSlotNodes]bool{true}, scripts: [][]slotStep{starts(3, doStart, 0), starts(1, doFetch, 1), starts(3, doStart, 1)}},
}

// In all orders, each goroutine that talks to nodes that answer ends, and no goroutine sleeps although it may have a slot.
func TestSlotModel(t *testing.T) {
	scenes := slotScenes
	if testing.Short() {
		scenes = scenes[:4]
	}
	for i, m := range scenes {
		x := exploreSlots(m)
		t.Logf("scene %d: %d states", i, len(x.seen))
		if x.err != nil {
			t.Errorf("scene %d: %v", i, x.err)
		}
	}
}

// The exploration finds each mistake.
func TestSlotModelMutants(t *testing.T) {
	for name, spoil := range map[string]func(m *slotScene){
		"no quota":                             func(m *slotScene) { m.noQuota = true },
		"no reserve":                           func(m *slotScene) { m.noReserve = true },
		"no harvest":                           func(m *slotScene) { m.noHarvest = true },
		"no ring":                              func(m *slotScene) { m.noRing = true },
		"a ring for the first free slot alone": func(m *slotScene) { m.noOwnRing = true },
		"a ring for waits of the same node alone":      func(m *slotScene) { m.noLastRing = true },
		"no look before the sleep":                     func(m *slotScene) { m.noLook = true },
		"a slot that is used again is watched on":      func(m *slotScene) { m.noFreed = true },
		"the newest request is watched":                func(m *slotScene) { m.newest = true },
		"an answer during the look is left out":        func(m *slotScene) { m.skipsThere = true },
		"a transfer waits for slots while it has some": func(m *slotScene) { m.greedy = true },
		"waits are not counted":                        func(m *slotScene) { m.uncounted = true },
	} {
		t.Run(name, func(t *testing.T) {
			for i, m := range slotScenes {
				spoil(&m)
				if x := exploreSlots(m); x.err != nil {
					what, _, _ := strings.Cut(x.err.Error(), "\n")
					t.Logf("scene %d: %s", i, what)
					return
				}
			}
			t.Error("the exploration does not find this mistake")
		})
	}
}
