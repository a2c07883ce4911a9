package agreebench

import (
	"context"
	"encoding/json"
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
	o := Defaults()
	o.Sizes, o.Dead, o.Jobs, o.Samples, o.Calls, o.Seed = []int{4, 2, 4}, []int{2, 0, 1}, 2, 3, 10, 5
	return o
}

func TestCheck(t *testing.T) {
	t.Parallel()
	labtest.CheckRefuses(t, Defaults, (*Options).Check, nil)
	labtest.CheckRefuses(t, options, (*Options).Check, map[string]func(o *Options){
		"--sizes: 1, want 2 to 256":                func(o *Options) { o.Sizes = []int{4, 1} },
		"--sizes: 257":                             func(o *Options) { o.Sizes = []int{257} },
		"--dead: -1, want 0 to 128":                func(o *Options) { o.Dead = []int{-1} },
		"--dead: [9] is more than half":            func(o *Options) { o.Dead = []int{9} },
		"--dead: nothing, want 0 to 128":           func(o *Options) { o.Dead = nil },
		"--sizes: nothing, want 2 to 256":          func(o *Options) { o.Sizes = nil },
		"--jobs: 0, want 1 to":                     func(o *Options) { o.Jobs = 0 },
		"--samples: 0, want 1 to":                  func(o *Options) { o.Samples = 0 },
		"--calls: 0, want 1 to":                    func(o *Options) { o.Calls = 0 },
		`--who: "all", want some of inner, random`: func(o *Options) { o.Who = "all" },
		"--algorithms: none":                       func(o *Options) { o.Algorithms = nil },
		`--algorithms: "paxos", want some of all`:  func(o *Options) { o.Algorithms = []string{Log, "paxos"} },
	})
}

// TestPlan: cells come once, the victims are those that the options say, and all variants have a turn in each round.
func TestPlan(t *testing.T) {
	t.Parallel()
	o := options()
	if got := fmt.Sprint(o.cells()); got != "[{2 0} {2 1} {4 0} {4 1} {4 2}]" {
		t.Errorf("cells %s", got)
	}
	if got := fmt.Sprint(victims(Inner, 16, 7, nil)); got != "[2 4 6 8 10 12 14]" { // all with a PE below them
		t.Errorf("inner victims %s", got)
	}
	draws := map[string]bool{}
	for seed := range uint64(20) {
		dead := victims(Random, 16, 8, rand.New(rand.NewPCG(seed, 0)))
		if len(dead) != 8 || dead[0] < 1 || dead[7] > 15 || !slices.IsSorted(dead) || len(slices.Compact(slices.Clone(dead))) != 8 {
			t.Errorf("random victims %v, want 8 of 1 to 15", dead)
		}
		draws[fmt.Sprint(dead)] = true
	}
	if len(draws) < 15 {
		t.Errorf("20 seeds draw %d sets of victims", len(draws))
	}
	if got := fmt.Sprint(variantsOf([]string{Early, Allreduce}, 0)); got != "[allreduce early]" {
		t.Errorf("variants without dead PEs: %s", got)
	}
	if got := fmt.Sprint(variantsOf([]string{Early, Allreduce}, 1)); got != "[allreduce, rebalanced early early, rebalanced]" {
		t.Errorf("variants with dead PEs: %s", got)
	}
	p := o.plan(cell{4, 2})
	if q := o.plan(cell{4, 2}); !slices.Equal(p.Dead, q.Dead) {
		t.Errorf("victims %v, then %v, want the same", p.Dead, q.Dead)
	}
	orders := map[string]bool{}
	for i := range 20 {
		turns := p.turns(i)
		orders[fmt.Sprint(turns)] = true
		if slices.Sort(turns); len(turns) != 7 || turns[0] != 0 || turns[6] != 6 {
			t.Errorf("turns %v, want each of 7 variants once", turns)
		}
	}
	if len(orders) < 15 {
		t.Errorf("20 rounds have %d orders", len(orders))
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := parsePlan([]string{string(text)}); err != nil || fmt.Sprint(back) != fmt.Sprint(p) {
		t.Errorf("plan %+v, %v, want %+v", back, err, p)
	}
}

// played returns what survivors would say if PE q ended its batch i of variant v after (1+v)(1+i)+q ms.
func played(p *plan, pes int) survivors {
	s := make(survivors, pes)
	for q := range s {
		for i := 0; i < p.Samples && !slices.Contains(p.Dead, q); i++ {
			r := round{Number: i}
			for v := range p.Variants {
				began := time.Second - time.Duration(q)*time.Millisecond
				r.Batches = append(r.Batches, batch{Began: began, Ended: time.Second + time.Duration((1+v)*(1+i)+q)*time.Millisecond, Digest: uint64(v)})
			}
			s[q] = append(s[q], r)
		}
	}
	return s
}

// TestMeasure: each sample goes to its variant and cell, as the time of one agreement; jobs are mixed.
func TestMeasure(t *testing.T) {
	t.Parallel()
	o := options()
	var order []cell
	done := 0
	o.Progress = func(n, all int) {
		if all != 10 {
			t.Errorf("%d jobs, want 2 for each of 5 cells", all)
		}
		done = n
	}
	r, err := o.measure(t.Context(), func(_ context.Context, c cell, p plan) (survivors, error) {
		order = append(order, c)
		return played(&p, c.pes), nil
	})
	if err != nil || done != 10 || len(order) != 10 || slices.IsSortedFunc(order, func(a, b cell) int { return 10*(a.pes-b.pes) + a.dead - b.dead }) {
		t.Fatalf("%v after %d jobs %v, want 10 in random order", err, done, order)
	}
	if r.Failures() != nil || len(r.Results) != 4+7+4+7+7 || r.Program != programName || r.Jobs != 2 || r.Seed != 5 {
		t.Errorf("%d results, %v: %+v", len(r.Results), r.Failures(), r)
	}
	last := r.Results[len(r.Results)-1] // variant 6 of 4 PEs, 1 and 2 of them dead
	if last.PEs != 4 || last.Dead != 2 || !slices.Equal(last.Victims, []int{1, 2}) || last.String() != "early, rebalanced" || last.Samples != 6 {
		t.Errorf("last result %+v", last)
	}
	// Rounds end at PE 0 after 7, 14, 21 ms. PE 3 begins 3 ms earlier and ends 3 ms later. A batch has 10 calls.
	if c, a := last.Coordinator, last.All; c.Min != 700 || c.P50 != 1400 || c.Max != 2100 || a.Min != 1300 || a.P50 != 2000 || a.Max != 2700 {
		t.Errorf("coordinator %+v, all %+v", c, a)
	}
	if last.Times != 2.5 { // in the rounds 13/7, 20/8 and 27/9
		t.Errorf("%v times the allreduce, want 2.5", last.Times)
	}
	pair := []*Result{{Variant: Variant{Algorithm: Allreduce}, all: []float64{1, 10, 100}}, {all: []float64{200, 2, 20}}}
	if fillSpreads(pair); pair[1].Times != 0.2 || pair[0].Times != 1 { // 200, 0.2, 0.2: the medians would say 2
		t.Errorf("%v times the allreduce, want 0.2 in most rounds", pair[1].Times)
	}
}

// TestMeasureFails: an error of a job, and the end of the context, end the measurement.
func TestMeasureFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("no such job")
	o := options()
	_, err := o.measure(t.Context(), func(context.Context, cell, plan) (survivors, error) { return nil, bad })
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "dead: ") {
		t.Errorf("%v, want the job's error and its cell", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = o.measure(ctx, func(context.Context, cell, plan) (survivors, error) {
		cancel(bad)
		return nil, context.Canceled
	})
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "after 0 of 10 jobs") {
		t.Errorf("%v, want why it was interrupted", err)
	}
	o.Samples = 0
	if _, err := Measure(t.Context(), o); err == nil {
		t.Error("Measure takes 0 samples")
	}
}

// TestWrongs: wrong decisions and different ones are counted, and make an error.
func TestWrongs(t *testing.T) {
	t.Parallel()
	o := options()
	c := cell{4, 1}
	p := o.plan(c)
	for want, change := range map[string]func(b *batch){
		"3 wrong decisions, survivors differ in 0 samples (flags)": func(b *batch) { b.Wrong, b.What = 3, "flags" },
		"0 wrong decisions, survivors differ in 1 samples":         func(b *batch) { b.Digest++ },
	} {
		s := played(&p, c.pes)
		change(&s[3][1].Batches[2])
		results := newResults(c, p)
		for v, r := range results {
			r.add(&p, s, v)
		}
		err := (&Report{Results: results}).Failures()
		if err == nil || !strings.HasPrefix(err.Error(), "4 PEs, 1 dead, linear, rebalanced: "+want) || strings.Contains(err.Error(), ";") {
			t.Errorf("%v, want only %q", err, want)
		}
	}
}

// TestScene: the victims are killed when all PEs are ready, and what PEs leave out is an error.
func TestScene(t *testing.T) {
	t.Parallel()
	p := plan{Variants: variantsOf([]string{Log}, 1), Samples: 2, Calls: 1, Dead: []int{1}}
	good := func() *scene { return &scene{rounds: played(&p, 3)} }
	if err := good().check(&p); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(s *scene){
		"PE 2 reports 1 rounds, want 2":           func(s *scene) { s.rounds[2] = s.rounds[2][:1] },
		"PE 1 was killed":                         func(s *scene) { s.rounds[1] = s.rounds[0] },
		"PE 0 reports 2 batches of round 7":       func(s *scene) { s.rounds[0][1].Number = 7 },
		"PE 2 reports 1 batches of round 0 as ro": func(s *scene) { s.rounds[2][0].Batches = s.rounds[2][0].Batches[:1] },
	} {
		s := good()
		change(s)
		if err := s.check(&p); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	const none = 1 << 30 // no process has this number
	s := &scene{pids: make([]int, 2), rounds: make(survivors, 2)}
	for _, text := range []string{"noise", `{"pe":9,"pid":1}`, fmt.Sprintf(`{"pe":1,"pid":%d}`, none)} {
		if s.read([]byte(text), []int{1}); s.err != nil {
			t.Errorf("after %s: %v, want no kill yet", text, s.err)
		}
	}
	if s.read([]byte(`{"pe":0,"pid":7}`), []int{1}); s.err == nil || !strings.Contains(s.err.Error(), fmt.Sprint("kill ", none)) {
		t.Errorf("%v, want that PE 1 could not be killed", s.err)
	}
	s = &scene{pids: make([]int, 2), rounds: make(survivors, 2)}
	s.read([]byte(`{"pe":1,"pid":3,"error":"hung"}`), nil)
	s.read([]byte(`{"pe":0,"pid":3,"error":"PE 1 has failed"}`), nil)
	s.read([]byte(`{"pe":0,"pid":3,"round":{"number":4}}`), nil)
	if s.err == nil || s.err.Error() != "PE 1: hung" || len(s.rounds[0]) != 1 || s.rounds[0][0].Number != 4 {
		t.Errorf("%v, rounds %v, want the first error and one round", s.err, s.rounds)
	}
}

// TestReport checks the JSON names that other programs read, and the figures.
func TestReport(t *testing.T) {
	t.Parallel()
	o := options()
	r, err := o.measure(t.Context(), func(_ context.Context, c cell, p plan) (survivors, error) { return played(&p, c.pes), nil })
	if err != nil {
		t.Fatal(err)
	}
	labtest.HasJSON(
		t, r,
		`"who":"inner"`, `"jobs":2`, `"samples":3`, `"calls":10`, `"pes":4,"dead":2,"victims":[1,2],"algorithm":"log","rebalanced":true,"samples":6`,
		`"coordinator_us":{"min":`, `"all_us":{"min":`, `"times_allreduce":2.5`, `"wrong":0,"differed":0}`,
	)
	f := r.Picture()
	if len(f.Series) != 4 || f.Series[2].Name != "two-phase commit, log" || !slices.Equal(f.Series[2].X, []float64{2, 4}) {
		t.Errorf("series %+v, want 4 algorithms with 2 and 4 PEs", f.Series)
	}
	g := r.PictureDead()
	if len(g.Series) != 6+2 || !slices.Equal(g.Names, []string{"1", "2"}) || g.Series[5].Name != "early-returning, rebalanced" || g.Series[5].Y[1] != 2.5 {
		t.Errorf("names %v, series %+v, want 6 variants with 1 and 2 of 4 PEs dead", g.Names, g.Series)
	}
	labtest.Draws(t, f, "early-returning")
	labtest.Draws(t, g, "early-returning")
}

func TestMainRefuses(t *testing.T) {
	t.Parallel()
	labtest.MainRefuses(t, Main, map[string][][]string{
		"oshrun agree-bench": {nil, {"{}", "{}"}, {"log"}},
		"paxos":              {{`{"variants":[{"algorithm":"paxos"}]}`}},
	})
}
