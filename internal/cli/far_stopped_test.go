package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-stopped"] = testStopped
	}
}

// stoppedWords is how many words PE 0 of testStopped puts.
const stoppedWords = 500

// testStopped is a program in which PE 0 puts on the last PE when a file is there, and stops itself at once. The last PE says
// when all has come.
func testStopped(args []string, stdout, stderr io.Writer) int {
	w, err := shmem.Init()
	if err == nil {
		err = stopAfterPut(w, args[0], stdout)
	}
	if err == nil {
		err = w.Finalize()
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

func stopAfterPut(w *shmem.World, gate string, stdout io.Writer) error {
	c, last := w.Ctx(), w.NPEs()-1
	x, err := shmem.Calloc[int64](w, stoppedWords)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "ready %d\n", os.Getpid())
	switch w.MyPE() {
	case 0:
		for !exists(gate) {
			<-time.After(time.Millisecond)
		}
		for i := range stoppedWords {
			if err := shmem.P(c, x.At(i), int64(i+1), last); err != nil {
				return err
			}
		}
		return syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	case last:
		if err := shmem.WaitUntil(c, x.At(stoppedWords-1), shmem.NE, 0); err != nil {
			return err
		}
		for i, v := range x.Local() { // records of one PE are executed in their order
			if v != int64(i+1) {
				return fmt.Errorf("word %d is %d, want %d", i, v, i+1)
			}
		}
		fmt.Fprintln(stdout, "arrived")
	}
	return nil
}

// What a PE has put arrives although the PE is stopped, without a Quiet. The agent, which is stopped as well, carries it out when it
// goes on.
func TestPutOfStoppedPE(t *testing.T) {
	t.Parallel()
	gate := filepath.Join(t.TempDir(), "gate")
	j := start(t, "--emulate", "2", "-n", "2", "t-stopped", gate)
	var pe, agent int
	for _, pid := range j.ready(2) {
		if hasVariable(pid, "PMIX_RANK=0") {
			pe, agent = pid, childrenThatRun(parentOf(t, pid), "agent")[0]
		}
	}
	check(t, syscall.Kill(agent, syscall.SIGSTOP))
	check(t, os.WriteFile(gate, nil, 0o600))
	for began := time.Now(); !isStopped(pe); <-time.After(time.Millisecond) {
		if time.Since(began) > testPatience {
			t.Fatalf("PE 0 has not stopped itself; stderr:\n%s", &j.stderr)
		}
	}
	check(t, syscall.Kill(agent, syscall.SIGCONT))
	if line, err := j.out.ReadString('\n'); err != nil || line != "arrived\n" {
		t.Errorf("output %q, %v, want the words of the last PE", line, err)
	}
	if !isStopped(pe) {
		t.Error("PE 0 has gone on before its words arrived")
	}
	check(t, syscall.Kill(pe, syscall.SIGCONT))
	j.expect(0)
}

// isStopped says whether a process is stopped.
func isStopped(pid int) bool {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // empty: the process has ended
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "T")
}
