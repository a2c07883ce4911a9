package daemon

import (
	"fmt"
	"os"
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
