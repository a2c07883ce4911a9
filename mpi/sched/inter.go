package sched

// Sides are the two groups of an intercommunicator, as one of its ranks sees them. A step names its peer by a number in both groups: the ranks of the
// first group have the lower numbers.
type Sides struct {
	Me     int  // rank of this process in its own group
	Local  int  // ranks of its own group
	Remote int  // ranks of the other group
	First  bool // the own group is the first one
}

// ours returns the number of a rank of the own group.
func (s Sides) ours(rank int) int {
	if s.First {
		return rank
	}
	return s.Remote + rank
}

// theirs returns the number of a rank of the other group.
func (s Sides) theirs(rank int) int {
	if s.First {
		return s.Local + rank
	}
	return rank
}

// order returns the ranks of the other group in the order in which this rank exchanges messages with them. Rank i of the first group and rank j of the
// second one have their messages in round (j-i) modulo the size of the larger group. Of the messages under way, those of the earliest round have begun at
// both ends, so windows do not wait for each other.
func (s Sides) order() (ranks []int) {
	n := max(s.Local, s.Remote)
	for round := range n {
		rank := (s.Me + round) % n
		if !s.First {
			rank = (s.Me - round + n) % n
		}
		if rank < s.Remote {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// Nothing is the part of a rank that gives nothing and gets nothing.
func (s Sides) Nothing() *Plan { return (&builder{}).plan() }

// Give sends size bytes of Src to one rank of the other group.
func (s Sides) Give(rank, size int) *Plan {
	b := &builder{}
	b.send(s.theirs(rank), 0, Span{Src, 0, size})
	return b.plan()
}

// Get receives size bytes of Dst from one rank of the other group.
func (s Sides) Get(rank, size int) *Plan {
	b := &builder{}
	b.recv(s.theirs(rank), 0, Span{Dst, 0, size})
	return b.plan()
}

// Exchange sends part give[i] of Src to rank i of the other group, and receives its message into part get[i] of Dst. With nil parts, it sends or receives
// nothing.
//
//   - Cost: one message to each rank of the other group, and one from each.
func (s Sides) Exchange(give, get []Part) *Plan {
	b := &builder{}
	var sends, recvs window
	for _, rank := range s.order() {
		if get != nil {
			recvs.add(b.recv(s.theirs(rank), 0, get[rank].in(Dst), recvs.before()))
		}
		if give != nil {
			sends.add(b.send(s.theirs(rank), 0, give[rank].in(Src), sends.before()))
		}
	}
	return b.plan()
}

// Reduce folds what the ranks of the other group give, size bytes each, into Dst of this rank.
//
//   - Cost: one message from each rank of the other group.
func (s Sides) Reduce(size int) *Plan {
	b := &builder{}
	folded, done := b.foldRemote(s, size, nil)
	b.copy(Span{Dst, 0, size}, folded, done)
	return b.plan()
}

// Allreduce is Reduce at all ranks of both groups, each of which gives size bytes of Src.
//
//   - Cost: one message to each rank of the other group, and one from each.
func (s Sides) Allreduce(size int) *Plan {
	b := &builder{}
	give := make([]Part, s.Remote)
	for i := range give {
		give[i].N = size
	}
	folded, done := b.foldRemote(s, size, give)
	b.copy(Span{Dst, 0, size}, folded, done, b.sourceRead())
	return b.plan()
}

// foldRemote sends parts of Src to the ranks of the other group, and folds the size bytes that it receives from each of them. It returns the result, and the
// step after which that is complete. Empty messages are left out, at both ends, unless give is nil.
func (b *builder) foldRemote(s Sides, size int, give []Part) (folded Span, done int) {
	in := make([]Span, s.Remote)
	got := make([]int, s.Remote)
	for rank := range in {
		in[rank], got[rank] = b.scratch(size), none
	}
	var sends, recvs window
	for _, rank := range s.order() {
		if size > 0 || give == nil {
			got[rank] = b.recv(s.theirs(rank), 0, in[rank], recvs.before())
			recvs.add(got[rank])
		}
		if give != nil && give[rank].N > 0 {
			sends.add(b.send(s.theirs(rank), 0, give[rank].in(Src), sends.before()))
		}
	}
	done = got[0]
	for rank := 1; rank < s.Remote && size > 0; rank++ {
		done = b.fold(in[0], in[rank], done, got[rank])
	}
	return in[0], done
}

// ReduceScatter folds what the ranks of the other group give, size bytes of elem bytes an element each, and scatters the result in the own group: this rank gets
// parts[Me] of it into Dst. It gives as many bytes of Src. Each rank folds an equal share, then gives the others what they need of it.
//
//   - Cost: one message of about size/Remote bytes to each rank of the other group, and one of size/Local bytes from each. With equal parts nothing more;
//     otherwise each result goes to its rank in one more message for each share that it is in.
func (s Sides) ReduceScatter(size, elem int, parts []Part) *Plan {
	b := &builder{}
	fold := shares(s.Local, size, elem) // by the ranks of the own group
	folded, done := b.foldRemote(s, fold[s.Me].N, shares(s.Remote, size, elem))
	read := b.sourceRead()
	for i := range s.Local {
		rank := (s.Me + i) % s.Local
		give, at := overlap(fold[s.Me], parts[rank]), fold[s.Me].At
		if rank == s.Me {
			b.copy(Span{Dst, give.At - parts[rank].At, give.N}, folded.cut(give.At-at, give.N), done, read)
			continue
		}
		if give.N > 0 {
			b.send(s.ours(rank), 1, folded.cut(give.At-at, give.N), done)
		}
		if get := overlap(fold[rank], parts[s.Me]); get.N > 0 {
			b.recv(s.ours(rank), 1, Span{Dst, get.At - parts[s.Me].At, get.N}, read)
		}
	}
	return b.plan()
}

// overlap returns the part that two parts have in common. It has no bytes if they have none.
func overlap(a, b Part) Part {
	lo, hi := max(a.At, b.At), min(a.At+a.N, b.At+b.N)
	return Part{lo, max(hi-lo, 0)}
}
