package main

import (
	"fmt"
	"math"
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

// The finite elements are those of the textbook: rows add up to 0, the matrix is symmetric, and the error falls with the square of the elements' size.
func TestElements(t *testing.T) {
	k := stiffness([3]float64{0.5, 0.25, 0.125})
	for a := range 8 {
		sum := 0.0
		for b := range 8 {
			sum += k[a][b]
			if k[a][b] != k[b][a] {
				t.Errorf("entries %d, %d: %g and %g", a, b, k[a][b], k[b][a])
			}
		}
		if math.Abs(sum) > 1e-15 {
			t.Errorf("row %d adds up to %g", a, sum)
		}
	}
	if got := exact(0.5, 0.5, 0.5); math.Abs(got-1.0/6) > 1e-3 { // by symmetry: the solutions of all six faces add up to 1
		t.Errorf("%g in the middle, want 1/6", got)
	}
	coarse, fine := errorOf(8), errorOf(16)
	if ratio := coarse / fine; ratio < 3 || ratio > 5 {
		t.Errorf("errors %g and %g, whose ratio is %.1f, want about 4", coarse, fine, ratio)
	}
}

// errorOf solves the problem in one box, without messages, and returns the error in the middle of the cube.
func errorOf(n int) float64 {
	grid := box{hi: [3]int{n, n, n}}
	p := newPart(0, []box{grid}, grid)
	for i, former := 0, 0.0; i < 4*n; i++ {
		rr := dot(p.r, p.r)
		beta := 0.0
		if i > 0 {
			beta = rr / former
		}
		for k := range p.r {
			p.p[k] = p.r[k] + beta*p.p[k]
		}
		p.a.multiply(p.ap, p.p)
		alpha := rr / dot(p.p, p.ap)
		for k := range p.x {
			p.x[k] += alpha * p.p[k]
			p.r[k] -= alpha * p.ap[k]
		}
		former = rr
	}
	return math.Abs(p.x[p.nodes.index([3]int{n / 2, n / 2, n / 2})] - 1.0/6)
}

// Boxes cover the grid, each element once.
func TestBisect(t *testing.T) {
	for n := 1; n < 40; n++ {
		grid := box{hi: [3]int{7, 9, 8}}
		seen := map[[3]int]int{}
		for _, b := range bisect(grid, n) {
			if b.size() == 0 {
				t.Errorf("%d boxes: %v is empty", n, b)
			}
			b.places(func(at [3]int) { seen[at]++ })
		}
		if len(seen) != grid.size() {
			t.Errorf("%d boxes have %d elements, want %d", n, len(seen), grid.size())
		}
	}
}

// Bad flags are refused.
func TestFlags(t *testing.T) {
	for _, flags := range []string{"--nx 1", "--iterations 0", "--policy none", "--kill 3", "--nx 2 --ny 2 --nz 2"} {
		exampletest.Program(t, "oshrun -n 2 .bin/minife "+flags, "", 1)
	}
}
