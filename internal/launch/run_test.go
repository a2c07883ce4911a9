package launch

import "testing"

func TestExitStatus(t *testing.T) {
	for status, want := range map[int]int{0: 0, 1: 1, 42: 42, 255: 255, 256: 255, 300: 44, 1 << 16: 255, -1: 255, -256: 255} {
		if got := exitStatus(status); got != want {
			t.Errorf("abort with status %d: exit status %d, want %d", status, got, want)
		}
	}
}
