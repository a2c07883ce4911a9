package ulfmbench

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/lab/labtest"
)

func options() Options {
	o := Defaults()
	o.Sizes, o.Dead, o.Jobs, o.Samples, o.Calls, o.Seed = []int{4, 2, 4}, []int{2, 0}, 2, 3, 10, 5
	return o
}

func TestCheck(t *testing.T) {
	t.Parallel()
	labtest.CheckRefuses(t, Defaults, (*Options).Check, nil)
	labtest.CheckRefuses(t, options, (*Options).Check, map[string]func(o *Options){
		`--cases: "comply", want some of agree, iagree`: func(o *Options) { o.Cases = []string{Agree, "comply"} },
		"--cases: nothing":                func(o *Options) { o.Cases = nil },
		"--sizes: 1, want 2 to 256 ranks": func(o *Options) { o.Sizes = []int{4, 1} },
		"--sizes: 257":                    func(o *Options) { o.Sizes = []int{257} },
		"--sizes: nothing":                func(o *Options) { o.Sizes = nil },
		"--dead: -1, want 0 to 128":       func(o *Options) { o.Dead = []int{-1} },
		"--dead: nothing":                 func(o *Options) { o.Dead = nil },
		"--dead: [9] is more than half":   func(o *Options) { o.Cases, o.Dead = []string{Agree}, []int{9} },
		"--nodes: 0, want 1 to 64":        func(o *Options) { o.Nodes = 0 },
		"--sizes: 2 ranks on 3 nodes":     func(o *Options) { o.Nodes = 3 },
		"--jobs: 0, want 1 to":            func(o *Options) { o.Jobs = 0 },
		"--samples: 0, want 1 to":         func(o *Options) { o.Samples = 0 },
		"--calls: 0, want 1 to":           func(o *Options) { o.Calls = 0 },
	})
}

// TestPlan: cells come once. Each job has victims of its own, which the seed draws, and rank 0 is none of them.
func TestPlan(t *testing.T) {
	t.Parallel()
	o := options()
	o.Cases = []string{RecvAny, Shrink, Revoke}
	const want = "[shrink, 2 ranks, 0 dead shrink, 4 ranks, 0 dead shrink, 4 ranks, 2 dead revoke, 2 ranks, 0 dead " +
		"revoke, 4 ranks, 0 dead recvany, 2 ranks, 1 dead recvany, 4 ranks, 1 dead]"
	if got := fmt.Sprint(o.cells()); got != want {
		t.Errorf("cells %s, want %s", got, want)
	}
	draws := map[string]bool{}
	for job := range 20 {
		p := o.plan(cell{Agree, 16, 8}, job)
		if again := o.plan(cell{Agree, 16, 8}, job); !slices.Equal(p.Dead, again.Dead) || p.Seed != again.Seed {
			t.Errorf("plans %+v and %+v of one job, want the same", p, again)
		}
		if len(p.Dead) != 8 || p.Dead[0] < 1 || p.Dead[7] > 15 || !slices.IsSorted(p.Dead) || len(slices.Compact(slices.Clone(p.Dead))) != 8 {
			t.Errorf("victims %v, want 8 of 1 to 15", p.Dead)
		}
		draws[fmt.Sprint(p.Dead)] = true
	}
	if len(draws) < 15 {
		t.Errorf("20 jobs have %d sets of victims", len(draws))
	}
	p := o.plan(cell{Barrier, 4, 1}, 0)
	p.Killed = "file"
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	if back, err := parsePlan([]string{string(text)}); err != nil || fmt.Sprint(back) != fmt.Sprint(p) {
		t.Errorf("plan %+v, %v, want %+v", back, err, p)
	}
}

// played returns what a job would give if rank r took (1+r) ms for a first call, 100(1+i)+10r us for batch i, half of
// that for an Allreduce, and learned of revocation i, or of the death, after 10(1+i)+r us.
func played(c cell, p *plan) *outcome {
	out := &outcome{records: make([]*record, c.ranks), killed: time.Second, calls: p.Calls}
	for r := range out.records {
		if slices.Contains(p.Dead, r) {
			continue
		}
		rec := &record{}
		out.records[r] = rec
		for i := range p.Samples {
			at := time.Second + time.Duration(10*(1+i)+r)*time.Microsecond
			switch {
			case c.makesCalls():
				call := time.Duration(100*(1+i)+10*r) * time.Microsecond
				rec.Rounds = append(rec.Rounds, round{Call: call, Allreduce: call / 2})
			case c.awaitsDeath():
				rec.Learned = time.Second + time.Duration(10+r)*time.Microsecond
				if c.name == Respawn {
					rec.Steps = map[string]time.Duration{
						InShrink: rec.Learned + 20*time.Microsecond, InSpawn: rec.Learned + 50*time.Microsecond, InMerge: rec.Learned + 90*time.Microsecond,
					}
				}
			default:
				if r == 0 {
					at = time.Second
				}
				if rec.Revoked == nil {
					rec.Revoked = map[string][]time.Duration{}
				}
				for _, wait := range waits {
					rec.Revoked[wait] = append(rec.Revoked[wait], at)
				}
			}
		}
		if c.makesCalls() && c.dead > 0 {
			rec.First = time.Duration(1+r) * time.Millisecond
		}
	}
	return out
}

// TestMeasure: each sample goes to its cell and phase, by the slowest rank, as the time of one call. Jobs are mixed.
func TestMeasure(t *testing.T) {
	t.Parallel()
	o := options()
	var order []string
	done := 0
	o.Progress = func(n, all int) {
		if all != 2*(4*3+4*2) {
			t.Errorf("%d jobs, want 2 for each of 20 cells", all)
		}
		done = n
	}
	r, err := o.measure(t.Context(), func(_ context.Context, c cell, p plan) (*outcome, error) {
		order = append(order, c.String())
		p.Dead = nil // the last ranks
		for i := range c.dead {
			p.Dead = append(p.Dead, c.ranks-c.dead+i)
		}
		out := played(c, &p)
		return out, out.check(c, &p)
	})
	if err != nil || done != 40 || slices.IsSorted(order) {
		t.Fatalf("%v after %d jobs, %v, want 40 in random order", err, done, order)
	}
	if r.Failures() != nil || r.Program != programName || r.Jobs != 2 || r.Seed != 5 || r.Nodes != 1 {
		t.Errorf("%v: %+v", r.Failures(), r)
	}
	var got []string
	for _, c := range r.Results {
		if c.Ranks == 4 && (c.Case == Ishrink || !(cell{name: c.Case}).makesCalls()) {
			got = append(got, fmt.Sprintf("%s %s %d: %d of %v to %v to %v, x %v", c.Case, c.Phase, c.Dead, c.Samples, c.Time.Min, c.Time.P50, c.Time.Max, c.Times))
		}
	}
	want := []string{
		"ishrink steady 0: 6 of 13 to 23 to 33, x 2",
		"ishrink first 2: 2 of 2000 to 2000 to 2000, x 190.47619047619048", // of 10.5 us
		"ishrink steady 2: 6 of 11 to 21 to 31, x 2",
		"revoke recv 0: 6 of 13 to 23 to 33, x 0",
		"revoke barrier 0: 6 of 13 to 23 to 33, x 0",
		"barrier death 1: 6 of 10 to 11 to 12, x 0", // 3 survivors in each of 2 jobs
		"recvany death 1: 6 of 10 to 11 to 12, x 0",
		"respawn death 1: 6 of 10 to 11 to 12, x 0",
		"respawn shrink 1: 2 of 20 to 20 to 20, x 0", // from the last survivor's error
		"respawn spawn 1: 2 of 30 to 30 to 30, x 0",
		"respawn merge 1: 2 of 40 to 40 to 40, x 0",
		"respawn whole 1: 2 of 102 to 102 to 102, x 0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("results\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	labtest.HasJSON(
		t, r, `"nodes":1,"jobs":2,"samples":3,"calls":10,"cpus":`, `{"case":"agree","phase":"steady","ranks":2,"dead":0,"samples":6,"us":{"min":`,
		`"allreduce_us":null,"times_allreduce":0,"wrong":0}`,
	)
}

// TestMeasureFails: an error of a job, and the end of the context, end the measurement.
func TestMeasureFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("no such job")
	o := options()
	_, err := o.measure(t.Context(), func(context.Context, cell, plan) (*outcome, error) { return nil, bad })
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "dead: ") {
		t.Errorf("%v, want the job's error and its cell", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	_, err = o.measure(ctx, func(context.Context, cell, plan) (*outcome, error) {
		cancel(bad)
		return nil, context.Canceled
	})
	if !errors.Is(err, bad) || !strings.Contains(err.Error(), "after 0 of 40 jobs") {
		t.Errorf("%v, want why it was interrupted", err)
	}
	o.Samples = 0
	if _, err := Measure(t.Context(), o); err == nil {
		t.Error("Measure takes 0 samples")
	}
}

// TestWrong: wrong results are counted in their phase, and make an error. One survivor has no ratio.
func TestWrong(t *testing.T) {
	t.Parallel()
	o := options()
	c := cell{Agree, 2, 1}
	p := o.plan(c, 0)
	out := played(c, &p)
	q := &pe{phase: Steady}
	q.countWrong("flags %d", 1)
	q.countWrong("flags %d", 2)
	out.records[0].Wrong = q.Wrong
	results := newResults(c)
	for _, r := range results {
		r.add(out)
		r.fillSpreads()
		if r.Times != 0 || r.Allreduce == nil {
			t.Errorf("%+v, want no ratio", r)
		}
	}
	err := (&Report{Results: results}).Failures()
	if text := "agree, 2 ranks, 1 dead, steady: 2 wrong results (flags 2)"; err == nil || err.Error() != text {
		t.Errorf("%v, want %s", err, text)
	}
}

// TestOutcome: what ranks leave out is an error.
func TestOutcome(t *testing.T) {
	t.Parallel()
	o := options()
	for want, x := range map[string]struct {
		c      cell
		change func(out *outcome, dead int)
	}{
		"reports nothing":                              {cell{Agree, 4, 0}, func(out *outcome, _ int) { out.records[2] = nil }},
		"was to kill itself":                           {cell{Barrier, 4, 1}, func(out *outcome, dead int) { out.records[dead] = &record{} }},
		"rank 1 reports 2 samples, want 3":             {cell{Shrink, 2, 0}, func(out *outcome, _ int) { out.records[1].Rounds = out.records[1].Rounds[:2] }},
		"rank 0 reports 2 steps":                       {cell{Respawn, 2, 1}, func(out *outcome, _ int) { delete(out.records[0].Steps, InSpawn) }},
		"rank 0 reports no first call":                 {cell{Shrink, 2, 1}, func(out *outcome, _ int) { out.records[0].First = 0 }},
		"rank 0 learned of the death 1ns before it":    {cell{RecvAny, 2, 1}, func(out *outcome, _ int) { out.records[0].Learned = out.killed - 1 }},
		"rank 1 reports 0 revocations in recv, want 3": {cell{Revoke, 2, 0}, func(out *outcome, _ int) { delete(out.records[1].Revoked, InRecv) }},
	} {
		p := o.plan(x.c, 0)
		out := played(x.c, &p)
		if err := out.check(x.c, &p); err != nil {
			t.Errorf("%v: %v", x.c, err)
		}
		dead := 0
		if len(p.Dead) > 0 {
			dead = p.Dead[0]
		}
		x.change(out, dead)
		if err := out.check(x.c, &p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	out := &outcome{records: make([]*record, 2)}
	for _, text := range []string{"noise", `{"rank":2,"error":"x"}`, `{"rank":1,"error":"hung"}`, `{"rank":0,"error":"rank 1 has died"}`, `{"rank":0,"record":{"first":4}}`} {
		out.read([]byte(text))
	}
	if out.err == nil || out.err.Error() != "rank 1: hung" || out.records[0] == nil || out.records[0].First != 4 {
		t.Errorf("%v, records %v, want the first error and a record", out.err, out.records)
	}
}

// TestReadTime: the file of a victim has one time, and any other length is an error.
func TestReadTime(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "killed")
	if _, err := readTime(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		string(binary.LittleEndian.AppendUint64(nil, 1500)): "1.5µs <nil>",
		"": "0s the victim has written 0 bytes, want its time in 8",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		at, err := readTime(file)
		if got := fmt.Sprint(at, " ", err); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestMainRefuses(t *testing.T) {
	t.Parallel()
	labtest.MainRefuses(t, Main, map[string][][]string{
		"oshrun ulfm-bench": {nil, {"{}", "{}"}, {"log"}},
		`plan: "paxos"`:     {{`{"case":"paxos"}`}},
	})
}
