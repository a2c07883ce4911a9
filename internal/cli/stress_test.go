package cli

import (
	"fmt"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// victims returns the kinds of jobs for TestRandomKills.
func victims(t *testing.T) [][]string {
	t.Helper()
	all := [][]string{
		{"t-pe", "ok"},
		{"t-pe", "wait"},
		{"t-pe", "spin"},
		{"t-pe", "ignore"},
		{"t-pe", "barrier"},
		{"--recover", "t-pe", "wait"},
		{"t-pe", "lose"},
		{"t-pmix", "app"},
		{"sh", "-c", `"$0" pe t-pe ok; "$0" pe t-pe wait; :`, self(t)},
		{"sh", "-c", `sleep 1000 & sleep 1000 & wait`},
		{"sh", "-c", `yes & yes >&2 & wait`},
		{"--output", "tag", "t-pe", "ok", ":", "-n", "1", "sh", "-c", "sleep 1000"},
	}
	// A subtest may be skipped without the rest.
	t.Run("with Open MPI", func(t *testing.T) {
		all = append(all, []string{testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "wait.c"))})
	})
	return all
}

// TestRandomKills kills oshrun or PEs at random moments of a job. No process and no file is left, except the directory
// of files that the next job removes.
func TestRandomKills(t *testing.T) {
	t.Parallel()
	kills := 200
	if testing.Short() {
		kills = 20
	}
	seed := uint64(time.Now().UnixNano())
	jobs := victims(t)
	const streams = 4 // which run independently
	for stream := range uint64(streams) {
		t.Run(fmt.Sprint(stream), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, stream))
			for i := range kills / streams {
				args := append([]string{"-n", fmt.Sprint(1 + rng.IntN(4))}, jobs[rng.IntN(len(jobs))]...)
				if !randomKill(t, rng, args) {
					t.Fatalf("in kill %d of seed %d, %d: oshrun %q", i, seed, stream, args)
				}
			}
		})
	}
}

// randomKill runs a job and kills some process of it.
func randomKill(t *testing.T, rng *rand.Rand, args []string) bool {
	t.Helper()
	j := start(t, args...)
	life := 60
	if strings.HasSuffix(args[len(args)-1], "/wait") { // Open MPI takes longer to start
		life = 500
	}
	time.Sleep(time.Duration(rng.IntN(life)) * time.Millisecond) // to hit a random moment
	oshrun := j.cmd.Process.Pid
	killed := false // oshrun was killed by SIGKILL
	pes, kind := children(t, oshrun), rng.IntN(10)
	switch {
	case kind < 5:
		killed = true
		check(t, syscall.Kill(oshrun, syscall.SIGKILL))
	case kind < 8 && len(pes) > 0:
		_ = syscall.Kill(pes[rng.IntN(len(pes))], syscall.SIGKILL) // the PE may have ended by itself, and then the job goes on
		time.Sleep(time.Duration(rng.IntN(20)) * time.Millisecond)
		check(t, syscall.Kill(oshrun, syscall.SIGTERM))
	default:
		check(t, syscall.Kill(oshrun, []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP}[rng.IntN(3)]))
	}
	j.over(testPatience, func() { _, _ = io.Copy(io.Discard, j.out) })
	left, err := filepath.Glob(j.tmp + "/*")
	check(t, err)
	for _, path := range left {
		if !killed || !strings.HasPrefix(filepath.Base(path), fmt.Sprintf("goshmem-%d-", oshrun)) {
			t.Errorf("%s still exists", path)
		}
	}
	if len(left) > 0 && !t.Failed() {
		j.another()
		if left, err = filepath.Glob(j.tmp + "/*"); err != nil || len(left) > 0 {
			t.Errorf("after the next job, files are left: %q, %v", left, err)
		}
	}
	return !t.Failed()
}
