package coll

import "time"

// SetClock sets the time by which members choose a way, and returns what sets it back. No team is used meanwhile.
func SetClock(c func() time.Duration) (restore func()) {
	before := clock
	clock = c
	return func() { clock = before }
}
