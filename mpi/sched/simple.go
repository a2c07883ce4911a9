package sched

// Barrier is a dissemination: in round k, each rank tells the one 2^k ahead that it, and all of whom it has heard, have come.
//
//   - Cost: ceil(log2 n) rounds of one message.
func Barrier(n, me int) *Plan {
	b := &builder{}
	heard := none
	for round, hop := uint16(0), 1; hop < n; round, hop = round+1, hop*2 {
		b.send((me+hop)%n, round, Span{}, heard)
		got := b.recv((me-hop+n)%n, round, Span{})
		if heard != none {
			got = b.both(heard, got)
		}
		heard = got
	}
	return b.plan()
}

// both adds a step that does nothing, after two others.
func (b *builder) both(first, second int) int { return b.add(Step{Kind: Copy}, first, second) }

// Segments of a broadcast.
const (
	segmentBytes = 64 << 10
	segmentsMost = 1 << 15 // labels have 16 bits
)

// Bcast copies size bytes of Dst at the root to Dst of all ranks, along a binomial tree. Long data go in segments, so that all levels of the tree
// are busy at a time.
//
//   - Cost: ceil(log2 n) messages for one of up to 64 KiB.
func Bcast(n, me, root, size int) *Plan {
	b := &builder{}
	if n == 1 {
		return b.plan()
	}
	segment := max(segmentBytes, (size+segmentsMost-1)/segmentsMost)
	place := (me - root + n) % n // the root is in place 0
	parent, top := 0, 1          // this rank's children are place+1, place+2, ... below place+top
	for top < n && place&top == 0 {
		top *= 2
	}
	if place != 0 {
		parent = (place - top + root) % n
	}
	for label, at := uint16(0), 0; at == 0 || at < size; label, at = label+1, at+segment {
		s := Span{Dst, at, min(segment, size-at)}
		got := none
		if place != 0 {
			got = b.recv(parent, label, s)
		}
		for hop := top / 2; hop > 0; hop /= 2 {
			if child := place + hop; child < n {
				b.send((child+root)%n, label, s, got)
			}
		}
	}
	return b.plan()
}
