package wait

import "testing"

// Unlock reserves the Lock for starving goroutines if there are any, and frees it otherwise.
func TestUnlockReserves(t *testing.T) {
	for _, x := range []struct {
		waiting, starving uint32
		want              uint64
	}{{0, 0, lockFree}, {2, 0, lockFree}, {2, 1, lockReserved}} {
		var l Lock
		l.waiting.Store(x.waiting)
		l.starving.Store(x.starving)
		if l.Lock(); l.state != lockHeld {
			t.Errorf("a held Lock has the state %d", l.state)
		}
		if l.Unlock(); l.state != x.want {
			t.Errorf("%d wait and %d starve: state %d after Unlock, want %d", x.waiting, x.starving, l.state, x.want)
		}
		if other := lockFree + lockReserved - x.want; l.acquireFrom(other) || !l.acquireFrom(x.want) {
			t.Errorf("%d wait and %d starve: acquireFrom ignores for whom the Lock is free", x.waiting, x.starving)
		}
	}
}
