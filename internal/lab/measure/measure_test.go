package measure

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
)

func TestChecks(t *testing.T) {
	t.Parallel()
	known := []string{"small", "large"}
	for _, c := range []struct {
		err  error
		want string // empty: no error
	}{
		{CheckNumbers("-n", []int{2, 9}, 2, 9, "PEs"), ""},
		{CheckNumbers("-n", []int{2, 1}, 2, 9, "PEs"), "-n: 1, want 2 to 9 PEs"},
		{CheckNumbers("-n", []int{10}, 2, 9, "PEs"), "-n: 10, want 2 to 9 PEs"},
		{CheckNumbers("-n", nil, 2, 9, "PEs"), "-n: nothing, want 2 to 9 PEs"},
		{CheckNumber("-n", 9, 2, 9, "PEs"), ""},
		{CheckNumber("-n", 0, 2, 9, "PEs"), "-n: 0, want 2 to 9 PEs"},
		{CheckWords("--cases", known, known), ""},
		{CheckWords("--cases", []string{"small", "odd"}, known), `--cases: "odd", want some of small, large`},
		{CheckWords("--cases", nil, known), "--cases: nothing, want some of small, large"},
		{FirstError(), ""},
		{FirstError(nil, errors.New("a"), errors.New("b")), "a"},
		{FirstError(nil, nil), ""},
		{JoinFailures(nil), ""},
		{JoinFailures([]string{"a", "b"}), "a; b"},
	} {
		if got := fmt.Sprint(c.err); c.want == "" && c.err != nil || c.want != "" && got != c.want {
			t.Errorf("%s, want %q", got, c.want)
		}
	}
}

// order returns the order in which five jobs run, and the calls of Progress.
func order(t *testing.T, seed uint64) (numbers, shown []int) {
	t.Helper()
	j := Jobs{
		N: 5, What: "jobs", Rand: rand.New(rand.NewPCG(seed, 0)),
		Progress: func(done, all int) { shown = append(shown, done, all) },
		Run:      func(number int) error { numbers = append(numbers, number); return nil },
	}
	if err := j.RunAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	return numbers, shown
}

// TestRunAll: each job runs once, in an order that the seed gives, and Progress hears of each.
func TestRunAll(t *testing.T) {
	t.Parallel()
	first, shown := order(t, 1)
	if again, _ := order(t, 1); !slices.Equal(first, again) {
		t.Errorf("orders %v and %v of one seed, want one order", first, again)
	}
	orders := map[string]bool{}
	for seed := range uint64(20) {
		numbers, _ := order(t, seed)
		orders[fmt.Sprint(numbers)] = true
		if slices.Sort(numbers); !slices.Equal(numbers, []int{0, 1, 2, 3, 4}) {
			t.Errorf("seed %d runs the jobs %v, want each once", seed, numbers)
		}
	}
	if len(orders) < 10 {
		t.Errorf("20 seeds give %d orders, want most of them different", len(orders))
	}
	if !slices.Equal(shown, []int{0, 5, 1, 5, 2, 5, 3, 5, 4, 5, 5, 5}) {
		t.Errorf("progress %v, want 0 to 5, each of 5", shown)
	}
}

// TestRunAllFails: the first error of a job ends the measurement, and so does the end of the context, which counts more.
func TestRunAllFails(t *testing.T) {
	t.Parallel()
	bad, stopped := errors.New("no such job"), errors.New("stopped")
	ctx, cancel := context.WithCancelCause(t.Context())
	for _, c := range []struct {
		run  func() error
		want error
		says string
	}{
		{func() error { return bad }, bad, "no such job"},
		{func() error { cancel(stopped); return bad }, stopped, "after 1 of 5 jobs: stopped"},
	} {
		runs := 0
		j := Jobs{N: 5, What: "jobs", Rand: rand.New(rand.NewPCG(1, 0)), Run: func(int) error {
			if runs++; runs == 2 {
				return c.run()
			}
			return nil
		}}
		if err := j.RunAll(ctx); !errors.Is(err, c.want) || err.Error() != c.says || runs != 2 {
			t.Errorf("%v after %d jobs, want %q after 2", err, runs, c.says)
		}
	}
}

// TestReport: the shared fields stand in a report's JSON where the report embeds them.
func TestReport(t *testing.T) {
	t.Parallel()
	report := struct {
		Head
		Who string `json:"who"`
		Machine
	}{Head{"goshmem x", 1, 7}, "all", MachineBefore()}
	report.NoteAfter()
	for i, load := range report.Load {
		if f := strings.Fields(load); len(f) != 3 {
			t.Errorf("load average %d is %q, want three numbers", i, load)
		}
	}
	if report.CPUs < 1 {
		t.Errorf("%d processors", report.CPUs)
	}
	report.Machine = Machine{CPUs: 2, Load: [2]string{"1 2 3", "4 5 6"}}
	const want = `{"program":"goshmem x","version":1,"seed":7,"who":"all","cpus":2,"load":["1 2 3","4 5 6"]}`
	if text, err := json.Marshal(report); err != nil || string(text) != want {
		t.Errorf("%s, %v, want %s", text, err, want)
	}
	if ms, us := Milliseconds(1500*time.Microsecond), Microseconds(1500*time.Nanosecond); ms != 1.5 || us != 1.5 {
		t.Errorf("%v ms, %v us, want 1.5", ms, us)
	}
}
