package codec

// Bounds on a stringSet.
const (
	maxSeen       = 1024 // strings in the set
	maxSeenLength = 64   // bytes of a string in the set
)

// stringSet holds the strings that a decoder has read, so that equal names and keys share memory. A nil set holds none.
type stringSet map[string]string

// intern returns b as a string: the one in the set, if b was read before.
func (seen stringSet) intern(b []byte) string {
	if seen == nil || len(b) > maxSeenLength {
		return string(b)
	}
	if s, ok := seen[string(b)]; ok {
		return s
	}
	if len(seen) >= maxSeen {
		clear(seen) // strings in frequent use soon return
	}
	s := string(b)
	seen[s] = s
	return s
}
