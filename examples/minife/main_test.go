package main

import (
	"fmt"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// small is a small problem, and result the pattern of its output.
const (
	small  = "--nx 12 --iterations 40"
	result = `minife: 12 x 12 x 12 elements, 40 iterations: residual [0-9.]+e-[0-9]+ \(0x1\.[0-9a-f]+p-[0-9]+\), error at most 0\.0[0-9]{3}\n`
)

// The solution is right, on any number of ranks and nodes. It depends on the number of boxes alone, bit for bit.
func TestMiniFE(t *testing.T) {
	for _, n := range []int{1, 3, 8} {
		if n == 3 && testing.Short() {
			continue
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			want := exampletest.Program(t, fmt.Sprintf("oshrun -n %d .bin/minife %s", n, small), result, 0)
			for _, other := range []string{"-n %d .bin/minife --plain", "--emulate 2 -n %d .bin/minife", "--emulate 4 -n %d --map-by node .bin/minife"} {
				if got := exampletest.Program(t, "oshrun "+fmt.Sprintf(other, n)+" "+small, result, 0); got != want {
					t.Errorf("%s: %s, want %s", other, got, want)
				}
			}
		})
	}
}

// Ranks die at the beginning, in the midst and at the end, alone, with others, and with the one that has the copy of their data. The result is the same,
// bit for bit, with new ranks in place of the dead and without.
func TestDeaths(t *testing.T) {
	want := exampletest.Program(t, "oshrun -n 8 .bin/minife "+small, result, 0)
	for _, nodes := range []string{"", "--emulate 2"} {
		for _, policy := range []string{"rebuild", "merge", "shrink"} {
			for i, kill := range []string{"1@25,2@25", "3@1", "0@20", "7@39", "2@1,5@1", "4@11,6@31", "0@30,1@30,2@30,3@30,4@30,5@30,6@30"} {
				if testing.Short() && (i > 0 || nodes != "" && policy != "rebuild") {
					continue
				}
				t.Run(fmt.Sprint(nodes, policy, kill), func(t *testing.T) {
					command := fmt.Sprintf("oshrun -n 8 --recover %s .bin/minife %s --policy %s --kill %s", nodes, small, policy, kill)
					if got := exampletest.Program(t, command, result, 3); got != want {
						t.Errorf("%s, want %s", got, want)
					}
				})
			}
		}
	}
}

// Bad flags are refused.
func TestFlags(t *testing.T) {
	for _, flags := range []string{"--nx 1", "--iterations 0", "--policy none", "--kill 3", "--nx 2 --ny 2 --nz 2"} {
		exampletest.Program(t, "oshrun -n 2 .bin/minife "+flags, "", 1)
	}
}
