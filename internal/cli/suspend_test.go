package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// suspended is a job on two nodes with the shortest lease, whose PEs run until a file is there.
type suspended struct {
	*job
	pids []int  // of the PEs
	file string // lets them end
}

// suspend starts such a job with options, and stops it.
func suspend(t *testing.T, options ...string) *suspended {
	t.Helper()
	s := &suspended{file: filepath.Join(t.TempDir(), "file")}
	script := `trap "" TSTP; echo "ready $$"; until [ -e "$0" ]; do :; done; echo over`
	s.job = start(t, slices.Concat([]string{"--lease", "1"}, options, []string{"-n", "2", "sh", "-c", script, s.file})...)
	s.pids = s.ready(2)
	s.stop()
	return s
}

// stop stops the job for more than three leases.
func (s *suspended) stop() {
	s.t.Helper()
	check(s.t, s.cmd.Process.Signal(syscall.SIGTSTP))
	inState(s.t, "T", append(s.pids, s.cmd.Process.Pid)...)
	<-time.After(3500 * time.Millisecond) // what is tested is that this time does not count
	inState(s.t, "T", append(s.pids, s.cmd.Process.Pid)...)
}

// resume lets the job go on.
func (s *suspended) resume() {
	s.t.Helper()
	check(s.t, s.cmd.Process.Signal(syscall.SIGCONT))
}

// A job on several nodes may be stopped for longer than the lease, and several times.
func TestSuspendBeyondLease(t *testing.T) {
	t.Parallel()
	for _, options := range suspendOn {
		t.Run(strings.Join(options, " "), func(t *testing.T) {
			t.Parallel()
			if slices.Contains(options, "2:netns") {
				needNetworks(t)
			}
			s := suspend(t, options...)
			s.resume()
			inState(t, "RSD", append(s.pids, s.cmd.Process.Pid)...)
			s.stop()
			check(t, os.WriteFile(s.file, nil, 0o600))
			s.resume()
			s.expect(0)
			if n := strings.Count(s.stdout.String(), "over\n"); n != 2 {
				t.Errorf("%d PEs have gone on to their ends, want 2", n)
			}
		})
	}
}

// suspendOn are options that make nodes.
var suspendOn = [][]string{{"--emulate", "2"}, {"--emulate", "2:netns"}, {"--emulate", "2", "--control", "stdio"}}

// What has died while the job was stopped is noticed when it goes on, and the end of the front end ends all.
func TestDeathWhileSuspended(t *testing.T) {
	t.Parallel()
	for _, options := range suspendOn {
		if slices.Contains(options, "2:netns") {
			continue // the holder keeps the daemons from daemonsBelow
		}
		for victim, want := range map[string]struct {
			status int
			says   string
		}{
			"PE":        {137, ""},
			"daemon":    {1, "is lost with PE "},
			"front end": {-1, ""},
		} {
			t.Run(fmt.Sprint(victim, options), func(t *testing.T) {
				t.Parallel()
				s := suspend(t, options...)
				pid, says := s.cmd.Process.Pid, want.says
				switch victim {
				case "PE":
					pid = s.pids[0]
					says = fmt.Sprintf("(pid %d) was killed by signal 9 (SIGKILL)", pid)
				case "daemon":
					pid = daemonsBelow(pid)[0]
				}
				check(t, syscall.Kill(pid, syscall.SIGKILL))
				if victim == "front end" {
					s.over(testPatience, func() {}) // the next job removes the files of the killed process
					return
				}
				s.resume()
				s.expect(want.status, says)
			})
		}
	}
}
