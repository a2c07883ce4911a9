package cli

import (
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// unwinder is a PE of testUnwind.
type unwinder struct {
	w      *shmem.World
	m      *mpi.World
	stderr io.Writer
}

// unwinds are the ways in which the last PE leaves its work. All have deferred calls that would wait for the other PEs
// on a stack that runs normally.
var unwinds = map[string]func(u *unwinder){
	"panic": func(u *unwinder) {
		defer u.w.Finalize()
		panic("lost my way")
	},
	"closure": func(u *unwinder) {
		defer func() { _ = u.w.Finalize() }()
		panic("lost my way")
	},
	"fault": func(u *unwinder) {
		defer func() { _ = u.w.Finalize() }()
		var none *unwinder
		none.stderr = nil
	},
	"nested": func(u *unwinder) {
		defer func() { _ = u.w.Finalize() }()
		defer panic("lost my way")
		panic("first")
	},
	"in a nested Init": func(u *unwinder) {
		again, _ := shmem.Init()
		defer again.Finalize()
		panic("lost my way")
	},
	"mpi": func(u *unwinder) {
		defer u.m.Finalize()
		panic("lost my way")
	},
	"mpi closure": func(u *unwinder) {
		defer func() { _ = u.m.Finalize() }()
		panic("lost my way")
	},
	"free": func(u *unwinder) {
		x, err := shmem.Alloc[int](u.w, 1)
		defer shmem.Free(u.w, x)
		panic(fmt.Sprint("lost my way ", err))
	},
	"destroy": func(u *unwinder) {
		team, err := u.w.Team().SplitStrided(0, 1, u.w.NPEs(), nil)
		defer team.Destroy()
		panic(fmt.Sprint("lost my way ", err))
	},
	"comm": func(u *unwinder) {
		c, err := u.m.Comm().Split(0, 0)
		defer c.Free()
		panic(fmt.Sprint("lost my way ", err))
	},
	"goexit": func(u *unwinder) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer u.w.Finalize()
			runtime.Goexit()
		}()
		<-done
		os.Exit(6)
	},
	"goexit mpi": func(u *unwinder) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer u.m.Finalize()
			runtime.Goexit()
		}()
		<-done
		os.Exit(6)
	},
	"goexit of all": func(u *unwinder) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			defer u.w.Finalize()
			defer u.m.Finalize()
			runtime.Goexit()
		}()
		<-done
	},
	"exit": func(u *unwinder) {
		defer os.Exit(6)
		defer u.w.Finalize()
		panic("not to be seen")
	},
	"fatal": func(u *unwinder) {
		defer u.w.Finalize() // is not called
		log.Fatal("lost my way")
	},
	"early": func(*unwinder) {},
	"recovered in place": func(u *unwinder) {
		defer func() {
			fmt.Fprintln(u.stderr, "recovered:", recover())
			err := u.w.Finalize()
			fmt.Fprintln(u.stderr, "refused:", errors.Is(err, shmem.ErrUnwinding))
		}()
		panic("lost my way")
	},
}

// testUnwind is the program of the PEs below. All PEs wait for the last one, which does not come.
func testUnwind(args []string, _, stderr io.Writer) int {
	w, err := shmem.Init()
	m, err2 := mpi.Init()
	if err = errors.Join(err, err2); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	u := &unwinder{w: w, m: m, stderr: stderr}
	if w.MyPE() == w.NPEs()-1 || args[0] == "goexit of all" {
		unwinds[args[0]](u)
		return 0
	}
	// In some of the ways above, the other PEs must call collectives.
	switch args[0] {
	case "free":
		_, err = shmem.Alloc[int](w, 1)
	case "destroy":
		_, err = w.Team().SplitStrided(0, 1, w.NPEs(), nil)
	case "comm":
		_, err = m.Comm().Split(0, 0)
	case "goexit", "goexit mpi":
		for { // computes forever
			runtime.Gosched()
		}
	}
	if err = errors.Join(err, w.Barrier(), m.Finalize(), w.Finalize()); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

// A PE that panics with a deferred Finalize, Free or Destroy ends. Its panic is printed, and the job's status is Go's.
// No call waits on the panicking stack.
func TestPanicEndsPE(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		way    string
		status int
		words  []string
	}{
		{"panic", 2, []string{"panic: lost my way", "shmem.Finalize: called while the goroutine panics"}},
		{"closure", 2, []string{"panic: lost my way"}},
		{"fault", 2, []string{"nil pointer dereference"}},
		{"nested", 2, []string{"panic: first", "panic: lost my way"}},
		{"in a nested Init", 2, []string{"panic: lost my way"}},
		{"mpi", 2, []string{"panic: lost my way", "mpi.Finalize: called while the goroutine panics"}},
		{"mpi closure", 2, []string{"panic: lost my way"}},
		{"free", 2, []string{"panic: lost my way <nil>"}},
		{"destroy", 2, []string{"panic: lost my way <nil>"}},
		{"comm", 2, []string{"panic: lost my way <nil>"}},
		{"goexit", 6, []string{"shmem.Finalize: called while the goroutine ends by runtime.Goexit"}},
		{"goexit mpi", 6, []string{"mpi.Finalize: called while the goroutine ends by runtime.Goexit", "before runtime.Goexit"}},
		{"goexit of all", 0, nil},
		{"exit", 6, nil},
		{"fatal", 1, []string{"lost my way"}},
		{"early", 1, []string{"exited with status 0 without Finalize"}},
		{"recovered in place", 1, []string{"recovered: lost my way", "refused: true", "exited with status 0 without Finalize"}},
	} {
		t.Run(test.way, func(t *testing.T) {
			j := start(t, "-n", "3", "t-unwind", test.way)
			if test.status != 0 {
				test.words = append(test.words, "PE 2")
			}
			j.expect(test.status, test.words...)
			if said := j.stderr.String(); strings.Contains(said, "not to be seen") {
				t.Errorf("stderr has a panic although the process exited:\n%s", said)
			}
		})
	}
}

// With --recover, the other PEs hear of the death and leave with status 0.
func TestPanicRecover(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"panic", "closure", "mpi"} {
		t.Run(way, func(t *testing.T) {
			j := start(t, "-n", "4", "--recover", "t-unwind", way)
			j.expect(3, "panic: lost my way", "exited with status 2", "1 of 4 PEs failed")
		})
	}
}
