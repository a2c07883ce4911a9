package sched

// Kind is what a step does.
type Kind uint8

// The kinds of steps.
const (
	Send Kind = iota // sends At to Peer
	Recv             // receives At from Peer
	Copy             // copies From to At
	Fold             // makes At = At op From
)

// Area is a part of memory that a plan names.
type Area uint8

// The areas of a collective.
const (
	Src Area = iota // the source of the call
	Dst             // its destination
	Tmp             // Plan.Tmp bytes that nothing else uses
)

// Span is N bytes of an area, from byte At on.
type Span struct {
	Area  Area
	At, N int
}

// cut returns the part of n bytes of a span that begins at byte at.
func (s Span) cut(at, n int) Span { return Span{s.Area, s.At + at, n} }

// Step is one thing that a rank does in a collective.
type Step struct {
	Kind  Kind
	Label uint16 // of a message
	Peer  int    // rank at the other end of a message
	At    Span
	From  Span
}

// Plan is what one rank does in a collective. The zero Plan does nothing.
type Plan struct {
	Steps []Step
	Tmp   int // bytes of scratch memory

	waits []int32 // by step: how many steps come before it
	first []int32 // by step: index in next of the first step that waits for it; one more at the end
	next  []int32
}

// none is no step, in the arguments of add.
const none = -1

// builder builds a plan.
type builder struct {
	steps []Step
	edges [][2]int32 // the first step comes before the second one
	tmp   int
}

// add adds a step that begins when others are done, and returns its number.
func (b *builder) add(s Step, after ...int) int {
	b.steps = append(b.steps, s)
	me := len(b.steps) - 1
	for _, before := range after {
		if before != none {
			b.edges = append(b.edges, [2]int32{int32(before), int32(me)})
		}
	}
	return me
}

func (b *builder) send(to int, label uint16, s Span, after ...int) int {
	return b.add(Step{Kind: Send, Peer: to, Label: label, At: s}, after...)
}

func (b *builder) recv(from int, label uint16, s Span, after ...int) int {
	return b.add(Step{Kind: Recv, Peer: from, Label: label, At: s}, after...)
}

// copy adds a copy, unless there is nothing to copy: then it returns none, and nothing of after is waited for.
func (b *builder) copy(to, from Span, after ...int) int {
	if to.N == 0 {
		return none
	}
	return b.add(Step{Kind: Copy, At: to, From: from}, after...)
}

func (b *builder) fold(acc, in Span, after ...int) int {
	return b.add(Step{Kind: Fold, At: acc, From: in}, after...)
}

// scratch returns n bytes of Tmp, aligned for any element.
func (b *builder) scratch(n int) Span {
	s := Span{Tmp, b.tmp, n}
	b.tmp += (n + alignment - 1) / alignment * alignment
	return s
}

// alignment is at least that of each element type.
const alignment = 16

// plan returns what was built.
func (b *builder) plan() *Plan {
	n := len(b.steps)
	p := &Plan{Steps: b.steps, Tmp: b.tmp, waits: make([]int32, n), first: make([]int32, n+1), next: make([]int32, len(b.edges))}
	for _, e := range b.edges {
		p.waits[e[1]]++
		p.first[e[0]+1]++
	}
	for i := range n {
		p.first[i+1] += p.first[i]
	}
	filled := make([]int32, n)
	for _, e := range b.edges {
		p.next[p.first[e[0]]+filled[e[0]]] = e[1]
		filled[e[0]]++
	}
	return p
}
