package daemon

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// allowedList returns the processors that the kernel allows a process.
func allowedList(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:\t")
	list, _, _ = strings.Cut(list, "\n")
	return list
}

// A PE runs on the processors of its place. A PE without a place runs on those of this process, whichever PE was
// started before.
func TestPlaces(t *testing.T) {
	all, err := xunix.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	first, last := all[:1], all[len(all)-1:]
	s := startSleepers(t, 4, func(c *settings) {
		c.Places = []plan.Place{{CPUs: first}, {}, {CPUs: last}} // the fourth is like one that is spawned
	})
	for pe, want := range [][]int{first, all, last, all} {
		if got := allowedList(t, s.PID(ID{PE: pe})); got != plan.FormatList(want) {
			t.Errorf("PE %d may run on %s, want %s", pe, got, plan.FormatList(want))
		}
	}
}

// A processor that does not exist is refused before any PE runs on another one.
func TestNoSuchPlace(t *testing.T) {
	s, err := sleepers(t, 1, func(c *settings) { c.Places = []plan.Place{{CPUs: []int{8000}}} }).start()
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Launch(); err == nil || !strings.Contains(err.Error(), "start PE 0: sched_setaffinity to processors 8000") {
		t.Errorf("launch on a processor that does not exist: %v, want an error", err)
	}
}

// A node assigns places to its own PEs. Emulated nodes, which are one machine, divide its processors between all PEs.
func TestAssignPlaces(t *testing.T) {
	machine, err := xunix.Topology()
	if err != nil {
		t.Fatal(err)
	}
	bind := Binding{Bind: plan.BindCore, Overload: true, Report: true}
	homes := []int{0, 1, 0, 1} // of two nodes: node after node, PEs 0, 2, 1, 3
	for _, x := range []struct {
		name     string
		emulated bool
		npes     int         // that the machine is divided between
		at       map[int]int // by near PE: its index among these
	}{
		{"own machine", false, 2, map[int]int{1: 0, 3: 1}},
		{"emulated", true, 4, map[int]int{1: 2, 3: 3}},
	} {
		want, err := machine.Assign(plan.Request{PEs: x.npes, Bind: bind.Bind, Overload: true})
		if err != nil {
			t.Fatal(err)
		}
		c := Config{Binding: bind, Share: Share{Hosts: []string{"a", "b"}, Homes: homes, Node: 1, Emulated: x.emulated}}
		report, err := c.assignPlaces()
		if err != nil || len(report) != 2 || len(c.Places) != len(homes) {
			t.Fatalf("%s: report %v, places %v, %v, want places of %d PEs", x.name, report, c.Places, err, len(homes))
		}
		for i, pe := range []int{1, 3} {
			if got, want := c.Places[pe], want[x.at[pe]]; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: PE %d is at %+v, want %+v", x.name, pe, got, want)
			}
			if want := (Bound{PE: pe, Text: machine.Report(pe, &want[x.at[pe]])}); report[i] != want {
				t.Errorf("%s: report %+v, want %+v", x.name, report[i], want)
			}
		}
	}
}

// What cannot be assigned is an error with a hint, and PEs that nobody wants bound have no places.
func TestAssignNoPlaces(t *testing.T) {
	many := Share{Hosts: []string{"a", "b"}, Homes: append(make([]int, 10_000), 1)}
	for want, b := range map[string]Binding{
		"":                     {},
		"--cpu-set 8000: proc": {CPUs: []int{8000}},
		"--bind-to core: 1000": {Bind: plan.BindCore},
	} {
		c := Config{Share: many, Binding: b}
		report, err := c.assignPlaces()
		hint := new(HintError)
		if (err == nil) != (want == "") || err != nil && (!strings.Contains(err.Error(), want) || !errors.As(err, &hint)) {
			t.Errorf("%+v: %v, want an error with %q and a hint", b, err, want)
		}
		if c.Places != nil || report != nil {
			t.Errorf("%+v: places %v, report %v, want none", b, c.Places, report)
		}
	}
}

// Emulated nodes share processors: each has its part of those that PEs of several nodes are bound to.
func TestProcessorsOfEmulated(t *testing.T) {
	set := plan.Place{CPUs: []int{0, 1, 2, 3}, Sharers: 4}
	share := Share{Hosts: []string{"a", "b"}, Homes: []int{0, 1, 0, 1}, Emulated: true}
	c := Config{Share: share, Places: []plan.Place{set, set, set, set}}
	j := newLocalJob([]App{{NPEs: 4}}, &share)
	if got := c.processors(j); got != 2 {
		t.Errorf("2 of 4 PEs on 4 processors have %d, want 2", got)
	}
}
