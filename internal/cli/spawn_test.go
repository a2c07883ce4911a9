package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

func spawner(t *testing.T) string {
	t.Helper()
	return testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "spawner.c"), testenv.LibPMIx)
}

// A spawned job inherits from its spawner. Its output is part of the job's, with its own tags, and oshrun waits for its
// end.
func TestSpawn(t *testing.T) {
	dir := t.TempDir()
	j := start(t, "-n", "1", "-x", "COLOR=red", "--wdir", dir, "--output", "tag", spawner(t), "2",
		"sh", "-c", `sleep 0.3; echo "$PMIX_RANK $COLOR $PWD $1 $([ "$PMIX_NAMESPACE" ] && echo named)"`, "name", "two words")
	j.expect(0)
	want := []string{
		"[0]<stdout>: spawn: well",
		"[1.0]<stdout>: 0 red " + dir + " two words named", "[1.1]<stdout>: 1 red " + dir + " two words named",
	}
	if got := lines(j.stdout.String()); !slices.Equal(got, want) {
		t.Errorf("output %q, want %q", got, want)
	}
}

// A spawned goshmem program has its own world and heaps.
func TestSpawnWorld(t *testing.T) {
	j := start(t, "-n", "2", spawner(t), "1", self(t), "pe", "t-pe", "ok", ",", "2", self(t), "pe", "t-pe", "globalexit", "7")
	j.expect(7, "PE ", ".2 (pid", "ended the job with status 7") // it waits for increments from the other PEs of its world
}

// When a spawned process fails, all PEs end, or, with --recover, only that one.
func TestSpawnedFails(t *testing.T) {
	for _, x := range []struct {
		flags  []string
		status int
		words  []string
	}{
		{nil, 5, []string{"PE 1.0 (pid", "exited with status 5"}},
		{[]string{"--recover"}, 3, []string{"PE 1.0 (pid", "1 of 2 PEs failed:"}},
	} {
		j := start(t, append(x.flags, "-n", "1", spawner(t), "1", "sh", "-c", "exit 5")...)
		j.expect(x.status, x.words...)
	}
	j := start(t, "-n", "1", spawner(t), "2", "sh", "-c", `echo "ready $$"; sleep 1000`)
	check(t, syscall.Kill(j.ready(2)[0], syscall.SIGKILL))
	j.expect(137, "PE 1.", "SIGKILL")
}

// If a job cannot be spawned, its spawner gets an error, and nothing of the job is left.
func TestSpawnFails(t *testing.T) {
	garbage := t.TempDir() + "/garbage"
	check(t, os.WriteFile(garbage, []byte("\x7fELF garbage"), 0o700))
	orphan := t.TempDir() + "/orphan"
	check(t, os.WriteFile(orphan, []byte("#!/no/such/interpreter\n"), 0o700))
	start(t, "-n", "1", orphan).expect(4, "start PE 0: ", orphan, "its interpreter")
	at, tooMany := "spawn for PE 0: ", "number of processes 2000"
	if *someNodes > 0 { // the front end lays the PEs out, and names the node that does not take them
		at, tooMany = at+"node", "more PEs on node0 than a node takes"
	}
	for args, words := range map[string][]string{
		"1 no-such-program":   {at, `program "no-such-program"`},
		"1 ./no-such-program": {at, "program: ", "no-such-program"},
		"2000 true":           {tooMany, "at most 1024"},
		"1 " + garbage:        {at, "start PE 1.0: "},
		"1 " + orphan:         {at, "start PE 1.0: ", "its interpreter"},
		"3 sleep 1000 , 2 sleep 1000 , 1 " + garbage: {at, "start PE 1.5: "},
	} {
		j := start(t, append([]string{"-n", "1", spawner(t)}, strings.Fields(args)...)...)
		j.expect(0, words...)
		if got := j.stdout.String(); !strings.HasPrefix(got, "spawn: ") || strings.Contains(got, "well") {
			t.Errorf("spawn of %q: output %q", args, got)
		}
	}
}

// Spawned jobs end with oshrun, in whatever way it ends.
func TestEndOfSpawned(t *testing.T) {
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
		j := start(t, "-n", "1", spawner(t), "2", "sh", "-c", `echo "ready $$"; sleep 1000 & wait`)
		j.ready(2)
		check(t, j.cmd.Process.Signal(sig))
		if sig == syscall.SIGTERM {
			j.expect(143)
			continue
		}
		j.over(testPatience, func() {}) // files may be left here, which the next job removes
		j.another()
		left, err := filepath.Glob(j.tmp + "/*")
		if err != nil || len(left) > 0 {
			t.Errorf("files are left behind: %q, %v", left, err)
		}
	}
}
