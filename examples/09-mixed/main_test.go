package main

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/exampletest"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

const steps = 200 // as the flag says

// If there are enough PEs, one is killed, and the others finish without it, on one node and on several.
func TestMixed(t *testing.T) {
	exampletest.Run(t, func(n int) (string, int) {
		if n < 3 {
			return expected(n, -1), 0
		}
		return expected(n, 2), 3
	})
}

// Any PE may be killed, even the one that has the counter.
func TestMixedSurvives(t *testing.T) { exampletest.Survive(t, expected) }

// Any PE or node may be lost at any moment, by its agent, its daemon, or all of its processes.
func TestMixedSurvivesNode(t *testing.T) {
	const npes, steps = 6, 4000
	for _, place := range []string{"slot", "node"} {
		for _, victim := range []exampletest.Victim{exampletest.Agent, exampletest.OnePE, exampletest.Daemon, exampletest.AllOfOne} {
			for _, pe := range []int{0, 3} {
				if testing.Short() && (victim != exampletest.Agent || pe != 0) {
					continue
				}
				t.Run(fmt.Sprintf("by %s, %v of PE %d", place, victim, pe), func(t *testing.T) {
					out := exampletest.Lose(t, exampletest.Loss{
						Options: fmt.Sprintf("-n %d --map-by %s", npes, place), Args: fmt.Sprint("--steps ", steps), PE: pe, Victim: victim,
						After: 90 * time.Millisecond, Pattern: "heat .*\n",
					})
					var dead []int
					for other := range npes {
						sameNode := other/2 == pe/2 // 2 PEs on each node
						if place == "node" {
							sameNode = other%3 == pe%3
						}
						if other == pe || victim != exampletest.OnePE && sameNode {
							dead = append(dead, other)
						}
					}
					checkLoss(t, out, npes, steps, dead)
				})
			}
		}
	}
}

// checkLoss checks what a job prints whose PEs dead were lost at some moment. The cells that were counted tell when.
func checkLoss(t *testing.T, out string, npes, steps int, dead []int) {
	t.Helper()
	var heat float64
	var live, counted, first int
	if _, err := fmt.Sscanf(out, "heat %f on %d PEs, %d cells counted on PE %d\n", &heat, &live, &counted, &first); err != nil {
		t.Fatalf("output %q: %v", out, err)
	}
	left := npes - len(dead)
	want := 0 // the first PE that lives
	for slices.Contains(dead, want) {
		want++
	}
	at := (counted/cells - left*steps) / len(dead) // the steps of the dead
	if want > 0 {                                  // the new first PE counts those after the loss
		at = steps - counted/cells/left
	}
	if live != left || first != want || counted%cells != 0 || at < 0 || at >= steps {
		t.Fatalf("output %q, want %d PEs with PE %d as the first one, and a loss in one of %d steps", out, left, want, steps)
	}
	// Neighbors of the dead may have got their last message some steps before or after that, one a step later than another.
	flows := flowsFrom(npes, at+5, dead)
	best := math.Inf(1)
	for from := max(0, at-3); from < at+4; from++ {
		for later := range 1 << len(flows) {
			sum := 1000 * float64(left)
			for i, flow := range flows {
				sum += flow[from+later>>i&1]
			}
			best = min(best, math.Abs(sum-heat))
		}
	}
	if best > 0.00051 {
		t.Errorf("output %q: the loss is in step %d or so, where the heat differs by %f or more", out, at, best)
	}
}

// flowsFrom computes serially how much heat flows from the dead to each neighbor that lives before each step, if none dies.
func flowsFrom(npes, steps int, dead []int) (flows [][]float64) {
	rods, next := make([][]float64, npes), make([][]float64, npes)
	for me := range rods {
		rods[me], next[me] = make([]float64, cells+2), make([]float64, cells+2)
		rods[me][1+me*10] = 1000
	}
	var pairs [][2]int // one that lives, and its dead neighbor
	for me := range npes {
		for _, other := range []int{me - 1, me + 1} {
			if slices.Contains(dead, other) && !slices.Contains(dead, me) {
				pairs = append(pairs, [2]int{me, other})
				flows = append(flows, make([]float64, steps+1))
			}
		}
	}
	for step := range steps {
		for me, rod := range rods {
			rod[0], rod[cells+1] = rod[1], rod[cells]
			if me > 0 {
				rod[0] = rods[me-1][cells]
			}
			if me < npes-1 {
				rod[cells+1] = rods[me+1][1]
			}
		}
		for i, p := range pairs {
			flow := rods[p[0]][0] - rods[p[0]][1]
			if p[1] > p[0] {
				flow = rods[p[0]][cells+1] - rods[p[0]][cells]
			}
			flows[i][step+1] = flows[i][step] + flow/4
		}
		for me, rod := range rods {
			for i := 1; i <= cells; i++ {
				next[me][i] = rod[i] + (rod[i-1]-2*rod[i]+rod[i+1])/4
			}
			rods[me], next[me] = next[me], rods[me]
		}
	}
	return flows
}

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
