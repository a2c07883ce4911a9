package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// result returns the output of n PEs that are left. The cells are the same however many compute them.
func result(n string, steps int) string {
	return fmt.Sprintf("%d steps, %s PEs at the end: the cells' sum is %s\n", steps, n, map[int]string{20: "96bb7e9d5f294c59", 200: "d6efe0419d31288f", 8000: "f44bc29587121db7"}[steps])
}

// Any number of PEs has the same result, on one node and on several.
func TestStencil(t *testing.T) {
	for _, n := range []int{1, 2, 3, 7} {
		exampletest.Program(t, fmt.Sprintf("oshrun -n %d .bin/stencil --steps 20", n), result(fmt.Sprint(n), 20), 0)
	}
	exampletest.Program(t, "oshrun --emulate 2 -n 4 .bin/stencil", result("4", 200), 0)
}

// Any PE may die.
func TestStencilSurvivesDeaths(t *testing.T) {
	for victim := range 6 {
		if victim > 0 && testing.Short() {
			break
		}
		exampletest.Program(t, fmt.Sprintf("oshrun -n 6 --recover .bin/stencil --kill %d", victim), result("5", 200), 3)
	}
}

// Any node may be lost.
func TestStencilSurvivesLossOfNode(t *testing.T) {
	exampletest.Lose(t, exampletest.Loss{Options: "-n 6", Args: "--steps 8000", PE: -1, Victim: exampletest.AllOfOne, After: 200 * time.Millisecond, Pattern: result("4", 8000)})
}
