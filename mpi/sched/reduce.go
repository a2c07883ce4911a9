package sched

// shortReduction is how many bytes go through a reduction as a whole. Of more, each rank folds a share.
const shortReduction = 32 << 10

// shares splits a number of elements of elem bytes among n ranks.
func shares(n, size, elem int) []Part {
	parts := make([]Part, n)
	count := size / elem
	for i := range parts {
		lo, hi := count*i/n, count*(i+1)/n
		parts[i] = Part{lo * elem, (hi - lo) * elem}
	}
	return parts
}

// Reduce folds Src of all ranks, size bytes in elements of elem bytes, into Dst of the root.
//
//   - Cost: of up to 32 KiB, ceil(log2 n) messages, and one more if the root is not rank 0. Of more, two messages of size/n bytes to
//     each other rank.
func Reduce(n, me, root, size, elem int) *Plan {
	b := &builder{}
	if size > shortReduction && n > 2 {
		parts := shares(n, size, elem)
		mine, folded := b.foldShare(n, me, parts)
		switch {
		case me == root:
			read := b.sourceRead()
			b.copy(parts[me].in(Dst), mine, folded, read)
			for rank := range n {
				if rank != me && parts[rank].N > 0 {
					b.recv(rank, 1, parts[rank].in(Dst), read)
				}
			}
		case parts[me].N > 0:
			b.send(root, 1, mine, folded)
		}
		return b.plan()
	}
	acc := b.scratch(size)
	if me == 0 && root == 0 {
		acc = Span{Dst, 0, size}
	}
	last := b.copy(acc, Span{Src, 0, size})
	for round, hop := uint16(0), 1; hop < n; round, hop = round+1, hop*2 {
		if me&hop != 0 {
			b.send(me-hop, round, acc, last)
			break
		}
		if other := me + hop; other < n {
			in := b.scratch(size)
			last = b.fold(acc, in, last, b.recv(other, round, in))
		}
	}
	switch {
	case root == 0:
	case me == 0:
		b.send(root, resultLabel, acc, last)
	case me == root:
		b.recv(0, resultLabel, Span{Dst, 0, size})
	}
	return b.plan()
}

// resultLabel is the label of a result that goes to ranks which have no part in the rounds.
const resultLabel = 1 << 15

// foldShare has each rank fold its share of the elements of all. It returns the result of this rank, and the step after which it
// is complete.
func (b *builder) foldShare(n, me int, parts []Part) (mine Span, done int) {
	size := parts[me].N
	in := make([]Span, n)
	got := make([]int, n)
	for rank := range n {
		in[rank], got[rank] = b.scratch(size), none
	}
	got[me] = b.copy(in[me], parts[me].in(Src))
	var sends, recvs window
	for i := 1; i < n; i++ {
		from, to := (me-i+n)%n, (me+i)%n
		if size > 0 {
			got[from] = b.recv(from, 0, in[from], recvs.before())
			recvs.add(got[from])
		}
		if parts[to].N > 0 {
			sends.add(b.send(to, 0, parts[to].in(Src), sends.before()))
		}
	}
	done = got[0]
	for rank := 1; rank < n && size > 0; rank++ {
		done = b.fold(in[0], in[rank], done, got[rank])
	}
	return in[0], done
}

// sourceRead returns a step after which nothing reads Src any more. Dst may be the same memory.
func (b *builder) sourceRead() int {
	read := none
	for i, s := range b.steps {
		switch {
		case s.Kind == Send && s.At.Area == Src, s.Kind == Copy && s.From.Area == Src:
		default:
			continue
		}
		if read == none {
			read = i
		} else {
			read = b.both(read, i)
		}
	}
	return read
}

// Allreduce folds Src of all ranks, size bytes in elements of elem bytes, into Dst of all ranks.
//
//   - Cost: of up to 32 KiB, ceil(log2 n) messages, and two more if n is not a power of two. Of more, two messages of size/n bytes to each other
//     rank.
func Allreduce(n, me, size, elem int) *Plan {
	b := &builder{}
	if size > shortReduction && n > 2 {
		parts := shares(n, size, elem)
		mine, folded := b.foldShare(n, me, parts)
		read := b.sourceRead()
		b.copy(parts[me].in(Dst), mine, folded, read)
		for i := 1; i < n; i++ {
			from, to := (me-i+n)%n, (me+i)%n
			if parts[from].N > 0 {
				b.recv(from, 1, parts[from].in(Dst), read)
			}
			if parts[me].N > 0 {
				b.send(to, 1, mine, folded)
			}
		}
		return b.plan()
	}
	acc := b.scratch(size)
	last := b.copy(acc, Span{Src, 0, size})
	power := 1
	for power*2 <= n {
		power *= 2
	}
	extra := n - power // ranks 2i and 2i+1 below 2*extra are one in the rounds
	place := me - extra
	if me < 2*extra {
		place = me / 2
		if me%2 == 0 {
			b.send(me+1, resultLabel, acc, last)
			b.recv(me+1, resultLabel, Span{Dst, 0, size}, last)
			return b.plan()
		}
		in := b.scratch(size)
		last = b.fold(in, acc, last, b.recv(me-1, resultLabel, in))
		acc = in
	}
	rankAt := func(place int) int {
		if place < extra {
			return 2*place + 1
		}
		return place + extra
	}
	for round, hop := uint16(0), 1; hop < power; round, hop = round+1, hop*2 {
		other := place ^ hop
		in, out := b.scratch(size), acc
		sent := b.send(rankAt(other), round, out, last)
		got := b.recv(rankAt(other), round, in)
		if other < place {
			last, acc = b.fold(in, out, got, last), in // out goes on being sent
		} else {
			last = b.fold(out, in, got, last, sent)
		}
	}
	b.copy(Span{Dst, 0, size}, acc, last)
	if me < 2*extra {
		b.send(me-1, resultLabel, acc, last)
	}
	return b.plan()
}

// ReduceScatter folds Src of all ranks. Dst of each rank gets the part of the result that is the rank's.
//
//   - Cost: one message to each other rank.
func ReduceScatter(n, me int, parts []Part) *Plan {
	b := &builder{}
	mine, folded := b.foldShare(n, me, parts)
	b.copy(Span{Dst, 0, parts[me].N}, mine, folded, b.sourceRead())
	return b.plan()
}

// Scan folds Src of ranks 0 to me, size bytes, into Dst. An exclusive one leaves out this rank; Dst of rank 0 is not used then.
//
//   - Cost: ceil(log2 n) messages.
func Scan(n, me, size int, exclusive bool) *Plan {
	b := &builder{}
	group := b.scratch(size) // what the ranks have given with which this one has exchanged, and itself
	last := b.copy(group, Span{Src, 0, size})
	result, has := b.scratch(size), none // what the lower ones of them have given
	for round, hop := uint16(0), 1; hop < n; round, hop = round+1, hop*2 {
		other := me ^ hop
		if other >= n {
			continue
		}
		in := b.scratch(size)
		sent := b.send(other, round, group, last)
		got := b.recv(other, round, in)
		if other > me {
			last = b.fold(group, in, got, last, sent)
			continue
		}
		if has == none {
			has = b.copy(result, in, got)
		} else {
			next := b.scratch(size)
			first := b.copy(next, in, got)
			has, result = b.fold(next, result, first, has), next
		}
		before := group
		last, group = b.fold(in, before, got, last, has), in
	}
	switch {
	case size == 0:
	case exclusive && has != none:
		b.copy(Span{Dst, 0, size}, result, has, last)
	case !exclusive && has != none:
		done := b.fold(result, Span{Src, 0, size}, has)
		b.copy(Span{Dst, 0, size}, result, done)
	case !exclusive:
		b.copy(Span{Dst, 0, size}, Span{Src, 0, size})
	}
	return b.plan()
}
