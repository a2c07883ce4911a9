package sched

// Part is what a rank gives to another one, or gets from it: N bytes from byte At on.
type Part struct{ At, N int }

func (p Part) in(a Area) Span { return Span{a, p.At, p.N} }

// Regular returns the parts of n ranks that have size bytes each, one after the other.
func Regular(n, size int) []Part {
	parts := make([]Part, n)
	for i := range parts {
		parts[i] = Part{i * size, size}
	}
	return parts
}

// Gather copies Src of each rank, of size bytes, to its part of Dst at the root. Only the root uses parts.
//
//   - Cost: one message of each rank.
func Gather(n, me, root, size int, parts []Part) *Plan {
	b := &builder{}
	if me != root {
		b.send(root, 0, Span{Src, 0, size})
		return b.plan()
	}
	for rank := range n {
		if rank == me {
			b.copy(parts[me].in(Dst), Span{Src, 0, size})
		} else {
			b.recv(rank, 0, parts[rank].in(Dst))
		}
	}
	return b.plan()
}

// Scatter copies each rank's part of Src at the root to Dst of that rank, which has size bytes. Only the root uses parts.
//
//   - Cost: one message to each rank.
func Scatter(n, me, root, size int, parts []Part) *Plan {
	b := &builder{}
	if me != root {
		b.recv(root, 0, Span{Dst, 0, size})
		return b.plan()
	}
	for i := range n {
		if rank := (me + i) % n; rank == me {
			b.copy(Span{Dst, 0, size}, parts[me].in(Src))
		} else {
			b.send(rank, 0, parts[rank].in(Src))
		}
	}
	return b.plan()
}

// windowMost is how many messages to, and from, other ranks a rank has under way in an exchange among all.
const windowMost = 32

// window makes each step wait for the one windowMost before it.
type window []int

func (w *window) before() int {
	if i := len(*w) - windowMost; i >= 0 {
		return (*w)[i]
	}
	return none
}

func (w *window) add(step int) { *w = append(*w, step) }

// Allgather copies Src of each rank, of parts[rank].N bytes, to its part of Dst at all ranks.
//
//   - Cost: one message to each other rank; with many ranks and short parts of one size, ceil(log2 n) messages.
func Allgather(n, me int, parts []Part) *Plan {
	if n > bruckLeast && parts[0].N <= bruckMost && haveOneLength(parts) {
		return bruck(n, me, parts)
	}
	return AllgatherDirect(n, me, parts)
}

// AllgatherDirect is Allgather by one message to each other rank.
func AllgatherDirect(n, me int, parts []Part) *Plan {
	b := &builder{}
	b.copy(parts[me].in(Dst), Span{Src, 0, parts[me].N})
	var sends, recvs window
	for i := 1; i < n; i++ {
		from, to := (me-i+n)%n, (me+i)%n
		recvs.add(b.recv(from, 0, parts[from].in(Dst), recvs.before()))
		sends.add(b.send(to, 0, Span{Src, 0, parts[me].N}, sends.before()))
	}
	return b.plan()
}

// When Allgather takes few messages of many parts.
const (
	bruckLeast = 8   // ranks
	bruckMost  = 512 // bytes of a part
)

// haveOneLength reports whether all parts are of one length. Their places may differ from rank to rank.
func haveOneLength(parts []Part) bool {
	for _, p := range parts {
		if p.N != parts[0].N {
			return false
		}
	}
	return true
}

// bruck is Allgather in rounds: in round k, each rank sends all parts that it has, up to 2^k of them, to the one 2^k before it.
// Part i in the scratch memory is that of rank me+i.
func bruck(n, me int, parts []Part) *Plan {
	b, size := &builder{}, parts[0].N
	all := b.scratch(n * size)
	last := b.copy(all.cut(0, size), Span{Src, 0, size})
	for round, have := uint16(0), 1; have < n; round, have = round+1, have*2 {
		more := min(have, n-have)
		b.send((me-have+n)%n, round, all.cut(0, more*size), last)
		got := b.recv((me+have)%n, round, all.cut(have*size, more*size))
		last = b.both(last, got)
	}
	for i := range n {
		b.copy(parts[(me+i)%n].in(Dst), all.cut(i*size, size), last)
	}
	return b.plan()
}

// Alltoall copies part give[i] of Src to rank i, which finds it in the part get of this rank in its Dst. If Src and Dst are the same memory,
// in place, it takes a copy first.
//
//   - Cost: one message to each other rank.
func Alltoall(n, me int, give, get []Part, inPlace bool) *Plan {
	b := &builder{}
	return b.exchange(n, me, give, get, inPlace)
}

func (b *builder) exchange(n, me int, give, get []Part, inPlace bool) *Plan {
	var sends, recvs window
	saved := make([]Span, n)
	copied := none
	for i, p := range give {
		if saved[i] = p.in(Src); inPlace && i != me {
			saved[i] = b.scratch(p.N)
			if one := b.copy(saved[i], p.in(Src)); copied == none {
				copied = one
			} else if one != none {
				copied = b.both(copied, one)
			}
		}
	}
	if !inPlace {
		b.copy(get[me].in(Dst), give[me].in(Src))
	}
	for i := 1; i < n; i++ {
		from, to := (me-i+n)%n, (me+i)%n
		recvs.add(b.recv(from, 0, get[from].in(Dst), recvs.before(), copied))
		sends.add(b.send(to, 0, saved[to], sends.before(), copied))
	}
	return b.plan()
}

// Link is what a rank gives to a neighbor, or gets from it.
type Link struct {
	Rank int
	Part
}

// Neighbors sends each part of Src in give to its rank, and receives each part of Dst in get. A rank may be there several times: its messages come in order.
//
//   - Cost: one message for each link.
func Neighbors(give, get []Link) *Plan {
	b := &builder{}
	for _, l := range get {
		b.recv(l.Rank, 0, l.in(Dst))
	}
	for _, l := range give {
		b.send(l.Rank, 0, l.in(Src))
	}
	return b.plan()
}
