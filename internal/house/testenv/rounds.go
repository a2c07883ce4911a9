package testenv

import "testing"

// Rounds returns n, or a tenth of it under the race detector. It is for rounds of a search or a simulation in which one
// goroutine does everything: the detector finds nothing in the later ones, and makes them ten times slower.
func Rounds(n int) int {
	if Race {
		return max(n/10, 1)
	}
	return n
}

// SkipSerial skips a test under the race detector. In the test one goroutine does everything, and it cannot do with fewer
// rounds.
func SkipSerial(t testing.TB) {
	t.Helper()
	if Race {
		t.Skip("one goroutine does everything: nothing for the race detector")
	}
}

// JobSizes returns the numbers of processes of the jobs that collectives are tested with. Under the race detector it is one: races of goroutines are within a
// process, and each process takes long to start.
func JobSizes() []int {
	if Race {
		return []int{3}
	}
	return []int{1, 2, 3, 5, 8}
}
