package bmg

import (
	"cmp"
	"slices"
)

// seen is the set of payloads that a member has had, apart from reports of nodes, which are in its roster. Both lists are
// sorted.
type seen struct {
	latest  []mark
	streams []stream
}

// mark is the latest incarnation of which a payload has come.
type mark struct {
	kind Kind
	job  uint32
	inc  uint32
	id   uint64
}

// stream is the set of events of one incarnation of an origin. All up to low have come, and those in ahead.
type stream struct {
	job, inc uint32
	id       uint64
	low      uint64
	ahead    []uint64 // ascending
}

// clear empties the set. It keeps the memory.
func (s *seen) clear() { s.latest, s.streams = s.latest[:0], s.streams[:0] }

// add adds a payload. It reports whether the payload is new.
func (s *seen) add(k *Key) bool {
	if k.Kind == KindEvent {
		return s.addEvent(k)
	}
	i, ok := slices.BinarySearchFunc(s.latest, k, func(m mark, k *Key) int {
		return cmp.Or(cmp.Compare(m.id, k.ID), cmp.Compare(m.kind, k.Kind), cmp.Compare(m.job, k.Job))
	})
	switch {
	case !ok:
		s.latest = slices.Insert(s.latest, i, mark{k.Kind, k.Job, k.Inc, k.ID})
	case s.latest[i].inc >= k.Inc:
		return false
	default:
		s.latest[i].inc = k.Inc
	}
	return true
}

// addEvent adds an event. The numbers of an origin's events have no gaps, so the set of an origin that lives shrinks to
// low again as soon as the events on their way have come.
func (s *seen) addEvent(k *Key) bool {
	i, ok := slices.BinarySearchFunc(s.streams, k, func(t stream, k *Key) int {
		return cmp.Or(cmp.Compare(t.id, k.ID), cmp.Compare(t.job, k.Job), cmp.Compare(t.inc, k.Inc))
	})
	if !ok {
		s.streams = slices.Insert(s.streams, i, stream{job: k.Job, inc: k.Inc, id: k.ID})
	}
	t := &s.streams[i]
	if k.Seq <= t.low {
		return false
	}
	j, ok := slices.BinarySearch(t.ahead, k.Seq)
	if ok {
		return false
	}
	t.ahead = slices.Insert(t.ahead, j, k.Seq)
	for len(t.ahead) > 0 && t.ahead[0] == t.low+1 {
		t.low++
		t.ahead = t.ahead[:copy(t.ahead, t.ahead[1:])]
	}
	return true
}
