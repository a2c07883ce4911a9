package cli

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
)

// survive checks that all PEs but PE 1 of 3 report its failure, and leave with status 0.
func survive(t *testing.T, said string) {
	t.Helper()
	for _, want := range []string{
		"PE 0 failed [1]\n", "PE 0 told [1]\n", "PE 0 left <nil>\n", "PE 2 failed [1]\n", "PE 2 told [1]\n", "PE 2 left <nil>\n",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("the PEs' output lacks %q:\n%s", want, said)
		}
	}
	if strings.Contains(said, "PE 1 ") {
		t.Errorf("PE 1 is still running:\n%s", said)
	}
}

// A shell may be a PE's process. The PE has failed when its program is killed, although the shell goes on. It has also
// failed when the shell is killed, and then its program ends, too.
func TestKillsInShells(t *testing.T) {
	t.Parallel()
	for _, tier := range usableTiers(t) {
		for _, victim := range []string{"program", "shell"} {
			t.Run(tier+"/"+victim, func(t *testing.T) {
				j := prepare(t, "-n", "3", "--recover", "--watchdog", tier, "--stdin", "all",
					"sh", "-c", `echo "shell $PMIX_RANK $$"; "$0" pe t-stress barrier; exit $?`, self(t))
				theirs, input, err := os.Pipe()
				check(t, err)
				j.cmd.Stdin, j.theirs = theirs, append(j.theirs, theirs)
				j.begin()
				k := killing{t: t, n: 3}
				k.await(j, 3)
				pid, said := k.pids[1], "exited with status 137"
				if victim == "shell" {
					line, _ := after(j.stdout.String(), "shell 1 ")
					pid, said = number(line), "was killed by signal 9"
				}
				check(t, syscall.Kill(pid, syscall.SIGKILL))
				<-j.stderr.says(said)
				check(t, input.Close())
				j.expect(3, "1 of 3 PEs failed:", "PE 1 (pid")
				survive(t, j.stdout.String())
			})
		}
	}
}

// The PEs of a spawned job have their own failure page.
func TestKillsOfSpawned(t *testing.T) {
	j := start(t, "-n", "1", "--recover", spawner(t), "3", self(t), "pe", "t-stress", "barrier")
	k := killing{t: t, n: 3}
	k.await(j, 3)
	check(t, syscall.Kill(k.pids[1], syscall.SIGKILL))
	j.expect(3, "1 of 4 PEs failed:", fmt.Sprintf("PE 1.1 (pid %d) was killed by signal 9 (SIGKILL)", k.pids[1]))
	survive(t, j.stdout.String())
}
