package match

import (
	"cmp"
	"slices"
)

// none is no index of a slab.
const none = -1

// link is a node's place in one list.
type link struct{ prev, next, list int32 }

// node is something that waits.
type node[T any] struct {
	item  T
	order uint64 // grows with each that is added
	env   Envelope
	gen   uint32 // grows with each use of the node
	live  bool
	links [kinds]link // list none: not in a list of that kind
}

// list is what has one envelope, in the order of arrival. One that is empty does
// not exist.
type list struct {
	env         Envelope
	first, last int32 // nodes
	next        int32 // list in the same bucket, or of those that are free
}

// store is a slab of nodes and the lists that they are in.
type store[T any] struct {
	nodes  []node[T]
	unused []int32 // nodes
	order  uint64
	n      int         // live nodes
	single int32       // 1 + the only live node, if it is in no list
	kinds  [kinds]int  // nodes in lists of each kind
	asked  [kinds]bool // of a store whose nodes are in several lists: those that exist

	lists   []list
	free    []int32 // lists
	buckets []int32 // first list of each, a power of two of them; none: empty
	used    int     // lists that exist
	hot     int32   // 1 + the list that was found last, if it exists
}

// add returns a node for an item, in the list of its own envelope or in those of all
// envelopes that fit it and whose kind was asked for. Where nothing else waits, which is so
// most of the time, it is in none.
func (s *store[T]) add(e Envelope, item T, everywhere bool) (i int32) {
	if n := len(s.unused); n > 0 {
		i, s.unused = s.unused[n-1], s.unused[:n-1]
	} else {
		i = int32(len(s.nodes))
		s.nodes = append(s.nodes, node[T]{})
	}
	n := &s.nodes[i]
	s.order++
	s.n++
	n.item, n.env, n.order, n.live = item, e, s.order, true
	n.gen++
	for k := range n.links {
		n.links[k].list = none
	}
	if s.n == 1 {
		s.single = i + 1
		return i
	}
	if s.single != 0 {
		s.place(s.single-1, everywhere)
		s.single = 0
	}
	s.place(i, everywhere)
	return i
}

// place puts a node into its lists.
func (s *store[T]) place(i int32, everywhere bool) {
	if !everywhere {
		s.enlist(i, s.nodes[i].env.kind())
		return
	}
	s.enlist(i, 0)
	for k := 1; k < kinds; k++ {
		if s.asked[k] {
			s.enlist(i, k)
		}
	}
}

// ask makes the lists of a kind, which are kept from now on.
func (s *store[T]) ask(kind int) {
	s.asked[kind] = true
	if s.n == 0 || s.lone() != none {
		return
	}
	live := make([]int32, 0, s.n)
	for i := range s.nodes {
		if s.nodes[i].live {
			live = append(live, int32(i))
		}
	}
	slices.SortFunc(live, func(a, b int32) int { return cmp.Compare(s.nodes[a].order, s.nodes[b].order) })
	for _, i := range live {
		s.enlist(i, kind)
	}
}

// lone returns the only live node if it is in no list.
func (s *store[T]) lone() int32 { return s.single - 1 }

// earliest returns the first node that a receive for e takes, of a store whose nodes
// are in the lists of all kinds that were asked for.
func (s *store[T]) earliest(e Envelope) int32 {
	if k := e.kind(); k != 0 && !s.asked[k] {
		s.ask(k)
	}
	if i := s.lone(); i != none {
		if e.Fits(s.nodes[i].env) {
			return i
		}
		return none
	}
	return s.first(e)
}

// remove takes a node out of all its lists and returns its item.
func (s *store[T]) remove(i int32) (item T) {
	n := &s.nodes[i]
	if s.single == i+1 {
		s.single = 0
	} else {
		for k := range n.links {
			if n.links[k].list != none {
				s.unlist(i, k)
			}
		}
	}
	var zero T
	item, n.item, n.live = n.item, zero, false // not to keep alive what it points to
	s.unused = append(s.unused, i)
	s.n--
	return item
}

// first returns the first node of an envelope's list.
func (s *store[T]) first(e Envelope) int32 {
	if l := s.find(e); l != none {
		return s.lists[l].first
	}
	return none
}

// enlist appends a node to its list of a kind.
func (s *store[T]) enlist(i int32, kind int) {
	e := s.nodes[i].env.as(kind)
	l := s.find(e)
	if l == none {
		l = s.found(e)
	}
	at := &s.lists[l]
	s.nodes[i].links[kind] = link{prev: at.last, next: none, list: l}
	if at.last == none {
		at.first = i
	} else {
		s.nodes[at.last].links[kind].next = i
	}
	at.last = i
	s.kinds[kind]++
}

// unlist takes a node out of its list of a kind.
func (s *store[T]) unlist(i int32, kind int) {
	x := s.nodes[i].links[kind]
	l := &s.lists[x.list]
	if x.prev == none {
		l.first = x.next
	} else {
		s.nodes[x.prev].links[kind].next = x.next
	}
	if x.next == none {
		l.last = x.prev
	} else {
		s.nodes[x.next].links[kind].prev = x.prev
	}
	s.kinds[kind]--
	if l.first == none {
		s.dissolve(x.list)
	}
}

// bucket returns where lists of an envelope are found.
func (s *store[T]) bucket(e Envelope) *int32 {
	h := (uint64(uint32(e.Src))<<32 | uint64(uint32(e.Tag))) * 0x9e3779b97f4a7c15
	return &s.buckets[h>>32&uint64(len(s.buckets)-1)]
}

// find returns the list of an envelope.
func (s *store[T]) find(e Envelope) int32 {
	if s.used == 0 {
		return none
	}
	if l := s.hot - 1; l != none && s.lists[l].env == e {
		return l
	}
	l := *s.bucket(e)
	for l != none && s.lists[l].env != e {
		l = s.lists[l].next
	}
	if l != none {
		s.hot = l + 1
	}
	return l
}

// found makes the list of an envelope that has none.
func (s *store[T]) found(e Envelope) (l int32) {
	if s.used == len(s.buckets) {
		s.grow()
	}
	if n := len(s.free); n > 0 {
		l, s.free = s.free[n-1], s.free[:n-1]
	} else {
		l = int32(len(s.lists))
		s.lists = append(s.lists, list{})
	}
	b := s.bucket(e)
	s.lists[l] = list{env: e, first: none, last: none, next: *b}
	*b = l
	s.used++
	s.hot = l + 1
	return l
}

// dissolve ends a list that is empty.
func (s *store[T]) dissolve(l int32) {
	if s.hot == l+1 {
		s.hot = 0
	}
	at := s.bucket(s.lists[l].env)
	for *at != l {
		at = &s.lists[*at].next
	}
	*at = s.lists[l].next
	s.free = append(s.free, l)
	s.used--
}

const firstBuckets = 64

// grow doubles the buckets. All lists that exist are in them.
func (s *store[T]) grow() {
	old := s.buckets
	s.buckets = make([]int32, max(firstBuckets, 2*len(old)))
	for i := range s.buckets {
		s.buckets[i] = none
	}
	for _, l := range old {
		for l != none {
			next := s.lists[l].next
			b := s.bucket(s.lists[l].env)
			s.lists[l].next, *b = *b, l
			l = next
		}
	}
}
