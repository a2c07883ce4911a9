package wire

// Bounds on the strings that a decoder remembers.
const (
	maxSeen       = 1024
	maxSeenLength = 64
)

// stringSet are the strings that a decoder has read; nil remembers none.
type stringSet map[string]string

// text turns bytes into a string.
func (d *Decoder) text(b []byte) string {
	if d.seen == nil || len(b) > maxSeenLength {
		return string(b)
	}
	if s, ok := d.seen[string(b)]; ok {
		return s
	}
	if len(d.seen) >= maxSeen {
		clear(d.seen) // what is used often comes back
	}
	s := string(b)
	d.seen[s] = s
	return s
}
