package fabench

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// stampsOf returns the stamps of a rank: a word for each event, as "fault@5".
func stampsOf(words ...string) (l line) {
	for _, w := range words {
		event, at, _ := strings.Cut(w, "@")
		var ms int
		fmt.Sscan(at, &ms)
		l.Stamps = append(l.Stamps, stamp{event, time.Duration(ms) * time.Millisecond})
	}
	return l
}

// died is a run with a death at 10 ms.
func died() *outcome {
	return &outcome{killed: 10 * time.Millisecond, result: "right\n", lines: []line{
		stampsOf("reload@5", "fault@12", "reject@13", "agree@14", "shrink@16", "spawn@30", "join@40", "epoch@41", "reload@50"),
		stampsOf("reload@6", "fault@11", "reject@13", "agree@15", "shrink@15", "spawn@31", "join@39", "epoch@41", "reload@49"),
		stampsOf("join@42", "epoch@42", "reload@55"), // a new process
	}}
}

// A phase begins where the one before ends, at the last process; the sum is the time from the death to the last reload.
func TestPhases(t *testing.T) {
	t.Parallel()
	got, err := died().phases()
	if err != nil {
		t.Fatal(err)
	}
	const ms = time.Millisecond
	want := map[string]time.Duration{"detect": ms, "agree": 4 * ms, "shrink": ms, "spawn": 15 * ms, "rebuild": 11 * ms, "reload": 13 * ms}
	if !maps.Equal(got, want) {
		t.Errorf("phases %v, want %v", got, want)
	}
	if n := died().recoveries(); n != 1 {
		t.Errorf("%d recoveries, want 1", n)
	}
	lacks := died()
	for i := range lacks.lines {
		lacks.lines[i].Stamps = slices.DeleteFunc(lacks.lines[i].Stamps, func(s stamp) bool { return s.Event == "spawn" })
	}
	if _, err := lacks.phases(); err == nil || !strings.Contains(err.Error(), "phase spawn") {
		t.Errorf("without spawn: %v", err)
	}
}

// A case whose results differ from those without deaths is not equal, and a failure of the report.
func TestEqual(t *testing.T) {
	t.Parallel()
	o := Defaults()
	o.Samples, o.Cases = 2, []string{None, Mid, FirstRebuild}
	wrong := ""
	run := func(_ context.Context, l cell) (*outcome, error) {
		out := &outcome{result: "right\n"}
		if l.c.hasDeaths() {
			out = died()
		}
		if out.took = time.Second; l.isRestart {
			out.took *= 2
		}
		if l.String() == wrong {
			out.result = "wrong\n"
		}
		return out, nil
	}
	for cell, want := range map[string]string{"": "", "minife, mid": `minife, mid: the result "wrong\n"`, "minife, first, restart": `minife, first-rebuild: the result "wrong\n"`} {
		wrong = cell
		r, err := o.measure(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Cases) != 3 {
			t.Fatalf("%d cases, want 3", len(r.Cases))
		}
		for i, name := range []string{None, Mid, FirstRebuild} {
			if c := r.Cases[i]; c.Case != name || c.Samples != 2 || c.Total.P50 != 1 || c.FaultFree.P50 != 1 || c.Dead > 0 && (c.Restart.P50 != 2 || math.Abs(c.Recovery.P50-0.045) > 1e-9) {
				t.Errorf("%+v", c)
			}
		}
		if err := r.Failures(); want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", cell, err, want)
		}
	}
}

// The ranks die in the iterations of the paper.
func TestKill(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{First: "1@1", First2: "1@1,3@1", Mid: "1@100", Last: "1@198", FirstRebuild: "1@1", Node: "3@100", None: ""} {
		if got := findCase(name).kill(4, 200); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// What is not of the experiment is refused with a hint.
func TestPlan(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"odd"}} {
		if _, err := parsePlan(args); err == nil || !strings.Contains(err.Error(), "this program is part of oshrun fa-bench") {
			t.Errorf("%q: %v", args, err)
		}
	}
	if _, err := parsePlan([]string{`{"app":"hpl"}`}); err == nil || !strings.Contains(err.Error(), `"hpl", want some of minife`) {
		t.Errorf("unknown application: %v", err)
	}
}

// The time of the first victim counts, and a victim that has written none is found.
func TestTimeFile(t *testing.T) {
	t.Parallel()
	f, err := newTimeFile()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.file.Close() }()
	if _, err := f.read(1, 2); err == nil || !strings.Contains(err.Error(), "0 bytes, want 1 to 2 times") {
		t.Errorf("no time: %v", err)
	}
	for range 2 {
		r := recorder{file: f.file}
		r.writeTime()
	}
	if at, err := f.read(2, 2); err != nil || at <= 0 {
		t.Errorf("%v, %v, want the first of two times", at, err)
	}
	if _, err := f.read(1, 1); err == nil {
		t.Error("two times of one victim, want an error")
	}
}
