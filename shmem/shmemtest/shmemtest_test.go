package shmemtest_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// Each call of Run has its own PEs, also in subtests whose names need quoting.
func TestSeveralRuns(t *testing.T) {
	for _, name := range []string{"plain", "a(b)|c", "with/slash", "dot.*"} {
		t.Run(name, func(t *testing.T) {
			for call := range 2 {
				var out bytes.Buffer
				shmemtest.Run(t, call+1, func(t *testing.T, w *shmem.World) {
					if w.NPEs() != call+1 {
						t.Errorf("%d PEs, want %d", w.NPEs(), call+1)
					}
					fmt.Printf("%s: call %d, PE %d\n", t.Name(), call, w.MyPE())
				}, shmemtest.Output(&out))
				if os.Getenv("GOSHMEM_SHMEMTEST_CALL") != "" {
					continue
				}
				for pe := range call + 1 {
					if want := fmt.Sprintf("%s: call %d, PE %d\n", t.Name(), call, pe); !strings.Contains(out.String(), want) {
						t.Errorf("output lacks %q:\n%s", want, &out)
					}
				}
			}
		})
	}
}

// Run notices a PE that is killed, that exits or that takes too long.
func TestStatus(t *testing.T) {
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		if w.MyPE() == 1 {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		}
		_ = w.Barrier()
	}, shmemtest.Status(137))
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		if w.MyPE() == 2 {
			w.GlobalExit(9)
		}
		_ = w.Barrier()
	}, shmemtest.Status(9))
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		if w.MyPE() == 1 {
			t.Error("as planned")
			return
		}
		_ = w.Barrier()
	}, shmemtest.Status(1))
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		select {}
	}, shmemtest.Timeout(300*time.Millisecond), shmemtest.Status(124))
}

// A PE cannot start PEs.
func TestNesting(t *testing.T) {
	var out bytes.Buffer
	shmemtest.Run(t, 1, func(t *testing.T, _ *shmem.World) {
		shmemtest.Run(t, 1, func(*testing.T, *shmem.World) {})
	}, shmemtest.Status(1), shmemtest.Output(&out))
	if os.Getenv("GOSHMEM_SHMEMTEST_CALL") == "" && !strings.Contains(out.String(), "a PE cannot start PEs") {
		t.Errorf("nesting was refused with:\n%s", &out)
	}
}

// Run notices a PE that never reaches the body: here the test returns before Run, but only in the
// PEs. The failing run is a process of its own, so that the test can look at it.
func TestNeverEntered(t *testing.T) {
	if os.Getenv("GOSHMEM_SHMEMTEST_CALL") != "" {
		t.Skip("this is a PE that must not reach Run")
	}
	if os.Getenv("SHMEMTEST_EXPECT_FAILURE") == "" {
		out, err := rerun(t, "SHMEMTEST_EXPECT_FAILURE=1")
		if err == nil || !strings.Contains(out, "0 of 2 PEs reached shmemtest.Run") {
			t.Errorf("PEs that never entered were not noticed: %v\n%s", err, out)
		}
		return
	}
	shmemtest.Run(t, 2, func(*testing.T, *shmem.World) {})
}

// A body may finalize the World and initialize others. Run finalizes what is left.
func TestBodyFinalizes(t *testing.T) {
	bodies := map[string]func(t *testing.T, w *shmem.World){
		"once":   func(t *testing.T, w *shmem.World) { end(t, w) },
		"nested": func(t *testing.T, w *shmem.World) { begin(t); begin(t); end(t, w) },
		"again":  func(t *testing.T, w *shmem.World) { end(t, w); begin(t) },
		"again, nested": func(t *testing.T, w *shmem.World) {
			end(t, w)
			end(t, begin(t))
			v := begin(t)
			if begin(t) != v {
				t.Error("a nested Init returned a different World")
			}
		},
	}
	for name, body := range bodies {
		t.Run(name, func(t *testing.T) { shmemtest.Run(t, 2, body) })
	}
}

func begin(t *testing.T) *shmem.World {
	t.Helper()
	w, err := shmem.Init()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func end(t *testing.T, w *shmem.World) {
	t.Helper()
	if err := w.Finalize(); err != nil {
		t.Fatal(err)
	}
}
