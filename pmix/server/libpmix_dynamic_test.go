package server_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// stage is a host that starts real processes, and keeps their output.
type stage struct {
	t       *testing.T
	ctx     context.Context
	program string
	tmp     string
	srv     *server.Server // upcalls use it once begun is closed
	begun   chan struct{}
	running sync.WaitGroup

	mu      sync.Mutex
	lines   map[codec.Proc][]string
	changed chan struct{}
	stdin   map[codec.Proc]io.WriteCloser
	procs   map[codec.Proc]*os.Process
	jobs    int
}

func newStage(t *testing.T) *stage {
	t.Helper()
	return newStageOf(t, "testdata/dynamic.c")
}

// newStageOf returns a stage whose processes run a C program that uses libpmix.
func newStageOf(t *testing.T, source string) *stage {
	t.Helper()
	return newStageFor(t, testenv.CompileC(t, testenv.CC, source, testenv.LibPMIx))
}

func newStageFor(t *testing.T, program string) *stage {
	t.Helper()
	s := &stage{
		t: t, program: program, tmp: t.TempDir(), begun: make(chan struct{}), procs: map[codec.Proc]*os.Process{},
		lines: map[codec.Proc][]string{}, changed: make(chan struct{}), stdin: map[codec.Proc]io.WriteCloser{},
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	s.ctx = ctx
	srv, err := server.Start(server.Config{
		Job: server.JobLayout{Nspace: "stage", Hosts: []string{"vm"}, Procs: []server.Proc{{}}}, Host: s,
		AuthorizeTool: func(net.Conn) (int, error) { return 0, nil },
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	s.srv = srv
	close(s.begun)
	t.Cleanup(func() {
		cancel()
		s.running.Wait()
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (*stage) ClientConnected(codec.Proc, int)             {}
func (*stage) ClientFinalized(codec.Proc)                  {}
func (*stage) ClientLost(codec.Proc)                       {}
func (*stage) Abort(codec.Proc, []codec.Proc, int, string) {}
func (*stage) Log(codec.Proc, bool, []byte)                {}

func (s *stage) Spawn(r *server.SpawnRequest) {
	s.running.Go(func() {
		<-s.begun // for the race detector, which does not see the order through another process
		s.mu.Lock()
		s.jobs++
		nspace, many := fmt.Sprint("child-", s.jobs), s.jobs > 4 // to stop children that spawn forever
		s.mu.Unlock()
		app := r.Apps[0]
		argv := append([]string{app.Cmd}, app.Args[1:]...)
		if many || s.start(nspace, r.From, app.MaxProcs, argv, app.Env...) != nil {
			s.srv.RemoveJob(nspace)
			s.srv.SpawnDone(r.ID, "", codec.StatusErrNotFound)
			return
		}
		s.srv.SpawnDone(r.ID, nspace, codec.StatusSuccess)
	})
}

func (s *stage) Stdin(to []codec.Proc, data []byte, eof bool) {
	for _, p := range to {
		s.mu.Lock()
		w := s.stdin[p]
		s.mu.Unlock()
		_, _ = w.Write(data) // fits into the pipe
		if eof {
			_ = w.Close()
		}
	}
}

// start adds a job of n processes of a program and starts it.
func (s *stage) start(nspace string, parent codec.Proc, n int, argv []string, env ...string) error {
	if err := s.add(nspace, parent, n); err != nil {
		return err
	}
	return s.launch(nspace, n, argv, env...)
}

// add adds a job to the server.
func (s *stage) add(nspace string, parent codec.Proc, n int) error {
	j := job(n)
	j.Nspace, j.TmpDir = nspace, s.tmp
	return s.srv.AddJob(j, parent)
}

// launch starts the processes of a job that was added.
func (s *stage) launch(nspace string, n int, argv []string, env ...string) error {
	for rank := range n {
		p := codec.Proc{Nspace: nspace, Rank: codec.Rank(rank)}
		if err := s.run(p, argv, slices.Concat(env, s.srv.Environ(p))); err != nil {
			return err
		}
	}
	return nil
}

// run starts one process.
func (s *stage) run(p codec.Proc, argv, env []string) error {
	cmd := exec.CommandContext(s.ctx, argv[0], argv[1:]...)
	cmd.Env = append(env, "PATH=/bin:/usr/bin", "TMPDIR="+s.tmp)
	// Open MPI names its segments after the namespace, and other tests use them on this machine at the same time.
	cmd.Env = append(cmd.Env, "OMPI_MCA_btl_vader_backing_directory="+s.tmp)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	errs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.stdin[p], s.procs[p] = in, cmd.Process
	s.mu.Unlock()
	s.running.Go(func() {
		var streams sync.WaitGroup
		streams.Go(func() { s.read(p, out, false) })
		streams.Go(func() { s.read(p, errs, true) })
		streams.Wait()
		err := cmd.Wait()
		s.srv.ProcExited(p, exitOf(cmd.ProcessState))
		if err != nil {
			s.say(p, err.Error())
		}
	})
	return nil
}

func (s *stage) read(p codec.Proc, r io.Reader, stderr bool) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		s.srv.Output(p, stderr, append(slices.Clone(lines.Bytes()), '\n'))
		s.say(p, lines.Text())
	}
}

func (s *stage) say(p codec.Proc, line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines[p] = append(s.lines[p], line)
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until a process has written a line.
func (s *stage) await(p codec.Proc, line string) {
	s.t.Helper()
	for {
		s.mu.Lock()
		found, changed := slices.Contains(s.lines[p], line), s.changed
		s.mu.Unlock()
		if found {
			return
		}
		select {
		case <-changed:
		case <-s.ctx.Done():
			s.t.Fatalf("%v wrote %q, want %q", p, s.lines[p], line)
		}
	}
}

// finish waits for all processes and compares their output.
func (s *stage) finish(want map[codec.Proc][]string) {
	s.t.Helper()
	s.running.Wait()
	got := maps.Clone(s.lines)
	for p := range got {
		if _, ok := want[p]; !ok {
			s.t.Errorf("%v wrote %q, want no output of such a process", p, got[p])
		}
	}
	for p, lines := range want {
		if diff := cmp.Diff(lines, got[p]); diff != "" {
			s.t.Errorf("%v (-want +got):\n%s", p, diff)
		}
	}
}

// must starts a test's first job.
func (s *stage) must(nspace string, n int, args ...string) {
	s.t.Helper()
	if err := s.start(nspace, codec.Proc{}, n, append([]string{s.program}, args...)); err != nil {
		s.t.Fatal(err)
	}
}

// mustBoth starts two jobs that know of each other from the start. The first has two processes.
func (s *stage) mustBoth(first []string, n int, second []string) {
	s.t.Helper()
	if err := errors.Join(
		s.add("job-1", codec.Proc{}, 2), s.add("job-2", codec.Proc{}, n),
		s.launch("job-1", 2, append([]string{s.program}, first...)), s.launch("job-2", n, append([]string{s.program}, second...)),
	); err != nil {
		s.t.Fatal(err)
	}
}

func of(nspace string, rank codec.Rank) codec.Proc { return codec.Proc{Nspace: nspace, Rank: rank} }

func TestLibPMIxConnect(t *testing.T) {
	s := newStage(t)
	s.mustBoth([]string{"meet", "job-1", "job-2"}, 2, []string{"meet", "job-1", "job-2"})
	want := map[codec.Proc][]string{}
	for mine, other := range map[string]string{"job-1": "job-2", "job-2": "job-1"} {
		for rank := range codec.Rank(2) {
			want[of(mine, rank)] = []string{
				"connect: SUCCESS", "pmix.job.size of " + other + ".* is 2", "pmix.lpeers of " + other + ".* is 0,1",
				"pmix.lrank of " + other + ".1 is 1", "name of " + other + ".1 is this is " + other + ".1",
				"fence: SUCCESS", "disconnect: SUCCESS",
			}
		}
	}
	s.finish(want)
}

func TestLibPMIxConnectWithOneThatDies(t *testing.T) {
	s := newStage(t)
	s.mustBoth([]string{"meet", "job-1", "job-2"}, 1, []string{"vanish"})
	s.running.Wait()
	for rank := range codec.Rank(2) { // the later one may get the end of the earlier one, which has left by then
		got := s.lines[of("job-1", rank)]
		if len(got) != 1 || !strings.HasPrefix(got[0], "connect: PROC TERMINATED") {
			t.Errorf("process %d wrote %q, want an error that another process has terminated", rank, got)
		}
	}
}

func TestLibPMIxLooksAtAnotherJob(t *testing.T) {
	s := newStage(t)
	s.must("job-2", 1, "serve")
	s.await(of("job-2", 0), "ready")
	s.must("job-1", 1, "look", "job-2")
	s.await(of("job-1", 0), "pmix.nothing of job-2.*: NOT-FOUND")
	s.Stdin([]codec.Proc{of("job-2", 0)}, nil, true)
	s.finish(map[codec.Proc][]string{
		of("job-1", 0): {
			"pmix.job.size of job-2.* is 1", "pmix.hname of job-2.0 is vm", "name of job-2.0 is this is job-2.0",
			"pmix.nothing of job-2.*: NOT-FOUND",
		},
		of("job-2", 0): {"ready", "end of input"},
	})
}

func TestLibPMIxSpawn(t *testing.T) {
	s := newStage(t)
	s.must("job-1", 1, "spawn", s.program)
	child := func(rank codec.Rank) []string {
		return []string{
			fmt.Sprintf("pmix.parent of child-1.%d is job-1.0", rank), "pmix.parent of child-1.* is job-1.0",
			fmt.Sprintf("pmix.spawned of child-1.%d is 1", rank), "connect: SUCCESS", "name of job-1.0 is this is job-1.0",
			"pmix.job.size of job-1.* is 1", "disconnect: SUCCESS",
		}
	}
	s.finish(map[codec.Proc][]string{
		of("job-1", 0): {
			"spawn: SUCCESS", "pmix.job.size of child-1.* is 2", "pmix.parent of child-1.* is job-1.0", "connect: SUCCESS",
			"name of child-1.1 is this is child-1.1", "disconnect: SUCCESS", "spawn of nothing: NOT-FOUND",
		},
		of("child-1", 0): child(0), of("child-1", 1): child(1),
	})
}

// runTool starts a tool, whose output is kept under its own name.
func (s *stage) runTool(args ...string) {
	s.t.Helper()
	if err := s.run(of("tool", 0), append([]string{s.program}, args...), nil); err != nil {
		s.t.Fatal(err)
	}
}

func TestLibPMIxTool(t *testing.T) {
	s := newStage(t)
	s.must("job-1", 2, "serve")
	s.await(of("job-1", 0), "ready")
	s.await(of("job-1", 1), "ready")
	file := filepath.Join(t.TempDir(), "attach")
	if err := os.WriteFile(file, []byte(s.srv.ToolURI()+"\n"+codec.Version+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.runTool("tool", file, "job-1")
	s.await(of("tool", 0), "tool finalize: SUCCESS")
	s.Stdin([]codec.Proc{of("job-1", 1)}, nil, true)
	s.running.Wait()
	slices.Sort(s.lines[of("tool", 0)]) // two threads of the tool write, in any order
	s.finish(map[codec.Proc][]string{
		of("job-1", 0): {"ready", "read hello", "end of input"}, of("job-1", 1): {"ready", "end of input"},
		of("tool", 0): {
			"deregister: SUCCESS", "errors of job-1.0: end of input", "name of job-1.0 is this is job-1.0",
			"named stage-tool-1.0", "output of job-1.0: read hello", "pmix.job.size of job-1.* is 2", "pull: SUCCESS",
			"push the end: SUCCESS", "push: SUCCESS", "tool finalize: SUCCESS", "tool init: SUCCESS",
		},
	})
}

func TestLibPMIxToolLaunches(t *testing.T) {
	s := newStage(t)
	s.runTool("launch", s.srv.ToolURI(), s.program)
	s.await(of("tool", 0), "hello from a child")
	s.Stdin([]codec.Proc{of("tool", 0)}, nil, true)
	s.running.Wait()
	s.finish(map[codec.Proc][]string{of("child-1", 0): {"hello from a child"}, of("tool", 0): s.lines[of("tool", 0)]})
}

func TestLibPMIxToolInJob(t *testing.T) {
	s := newStage(t)
	s.must("job-1", 2, "helper")
	want := map[codec.Proc][]string{}
	for rank := range codec.Rank(2) {
		want[of("job-1", rank)] = []string{
			"tool init: SUCCESS", fmt.Sprintf("named job-1.%d", rank), "pmix.job.size of job-1.* is 2", "tool finalize: SUCCESS",
		}
	}
	s.finish(want)
}
