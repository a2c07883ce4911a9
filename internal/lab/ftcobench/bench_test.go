package ftcobench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/lab/labtest"
)

func options() Options {
	return Options{
		Parts: PartNames(), When: MomentNames(), Nodes: []int{1}, PEs: []int{8}, Doubles: []int{1, 64}, Samples: 3,
		Program: "ftco-pe", DelayFlag: "delay", Watchdog: "pidfd", Tiers: []string{"bpf", "pidfd"},
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	labtest.CheckRefuses(t, options, (*Options).Check, map[string]func(o *Options){
		"--samples: 0, want 1 to":                   func(o *Options) { o.Samples = 0 },
		"-n: 1, want 2 to":                          func(o *Options) { o.PEs = []int{8, 1} },
		"-n: 1025":                                  func(o *Options) { o.PEs = []int{1025} },
		"-n: nothing":                               func(o *Options) { o.PEs = nil },
		"-n: 8 PEs on 16 nodes":                     func(o *Options) { o.Nodes = []int{1, 16} },
		"--nodes: 0, want 1 to 64":                  func(o *Options) { o.Nodes = []int{0} },
		"--nodes: 65, want 1 to 64":                 func(o *Options) { o.Nodes, o.PEs = []int{65}, []int{65} },
		"--doubles: 0, want 1 to":                   func(o *Options) { o.Doubles = []int{0} },
		`--parts: "all", want some of table1, figu`: func(o *Options) { o.Parts = []string{"all"} },
		`--when: "after", want some of before, dur`: func(o *Options) { o.When = []string{"after"} },
		"--notice-delay: -1s, want 0 to 1m0s":       func(o *Options) { o.NoticeDelay = -time.Second },
		`--watchdog: "off", want bpf, pidfd`:        func(o *Options) { o.Watchdog = "off" },
		"--notice-delay: 2m0s":                      func(o *Options) { o.NoticeDelay = 2 * time.Minute },
	})
}

// TestCases: both parts together have each case once.
func TestCases(t *testing.T) {
	t.Parallel()
	o := options()
	all := o.cases()
	// Table 1: one without faults, four with, at two moments. Figure 6: the same three strict; of 64 doubles three in both ways.
	if want := 1 + 4*2 + 3 + 3*2; len(all) != want {
		t.Errorf("%d cases, want %d: %v", len(all), want, all)
	}
	for i, c := range all {
		if (c.When == "") != (c.Faults == "none") || slices.Contains(all[i+1:], c) {
			t.Errorf("case %v: twice, or a moment without faults", c)
		}
	}
	o.Parts, o.When, o.Nodes, o.PEs = []string{Table1}, []string{Before}, []int{1, 4}, []int{4, 8}
	if all = o.cases(); len(all) != 4*5 {
		t.Errorf("%d cases of Table 1, want 5 for each team", len(all))
	}
	if c := (Case{Nodes: 4, PEs: 64}); c.members() != 4 {
		t.Errorf("%d members on 4 nodes, want the nodes", c.members())
	}
}

// machine plays jobs.
type machine struct {
	calls []string
	lacks string // the way that it does not have
	err   error
}

func (m *machine) run(_ context.Context, c Case) (*trial, error) {
	m.calls = append(m.calls, c.String())
	switch {
	case m.err != nil && len(m.calls) > 2:
		return nil, m.err
	case c.Way == m.lacks:
		return &trial{notHere: "no such teams"}, nil
	case c.Faults == "none":
		return rounds(c.PEs), nil
	}
	return survived(c.PEs), nil
}

func (m *machine) measure(t *testing.T, o Options) (*Report, error) {
	t.Helper()
	b := &bench{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	return b.measure(t.Context(), m.run)
}

// TestOrder: cases are shuffled, in the same order for the same seed.
func TestOrder(t *testing.T) {
	t.Parallel()
	labtest.SeedOrders(t, func(seed uint64) []string {
		o := options()
		o.Seed = seed
		m := &machine{}
		if _, err := m.measure(t, o); err != nil {
			t.Fatal(err)
		}
		return m.calls
	})
}

// TestGoesOn: what is not available is tried once, and all else is measured.
func TestGoesOn(t *testing.T) {
	t.Parallel()
	m := &machine{lacks: Strict}
	r, err := m.measure(t, options())
	if err != nil {
		t.Fatal(err)
	}
	for _, res := range r.Cases {
		want := Result{Samples: 3}
		if res.Way == Strict {
			want = Result{NotHere: "no such teams"}
		}
		if res.Samples != want.Samples || res.NotHere != want.NotHere || (res.Longest == nil) != (res.Way == Strict) {
			t.Errorf("%v: %d samples, not available: %q", res.of, res.Samples, res.NotHere)
		}
		calls := 0
		for _, call := range m.calls {
			if call == res.of.String() {
				calls++
			}
		}
		if res.Way == Strict && calls != 1 {
			t.Errorf("%v was tried %d times, want once", res.of, calls)
		}
	}
	if notes := r.Notes(); len(notes) != 1 || notes[0] != "not available here: strict, 8 PEs, faults none, one: no such teams" {
		t.Errorf("notes %q, want one for the strict way", notes)
	}
}

func TestMeasureFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("no such job")
	if _, err := (&machine{err: bad}).measure(t, options()); !errors.Is(err, bad) || !strings.Contains(err.Error(), "8 PEs, doubles: ") {
		t.Errorf("job that fails: %v, want that error and its case", err)
	}
	o := options()
	o.Samples = 0
	if _, err := Measure(t.Context(), o); err == nil {
		t.Error("no samples: no error")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(bad)
	b := &bench{Options: options(), rng: rand.New(rand.NewPCG(1, 0))}
	if _, err := b.measure(ctx, (&machine{}).run); !errors.Is(err, bad) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestMainRefuses(t *testing.T) {
	t.Parallel()
	labtest.MainRefuses(t, Main, map[string][][]string{
		"part of oshrun ftco-bench": {nil, {Strict}},
		`parsing "x"`:               {{Strict, "none", "x", "1"}, {Strict, "none", "1", "x"}},
	})
}

// TestPlan: each PE gets its part.
func TestPlan(t *testing.T) {
	t.Parallel()
	p := plan{Start: 70, Dead: []int{3, 4, 5, 6}, Silent: []int{4, 5, 6}, Killer: 4, Of: 6, PID: 99}
	for pe, role := range []int64{roleReduce, roleReduce, roleReduce, roleVictim, roleKiller, roleSilent, roleSilent} {
		part := p.partOf(pe)
		if want := []int64{role, 70, 6, 99}; !slices.Equal(part, want) {
			t.Errorf("PE %d has the part %v, want %v", pe, part, want)
		}
	}
}

// TestMembers: on several nodes the PEs of a member have one parent.
func TestMembers(t *testing.T) {
	t.Parallel()
	for _, x := range []struct {
		nodes, pes int
		parents    []int
		want       string
	}{
		{1, 3, []int{7, 7, 7}, "[[0] [1] [2]]"},
		{2, 4, []int{7, 7, 8, 8}, "[[0 1] [2 3]]"},
		{3, 4, []int{7, 8, 8, 9}, "[[0] [1 2] [3]]"},
		{2, 4, []int{7, 8, 7, 8}, "the PEs are on 4 nodes, want 2"},
	} {
		j := &scene{of: Case{Nodes: x.nodes, PEs: x.pes}}
		for _, p := range x.parents {
			j.ready = append(j.ready, &line{Parent: p})
		}
		err := j.findMembers()
		got := fmt.Sprint(j.members)
		if err != nil {
			got = err.Error()
		}
		if got != x.want {
			t.Errorf("parents %v on %d nodes: %s, want %s", x.parents, x.nodes, got, x.want)
		}
	}
}

// TestSums: a sum over the right PEs is right, and one with a PE too many or too few, or with one twice, is not.
func TestSums(t *testing.T) {
	t.Parallel()
	const doubles = 40
	sum := func(pes ...int) []float64 {
		total, data := make([]float64, doubles), make([]float64, doubles)
		for _, pe := range pes {
			fill(data, pe)
			for i, v := range data {
				total[i] += v
			}
		}
		return total
	}
	for _, pes := range [][]int{{0}, {0, 1, 2}, {2, 5, 7}, allBelow(maxPEs)} {
		if wrong := checkSum(sum(pes...), pes); wrong != "" {
			t.Errorf("PEs %v: %s", pes, wrong)
		}
	}
	for _, pes := range [][]int{nil, {0, 1}, {0, 1, 2, 3}, {0, 1, 1}, {0, 1, 2, 2}, {0, 1, 3}} {
		if checkSum(sum(pes...), []int{0, 1, 2}) == "" {
			t.Errorf("the sum over PEs %v counts as that over 0 to 2", pes)
		}
	}
	data := sum(0, 1, 2)
	data[17]++
	if wrong := checkSum(data, []int{0, 1, 2}); !strings.Contains(wrong, "element 17 is") {
		t.Errorf("element 17 is off: %q", wrong)
	}
	if largest := value(maxPEs<<34, maxPEs, maxDoubles-1); largest >= 1<<53 {
		t.Errorf("sums may be %g, want less than 2^53: they would not be exact", largest)
	}
	for pe := range maxPEs {
		if weight(pe) >= 1<<34 {
			t.Errorf("weight of PE %d is %d", pe, weight(pe))
		}
	}
}
