package match

import (
	"cmp"
	"slices"
)

// link is a node's place in one list.
type link[T any] struct {
	prev, next *node[T]
	list       *list[T] // nil: in no list of that kind
}

// node is something that waits.
type node[T any] struct {
	item  T
	order uint64 // grows with each that is added
	env   Envelope
	gen   uint32 // grows with each use of the node
	live  bool
	links [kinds]link[T]
}

// list is what has one envelope, in the order of arrival. One that is empty does
// not exist.
type list[T any] struct {
	env         Envelope
	first, last *node[T]
	next        *list[T] // in the same bucket, or of those that are free
}

// store has nodes and the lists that they are in. To add one takes a short time, however many there
// are: nodes and lists stay where they are, and the hash table grows by a bucket at a time.
type store[T any] struct {
	nodes  chunks[node[T]]
	unused *node[T] // the first one that is not live. The next of link 0 leads on
	order  uint64
	n      int         // live nodes
	lone   *node[T]    // the only live node, if it is in no list
	kinds  [kinds]int  // nodes in lists of each kind
	asked  [kinds]bool // of a store whose nodes are in several lists: those that exist

	lists   chunks[list[T]]
	free    *list[T]   // the first one that does not exist
	buckets []*list[T] // first list of each
	mask    uint32     // of hashes: one less than a power of two, at least the last bucket
	used    int        // lists that exist
	hot     *list[T]   // that was found last, if it exists
}

// chunks are elements that stay where they are.
type chunks[T any] [][]T

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

// add returns a node for an item, in the list of its own envelope or in those of all
// envelopes that fit it and whose kind was asked for. Where nothing else waits, which is so
// most of the time, it is in none.
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

// place puts a node into its lists.
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

// ask makes the lists of a kind, which are kept from now on.
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

// all goes through the live nodes, one of which may be removed when it is had. It looks at everything
// that was ever live at one time.
func (s *store[T]) all(yield func(*node[T]) bool) {
	for _, chunk := range s.nodes {
		for i := range chunk {
			if n := &chunk[i]; n.live && !yield(n) {
				return
			}
		}
	}
}

// earliest returns the first node that a receive for e takes, of a store whose nodes
// are in the lists of all kinds that were asked for; nil if there is none.
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

// remove takes a node out of all its lists and returns its item.
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
	item, n.item, n.live = n.item, zero, false // not to keep alive what it points to
	n.links[0].next, s.unused = s.unused, n
	s.n--
	return item
}

// first returns the first node of an envelope's list, nil if there is none.
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

// unlist takes a node out of its list of a kind.
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
		s.dissolve(l)
	}
}

// hash returns what the bucket of an envelope's list follows from.
func hash(e Envelope) uint32 {
	return uint32((uint64(uint32(e.Src))<<32 | uint64(uint32(e.Tag))) * 0x9e3779b97f4a7c15 >> 32)
}

// bucket returns where lists of an envelope are found.
func (s *store[T]) bucket(e Envelope) **list[T] {
	b := hash(e) & s.mask
	if b >= uint32(len(s.buckets)) { // it is not split off yet
		b &= s.mask >> 1
	}
	return &s.buckets[b]
}

// find returns the list of an envelope, nil if there is none.
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

// makeList makes the list of an envelope that has none.
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

// dissolve ends a list that is empty.
func (s *store[T]) dissolve(l *list[T]) {
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

// split adds a bucket, and moves those lists of another one there that belong into it from now on
// (linear hashing): there is no moment at which all lists are moved.
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
