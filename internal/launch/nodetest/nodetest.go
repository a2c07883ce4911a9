// Package nodetest has the tests that every launch.Node passes, wherever its PEs run.
package nodetest

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Start starts a node.
type Start func(cfg daemon.Config, hooks daemon.Hooks) (launch.Node, error)

// patience is how long a test waits for what has to come.
const patience = 30 * time.Second

// goPE is set in the environment of a PE that runs the test program itself, see Main.
const goPE = "GOSHMEM_NODETEST_PE"

// Main is to be called first by TestMain: it does not return in a PE that runs the test program.
func Main() {
	if os.Getenv(goPE) == "" {
		return
	}
	_, _ = os.Stdout.WriteString("ready\n") // the test waits for it
	for {
		<-time.After(time.Hour)
	}
}

// Test runs all tests on nodes that start starts. TestMain of the test program calls Main.
func Test(t *testing.T, start Start) {
	for _, c := range []struct {
		name string
		test func(*testing.T, Start)
	}{
		{"ends", testEnds},
		{"numbers", testNumbers},
		{"signals", testSignals},
		{"stops", testStops},
		{"orders", testOrders},
		{"Go programs", testGoPrograms},
		{"at work", testAtWork},
		{"output", testOutput},
		{"counts", testCounts},
		{"input", testInput},
		{"input of several PEs", testInputOfSeveral},
		{"input that nobody reads", testUnreadInput},
		{"close", testClose},
		{"failed launch", testFailedLaunch},
		{"programs", testPrograms},
		{"tools", testTools},
		{"bindings", testBindings},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, start) })
	}
}

// node is a node under test with what it has said.
type node struct {
	launch.Node
	t     *testing.T
	began time.Time // of the job

	mu      sync.Mutex
	news    *sync.Cond // output has changed
	output  map[string]string
	ended   map[string]int // calls of OutputEnd
	notices []string
	credits chan daemon.Credit
	closed  bool
}

// shell is an app of n PEs that run a script of sh.
func shell(n int, script string) daemon.App {
	return daemon.App{NPEs: n, Path: "/bin/sh", Name: "sh", Args: []string{"-c", script}, Env: os.Environ()}
}

// begin starts a node; nothing is launched yet. The node is closed at the end of the test.
func begin(t *testing.T, start Start, app daemon.App, change ...func(*daemon.Config)) *node {
	t.Helper()
	// The job is older than any step that the test starts.
	n := &node{t: t, began: time.Now().Add(-time.Hour), output: map[string]string{}, ended: map[string]int{}}
	n.news = sync.NewCond(&n.mu)
	n.credits = make(chan daemon.Credit, 64)
	cfg := daemon.Config{Apps: []daemon.App{app}, HeapSize: 1 << 20, MostPEs: 8}
	hooks := daemon.Hooks{
		Logger: zerolog.Nop(), Began: n.began, Output: n.hear, OutputEnd: n.hearEnd,
		Credit: func(c daemon.Credit) { n.credits <- c },
		Notice: func(text string) {
			n.mu.Lock()
			defer n.mu.Unlock()
			n.notices = append(n.notices, text)
		},
	}
	for _, f := range change {
		f(&cfg)
	}
	var err error
	if n.Node, err = start(cfg, hooks); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.close)
	return n
}

// run starts a node and launches its PEs.
func run(t *testing.T, start Start, app daemon.App, change ...func(*daemon.Config)) *node {
	t.Helper()
	n := begin(t, start, app, change...)
	if err := n.Launch(); err != nil {
		t.Fatal(err)
	}
	return n
}

// close closes the node once. Nothing that the user should know has been said.
func (n *node) close() {
	if n.closed {
		return
	}
	n.closed = true
	if err := n.Close(); err != nil {
		n.t.Errorf("close: %v", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, text := range n.notices {
		n.t.Errorf("notice: %s", text)
	}
}

// hear takes output of a PE.
func (n *node) hear(id daemon.ID, s daemon.Stream, text []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended[sourceOf(id.PE, s)] > 0 {
		n.t.Errorf("PE %d: stream %d goes on after its end: %q", id.PE, s, text)
	}
	n.output[sourceOf(id.PE, s)] += string(text)
	n.news.Broadcast()
}

// hearEnd takes the end of an output. After it, nothing may come.
func (n *node) hearEnd(id daemon.ID, s daemon.Stream) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ended[sourceOf(id.PE, s)]++
}

func sourceOf(pe int, s daemon.Stream) string { return fmt.Sprintf("PE %d, stream %d", pe, s) }

// said returns what a PE has written to a stream.
func (n *node) said(pe int, s daemon.Stream) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.output[sourceOf(pe, s)]
}

// await returns a PE's standard output as soon as it has some words.
func (n *node) await(pe int, words string) string {
	n.t.Helper()
	late := false
	timer := time.AfterFunc(patience, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		late = true
		n.news.Broadcast()
	})
	defer timer.Stop()
	n.mu.Lock()
	defer n.mu.Unlock()
	for !strings.Contains(n.output[sourceOf(pe, daemon.Stdout)], words) {
		if late {
			n.t.Fatalf("PE %d has not written %q but %q", pe, words, n.output[sourceOf(pe, daemon.Stdout)])
		}
		n.news.Wait()
	}
	return n.output[sourceOf(pe, daemon.Stdout)]
}

// history returns the events up to the end of n PEs, by PE.
func (n *node) history(npes int) map[int][]daemon.Event {
	n.t.Helper()
	events := map[int][]daemon.Event{}
	late := time.After(patience)
	for left := npes; left > 0; {
		select {
		case e := <-n.Events():
			events[e.PE] = append(events[e.PE], e)
			if e.Kind == daemon.Exited {
				left--
			}
		case <-late:
			n.t.Fatalf("%d of %d PEs have not ended; events: %+v", left, npes, events)
		}
	}
	return events
}

// testEnds: each end is reported once, a failure before that, and with what the kernel tells.
func testEnds(t *testing.T, start Start) {
	n := run(t, start, shell(3, `echo $$; case $PMIX_RANK in 1) exit 7;; 2) kill -9 $$;; esac`))
	events := n.history(3)
	for pe, want := range map[int]ending.End{
		0: {},
		1: {Code: 7},
		2: {Signal: 9},
	} {
		var kinds []daemon.Kind
		for _, e := range events[pe] {
			kinds = append(kinds, e.Kind)
			if e.End.Code != want.Code || e.End.Signal != want.Signal {
				t.Errorf("PE %d: event %+v, want end %+v", pe, e, want)
			}
			if age := time.Since(n.began); e.Job != 0 || e.At < time.Hour || e.At > age {
				t.Errorf("PE %d: event %+v, want job 0 and a time since the job began, an hour to %v", pe, e, age)
			}
		}
		wanted := []daemon.Kind{daemon.Failed, daemon.Exited}
		if pe == 0 {
			wanted = wanted[1:]
		}
		if !slices.Equal(kinds, wanted) {
			t.Errorf("PE %d: events of kinds %v, want %v", pe, kinds, wanted)
		}
		last := events[pe][len(events[pe])-1]
		if text := n.await(pe, "\n"); strings.TrimSpace(text) != strconv.Itoa(last.PID) || last.Ran <= 0 {
			t.Errorf("PE %d: event %+v, want process %s and a time that it ran", pe, last, text)
		}
	}
}

// testNumbers: a PE has the number of its process from its start on.
func testNumbers(t *testing.T, start Start) {
	n := begin(t, start, shell(2, `echo $$; exec sleep 1000`))
	for _, pe := range []int{0, 1, 2, -1} {
		if pid := n.PID(daemon.ID{PE: pe}); pid != 0 {
			t.Errorf("PE %d has process %d before the launch", pe, pid)
		}
	}
	if err := n.Launch(); err != nil {
		t.Fatal(err)
	}
	for pe := range 2 {
		if pid, text := n.PID(daemon.ID{PE: pe}), n.await(pe, "\n"); strings.TrimSpace(text) != strconv.Itoa(pid) {
			t.Errorf("PE %d is process %s by its own words, and %d", pe, text, pid)
		}
	}
	for _, id := range []daemon.ID{{PE: 2}, {PE: -1}, {Job: 1}} {
		if pid := n.PID(id); pid != 0 {
			t.Errorf("PE %v, which does not exist, has process %d", id, pid)
		}
		if n.Forsake(id) || n.IsAtWork(id) || n.HasGo(id) {
			t.Errorf("PE %v, which does not exist, is forsaken, at work or runs a Go program", id)
		}
	}
	if n.Forsake(daemon.ID{}) {
		t.Error("PE 0 is forsaken, and has never joined the job")
	}
}

// testSignals: a signal reaches all PEs, and Refuse none.
func testSignals(t *testing.T, start Start) {
	n := run(t, start, shell(3, `trap 'echo got it; exit 5' USR1; echo ready; while :; do sleep 0.02; done`))
	for pe := range 3 {
		n.await(pe, "ready")
	}
	n.Refuse(false)
	n.Signal(xunix.SIGUSR1)
	for pe, events := range n.history(3) {
		if last := events[len(events)-1]; last.End.Code != 5 {
			t.Errorf("PE %d ended by %+v, want status 5", pe, last.End)
		}
		n.await(pe, "got it")
	}
}

// testStops: PEs that are asked to stop do, and go on by SIGCONT.
func testStops(t *testing.T, start Start) {
	n := run(t, start, shell(2, `echo ready; exec sleep 1000`))
	for pe := range 2 {
		n.await(pe, "ready")
	}
	if n.Stopped() {
		t.Error("the PEs are stopped before they were asked")
	}
	n.Suspend()
	n.Signal(xunix.SIGSTOP) // those that handle SIGTSTP, or stay in the session of the test
	n.until("all PEs are stopped", n.Stopped)
	n.Signal(xunix.SIGCONT)
	n.until("no PE is stopped", func() bool { return !n.Stopped() })
	n.Signal(syscall.SIGTERM)
	for pe, events := range n.history(2) {
		if last := events[len(events)-1]; last.End.Signal != int(syscall.SIGTERM) {
			t.Errorf("PE %d ended by %+v, want SIGTERM", pe, last.End)
		}
	}
}

// until looks again and again until something is so, which the kernel brings about.
func (n *node) until(what string, is func() bool) {
	n.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			n.t.Fatalf("it does not come to it that %s", what)
		}
	}
}

// testOrders: PEs that take no orders are named in the answers, and do not hold them up.
func testOrders(t *testing.T, start Start) {
	n := run(t, start, shell(3, `echo ready; [ $PMIX_RANK = 1 ] || exec sleep 1000`))
	for pe := range 3 {
		n.await(pe, "ready")
	}
	n.history(1)
	var pes []int
	for _, a := range n.Ask(wire.OrderCalls, patience) {
		pes = append(pes, a.PE)
		if a.Asked || a.Done || a.Late || len(a.Text) > 0 || a.PID != n.PID(a.ID) {
			t.Errorf("answer %+v of a PE that takes no orders", a)
		}
	}
	if !slices.Equal(pes, []int{0, 2}) {
		t.Errorf("answers of PEs %v, want those that run: 0 and 2", pes)
	}
}

// testAtWork: a PE is at work while a process runs that it has started; its own one, which waits here, is its program.
func testAtWork(t *testing.T, start Start) {
	n := run(t, start, shell(2, `[ $PMIX_RANK = 0 ] || exec sleep 1000; while :; do :; done & echo ready; wait`))
	n.await(0, "ready")
	n.until("PE 0 is at work", func() bool { return n.IsAtWork(daemon.ID{}) })
	n.until("PE 1 runs sleep, which waits", func() bool { return !n.IsAtWork(daemon.ID{PE: 1}) })
}

// testGoPrograms: a Go program is known as such, and ended by SIGQUIT with its stacks.
func testGoPrograms(t *testing.T, start Start) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	n := run(t, start, shell(2, `[ $PMIX_RANK = 0 ] || exec sleep 1000; `+goPE+`=1 exec "`+self+`"`))
	n.await(0, "ready")
	if !n.HasGo(daemon.ID{}) {
		t.Error("PE 0 runs a Go program, and is not known to")
	}
	n.until("PE 1 runs sleep, no Go program", func() bool { return !n.HasGo(daemon.ID{PE: 1}) })
	n.QuitGo(daemon.ID{}, patience)
	if text := n.said(0, daemon.Stderr); !strings.Contains(text, "SIGQUIT") || !strings.Contains(text, "goroutine 1") {
		t.Errorf("PE 0 has ended without its stacks: %q", text)
	}
	if last := n.history(1)[0]; last == nil || last[len(last)-1].End.Code != 2 {
		t.Errorf("PE 0 ended by %+v, want status 2 of Go's runtime", last)
	}
}

// testOutput: all that PEs write comes, in whole lines, and by stream.
func testOutput(t *testing.T, start Start) {
	const lines = 2000
	script := fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "$PMIX_RANK out $i"; echo "$PMIX_RANK err $i" >&2; i=$((i+1)); done; printf "no end"`, lines)
	n := run(t, start, shell(2, script))
	n.history(2)
	n.close()
	for pe := range 2 {
		for s, word := range map[daemon.Stream]string{daemon.Stdout: "out", daemon.Stderr: "err"} {
			var want strings.Builder
			for i := range lines {
				fmt.Fprintf(&want, "%d %s %d\n", pe, word, i)
			}
			if s == daemon.Stdout {
				want.WriteString("no end")
			}
			if got := n.said(pe, s); got != want.String() {
				t.Errorf("PE %d, stream %d: %d bytes came, want %d, or they differ", pe, s, len(got), want.Len())
			}
		}
	}
}

// testCounts: an event says how much the PE had written before it, and outputs end once.
func testCounts(t *testing.T, start Start) {
	for _, merge := range []bool{false, true} {
		n := run(t, start, shell(2, `echo out; echo error >&2; exit $PMIX_RANK`), func(cfg *daemon.Config) { cfg.Merge = merge })
		want, streams := daemon.Written{Stdout: 4, Stderr: 6}, 2
		if merge {
			want, streams = daemon.Written{Stdout: 10}, 1
		}
		for pe, events := range n.history(2) {
			for _, e := range events {
				if e.Written != want {
					t.Errorf("PE %d: event %+v, want %+v written", pe, e, want)
				}
			}
		}
		n.close()
		for pe := range 2 {
			for s := range streams {
				from := sourceOf(pe, daemon.Stream(s))
				if count := want.Of(daemon.Stream(s)); len(n.output[from]) != int(count) || n.ended[from] != 1 {
					t.Errorf("%s: %q came, want %d bytes; %d ends, want one", from, n.output[from], count, n.ended[from])
				}
			}
		}
	}
}

// testClose: nothing is left of the PEs, and what they had written has come.
func testClose(t *testing.T, start Start) {
	n := run(t, start, shell(2, `sleep 1000 & echo $! $$; wait`))
	var pids []int
	for pe := range 2 {
		for word := range strings.FieldsSeq(n.await(pe, "\n")) {
			pid, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	n.close()
	for _, pid := range pids {
		if err := xunix.Kill(pid, 0); err == nil {
			t.Errorf("process %d runs after Close", pid)
		}
	}
	if len(pids) != 4 {
		t.Errorf("processes %v, want two of each PE", pids)
	}
}

// testFailedLaunch: a launch that fails says of which PE, and Close frees what there is.
func testFailedLaunch(t *testing.T, start Start) {
	path := t.TempDir() + "/empty"
	if err := os.WriteFile(path, nil, 0o700); err != nil { //nolint:gosec // a program has to be executable
		t.Fatal(err)
	}
	n := begin(t, start, daemon.App{NPEs: 2, Path: path, Name: "empty", Env: os.Environ()})
	if err := n.Launch(); err == nil || !strings.Contains(err.Error(), "PE 0") || !strings.Contains(err.Error(), path) {
		t.Errorf("launch of an empty file: %v, want an error that names PE 0 and the file", err)
	}
	n.close()
}

// testPrograms: the node finds programs by the PE's environment and directory, and says what is missing.
func testPrograms(t *testing.T, start Start) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/program", []byte("#!/bin/sh\necho $0; pwd\n"), 0o700); err != nil { //nolint:gosec // a program has to be executable
		t.Fatal(err)
	}
	env := []string{"PATH=" + dir + ":/usr/bin:/bin"}
	for program, at := range map[string]string{"program": "/", "./program": dir} {
		n := run(t, start, daemon.App{NPEs: 1, Program: program, Name: program, Env: env, Dir: at})
		n.history(1)
		if got, want := n.await(0, at+"\n"), dir+"/program\n"+at+"\n"; got != want {
			t.Errorf("%s in %s: %q, want %q", program, at, got, want)
		}
	}
	for _, x := range []struct{ program, dir, want string }{
		{"no-such-program", "/", `program: exec: "no-such-program": executable file not found in $PATH`},
		{"./none", dir, "program: exec: \"" + dir + "/none\": stat " + dir + "/none: no such file or directory"},
		{"program", dir + "/none", "working directory " + dir + "/none on "},
	} {
		hooks := daemon.Hooks{Output: func(daemon.ID, daemon.Stream, []byte) {}, Logger: zerolog.Nop()}
		cfg := daemon.Config{Apps: []daemon.App{{NPEs: 1, Program: x.program, Name: x.program, Env: env, Dir: x.dir}}, HeapSize: 1 << 20}
		n, err := start(cfg, hooks)
		if err == nil {
			t.Errorf("%s in %s: the node starts, want an error", x.program, x.dir)
			_ = n.Close()
			continue
		}
		hint := new(daemon.HintError)
		if !strings.Contains(err.Error(), x.want) || !errors.As(err, &hint) || hint.Hint == "" {
			t.Errorf("%s in %s: error %v, want one with %q and a hint", x.program, x.dir, err, x.want)
		}
	}
}

// testTools: tools get what they need to attach only where that is wanted.
func testTools(t *testing.T, start Start) {
	for _, wanted := range []bool{false, true} {
		n := begin(t, start, shell(1, `exit 0`), func(cfg *daemon.Config) { cfg.Tools = wanted })
		if uri := n.ToolURI(); (uri != "") != wanted {
			t.Errorf("tools may attach: %t; URI %q", wanted, uri)
		}
		if n.Tier() == "" {
			t.Error("it is not known how ends are learnt of")
		}
	}
}

// testBindings: a node that has a share of a job says where its PEs run, if that is asked for.
func testBindings(t *testing.T, start Start) {
	for _, report := range []bool{false, true} {
		n := begin(t, start, shell(2, `exit 0`), func(cfg *daemon.Config) {
			cfg.Share = daemon.Share{Name: fmt.Sprintf("goshmem-bindings%t", report), Key: [16]byte{1}, Hosts: []string{"a"}, Homes: []int{0, 0}}
			cfg.Binding.Bind, cfg.Binding.Report = plan.BindNone, report
		})
		var want []string
		if report {
			want = []string{"PE 0 is not bound: ", "PE 1 is not bound: "}
		}
		got := n.Report().Bindings
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i].PE != i || !strings.HasPrefix(got[i].Text, want[i]) {
				t.Fatalf("report %t: bindings %+v, want %q", report, got, want)
			}
		}
	}
}
