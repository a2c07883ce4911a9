package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// If there are enough PEs, one is killed, and the others finish without its darts.
func TestPi(t *testing.T) {
	exampletest.RunOnOneNode(t, func(n int) (string, int) {
		status := 0
		if n > 3 {
			n, status = n-1, 3 // the job finishes with a failed PE
		}
		return result(n), status
	})
}

// On several nodes, reductions do not go on among the survivors yet, and say so.
func TestPiOnNodes(t *testing.T) {
	exampletest.RunOnNodes(t, `03-pi: PE \d: shmem.Reduce: PE \[3\]: was killed by signal 9 \(SIGKILL\); hint: teams on several nodes are strict`,
		func(int) (string, int) { return "", 128 + 9 }) // the status of the first PE that failed
}

// Any PE may be killed, even the one that prints.
func TestPiSurvives(t *testing.T) {
	exampletest.Survive(t, func(n, _ int) string { return result(n - 1) })
}

// result returns the output of n surviving PEs.
func result(n int) string {
	return fmt.Sprintf("pi is about 3.1[34][0-9]{2}, by %d darts of %d PEs\n", n*2_000_000, n)
}
