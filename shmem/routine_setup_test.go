package shmem_test

import (
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// aloneVar tells a process which part of TestJobOfOne to run.
const aloneVar = "TEST_ALONE"

// runAlone runs a part of TestJobOfOne in its own process, as a job of one PE, and checks its exit
// status. PE 0 does so while the others wait.
func runAlone(t *testing.T, w *shmem.World, part string, want int) {
	t.Helper()
	if w.MyPE() == 0 {
		self, err := os.Executable()
		ok(t, err)
		p := exec.CommandContext(t.Context(), self, "-test.run=^TestJobOfOne$", "-test.timeout=20s")
		for _, v := range os.Environ() {
			if !strings.HasPrefix(v, "PMIX_") && !strings.HasPrefix(v, "GOSHMEM_") {
				p.Env = append(p.Env, v)
			}
		}
		p.Env = append(p.Env, aloneVar+"="+part)
		out, err := p.CombinedOutput()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited || p.ProcessState.ExitCode() != want {
			t.Errorf("part %s: %v, want exit status %d; it printed:\n%s", part, p.ProcessState, want, out)
		}
	}
	ok(t, w.Barrier())
}

// TestJobOfOne has the parts of the setup tests that begin or end a world.
func TestJobOfOne(t *testing.T) {
	parts := map[string]func(t *testing.T){
		"init":        aloneInit,
		"finalize":    aloneFinalize,
		"initialized": aloneInitialized,
		"start":       aloneStart,
		"threads":     aloneThreads,
		"exit": func(t *testing.T) {
			must(shmem.Init())(t).GlobalExit(37)
		},
	}
	if part := os.Getenv(aloneVar); part != "" {
		arm(true)
		parts[part](t)
	}
}

// checkWorldWorks checks that a world of one PE works.
func checkWorldWorks(t *testing.T, w *shmem.World) {
	t.Helper()
	x := must(shmem.Calloc[int32](w, 1))(t)
	ok(t, shmem.P(w.Ctx(), x, 5, 0))
	ok(t, w.Barrier())
	checkInt(t, "the element that was put", int(x.Local()[0]), 5)
	checkInt(t, "PEs", w.NPEs(), 1)
	ok(t, shmem.Free(w, x))
}

func aloneInit(t *testing.T) {
	w := must(shmem.Init())(t)
	checkWorldWorks(t, w)
	ok(t, w.Finalize())
	v := must(shmem.Init())(t)
	wantError(t, w.Barrier(), shmem.ErrFinalized)
	checkWorldWorks(t, v)
	ok(t, v.Finalize())
	wantError(t, errOf(shmem.Init(nil)), shmem.ErrArgument, "option 0")
}

func aloneFinalize(t *testing.T) {
	w := must(shmem.Init())(t)
	x := must(shmem.Calloc[int32](w, 1))(t)
	must(shmem.Init())(t)
	ok(t, w.Finalize())
	checkWorldWorks(t, w) // that was the inner one
	ok(t, w.Finalize())
	checkBool(t, "Initialized", shmem.Initialized(), false)
	wantError(t, shmem.P(w.Ctx(), x, 1, 0), shmem.ErrFinalized)
	wantError(t, w.Finalize(), shmem.ErrFinalized)
	checkBool(t, "Accessible", x.Accessible(0), false)
	checkBool(t, "PEAccessible", w.PEAccessible(0), false)
}

func aloneInitialized(t *testing.T) {
	checkBool(t, "before Init", shmem.Initialized(), false)
	w := must(shmem.Init())(t)
	checkBool(t, "after Init", shmem.Initialized(), true)
	must(shmem.Init())(t)
	ok(t, w.Finalize())
	checkBool(t, "after the inner Finalize", shmem.Initialized(), true)
	ok(t, w.Finalize())
	checkBool(t, "after Finalize", shmem.Initialized(), false)
}

func aloneStart(t *testing.T) {
	w := must(shmem.StartPEs(0))(t)
	checkWorldWorks(t, w)
	if v := must(shmem.StartPEs(7))(t); v != w {
		t.Error("a second StartPEs returned a different World")
	}
	ok(t, w.Finalize())
	checkBool(t, "after one Finalize", shmem.Initialized(), false)
}

func aloneThreads(t *testing.T) {
	for _, level := range []shmem.ThreadLevel{shmem.ThreadSingle, shmem.ThreadFunneled, shmem.ThreadSerialized, shmem.ThreadMultiple} {
		w := must(shmem.Init(shmem.Threads(level)))(t)
		checkInt(t, "level of "+level.String(), int(w.QueryThread()), int(level))
		v := must(shmem.Init(shmem.Threads(shmem.ThreadFunneled)))(t)
		checkInt(t, "level after a nested Init", int(v.QueryThread()), int(level))
		ok(t, v.Finalize())
		done := make(chan error)
		go func() { done <- v.Barrier() }() // at every thread level
		ok(t, <-done)
		ok(t, w.Finalize())
	}
	wantError(t, errOf(shmem.Init(shmem.Threads(4))), shmem.ErrArgument, "Threads(4)")
	checkBool(t, "Initialized after a refused Init", shmem.Initialized(), false)
}

var _ = routine("shmem_init", func(t *testing.T, w *shmem.World) {
	v := must(shmem.Init())(t) // nested
	checkInt(t, "PEs", v.NPEs(), w.NPEs())
	checkInt(t, "this PE", v.MyPE(), w.MyPE())
	x := must(shmem.Calloc[int64](v, 1))(t)
	ok(t, shmem.P(v.Ctx(), x, 9, (v.MyPE()+1)%v.NPEs()))
	ok(t, v.Finalize())
	checkInt(t, "the element that was put in the nested world", int(x.Local()[0]), 9)
	freeWhenDone(t, w, x)
	runAlone(t, w, "init", 0)
})

var _ = routine("shmem_finalize", func(t *testing.T, w *shmem.World) {
	through := must(shmem.Calloc[int64](w, w.NPEs()))(t) // on PE 0: which PEs have returned
	v := must(shmem.Init())(t)
	if w.MyPE() == 0 { // PE 0 comes last
		for pe := 1; pe < w.NPEs(); pe++ {
			returned := func() bool { return must(shmem.Test(w.Ctx(), through.At(pe), shmem.NE, 0))(t) }
			waitFor(t, "the others wait in Finalize", func() bool { return shmem.Asleep(w, pe) || returned() })
			checkBool(t, "Finalize of another PE has returned", returned(), false)
		}
	}
	ok(t, v.Finalize())
	ok(t, shmem.AtomicSet(w.Ctx(), through.At(w.MyPE()), 1, 0))
	ok(t, w.Barrier()) // the outer world still works
	freeWhenDone(t, w, through)
	runAlone(t, w, "finalize", 0)
})

var _ = routine("shmem_query_initialized", func(t *testing.T, w *shmem.World) {
	checkBool(t, "Initialized", shmem.Initialized(), true)
	runAlone(t, w, "initialized", 0)
})

var _ = routine("start_pes", func(t *testing.T, w *shmem.World) {
	v := must(shmem.StartPEs(3))(t)
	checkInt(t, "PEs", v.NPEs(), w.NPEs())
	checkInt(t, "this PE", v.MyPE(), w.MyPE())
	ok(t, v.Barrier())
	runAlone(t, w, "start", 0)
})

var _ = routine("shmem_init_thread", func(t *testing.T, w *shmem.World) {
	v := must(shmem.Init(shmem.Threads(shmem.ThreadSerialized)))(t)
	checkInt(t, "this PE", v.MyPE(), w.MyPE())
	ok(t, v.Finalize())
	runAlone(t, w, "threads", 0)
})

var _ = routine("shmem_query_thread", func(t *testing.T, w *shmem.World) {
	checkInt(t, "level of a plain Init", int(w.QueryThread()), int(shmem.ThreadMultiple))
	runAlone(t, w, "threads", 0)
})

var _ = routine("shmem_global_exit", func(t *testing.T, w *shmem.World) {
	runAlone(t, w, "exit", 37)
})

// GlobalExit of one PE ends all PEs, wherever they are, with its status.
func TestGlobalExit(t *testing.T) {
	for _, npes := range peCounts {
		for _, status := range []int{7, 0} {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				x := must(shmem.Calloc[int64](w, 1))(t)
				switch me := w.MyPE(); {
				case me == npes-1:
					for pe := range npes - 1 {
						waitForSleeper(t, w, pe)
					}
					w.GlobalExit(status)
				case me%2 == 0:
					ok(t, w.Barrier())
				default:
					ok(t, shmem.WaitUntil(w.Ctx(), x, shmem.NE, 0))
				}
				os.Exit(99) // not reached after GlobalExit
			}, shmemtest.Status(status))
		}
	}
}

// Each PE of each job sees the same world again after Init, Finalize, Init.
func TestInitAgain(t *testing.T) {
	for _, npes := range peCounts {
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			for range 3 {
				ok(t, w.Finalize())
				checkBool(t, "Initialized", shmem.Initialized(), false)
				w = must(shmem.Init(shmem.Threads(shmem.ThreadFunneled)))(t)
				checkInt(t, "level", int(w.QueryThread()), int(shmem.ThreadFunneled))
				x := must(shmem.Calloc[int64](w, 1))(t)
				must(shmem.AtomicFetchAdd(w.Ctx(), x, 1, npes-1))(t)
				ok(t, w.Barrier())
				checkInt(t, "all", int(must(shmem.G(w.Ctx(), x, npes-1))(t)), npes)
			}
		})
	}
}

var _ = routine("shmem_pe_accessible", func(t *testing.T, w *shmem.World) {
	for pe := range w.NPEs() {
		checkBool(t, "a PE of the job", w.PEAccessible(pe), true)
	}
	for _, pe := range []int{-1, w.NPEs(), 1 << 40} {
		checkBool(t, "a number that is no PE", w.PEAccessible(pe), false)
	}
	checkBool(t, "a nil World", (*shmem.World)(nil).PEAccessible(0), false)
})

var _ = routine("shmem_addr_accessible", func(t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[int64](w, 4))(t)
	for pe := range w.NPEs() {
		checkBool(t, "an object", x.Accessible(pe), true)
		checkBool(t, "the object's last element", x.At(3).Accessible(pe), true)
		checkBool(t, "an element past the end", x.At(4).Accessible(pe), false)
		checkBool(t, "the zero Sym", shmem.Sym[int64]{}.Accessible(pe), false)
	}
	for _, pe := range []int{-1, w.NPEs()} {
		checkBool(t, "a PE that does not exist", x.Accessible(pe), false)
	}
	freeWhenDone(t, w, x)
	checkBool(t, "freed", x.Accessible(0), false)
})

var _ = routine("shmem_ptr", func(t *testing.T, w *shmem.World) {
	me, n := w.MyPE(), w.NPEs()
	x := must(shmem.Calloc[int32](w, 3+n))(t)
	for pe := range n { // each PE writes its element on all PEs and reads it as the others do
		p, reachable := x.Slice(3, 3+n).Peer(pe)
		checkBool(t, "reachable", reachable, isNear(w, pe))
		if !reachable {
			checkInt(t, "elements out of reach", len(p), 0)
			ok(t, shmem.P(w.Ctx(), x.At(3+me), int32(100*me+pe), pe))
			continue
		}
		checkInt(t, "elements", len(p), n)
		p[me] = int32(100*me + pe)
	}
	ok(t, w.Barrier())
	for from, v := range x.Local()[3:] {
		checkInt(t, "an element that another PE stored", int(v), 100*from+me)
	}
	for pe := range n {
		checkInt(t, "an element of another PE", int(must(shmem.G(w.Ctx(), x.At(3+me), pe))(t)), 100*me+pe)
	}
	for _, pe := range []int{-1, n} {
		_, reachable := x.Peer(pe)
		checkBool(t, "a PE that does not exist", reachable, false)
	}
	freeWhenDone(t, w, x)
	_, reachable := x.Peer(0)
	checkBool(t, "freed", reachable, false)
})

// The memory of a dead PE is not accessible.
func TestAccessibleAfterDeath(t *testing.T) {
	const victim = 1
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int64](w, 1))(t)
		if w.MyPE() == victim {
			die()
		}
		waitFor(t, "the death is known", func() bool { return len(w.Failed()) > 0 })
		for pe := range w.NPEs() {
			checkBool(t, "PEAccessible", w.PEAccessible(pe), pe != victim)
			checkBool(t, "Accessible", x.Accessible(pe), pe != victim)
		}
	}, shmemtest.Recover(victim))
}

var _ = routine("shmem_info_get_version", func(t *testing.T, _ *shmem.World) {
	major, minor := shmem.InfoVersion()
	checkInt(t, "major version", major, 1)
	checkInt(t, "minor version", minor, 6)
	checkInt(t, "the constant", shmem.MajorVersion*100+shmem.MinorVersion, major*100+minor)
})

var _ = routine("shmem_info_get_name", func(t *testing.T, _ *shmem.World) {
	if name := shmem.InfoName(); !strings.HasPrefix(name, "goshmem ") || len(name) > shmem.MaxNameLen {
		t.Errorf("name %q, want goshmem and a version in at most %d bytes", name, shmem.MaxNameLen)
	}
})
