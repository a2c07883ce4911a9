package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// If there are enough PEs, one is killed, and the others finish without its darts, on one node and on several.
func TestPi(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		status := 0
		if n > 3 {
			n, status = n-1, 3 // the job finishes with a failed PE
		}
		return result(n, 20), status
	})
}

// Any PE may be killed, even the one that prints.
func TestPiSurvives(t *testing.T) {
	exampletest.Survive(t, func(n, _ int) string { return result(n-1, 20) })
}

// Any node may be lost.
func TestPiSurvivesNode(t *testing.T) {
	const rounds = 1000
	exampletest.SurviveNode(t, fmt.Sprint("--rounds ", rounds), result(5, rounds)+"|"+result(6, rounds))
}

// result returns the output of n surviving PEs.
func result(n, rounds int) string {
	return fmt.Sprintf("pi is about 3.1[34][0-9]{2}, by %d darts of %d PEs\n", n*rounds*100_000, n)
}
