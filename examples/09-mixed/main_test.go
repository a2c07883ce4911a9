package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// If there are enough PEs, one is killed, and the others finish without it.
func TestMixed(t *testing.T) {
	exampletest.RunOnOneNode(t, func(n int) (string, int) {
		if n < 3 {
			return expected(n, -1), 0
		}
		return expected(n, 2), 3
	})
}

// On several nodes there are no messages yet, and mpi.Init says so.
func TestMixedOnNodes(t *testing.T) {
	exampletest.RunOnNodes(t, `09-mixed: PE \d: mpi.Init: package mpi does not reach other nodes yet: the job has \d nodes`,
		func(int) (string, int) { return "", 1 })
}

// Any PE may be killed, even the one that has the counter.
func TestMixedSurvives(t *testing.T) { exampletest.Survive(t, expected) }

// expected computes serially what n PEs print if the victim dies.
func expected(n, victim int) string {
	rods := make([][]float64, n)
	for me := range rods {
		rods[me] = make([]float64, cells)
		rods[me][me*10] = 1000
	}
	first, counted := 0, 0
	for step := range steps {
		dead := func(pe int) bool { return pe == victim && step >= steps/2 }
		if dead(first) {
			first, counted = 1, -(n-1)*cells // the cells of this step were counted for the victim
		}
		next := make([][]float64, n)
		for me, rod := range rods {
			if dead(me) {
				continue
			}
			next[me] = make([]float64, cells)
			for i, here := range rod {
				left, right := here, here
				switch {
				case i > 0:
					left = rod[i-1]
				case me > 0 && !dead(me-1):
					left = rods[me-1][cells-1]
				}
				switch {
				case i < cells-1:
					right = rod[i+1]
				case me < n-1 && !dead(me+1):
					right = rods[me+1][0]
				}
				next[me][i] = here + (left-2*here+right)/4
			}
			counted += cells
		}
		rods = next
	}
	heat, live := 0.0, 0
	for _, rod := range rods {
		part := 0.0
		for _, x := range rod {
			part += x
		}
		if rod != nil {
			heat, live = heat+part, live+1
		}
	}
	return fmt.Sprintf("heat %.3f on %d PEs, %d cells counted on PE %d\n", heat, live, counted, first)
}
