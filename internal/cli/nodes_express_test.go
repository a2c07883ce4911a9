package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/far"
	shared "github.com/goshmem/goshmem/internal/job"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-express"] = testExpress
	}
}

// expressRounds is how many additions testExpress makes if it is to count.
const expressRounds = 5000

// testExpress adds to a word of PE 2, on another node, from PE 0, and says on stderr when it has an express socket. Each
// addition has to take place once. It goes on until an addition fails, and says why; with the argument count, it says so after
// expressRounds. The other PEs wait for the end of the job.
func testExpress(args []string, _, stderr io.Writer) int {
	ctx, stop := context.WithTimeout(context.Background(), testPatience)
	defer stop()
	j, err := shared.Acquire(ctx)
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	if j.PE != 0 {
		<-ctx.Done()
		return 1
	}
	said := false
	for i := uint64(0); len(args) == 0 || i < expressRounds; i++ {
		old, err := j.Far.Fetch(ctx, nil, 2, farCounter, record.AtomicAdd, 8, 1, 0)
		switch {
		case err != nil:
			fmt.Fprintf(stderr, "over: %v\n", err)
			return 0
		case old != i:
			fmt.Fprintf(stderr, "over: addition %d returned %d\n", i, old)
			return 1
		case !said && far.ExpressSockets(j.Far) == 1:
			said = true
			fmt.Fprintln(stderr, "express socket")
		}
	}
	fmt.Fprintln(stderr, "over: all done")
	return 0
}

// isOver waits for the end of PE 0's additions, and for that of the job. It fails unless PE 0 has said the words.
func (j *job) isOver(words string) {
	j.t.Helper()
	j.awaitWord("over: ")
	_ = j.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	if _, said := j.ended(testPatience); !strings.Contains(said, words) {
		j.t.Errorf("PE 0 has not said %q:\n%s", words, said)
	}
}

// A PE that waits for a reply of an express socket learns of the death of what it waits for: the PE, its agent, its node.
func TestEmulatedExpressDeaths(t *testing.T) {
	t.Parallel()
	const lost = "PE 2 was on a node that is lost"
	for victim, words := range map[string]string{"PE": "of PE 2: PE 2 ", "agent": lost, "daemon": lost} {
		t.Run(victim, func(t *testing.T) {
			j := start(t, "--recover", "--emulate", "2", "-n", "4", "t-express")
			j.awaitWord("express socket")
			daemons := daemonsBelow(j.cmd.Process.Pid)
			daemon := daemons[slices.IndexFunc(daemons, func(pid int) bool {
				return hasVariable(childrenThatRun(pid, "t-express")[0], "PMIX_HOSTNAME=node1")
			})]
			agent, pes := childrenThatRun(daemon, "agent")[0], childrenThatRun(daemon, "t-express")
			switch victim {
			case "PE":
				check(t, syscall.Kill(pes[slices.IndexFunc(pes, func(pid int) bool { return hasVariable(pid, "PMIX_RANK=2") })], syscall.SIGKILL))
			case "agent": // stopped first: PE 0 gets no reply, and waits
				check(t, syscall.Kill(agent, syscall.SIGSTOP))
				check(t, syscall.Kill(agent, syscall.SIGKILL))
			case "daemon":
				check(t, syscall.Kill(agent, syscall.SIGSTOP))
				check(t, syscall.Kill(daemon, syscall.SIGKILL))
			}
			j.isOver(words)
		})
	}
}

// Agents that stop for a while delay additions. None takes place twice, although a PE gives its socket up, and the agent
// finds the request when it goes on.
func TestEmulatedExpressStops(t *testing.T) {
	t.Parallel()
	j := start(t, "--recover", "--emulate", "2", "-n", "4", "t-express", "count")
	j.awaitWord("express socket")
	for i, agents := 0, j.agents(); i < 6; i++ {
		pid := agents[i%len(agents)]
		check(t, syscall.Kill(pid, syscall.SIGSTOP))
		<-time.After(time.Duration(i) * 70 * time.Millisecond) // shorter and longer than a PE waits for a reply
		check(t, syscall.Kill(pid, syscall.SIGCONT))
	}
	j.isOver("over: all done")
}

// Without express sockets all is the same.
func TestEmulatedWithoutExpress(t *testing.T) {
	t.Setenv("GOSHMEM_EXPRESS", "off")
	j := start(t, "--recover", "--emulate", "2", "-n", "4", "t-express", "count")
	j.isOver("over: all done")
	if said := j.stderr.String(); strings.Contains(said, "express socket") {
		t.Errorf("a PE has an express socket: %s", said)
	}
	start(t, "--emulate", "2", "-n", "4", "t-far").expect(0)
}
