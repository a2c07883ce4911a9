package pmi1

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/pmix/codec"
)

// launcher starts processes and connects them to a server. It does only what MPICH needs.
type launcher struct {
	t   *testing.T
	s   *Server
	ctx context.Context
	out []*bytes.Buffer // output of each process
	end chan error
	n   int // running processes
}

func launch(t *testing.T) (*launcher, *notes) {
	t.Helper()
	s, n := serve(t)
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	t.Cleanup(stop)
	return &launcher{t: t, s: s, ctx: ctx, end: make(chan error, 64)}, n
}

func (l *launcher) start(j WorldSpec, path string, args ...string) {
	l.t.Helper()
	if err := l.s.AddJob(j); err != nil {
		l.t.Fatal(err)
	}
	for rank := range j.Procs {
		p := codec.Proc{Nspace: j.Nspace, Rank: codec.Rank(rank)}
		theirs, err := l.s.Connect(p)
		if err != nil {
			l.t.Fatal(err)
		}
		cmd := exec.CommandContext(l.ctx, path, args...)
		cmd.Env = append(os.Environ(), l.s.Environ(p, 3)...)
		out := new(bytes.Buffer)
		l.out = append(l.out, out)
		cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = out, out, []*os.File{theirs}
		if err := cmd.Start(); err != nil {
			l.t.Fatal(err)
		}
		_ = theirs.Close()
		l.n++
		go func() {
			err := cmd.Wait()
			l.s.ProcExited(p, err != nil)
			l.end <- err
		}()
	}
}

// lines waits for all processes and returns their output.
func (l *launcher) lines() (lines []string) {
	l.t.Helper()
	for ; l.n > 0; l.n-- {
		if err := <-l.end; err != nil {
			l.t.Errorf("a process ended: %v", err)
		}
	}
	for _, out := range l.out {
		lines = slices.AppendSeq(lines, strings.Lines(out.String()))
	}
	slices.Sort(lines)
	return lines
}

func (l *launcher) want(want ...string) {
	l.t.Helper()
	for i := range want {
		want[i] += "\n"
	}
	slices.Sort(want)
	if d := cmp.Diff(want, l.lines()); d != "" {
		l.t.Errorf("output of the processes (-want +got):\n%s", d)
	}
}

func program(t *testing.T) string {
	t.Helper()
	return testenv.CompileC(t, testenv.MPICH, filepath.Join("testdata", "mpich.c"))
}

// TestMPICH runs programs of an unmodified MPICH.
func TestMPICH(t *testing.T) {
	for _, n := range []int{1, 2, 5} {
		l, notes := launch(t)
		l.start(WorldSpec{Nspace: fmt.Sprint("sum", n), Procs: make([]Proc, n)}, program(t), "sum")
		var want []string
		for rank := range n {
			want = append(want, fmt.Sprintf("rank %d of %d sum %d", rank, n, n*(n-1)/2))
		}
		l.want(want...)
		notes.await(t, fmt.Sprint("finalized sum", n), n)
	}
}

func pmiProgram(t *testing.T) string {
	t.Helper()
	return testenv.CompileC(t, testenv.PMI1, filepath.Join("testdata", "client.c"))
}

func TestClientExchange(t *testing.T) {
	l, notes := launch(t)
	l.start(WorldSpec{Nspace: "exchange", Procs: []Proc{{}, {}, {AppNum: 1}}, Universe: 7}, pmiProgram(t), "exchange")
	l.want("rank 0 of 3 sum 3 universe 7 appnum 0", "rank 1 of 3 sum 3 universe 7 appnum 0",
		"rank 2 of 3 sum 3 universe 7 appnum 1")
	notes.await(t, "finalized exchange", 3)
}

func TestClientNames(t *testing.T) {
	l, _ := launch(t)
	l.start(WorldSpec{Nspace: "names", Procs: make([]Proc, 2)}, pmiProgram(t), "names")
	l.want("rank 0 found tag#0$port", "rank 1 found tag#0$port")
}

func TestClientSpawn(t *testing.T) {
	l, notes := launch(t)
	self := pmiProgram(t)
	l.start(WorldSpec{Nspace: "parents", Procs: make([]Proc, 2)}, self, "spawn")
	var r *SpawnRequest
	select {
	case r = <-notes.spawns:
	case <-l.ctx.Done():
		t.Fatal("no spawn request")
	}
	want := []SpawnApp{
		{Cmd: self, Args: []string{"child", "two words=2"}, MaxProcs: 2, Infos: []Pair{{"wdir", "/"}}},
		{Cmd: self, Args: []string{"child", ""}, MaxProcs: 1},
	}
	if d := cmp.Diff(want, r.Apps); d != "" {
		t.Errorf("programs (-want +got):\n%s", d)
	}
	children := WorldSpec{Nspace: "children", Procs: []Proc{{}, {}, {AppNum: 1}}, Spawned: true, Preput: r.Preput}
	l.start(children, r.Apps[0].Cmd, r.Apps[0].Args...)
	l.s.SpawnDone(r.ID, nil)
	const says = `program %d "two words=2": spawned 1, parent tag#0$parent`
	l.want("spawned 0 0 0", "child 0 of 3, "+fmt.Sprintf(says, 0), "child 1 of 3, "+fmt.Sprintf(says, 0),
		"child 2 of 3, "+fmt.Sprintf(says, 1))
}

func TestMPICHAbort(t *testing.T) {
	l, notes := launch(t)
	ctx, stop := context.WithCancel(l.ctx)
	defer stop()
	l.ctx = ctx
	l.start(WorldSpec{Nspace: "abort", Procs: make([]Proc, 2)}, program(t), "abort")
	notes.await(t, "abort abort 2", 1) // 42
	stop()
	for ; l.n > 0; l.n-- {
		if err := <-l.end; err == nil {
			t.Error("a process that aborted has status 0")
		}
	}
}

// TestMPICHWithoutPeer: MPI_Init fails if a process of the job has ended without joining.
func TestMPICHWithoutPeer(t *testing.T) {
	l, _ := launch(t)
	path := program(t)
	j := WorldSpec{Nspace: "alone", Procs: make([]Proc, 2)}
	if err := l.s.AddJob(j); err != nil {
		t.Fatal(err)
	}
	theirs, err := l.s.Connect(codec.Proc{Nspace: "alone"})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(l.ctx, path, "sum")
	cmd.Env = append(os.Environ(), l.s.Environ(codec.Proc{Nspace: "alone"}, 3)...)
	cmd.ExtraFiles = []*os.File{theirs}
	l.s.ProcExited(codec.Proc{Nspace: "alone", Rank: 1}, false)
	out, err := cmd.CombinedOutput()
	if err == nil || l.ctx.Err() != nil || !strings.Contains(string(out), "barrier_failed") {
		t.Errorf("%v, %v: %s", err, l.ctx.Err(), out)
	}
}
