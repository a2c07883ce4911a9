package server_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sync/errgroup"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/codec/codectest"
	"github.com/goshmem/goshmem/pmix/server"
)

// hosted runs a program as a job of n processes, and returns what each one printed and the frames of each connection.
func hosted(t *testing.T, n int, program string) (printed []string, conns [][]codectest.Frame) {
	t.Helper()
	j := job(n)
	j.Nspace, j.TmpDir = fmt.Sprint("job-", os.Getpid()), t.TempDir() // Open MPI names its files after the job
	srv, err := server.Start(server.Config{Job: j})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	recorder := codectest.Record(t, address(srv.Environ(codec.Proc{Nspace: j.Nspace})))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	g, ctx := errgroup.WithContext(ctx) // without one process, the others may wait forever
	printed = make([]string, n)
	for r := range n {
		cmd := exec.CommandContext(ctx, program)
		cmd.Env = append(os.Environ(), "OMPI_MCA_btl=vader,self", "OMPI_MCA_pml=ob1")
		cmd.Env = append(cmd.Env, through(recorder, srv.Environ(codec.Proc{Nspace: j.Nspace, Rank: codec.Rank(r)}))...)
		g.Go(func() error {
			out, err := cmd.CombinedOutput()
			srv.ProcExited(codec.Proc{Nspace: j.Nspace, Rank: codec.Rank(r)}, server.Exit{Unfinished: err != nil})
			if err != nil {
				return fmt.Errorf("rank %d: %w\n%s", r, err, out)
			}
			printed[r] = string(out)
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	conns, err = recorder.Frames()
	if err != nil || len(conns) != n {
		t.Fatalf("%d connections, %v; want %d", len(conns), err, n)
	}
	return printed, conns
}

// After the fence of MPI_Init, one get brings what a process wants to know of all others. The other get is for the
// machine's topology, which the process then finds out itself.
func TestOpenMPIGetsOnce(t *testing.T) {
	program := testenv.CompileC(t, testenv.OpenMPI, "testdata/hello.c")
	const n = 4
	printed, conns := hosted(t, n, program)
	for r, text := range printed {
		if want := fmt.Sprintf("%d of %d, sum %d\n", r, n, n*(n-1)/2); text != want {
			t.Errorf("rank %d printed %q, want %q", r, text, want)
		}
	}
	for _, frames := range conns {
		all := requests(t, frames)
		gets := slices.DeleteFunc(slices.Clone(all), func(s string) bool { return s != codec.CmdGet.String() })
		if len(gets) != 2 {
			t.Errorf("%d gets, want 2: %v", len(gets), all)
		}
	}
}

// MPI's name service works, and two processes connect to each other over a published port.
func TestOpenMPINames(t *testing.T) {
	printed, _ := hosted(t, 2, testenv.CompileC(t, testenv.OpenMPI, "testdata/names.c"))
	want := []string{
		"twice: refused\n0: service found\n0: nothing MPI_ERR_NAME: invalid name argument\n" +
			"unpublish: found\nagain: MPI_ERR_SERVICE: unknown service name\n",
		"1: service found\n1: nothing MPI_ERR_NAME: invalid name argument\n1: received 0 over the port\n",
	}
	if diff := cmp.Diff(want, printed); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}

// Two clients of the reference library exchange published data with every range, until one of them has ended.
func TestLibPMIxExchange(t *testing.T) {
	printed, _ := hosted(t, 2, testenv.CompileC(t, testenv.CC, "testdata/exchange.c", testenv.LibPMIx))
	want := []string{
		"own: SUCCESS\n",
		"awaited: SUCCESS\n" +
			"awaited: NOT-FOUND\nown: NOT-FOUND\nfor 1: SUCCESS\nfor 0: NOT-FOUND\n" +
			"of the process: SUCCESS\nof the application: SUCCESS\nwhat never comes: TIMEOUT\n" +
			"of the process that has ended: NOT-FOUND\nof the application that has not: SUCCESS\n",
	}
	if diff := cmp.Diff(want, printed); diff != "" {
		t.Errorf("printed (-want +got):\n%s", diff)
	}
}
