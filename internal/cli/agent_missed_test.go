package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-late"] = testLate
	}
}

// testLate is a program whose PEs from 2 on wait for a file before they begin, or fail then.
func testLate(args []string, stdout, stderr io.Writer) int {
	fmt.Fprintf(stdout, "ready %d\n", os.Getpid())
	if pe := os.Getenv("PMIX_RANK"); pe != "0" && pe != "1" {
		for !exists(args[0]) {
			<-time.After(time.Millisecond)
		}
		if args[1] == "fails" {
			return 7
		}
	}
	w, err := shmem.Init()
	if dead, is := errors.AsType[*shmem.PEError](err); is {
		fmt.Fprintf(stdout, "PE %s learns of %v\n", os.Getenv("PMIX_RANK"), dead.PEs)
		return 0
	}
	if err == nil { // a tolerant world may begin without PEs that die in Init
		var failed []int
		if failed, err = w.Team().Validate(); err == nil {
			fmt.Fprintf(stdout, "PE %d learns of %v\n", w.MyPE(), failed)
			err = w.Finalize()
		}
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 5
	}
	return 0
}

// An agent ends before a PE of its node has asked for it. When one does, or fails, the node is lost: other nodes count on its agent.
func TestAgentIsMissed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		does    string
		recover bool
	}{{"asks", true}, {"fails", true}, {"asks", false}} {
		t.Run(fmt.Sprintf("%s/recover_%t", c.does, c.recover), func(t *testing.T) {
			t.Parallel()
			gate := filepath.Join(t.TempDir(), "gate")
			flags := []string{"--emulate", "2"}
			if c.recover {
				flags = append(flags, "--recover")
			}
			j := start(t, slices.Concat(flags, []string{"-n", "4", "t-late", gate, c.does})...)
			agent := 0
			for _, pid := range j.ready(4) {
				if hasVariable(pid, "PMIX_RANK=3") {
					agent = childrenThatRun(parentOf(t, pid), "agent")[0]
				}
			}
			check(t, syscall.Kill(agent, syscall.SIGKILL))
			for began := time.Now(); !isDead(agent); <-time.After(time.Millisecond) {
				if time.Since(began) > testPatience {
					t.Fatal("the agent does not end")
				}
			}
			check(t, os.WriteFile(gate, nil, 0o600))
			why := "the agent of the node has failed: signal: killed"
			if !c.recover {
				j.expect(1, why)
				return
			}
			over := j.rest()
			status, said := j.endedAfter(testPatience, func() { <-over })
			isLost := strings.Contains(said, "node1 is lost") && strings.Contains(said, why)
			if status != 3 || c.does == "asks" && !isLost { // where PEs fail, all others may have ended before
				t.Errorf("status %d, want 3, and the loss of node1 by the end of its agent:\n%s", status, said)
			}
			for pe := range 2 { // one of those that fail may be known before the other
				list, _ := after(j.stdout.String(), fmt.Sprintf("PE %d learns of ", pe))
				if c.does == "asks" && list != "[2 3]" || !among(list, []int{2, 3}) {
					t.Errorf("PE %d learns of %q, want PEs 2 and 3\n%s\n%s", pe, list, &j.stdout, said)
				}
			}
		})
	}
}
