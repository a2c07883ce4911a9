package cli

import (
	"fmt"
	"syscall"
	"testing"
	"time"
)

// stopLease is the lease of jobs whose front end is stopped without a word, and stopFor for how long: longer than a node may
// be silent for the front end, and so much shorter than the lease that a busy machine makes no difference.
const (
	stopLease = 6 * time.Second
	stopFor   = 3500 * time.Millisecond
	heldLease = 3 * time.Second // of jobs that are stopped by SIGTSTP, for longer
)

// stopFrontEnd stops the front end. With SIGTSTP its nodes hear of it, and it stops when they have said that they will wait.
func (c *cutJob) stopFrontEnd(sig syscall.Signal) {
	c.t.Helper()
	check(c.t, c.cmd.Process.Signal(sig))
	inState(c.t, "T", c.cmd.Process.Pid)
	c.began = time.Now()
}

// goOn lets the front end go on after a time.
func (c *cutJob) goOn(after time.Duration) {
	c.t.Helper()
	<-time.After(time.Until(c.began.Add(after))) // what is tested is that this time does not count
	check(c.t, c.cmd.Process.Signal(syscall.SIGCONT))
}

// A front end that is stopped loses no node. What has died meanwhile is reported when it goes on, and nothing else is. It may
// be stopped for half of the lease without a word, and for any time by SIGTSTP.
func TestCutWhileFrontEndStops(t *testing.T) {
	needParts(t)
	for _, how := range []struct {
		name  string
		sig   syscall.Signal
		flags []string
		last  time.Duration
	}{
		{"SIGSTOP", syscall.SIGSTOP, []string{lease(stopLease)}, stopFor},
		{"SIGTSTP", syscall.SIGTSTP, []string{lease(heldLease)}, 3 * heldLease / 2},
	} {
		for _, x := range []struct {
			nodes int
			dies  string
		}{
			{2, ""}, {2, "daemon"}, {3, "PE"}, {3, "cut"}, {4, ""}, {4, "cut"}, {5, "daemon"}, {5, ""},
		} {
			t.Run(fmt.Sprint(how.name, " ", x.nodes, " ", x.dies), func(t *testing.T) {
				t.Parallel()
				c := startCut(t, x.nodes, how.flags...)
				c.stopFrontEnd(how.sig)
				var lost, beside []int
				last := x.nodes - 1
				switch x.dies {
				case "daemon":
					lost = []int{last}
					check(t, syscall.Kill(c.daemons[nodeName(last)], syscall.SIGKILL))
				case "PE":
					beside = []int{c.n - 1}
					check(t, syscall.Kill(c.pids[c.n-1], syscall.SIGKILL))
				case "cut":
					since := c.began
					c.movePorts(x.nodes / 2)
					lost, c.began = c.away, since
				}
				c.goOn(how.last)
				c.awaitLosses(lost)
				if x.dies == "PE" {
					c.awaitWords(fmt.Sprintf("PE %d (pid %d) was killed by signal 9 (SIGKILL)", c.n-1, c.pids[c.n-1]))
				}
				if x.dies == "cut" && how.sig == syscall.SIGTSTP { // the part was told to wait, and does so
					c.rejoin()
				}
				if len(lost) > 0 {
					c.untilEnded(lost, stopLease+cutMargin)
				}
				c.expectLosses(lost, beside...)
			})
		}
	}
}

// All nodes end by themselves while their front end is stopped without a word for longer than the lease. It says that they are
// lost when it goes on.
func TestCutByStopOfFrontEnd(t *testing.T) {
	needParts(t)
	for nodes := 2; nodes <= 5; nodes++ {
		t.Run(fmt.Sprint(nodes), func(t *testing.T) {
			t.Parallel()
			c := startCut(t, nodes, lease(cutLease))
			c.stopFrontEnd(syscall.SIGSTOP)
			c.untilEnded(c.allNodes(), cutLease+cutMargin)
			check(t, c.cmd.Process.Signal(syscall.SIGCONT))
			c.expectEnd(1)
		})
	}
}
