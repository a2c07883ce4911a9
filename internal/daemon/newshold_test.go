package daemon

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/xunix"
)

// News of deaths that come at the same time are held back at the same time, and then told in order: page, events.
func TestNewsIsHeldBack(t *testing.T) {
	const delay = time.Second
	s := startSleepers(t, 3, func(c *settings) { c.Watchdog.NewsDelay = delay })
	view := viewOf(t, s)
	killed := xunix.Monotonic()
	for _, pe := range []int{1, 2} {
		if err := syscall.Kill(s.PID(ID{PE: pe}), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	failed := map[int]bool{}
	for len(failed) < 2 {
		select {
		case e := <-s.Events():
			if e.Kind == Failed {
				failed[e.PE] = true
			}
			if !view.Dead(e.PE, incarnation) {
				t.Errorf("event %+v comes before the page tells of it", e)
			}
		case <-time.After(deadline):
			t.Fatalf("failures of PEs %v are told of, want 1 and 2", failed)
		}
	}
	for _, pe := range []int{1, 2} {
		f, ok := view.Failure(pe)
		if held := f.Stored - killed; !ok || f.Cause != failure.BySignal(syscall.SIGKILL, false, false) || held < delay || held >= 2*delay {
			t.Errorf("the page has %+v, %v after the death, want PE %d killed, and %v to %v", f, held, pe, delay, 2*delay)
		}
	}
}

// On several nodes a node learns of its own deaths at once, and holds back the word of others.
func TestNewsOfOtherNodesIsHeldBack(t *testing.T) {
	const delay = time.Second
	c := startCluster(t, []App{player(1, "attach", ""), shell(2, "exec sleep 1000")}, []int{0, 1, 1}, func(s *settings) { s.Watchdog.NewsDelay = delay })
	c.launch()
	c.wantLines("0: 3 PEs, 1 segments, 2 descriptors, page true ")
	here, there := viewOf(t, c.steps[0]), viewOf(t, c.steps[1])
	killed := xunix.Monotonic()
	if err := syscall.Kill(c.steps[1].PID(ID{PE: 1}), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	nextOf(t, c.steps[1], Failed)
	if f, ok := there.Failure(1); !ok || f.Stored-killed >= delay {
		t.Errorf("the node of the dead PE has %+v after %v, want it in less than %v", f, f.Stored-killed, delay)
	}
	told := xunix.Monotonic()
	if err := c.steps[0].FarFailed(FarFailure{PEs: []int{1}, End: ending.End{Signal: 9}}); err != nil {
		t.Error(err)
	}
	if err := c.steps[0].FarFailed(FarFailure{PEs: []int{0}}); err == nil || !strings.Contains(err.Error(), "PE 0 ") {
		t.Errorf("failure of a PE of this node: error %v, want one that names it", err)
	}
	c.wantLines("0: alert")
	if f, ok := here.Failure(1); !ok || f.Stored-told < delay {
		t.Errorf("the other node has %+v after %v, want it after %v", f, f.Stored-told, delay)
	}
}

// A step does not wait for news that are held back when it closes.
func TestHeldNewsDoNotDelayTheEnd(t *testing.T) {
	s, err := sleepers(t, 2, func(c *settings) { c.Watchdog.NewsDelay = time.Minute }).start()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Launch(); err != nil {
		t.Fatal(err)
	}
	p := s.table.jobs[0].procs[1]
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	<-p.reaped
	began := time.Now()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if took := time.Since(began); took >= 30*time.Second {
		t.Errorf("the step has closed after %v, want less than the delay of a minute", took)
	}
}
