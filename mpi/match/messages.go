package match

// messages has the messages that wait for receives. There may be millions of them, so their memory is small: an entry is
// the caller's item and 20 bytes, and nothing has a pointer unless an item has.
//
//   - A chain has all messages in the order of arrival. It serves receives of any message.
//   - The table exact has the lists of all envelopes. A message that a receive takes is always the first one of its list,
//     whatever the receive's wildcards are: the earliest message of an envelope with wildcards is also the earliest one of
//     its own envelope. So these lists have links in one direction.
//   - The tables in wild have the lists of envelopes with one wildcard. A message leaves the middle of such a list where a
//     receive with another envelope takes it.
//   - A message that waits alone, as most do, is in no list and not in the chain.
type messages[M any] struct {
	entries Slab[entry[M]]
	unused  uint32 // first of the entries without a message, which next chains
	n       int    // messages
	lone    uint32 // the only message, in no list; 0: there are none or several
	first   uint32 // of the chain
	last    uint32 // of the chain

	exact table
	wild  [anySrc]*wildTable // by kind minus 1; nil: no receive has named the kind
}

// entry is a message that waits.
type entry[M any] struct {
	item       M
	env        Envelope
	prev, next uint32 // in the chain
	later      uint32 // next one in the list of its envelope
}

// table has the lists of one kind of envelope.
type table struct {
	lists   Slab[list]
	free    uint32   // first of the lists without messages, which next chains
	buckets []uint32 // first list of each bucket
	mask    uint32   // of hashes: a power of two minus one, at least the index of the last bucket
	used    int      // lists with messages
	kind    int
	hot     uint32   // list that was found or made last; 0: it was freed
	hotEnv  Envelope // its envelope
}

// list has the messages of one envelope, in the order of arrival. Its envelope is that of its first message.
type list struct {
	first, last uint32 // entries
	next        uint32 // list in the same bucket, or in table.free
}

// wildTable is the table of a kind of envelopes with one wildcard.
type wildTable struct {
	table
	links Slab[link] // by number of the entry
}

// link is the place of a message in a list of a wildTable.
type link struct{ prev, next uint32 }

// add adds a message.
func (s *messages[M]) add(e Envelope, item M) {
	n := s.unused
	if n != 0 {
		s.unused = s.entries.At(n).next
	} else {
		n = s.entries.Add()
	}
	x := s.entries.At(n)
	x.item, x.env = item, e
	if s.n++; s.n == 1 {
		s.lone = n
		return
	}
	if s.lone != 0 {
		s.place(s.entries.At(s.lone), s.lone)
		s.lone = 0
	}
	s.place(x, n)
}

// place appends a message to the chain and to its lists.
func (s *messages[M]) place(x *entry[M], n uint32) {
	x.prev, x.next, x.later = s.last, 0, 0
	if s.last == 0 {
		s.first = n
	} else {
		s.entries.At(s.last).next = n
	}
	s.last = n
	l := s.listFor(&s.exact, x.env, n)
	if l.last != n {
		s.entries.At(l.last).later = n
		l.last = n
	}
	for _, t := range s.wild {
		if t != nil {
			s.enlist(t, n)
		}
	}
}

// enlist appends a message to its list in a wildTable.
func (s *messages[M]) enlist(t *wildTable, n uint32) {
	for t.links.next <= n {
		t.links.Add()
	}
	x := t.links.At(n)
	*x = link{}
	l := s.listFor(&t.table, s.entries.At(n).env.as(t.kind), n)
	if l.last != n {
		x.prev = l.last
		t.links.At(l.last).next = n
		l.last = n
	}
}

// all is an iterator over the messages, in the order of arrival.
func (s *messages[M]) all(yield func(Envelope, M) bool) {
	if s.n == 0 {
		return
	}
	n := s.lone
	if n == 0 {
		n = s.first
	}
	for n != 0 {
		x := s.entries.At(n)
		if !yield(x.env, x.item) || s.lone != 0 {
			return
		}
		n = x.next
	}
}

// earliest returns the earliest message that a receive for e can get, or 0 if there is none.
func (s *messages[M]) earliest(e Envelope) uint32 {
	k := e.kind()
	if k == anyTag || k == anySrc {
		if s.wild[k-1] == nil {
			s.ask(k)
		}
	}
	if s.n == 0 {
		return 0
	}
	if n := s.lone; n != 0 {
		if e.Fits(s.entries.At(n).env) {
			return n
		}
		return 0
	}
	t := &s.exact
	switch k {
	case anyTag | anySrc:
		return s.first
	case anyTag, anySrc:
		t = &s.wild[k-1].table
	}
	if l := s.find(t, e); l != 0 {
		return t.lists.At(l).first
	}
	return 0
}

// ask makes the lists of a kind. From now on place keeps them.
func (s *messages[M]) ask(kind int) {
	t := &wildTable{table: table{kind: kind}}
	s.wild[kind-1] = t
	if s.n == 0 || s.lone != 0 {
		return
	}
	for n := s.first; n != 0; n = s.entries.At(n).next {
		s.enlist(t, n)
	}
}

// remove removes the first message of an envelope from all its lists, and returns its item.
func (s *messages[M]) remove(n uint32) (item M, e Envelope) {
	x := s.entries.At(n)
	if s.lone == n {
		s.lone = 0
	} else {
		s.unlist(x, n)
	}
	var zero M
	item, x.item = x.item, zero // the entry must not keep the item alive
	x.next, s.unused = s.unused, n
	s.n--
	return item, x.env
}

// unlist removes the first message of an envelope from the chain and from all its lists.
func (s *messages[M]) unlist(x *entry[M], n uint32) {
	if x.prev == 0 {
		s.first = x.next
	} else {
		s.entries.At(x.prev).next = x.next
	}
	if x.next == 0 {
		s.last = x.prev
	} else {
		s.entries.At(x.next).prev = x.prev
	}
	l := s.find(&s.exact, x.env)
	if x.later == 0 {
		s.freeList(&s.exact, l, x.env)
	} else {
		s.exact.lists.At(l).first = x.later
	}
	for _, t := range s.wild {
		if t == nil {
			continue
		}
		p := *t.links.At(n)
		if p.prev != 0 && p.next != 0 {
			t.links.At(p.prev).next, t.links.At(p.next).prev = p.next, p.prev
			continue
		}
		e := x.env.as(t.kind)
		l := s.find(&t.table, e)
		switch {
		case p.prev != 0:
			t.links.At(p.prev).next, t.lists.At(l).last = 0, p.prev
		case p.next != 0:
			t.links.At(p.next).prev, t.lists.At(l).first = 0, p.next
		default:
			s.freeList(&t.table, l, e)
		}
	}
}

// bucket returns the bucket of an envelope.
func (t *table) bucket(e Envelope) *uint32 {
	b := hash(e) & t.mask
	if b >= uint32(len(t.buckets)) { // this bucket does not exist yet: its lists are in the one that will be split
		b &= t.mask >> 1
	}
	return &t.buckets[b]
}

// envelopeOf returns the envelope of a list.
func (s *messages[M]) envelopeOf(t *table, l *list) Envelope {
	return s.entries.At(l.first).env.as(t.kind)
}

// find returns the list of an envelope, or 0 if there is none.
func (s *messages[M]) find(t *table, e Envelope) uint32 {
	if t.used == 0 {
		return 0
	}
	if t.hot != 0 && t.hotEnv == e {
		return t.hot
	}
	for i := *t.bucket(e); i != 0; {
		l := t.lists.At(i)
		if s.envelopeOf(t, l) == e {
			t.hot, t.hotEnv = i, e
			return i
		}
		i = l.next
	}
	return 0
}

// listFor returns the list of an envelope. If there is none, it makes one that has only message n.
func (s *messages[M]) listFor(t *table, e Envelope, n uint32) *list {
	if i := s.find(t, e); i != 0 {
		return t.lists.At(i)
	}
	if t.used == listsEach*len(t.buckets) {
		s.split(t)
	}
	i := t.free
	if i != 0 {
		t.free = t.lists.At(i).next
	} else {
		i = t.lists.Add()
	}
	l, b := t.lists.At(i), t.bucket(e)
	*l = list{first: n, last: n, next: *b}
	*b = i
	t.used++
	t.hot, t.hotEnv = i, e
	return l
}

// freeList frees the list of an envelope, whose last message is removed.
func (s *messages[M]) freeList(t *table, i uint32, e Envelope) {
	if t.hot == i {
		t.hot = 0
	}
	at := t.bucket(e)
	for *at != i {
		at = &t.lists.At(*at).next
	}
	l := t.lists.At(i)
	*at = l.next
	l.next, t.free = t.free, i
	t.used--
}

// listsEach is how many lists a bucket has on average when the next bucket is added.
const listsEach = 2

// split adds a bucket, and moves the lists that now belong there from the one bucket that has them (linear
// hashing). So no addition moves all lists.
func (s *messages[M]) split(t *table) {
	if t.buckets == nil {
		t.buckets, t.mask = make([]uint32, firstBuckets), firstBuckets-1
		return
	}
	added := uint32(len(t.buckets))
	if added > t.mask {
		t.mask = 2*t.mask + 1
	}
	t.buckets = append(t.buckets, 0)
	from, to := &t.buckets[added&(t.mask>>1)], &t.buckets[added]
	i := *from
	for *from = 0; i != 0; {
		l := t.lists.At(i)
		next, b := l.next, from
		if hash(s.envelopeOf(t, l))&t.mask == added {
			b = to
		}
		l.next, *b = *b, i
		i = next
	}
}
