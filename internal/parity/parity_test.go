package parity

import "testing"

// Groups without a parity, or without data, are refused.
func TestNewRefuses(t *testing.T) {
	for _, c := range []struct{ size, parities int }{{1, 1}, {3, 0}, {3, 3}, {5, 2}, {0, 0}} {
		if g, err := New(c.size, c.parities, XOR); err == nil {
			t.Errorf("New(%d, %d) is %v, want an error", c.size, c.parities, g)
		}
	}
}
