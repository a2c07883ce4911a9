package cli

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// A tool attaches by the file that oshrun writes, asks for namespaces, and spawns a job. oshrun waits for the job. The
// file is removed with oshrun's own job.
func TestTool(t *testing.T) {
	tool := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "tool.c"), testenv.LibPMIx)
	dir := t.TempDir()
	uri, gate := dir+"/uri", dir+"/gate"
	j := start(t, "-n", "1", "--report-uri", uri, "sh", "-c", `echo "ready $$"; while [ ! -e "$0" ]; do sleep 0.02; done`, gate)
	j.ready(1)
	info, err := os.Stat(uri)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want it readable for the owner only", info.Mode())
	}
	out := runTool(t, exec.Command(tool, uri, "sh", "-c", `sleep 0.5; echo "child $PMIX_RANK of $1"`, "sh", "a tool"))
	first, second, ok := strings.Cut(strings.TrimSpace(out), "\n")
	if nspace, isFirst := strings.CutPrefix(first, "namespaces "); !isFirst || !ok || !strings.HasPrefix(second, "spawned "+nspace+"-1") {
		t.Errorf("the tool printed %q", out)
	}
	check(t, os.WriteFile(gate, nil, 0o600))
	j.expect(0)
	if got := j.stdout.String(); !strings.Contains(got, "child 0 of a tool\n") {
		t.Errorf("output %q lacks that of the spawned job", got)
	}
	if _, err := os.Stat(uri); !os.IsNotExist(err) {
		t.Errorf("%s still exists: %v", uri, err)
	}
}

// What a tool pushes to a standard input arrives there, including its end. The user is told of text that has no reader.
func TestToolPushes(t *testing.T) {
	tool := testenv.CompileC(t, testenv.CC, filepath.Join("testdata", "tool.c"), testenv.LibPMIx)
	dir := t.TempDir()
	uri, gate := dir+"/uri", dir+"/gate"
	script := `echo "ready $$"; sed "s/^/PE $PMIX_RANK got /"; while [ ! -e "$0" ]; do sleep 0.02; done`
	j := prepare(t, "-n", "2", "--report-uri", uri, "sh", "-c", script, gate)
	r, w, err := os.Pipe() // like a terminal at which the user types nothing
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
		t.Errorf("output %q, want the text that was pushed to PE 0", got)
	}
}

// A tool can ask which file each process was started from.
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
		t.Errorf("the tool printed %q, want %q", out, want)
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
		check(t, os.Chmod(name, 0o755)) // lets the other user read the URI
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
		t.Errorf("no message on the tool; stderr:\n%s", &j.stderr)
	}
	_ = cmd.Process.Kill() // libpmix would keep trying
	_ = cmd.Wait()
	if strings.Contains(out.String(), "namespaces") {
		t.Errorf("a tool of another user has attached:\n%s", &out)
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	j.expect(143)
}

// The URI can go to standard output. A file that cannot be written is an error.
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
	// Another job's file is not overwritten.
	uri := t.TempDir() + "/uri"
	j = start(t, "-n", "1", "--report-uri", uri, "sh", "-c", `echo other >"$0.new"; mv "$0.new" "$0"`, uri)
	j.expect(0)
	if text, err := os.ReadFile(uri); err != nil || string(text) != fmt.Sprintln("other") {
		t.Errorf("file %q, %v", text, err)
	}
}

// What is no file stays what it is: a FIFO, a link, a device. The URI is written to it.
func TestReportURIInPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo, link, file := dir+"/fifo", dir+"/link", dir+"/file"
	check(t, syscall.Mkfifo(fifo, 0o600))
	check(t, os.WriteFile(file, nil, 0o600))
	check(t, os.Symlink(file, link))
	start(t, "-n", "1", "--report-uri", fifo, "true").expect(4, "--report-uri: open "+fifo) // it has no reader
	reader, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	check(t, err)
	defer reader.Close()
	for _, name := range []string{fifo, link} {
		before, err := os.Lstat(name)
		check(t, err)
		start(t, "-n", "1", "--report-uri", name, "true").expect(0)
		if after, err := os.Lstat(name); err != nil || !os.SameFile(before, after) {
			t.Errorf("%s was replaced: %v", name, err)
		}
	}
	fromFIFO, err := io.ReadAll(reader)
	check(t, err)
	fromFile, err := os.ReadFile(file)
	check(t, err)
	for _, text := range [][]byte{fromFIFO, fromFile} {
		if got := lines(string(text)); len(got) != 2 || !strings.Contains(string(text), ";tcp4://127.0.0.1:") {
			t.Errorf("the URI is %q", text)
		}
	}
}
