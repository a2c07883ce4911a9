package match

// node is a receive that waits.
type node[R any] struct {
	item       R
	order      uint64 // place in the order of posting
	env        Envelope
	gen        uint32 // uses of the node so far
	live       bool   // it waits; otherwise it is in receives.unused
	prev, next *node[R]
	list       *queued[R] // nil: the receive waits alone
}

// queued has the receives of one envelope, in the order of posting. An empty one is in receives.free.
type queued[R any] struct {
	env         Envelope
	first, last *node[R]
	next        *queued[R] // in the same bucket, or in receives.free
}

// receives has the receives that wait for messages, and their lists. An addition takes a short time,
// however many wait: nodes and lists do not move, and the hash table grows by one bucket at a time.
type receives[R any] struct {
	nodes  chunks[node[R]]
	unused *node[R]   // first of the nodes that are not live, which next chains
	order  uint64     // order of the latest node
	n      int        // live nodes
	lone   *node[R]   // the only live node, in no list; nil: there are none or several
	kinds  [kinds]int // nodes in lists of each kind

	lists   chunks[queued[R]]
	free    *queued[R]   // first of the empty lists, which next chains
	buckets []*queued[R] // first list of each bucket
	mask    uint32       // of hashes: a power of two minus one, at least the index of the last bucket
	used    int          // lists that are not empty
	hot     *queued[R]   // list that was found or made last; nil: it was freed
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

// add returns a node for an item. It is in the list of its envelope, unless it waits alone.
func (s *receives[R]) add(e Envelope, item R) *node[R] {
	n := s.unused
	if n != nil {
		s.unused = n.next
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
		s.enlist(s.lone)
		s.lone = nil
	}
	s.enlist(n)
	return n
}

// all is an iterator over the live nodes. The loop may remove the node that it has. all visits as many nodes as
// were ever live at one time.
func (s *receives[R]) all(yield func(*node[R]) bool) {
	for _, chunk := range s.nodes {
		for i := range chunk {
			if n := &chunk[i]; n.live && !yield(n) {
				return
			}
		}
	}
}

// remove removes a node from its list and returns its item.
func (s *receives[R]) remove(n *node[R]) (item R) {
	if s.lone == n {
		s.lone = nil
	} else {
		s.unlist(n)
	}
	var zero R
	item, n.item, n.live = n.item, zero, false // the node must not keep the item alive
	n.next, s.unused = s.unused, n
	s.n--
	return item
}

// first returns the first node of an envelope's list, or nil if there is none.
func (s *receives[R]) first(e Envelope) *node[R] {
	if l := s.find(e); l != nil {
		return l.first
	}
	return nil
}

// enlist appends a node to its list.
func (s *receives[R]) enlist(n *node[R]) {
	l := s.find(n.env)
	if l == nil {
		l = s.makeList(n.env)
	}
	n.prev, n.next, n.list = l.last, nil, l
	if l.last == nil {
		l.first = n
	} else {
		l.last.next = n
	}
	l.last = n
	s.kinds[n.env.kind()]++
}

// unlist removes a node from its list.
func (s *receives[R]) unlist(n *node[R]) {
	l := n.list
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	n.list, n.prev = nil, nil
	s.kinds[n.env.kind()]--
	if l.first == nil {
		s.freeList(l)
	}
}

// hash returns the hash of an envelope. Its low bits give the bucket.
func hash(e Envelope) uint32 {
	return uint32((uint64(uint32(e.Src))<<32 | uint64(uint32(e.Tag))) * 0x9e3779b97f4a7c15 >> 32)
}

// bucket returns the bucket of an envelope.
func (s *receives[R]) bucket(e Envelope) **queued[R] {
	b := hash(e) & s.mask
	if b >= uint32(len(s.buckets)) { // this bucket does not exist yet: its lists are in the one that will be split
		b &= s.mask >> 1
	}
	return &s.buckets[b]
}

// find returns the list of an envelope, or nil if there is none.
func (s *receives[R]) find(e Envelope) *queued[R] {
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
func (s *receives[R]) makeList(e Envelope) *queued[R] {
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
	*l = queued[R]{env: e, next: *b}
	*b = l
	s.used++
	s.hot = l
	return l
}

// freeList frees a list that has become empty.
func (s *receives[R]) freeList(l *queued[R]) {
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
func (s *receives[R]) split() {
	if s.buckets == nil {
		s.buckets, s.mask = make([]*queued[R], firstBuckets), firstBuckets-1
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
