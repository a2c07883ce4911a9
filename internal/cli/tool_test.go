package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// A tool attaches by the file that oshrun writes, asks for namespaces and spawns
// a job, which oshrun waits for. The file goes with the job.
func TestTool(t *testing.T) {
	tool := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "tool.c"), testenv.LibPMIx)
	dir := t.TempDir()
	uri, gate := dir+"/uri", dir+"/gate"
	j := start(t, "-n", "1", "--report-uri", uri, "sh", "-c", `echo "ready $$"; while [ ! -e "$0" ]; do sleep 0.02; done`, gate)
	j.ready(1)
	info, err := os.Stat(uri)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want that nobody else can read it", info.Mode())
	}
	out := runTool(t, exec.Command(tool, uri, "sh", "-c", `sleep 0.5; echo "child $PMIX_RANK of $1"`, "sh", "a tool"))
	first, second, ok := strings.Cut(strings.TrimSpace(out), "\n")
	if nspace, isFirst := strings.CutPrefix(first, "namespaces "); !isFirst || !ok || !strings.HasPrefix(second, "spawned "+nspace+"-1") {
		t.Errorf("the tool says %q", out)
	}
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(0)
	if got := j.stdout.String(); !strings.Contains(got, "child 0 of a tool\n") {
		t.Errorf("output %q lacks that of the spawned job", got)
	}
	if _, err := os.Stat(uri); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", uri, err)
	}
}

// What a tool sends to a standard input arrives there, and so does the end; of
// what has no reader the user hears.
func TestToolPushes(t *testing.T) {
	tool := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "tool.c"), testenv.LibPMIx)
	dir := t.TempDir()
	uri, gate := dir+"/uri", dir+"/gate"
	script := `echo "ready $$"; sed "s/^/PE $PMIX_RANK got /"; while [ ! -e "$0" ]; do sleep 0.02; done`
	j := prepare(t, "-n", "2", "--report-uri", uri, "sh", "-c", script, gate)
	r, w, err := os.Pipe() // a terminal, as it were, at which nobody types
	check(t, err)
	t.Cleanup(func() { _ = r.Close(); _ = w.Close() })
	j.cmd.Stdin = r
	j.begin()
	j.ready(2)
	runTool(t, exec.Command(tool, uri, "push", "0", "two words"))
	runTool(t, exec.Command(tool, uri, "push", "1", "void"))
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(0, "the standard input of PE 1 is lost")
	if got := j.stdout.String(); !strings.Contains(got, "PE 0 got two words") || strings.Contains(got, "void") {
		t.Errorf("output %q, want the text that was sent to PE 0", got)
	}
}

// A tool is told which file each process was started from.
func TestToolAsksForPrograms(t *testing.T) {
	tool := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "tool.c"), testenv.LibPMIx)
	dir := t.TempDir()
	uri, gate, shell := dir+"/uri", dir+"/gate", dir+"/shell"
	found, err := exec.LookPath("sh")
	check(t, err)
	check(t, os.Symlink(found, shell))
	script := `echo "ready $$"; while [ ! -e "$0" ]; do sleep 0.02; done`
	j := start(t, "-n", "1", "--report-uri", uri, "sh", "-c", script, gate, ":", "-n", "1", shell, "-c", script, gate)
	j.ready(2)
	out := runTool(t, exec.Command(tool, uri, "table"))
	if want := fmt.Sprintf("0 runs %s\n1 runs %s\n", found, shell); !strings.HasSuffix(out, want) {
		t.Errorf("the tool says %q, want %q", out, want)
	}
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(0)
}

func runTool(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	timer := time.AfterFunc(testPatience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("tool: %v\n%s", err, out)
	}
	return string(out)
}

// A tool of another user is refused.
func TestToolOfStranger(t *testing.T) {
	testenv.Need(t, testenv.Root)
	tool := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "tool.c"), testenv.LibPMIx)
	dir := t.TempDir()
	for name := dir; strings.HasPrefix(name, os.TempDir()) && name != os.TempDir(); name = filepath.Dir(name) {
		check(t, os.Chmod(name, 0o755)) // the other user gets to read the URI
	}
	uri := dir + "/uri"
	j := start(t, "-v", "-n", "1", "--report-uri", uri, "sh", "-c", `echo "ready $$"; sleep 1000`)
	j.ready(1)
	check(t, os.Chmod(uri, 0o644))
	cmd := exec.Command(tool, uri)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	check(t, startChild(cmd))
	select {
	case <-j.stderr.says("is of user 65534, want user 0"):
	case <-time.After(testPatience):
		t.Errorf("nothing is said of the tool; stderr:\n%s", &j.stderr)
	}
	_ = cmd.Process.Kill() // libpmix tries again and again
	_ = cmd.Wait()
	if strings.Contains(out.String(), "namespaces") {
		t.Errorf("a tool of another user attaches:\n%s", &out)
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	j.expect(143)
}

// The URI can go to standard output; a file that cannot be written is said.
func TestReportURI(t *testing.T) {
	j := start(t, "-n", "1", "--report-uri", "-", "true")
	j.expect(0)
	if got := j.stdout.String(); !strings.HasPrefix(got, "goshmem-") || !strings.Contains(got, ";tcp4://127.0.0.1:") {
		t.Errorf("output %q, want a URI", got)
	}
	status, _, said := execute(t, "-n", "1", "--report-uri", "/proc/nothing/uri", "true")
	if status != 4 || !strings.Contains(said, "--report-uri") || !strings.Contains(said, "/proc/nothing") {
		t.Errorf("status %d, %s", status, said)
	}
	// Another job's file stays.
	uri := t.TempDir() + "/uri"
	j = start(t, "-n", "1", "--report-uri", uri, "sh", "-c", `echo other >"$0.new"; mv "$0.new" "$0"`, uri)
	j.expect(0)
	if text, err := os.ReadFile(uri); err != nil || string(text) != fmt.Sprintln("other") {
		t.Errorf("file %q, %v", text, err)
	}
}
