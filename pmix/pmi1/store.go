package pmi1

// Limits of what the processes of a job may store together.
const (
	maxStored = 64 << 20 // bytes
	perPair   = 64       // bytes that a pair costs beside its text, roughly
)

// store holds pairs in the order in which their keys were first put.
type store struct {
	pairs []pair
	index map[string]int // positions in pairs by key
	bytes int            // size of all pairs
}

// put stores a pair, or replaces the value of its key. It returns false when the store is full.
func (s *store) put(p pair) bool {
	i, again := s.index[p.key]
	size := len(p.key) + len(p.value) + perPair
	if again {
		size = len(p.value) - len(s.pairs[i].value)
	}
	if size > 0 && s.bytes+size > maxStored {
		return false
	}
	s.bytes += size
	if again {
		s.pairs[i] = p
		return true
	}
	s.index[p.key] = len(s.pairs)
	s.pairs = append(s.pairs, p)
	return true
}

func (s *store) get(key string) (string, bool) {
	i, ok := s.index[key]
	if !ok {
		return "", false
	}
	return s.pairs[i].value, true
}
