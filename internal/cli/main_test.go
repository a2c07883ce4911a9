package cli

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

// asOshrun makes the test binary act as oshrun, so that tests run the real thing in separate processes, built-in
// programs included.
const asOshrun = "GOSHMEM_TEST_AS_OSHRUN"

func TestMain(m *testing.M) {
	// agents and heartbeats have no environment
	if isAlone := len(os.Args) == 2 && slices.Contains([]string{"agent", heartbeat}, os.Args[1]); isAlone || os.Getenv(asOshrun) != "" {
		builtins["t-pe"], builtins["t-pmix"], builtins["t-news"], builtins["t-stress"] = testPE, testClient, testNews, testStress
		builtins["t-coll"], builtins["t-unwind"], builtins["t-poll"] = testCollectives, testUnwind, testPoll
		builtins["t-run"], builtins["t-maps"], builtins["t-far"] = testRun, testMaps, testFar
		defaultRadix = 2 // so that jobs of a few nodes have daemons that start daemons
		builtins["t-mixed"], builtins["t-busy"] = testMixed, testBusy
		os.Exit(Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	_ = flag.Set("test.parallel", "4")  // unless the command line sets it: most tests wait, and compute little
	if signal.Ignored(syscall.SIGHUP) { // as under nohup; programs that the tests start must not inherit it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	go startChildren()
	os.Exit(m.Run())
}

// testPE is the program of the PEs in these tests. It joins the job, prints that it is ready, and does what its first
// argument says.
func testPE(args []string, stdout, stderr io.Writer) int {
	mode := args[0]
	if mode == "ignore" || mode == "touch" {
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	}
	w, err := shmem.Init()
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	me, last := w.MyPE(), w.NPEs()-1
	x, err := shmem.Calloc[int64](w, 1)
	if err == nil && me == last && mode == "exit" {
		return number(args[1])
	}
	if err == nil && mode == "touch" {
		var heap shmem.Sym[byte]
		if heap, err = shmem.Calloc[byte](w, number(args[1])); err == nil {
			for i := 0; i < heap.Len(); i += os.Getpagesize() {
				heap.Local()[i] = 1
			}
		}
	}
	fmt.Fprintf(stdout, "ready %d\n", os.Getpid())
	if err == nil {
		err = shmem.AtomicInc(w.Ctx(), x, last)
	}
	switch {
	case err != nil:
	case mode == "globalexit" && me == last: // once the others are at the barrier
		_ = shmem.WaitUntil(w.Ctx(), x, shmem.EQ, int64(last+1))
		w.GlobalExit(number(args[1]))
	case mode == "lateexit" && me == last: // once a file exists
		for _, err := os.Stat(args[2]); err != nil; _, err = os.Stat(args[2]) {
			time.Sleep(10 * time.Millisecond)
		}
		w.GlobalExit(number(args[1]))
	case mode == "wait", mode == "ignore", mode == "touch", mode == "barrier" && me == last:
		err = shmem.WaitUntil(w.Ctx(), x, shmem.EQ, -1)
	case mode == "spin", mode == "lateexit":
		compute(x.Local())
	case mode == "linger": // keeps running after Finalize
		if err = w.Finalize(); err == nil {
			time.Sleep(time.Hour)
		}
	case mode == "lose": // loses its connection without Finalize
	case mode == "ok":
		err = w.Finalize()
	case mode == "barrier-ok":
		if err = w.Barrier(); err == nil {
			err = w.Finalize()
		}
	default:
		err = w.Barrier()
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// compute is a loop without calls. The race detector would turn each access into a call of its C code, where the
// runtime cannot stop a goroutine. Everything that waits for such a stop (GC, the stacks of all goroutines) could then
// take seconds beside other load.
//
//go:norace
//go:noinline
func compute(mine []int64) {
	for {
		_ = mine[0]
	}
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		panic(err)
	}
	return n
}

// speech collects oshrun's messages and lets a test wait for words in them.
type speech struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wants []string
	said  []chan struct{}
}

func (s *speech) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(b)
	s.tell()
	return len(b), nil
}

func (s *speech) tell() {
	for i, w := range s.wants {
		if w != "" && strings.Contains(s.text.String(), w) {
			s.wants[i] = ""
			close(s.said[i])
		}
	}
}

// says returns a channel that is closed when the words have been written.
func (s *speech) says(words string) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := make(chan struct{})
	s.wants, s.said = append(s.wants, words), append(s.said, c)
	s.tell()
	return c
}

// String returns everything that was written so far.
func (s *speech) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// job is an oshrun process under test.
type job struct {
	t   *testing.T
	cmd *exec.Cmd
	out *bufio.Reader

	closeOut func()
	stdout   bytes.Buffer // the output that ready has read
	stderr   speech
	life     *os.File // reads end of file when no process of the job is left
	tmp      string
	theirs   []*os.File // files for the processes, closed here once they have them
}

// start starts oshrun.
func start(t *testing.T, args ...string) *job {
	t.Helper()
	j := prepare(t, args...)
	j.begin()
	return j
}

// prepare makes an oshrun that begin will start. Every process of the job inherits the write end of a pipe, so the
// pipe's end of file shows that the last one has ended.
func prepare(t *testing.T, args ...string) *job {
	t.Helper()
	self, err := os.Executable()
	check(t, err)
	j := &job{t: t, cmd: exec.Command(self, onNodes(args)...), tmp: t.TempDir()}
	out, err := j.cmd.StdoutPipe()
	check(t, err)
	j.out, j.closeOut = bufio.NewReader(out), func() { check(t, out.Close()) }
	j.cmd.Stderr = &j.stderr
	j.cmd.Env = append(os.Environ(), asOshrun+"=1", "TMPDIR="+j.tmp, "GORACE=atexit_sleep_ms=0")
	r, w, err := os.Pipe()
	check(t, err)
	null, err := os.Open(os.DevNull)
	check(t, err)
	j.life = r
	j.cmd.ExtraFiles = []*os.File{null, null, null, null, w} // descriptor 7, a number that oshrun does not use for its PEs
	j.theirs = []*os.File{w, null}
	return j
}

// someNodes is on how many emulated nodes jobs run whose tests do not say where. On one node, all goes the way to a daemon.
// Tests whose programs are of shmem or mpi fail on more than one.
var someNodes = flag.Int("nodes", 0, "on how many emulated nodes jobs run whose tests do not say where; 0: without daemons")

// onNodes adds to the arguments of oshrun that its job runs on some nodes, at most as many as there are PEs.
func onNodes(args []string) []string {
	at := slices.Index(args, "-n")
	for _, where := range []string{"--emulate", "--host", "--hostfile", "--launch"} {
		if slices.Contains(args, where) {
			at = -1
		}
	}
	if *someNodes == 0 || at < 0 {
		return args
	}
	n, err := strconv.Atoi(args[at+1])
	if err != nil {
		return args // which is the test
	}
	return append([]string{"--emulate", strconv.Itoa(min(n, *someNodes))}, args...)
}

// inNamespaces makes oshrun run in its own namespaces, made by unshare, after a shell command.
func (j *job) inNamespaces(kinds, command string) {
	j.t.Helper()
	unshare, err := exec.LookPath("unshare")
	check(j.t, err)
	args := append([]string{"unshare"}, strings.Fields(kinds)...)
	if strings.Contains(kinds, "--fork") {
		args = append(args, "--kill-child") // without it, the child would outlive its parent
	}
	j.cmd.Args = append(append(args, "sh", "-c", command+` && exec "$0" "$@"`, j.cmd.Path), j.cmd.Args[1:]...)
	j.cmd.Path = unshare
}

func (j *job) begin() {
	j.t.Helper()
	check(j.t, startChild(j.cmd))
	for _, f := range j.theirs {
		_ = f.Close()
	}
	j.t.Cleanup(func() { _ = j.cmd.Process.Kill(); _ = j.life.Close() })
}

// ready returns the process numbers of n PEs once all have joined.
func (j *job) ready(n int) (pids []int) {
	j.t.Helper()
	for len(pids) < n {
		line, err := j.out.ReadString('\n')
		j.stdout.WriteString(line)
		if _, pid, isReady := strings.Cut(line, "ready "); isReady {
			pids = append(pids, number(strings.TrimSpace(pid)))
		}
		if err != nil {
			j.t.Fatalf("%d of %d PEs are ready: %v; stderr:\n%s", len(pids), n, err, &j.stderr)
		}
	}
	return pids
}

// rest reads the rest of the output. The returned channel is closed when oshrun has ended, because the PEs write to its
// pipes.
func (j *job) rest() <-chan struct{} {
	over := make(chan struct{})
	go func() { _, _ = io.Copy(&j.stdout, j.out); close(over) }()
	return over
}

// ended waits until oshrun and then every process of the job have ended. It checks that no files are left, and returns
// the exit status and oshrun's messages.
func (j *job) ended(within time.Duration) (status int, said string) {
	j.t.Helper()
	return j.endedAfter(within, func() { _, _ = io.Copy(&j.stdout, j.out) })
}

// endedAfter does the same, but calls meanwhile instead of reading the output.
func (j *job) endedAfter(within time.Duration, meanwhile func()) (status int, said string) {
	j.t.Helper()
	j.over(within, meanwhile)
	left, err := os.ReadDir(j.tmp)
	check(j.t, err)
	if len(left) > 0 {
		j.t.Errorf("files are left behind: %v", left)
	}
	return j.cmd.ProcessState.ExitCode(), j.stderr.String()
}

// over waits until oshrun and then every process of the job have ended.
func (j *job) over(within time.Duration, meanwhile func()) {
	j.t.Helper()
	timer := time.AfterFunc(within, func() {
		if j.cmd.Process.Signal(syscall.SIGABRT) == nil { // Go's runtime prints where all goroutines are
			<-time.After(2 * time.Second) // for what it says
		}
		_ = j.cmd.Process.Kill()
		_ = j.life.SetReadDeadline(time.Now())
	})
	defer timer.Stop()
	meanwhile()
	_ = j.cmd.Wait()
	if n, err := j.life.Read(make([]byte, 1)); n != 0 || err != io.EOF {
		j.t.Errorf("processes are still running after %v: %v", within, err)
	}
	if !timer.Stop() {
		j.t.Errorf("oshrun was still running after %v; stderr:\n%s", within, &j.stderr)
	}
}

// expect checks the exit status, and that oshrun's messages contain the words.
func (j *job) expect(status int, words ...string) {
	j.t.Helper()
	got, said := j.ended(20 * time.Second)
	j.check(got, said, status, words)
}

// expectUnread does the same without reading the output.
func (j *job) expectUnread(status int, words ...string) {
	j.t.Helper()
	got, said := j.endedAfter(15*time.Second, func() {})
	j.check(got, said, status, words)
}

func (j *job) check(got int, said string, status int, words []string) {
	j.t.Helper()
	if got != status {
		j.t.Errorf("status %d, want %d; stderr:\n%s", got, status, said)
	}
	for _, w := range words {
		if !strings.Contains(said, w) {
			j.t.Errorf("stderr lacks %q:\n%s", w, said)
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
