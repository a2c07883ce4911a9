package match

import (
	"cmp"
	"slices"
)

// link is the place of a node in one list.
type link[T any] struct {
	prev, next *node[T]
	list       *list[T] // nil: the node is in no list of the kind
}

// node is a receive or a message that waits.
type node[T any] struct {
	item  T
	order uint64 // place in the order of arrival
	env   Envelope
	gen   uint32 // uses of the node so far
	live  bool   // it waits; otherwise it is in store.unused
	links [kinds]link[T]
}

// list has the nodes of one envelope, in the order of arrival. An empty list is in store.free.
type list[T any] struct {
	env         Envelope
	first, last *node[T]
	next        *list[T] // in the same bucket, or in store.free
}

// store has the waiting receives, or the waiting messages, and their lists. An addition takes a short time,
// however many wait: nodes and lists do not move, and the hash table grows by one bucket at a time.
type store[T any] struct {
	nodes  chunks[node[T]]
	unused *node[T]    // first of the nodes that are not live, which links[0].next chains
	order  uint64      // order of the latest node
	n      int         // live nodes
	lone   *node[T]    // the only live node, in no list; nil: there are none or several
	kinds  [kinds]int  // nodes in lists of each kind
	asked  [kinds]bool // kinds of wildcards that receives have named; used in a store of messages

	lists   chunks[list[T]]
	free    *list[T]   // first of the empty lists, which next chains
	buckets []*list[T] // first list of each bucket
	mask    uint32     // of hashes: a power of two minus one, at least the index of the last bucket
	used    int        // lists that are not empty
	hot     *list[T]   // list that was found or made last; nil: it was freed
}

// chunks is a growing collection of elements that do not move.
type chunks[T any] [][]T

// Elements of a chunk: each has twice as many as the one before, up to chunkMost.
const (
	chunkFirst = 8
	chunkMost  = 512
)

// add returns a new element.
func (c *chunks[T]) add() *T {
	last := len(*c) - 1
	if last < 0 || len((*c)[last]) == cap((*c)[last]) {
		size := chunkFirst
		if last >= 0 {
			size = min(2*cap((*c)[last]), chunkMost)
		}
		*c = append(*c, make([]T, 0, size))
		last++
	}
	chunk := &(*c)[last]
	*chunk = (*chunk)[:len(*chunk)+1]
	return &(*chunk)[len(*chunk)-1]
}

// add returns a node for an item. The node of a receive (everywhere is false) is in the list of its
// envelope. The node of a message (everywhere is true) is in the lists of all envelopes that fit it and
// whose kind was asked for. A node that waits alone, as most do, is in no list.
func (s *store[T]) add(e Envelope, item T, everywhere bool) *node[T] {
	n := s.unused
	if n != nil {
		s.unused = n.links[0].next
	} else {
		n = s.nodes.add()
	}
	s.order++
	s.n++
	n.item, n.env, n.order, n.live = item, e, s.order, true
	n.gen++
	if s.n == 1 {
		s.lone = n
		return n
	}
	if s.lone != nil {
		s.place(s.lone, everywhere)
		s.lone = nil
	}
	s.place(n, everywhere)
	return n
}

// place appends a node to its lists.
func (s *store[T]) place(n *node[T], everywhere bool) {
	if !everywhere {
		s.enlist(n, n.env.kind())
		return
	}
	s.enlist(n, 0)
	for k := 1; k < kinds; k++ {
		if s.asked[k] {
			s.enlist(n, k)
		}
	}
}

// ask makes the lists of a kind. From now on place keeps them.
func (s *store[T]) ask(kind int) {
	s.asked[kind] = true
	if s.n == 0 || s.lone != nil {
		return
	}
	live := make([]*node[T], 0, s.n)
	for n := range s.all {
		live = append(live, n)
	}
	slices.SortFunc(live, func(a, b *node[T]) int { return cmp.Compare(a.order, b.order) })
	for _, n := range live {
		s.enlist(n, kind)
	}
}

// all is an iterator over the live nodes. The loop may remove the node that it has. all visits as many nodes as
// were ever live at one time.
func (s *store[T]) all(yield func(*node[T]) bool) {
	for _, chunk := range s.nodes {
		for i := range chunk {
			if n := &chunk[i]; n.live && !yield(n) {
				return
			}
		}
	}
}

// earliest returns the earliest message that a receive for e can get, or nil if there is none.
func (s *store[T]) earliest(e Envelope) *node[T] {
	if k := e.kind(); k != 0 && !s.asked[k] {
		s.ask(k)
	}
	if n := s.lone; n != nil {
		if e.Fits(n.env) {
			return n
		}
		return nil
	}
	return s.first(e)
}

// remove removes a node from all its lists and returns its item.
func (s *store[T]) remove(n *node[T]) (item T) {
	if s.lone == n {
		s.lone = nil
	} else {
		for k := range n.links {
			if n.links[k].list != nil {
				s.unlist(n, k)
			}
		}
	}
	var zero T
	item, n.item, n.live = n.item, zero, false // the node must not keep the item alive
	n.links[0].next, s.unused = s.unused, n
	s.n--
	return item
}

// first returns the first node of an envelope's list, or nil if there is none.
func (s *store[T]) first(e Envelope) *node[T] {
	if l := s.find(e); l != nil {
		return l.first
	}
	return nil
}

// enlist appends a node to its list of a kind.
func (s *store[T]) enlist(n *node[T], kind int) {
	e := n.env.as(kind)
	l := s.find(e)
	if l == nil {
		l = s.makeList(e)
	}
	n.links[kind] = link[T]{prev: l.last, list: l}
	if l.last == nil {
		l.first = n
	} else {
		l.last.links[kind].next = n
	}
	l.last = n
	s.kinds[kind]++
}

// unlist removes a node from its list of a kind.
func (s *store[T]) unlist(n *node[T], kind int) {
	x := &n.links[kind]
	l := x.list
	if x.prev == nil {
		l.first = x.next
	} else {
		x.prev.links[kind].next = x.next
	}
	if x.next == nil {
		l.last = x.prev
	} else {
		x.next.links[kind].prev = x.prev
	}
	x.list = nil
	s.kinds[kind]--
	if l.first == nil {
		s.freeList(l)
	}
}

// hash returns the hash of an envelope. Its low bits give the bucket.
func hash(e Envelope) uint32 {
	return uint32((uint64(uint32(e.Src))<<32 | uint64(uint32(e.Tag))) * 0x9e3779b97f4a7c15 >> 32)
}

// bucket returns the bucket of an envelope.
func (s *store[T]) bucket(e Envelope) **list[T] {
	b := hash(e) & s.mask
	if b >= uint32(len(s.buckets)) { // this bucket does not exist yet: its lists are in the one that will be split
		b &= s.mask >> 1
	}
	return &s.buckets[b]
}

// find returns the list of an envelope, or nil if there is none.
func (s *store[T]) find(e Envelope) *list[T] {
	if s.used == 0 {
		return nil
	}
	if l := s.hot; l != nil && l.env == e {
		return l
	}
	for l := *s.bucket(e); l != nil; l = l.next {
		if l.env == e {
			s.hot = l
			return l
		}
	}
	return nil
}

// makeList makes the list of an envelope without one.
func (s *store[T]) makeList(e Envelope) *list[T] {
	if s.used == len(s.buckets) {
		s.split()
	}
	l := s.free
	if l != nil {
		s.free = l.next
	} else {
		l = s.lists.add()
	}
	b := s.bucket(e)
	*l = list[T]{env: e, next: *b}
	*b = l
	s.used++
	s.hot = l
	return l
}

// freeList frees a list that has become empty.
func (s *store[T]) freeList(l *list[T]) {
	if s.hot == l {
		s.hot = nil
	}
	at := s.bucket(l.env)
	for *at != l {
		at = &(*at).next
	}
	*at = l.next
	l.next, s.free = s.free, l
	s.used--
}

const firstBuckets = 64 // a power of two

// split adds a bucket, and moves the lists that now belong there from the one bucket that has them (linear
// hashing). So no addition moves all lists.
func (s *store[T]) split() {
	if s.buckets == nil {
		s.buckets, s.mask = make([]*list[T], firstBuckets), firstBuckets-1
		return
	}
	added := uint32(len(s.buckets))
	if added > s.mask {
		s.mask = 2*s.mask + 1
	}
	s.buckets = append(s.buckets, nil)
	from, to := &s.buckets[added&(s.mask>>1)], &s.buckets[added]
	l := *from
	for *from = nil; l != nil; {
		next, b := l.next, from
		if hash(l.env)&s.mask == added {
			b = to
		}
		l.next, *b = *b, l
		l = next
	}
}
