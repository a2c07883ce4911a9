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

// aloneVar tells a process which part of TestJobOfOne it is to run.
const aloneVar = "TEST_ALONE"

// alone runs a part of TestJobOfOne in a process of its own, a job of one PE, and returns
// its exit status. PE 0 does so; the others wait.
func alone(t *testing.T, w *shmem.World, part string, want int) {
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
			t.Errorf("part %s ended with %v, want status %d; it printed:\n%s", part, p.ProcessState, want, out)
		}
	}
	ok(t, w.Barrier())
}

// The parts of the tests of set-up that begin or end a world.
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

// works checks that a world of one PE is there.
func works(t *testing.T, w *shmem.World) {
	t.Helper()
	x := must(shmem.Calloc[int32](w, 1))(t)
	ok(t, shmem.P(w.Ctx(), x, 5, 0))
	ok(t, w.Barrier())
	index(t, "what was put", int(x.Local()[0]), 5)
	index(t, "PEs", w.NPEs(), 1)
	ok(t, shmem.Free(w, x))
}

func aloneInit(t *testing.T) {
	w := must(shmem.Init())(t)
	works(t, w)
	ok(t, w.Finalize())
	v := must(shmem.Init())(t)
	refused(t, w.Barrier(), shmem.ErrFinalized)
	works(t, v)
	ok(t, v.Finalize())
	refused(t, fails(shmem.Init(nil)), shmem.ErrArgument, "option 0")
}

func aloneFinalize(t *testing.T) {
	w := must(shmem.Init())(t)
	x := must(shmem.Calloc[int32](w, 1))(t)
	must(shmem.Init())(t)
	ok(t, w.Finalize())
	works(t, w) // that was the inner one
	ok(t, w.Finalize())
	yes(t, "Initialized", shmem.Initialized(), false)
	refused(t, shmem.P(w.Ctx(), x, 1, 0), shmem.ErrFinalized)
	refused(t, w.Finalize(), shmem.ErrFinalized)
	yes(t, "Accessible", x.Accessible(0), false)
	yes(t, "PEAccessible", w.PEAccessible(0), false)
}

func aloneInitialized(t *testing.T) {
	yes(t, "before Init", shmem.Initialized(), false)
	w := must(shmem.Init())(t)
	yes(t, "after Init", shmem.Initialized(), true)
	must(shmem.Init())(t)
	ok(t, w.Finalize())
	yes(t, "after the inner Finalize", shmem.Initialized(), true)
	ok(t, w.Finalize())
	yes(t, "after Finalize", shmem.Initialized(), false)
}

func aloneStart(t *testing.T) {
	w := must(shmem.StartPEs(0))(t)
	works(t, w)
	if v := must(shmem.StartPEs(7))(t); v != w {
		t.Error("a second call returned another World")
	}
	ok(t, w.Finalize())
	yes(t, "after one Finalize", shmem.Initialized(), false)
}

func aloneThreads(t *testing.T) {
	for _, level := range []shmem.ThreadLevel{shmem.ThreadSingle, shmem.ThreadFunneled, shmem.ThreadSerialized, shmem.ThreadMultiple} {
		w := must(shmem.Init(shmem.Threads(level)))(t)
		index(t, "level of "+level.String(), int(w.QueryThread()), int(level))
		v := must(shmem.Init(shmem.Threads(shmem.ThreadFunneled)))(t)
		index(t, "level after a nested Init", int(v.QueryThread()), int(level))
		ok(t, v.Finalize())
		done := make(chan error)
		go func() { done <- v.Barrier() }() // whatever the level
		ok(t, <-done)
		ok(t, w.Finalize())
	}
	refused(t, fails(shmem.Init(shmem.Threads(4))), shmem.ErrArgument, "Threads(4)")
	yes(t, "Initialized after a refused Init", shmem.Initialized(), false)
}

var _ = routine("shmem_init", func(t *testing.T, w *shmem.World) {
	v := must(shmem.Init())(t) // nests
	index(t, "PEs", v.NPEs(), w.NPEs())
	index(t, "this PE", v.MyPE(), w.MyPE())
	x := must(shmem.Calloc[int64](v, 1))(t)
	ok(t, shmem.P(v.Ctx(), x, 9, (v.MyPE()+1)%v.NPEs()))
	ok(t, v.Finalize())
	index(t, "what was put in the nested world", int(x.Local()[0]), 9)
	released(t, w, x)
	alone(t, w, "init", 0)
})

var _ = routine("shmem_finalize", func(t *testing.T, w *shmem.World) {
	through := must(shmem.Calloc[int64](w, w.NPEs()))(t) // on PE 0: who has returned
	v := must(shmem.Init())(t)
	if w.MyPE() == 0 { // comes last
		for pe := 1; pe < w.NPEs(); pe++ {
			returned := func() bool { return must(shmem.Test(w.Ctx(), through.At(pe), shmem.NE, 0))(t) }
			until(t, "the others wait in Finalize", func() bool { return shmem.Asleep(w, pe) || returned() })
			yes(t, "Finalize of another PE has returned", returned(), false)
		}
	}
	ok(t, v.Finalize())
	ok(t, shmem.AtomicSet(w.Ctx(), through.At(w.MyPE()), 1, 0))
	ok(t, w.Barrier()) // the outer world is there
	released(t, w, through)
	alone(t, w, "finalize", 0)
})

var _ = routine("shmem_query_initialized", func(t *testing.T, w *shmem.World) {
	yes(t, "Initialized", shmem.Initialized(), true)
	alone(t, w, "initialized", 0)
})

var _ = routine("start_pes", func(t *testing.T, w *shmem.World) {
	v := must(shmem.StartPEs(3))(t)
	index(t, "PEs", v.NPEs(), w.NPEs())
	index(t, "this PE", v.MyPE(), w.MyPE())
	ok(t, v.Barrier())
	alone(t, w, "start", 0)
})

var _ = routine("shmem_init_thread", func(t *testing.T, w *shmem.World) {
	v := must(shmem.Init(shmem.Threads(shmem.ThreadSerialized)))(t)
	index(t, "this PE", v.MyPE(), w.MyPE())
	ok(t, v.Finalize())
	alone(t, w, "threads", 0)
})

var _ = routine("shmem_query_thread", func(t *testing.T, w *shmem.World) {
	index(t, "level of a plain Init", int(w.QueryThread()), int(shmem.ThreadMultiple))
	alone(t, w, "threads", 0)
})

var _ = routine("shmem_global_exit", func(t *testing.T, w *shmem.World) {
	alone(t, w, "exit", 37)
})

// GlobalExit of one PE ends all, wherever they are, with its status.
func TestGlobalExit(t *testing.T) {
	for _, npes := range peCounts {
		for _, status := range []int{7, 0} {
			shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
				x := must(shmem.Calloc[int64](w, 1))(t)
				switch me := w.MyPE(); {
				case me == npes-1:
					for pe := range npes - 1 {
						asleep(t, w, pe)
					}
					w.GlobalExit(status)
				case me%2 == 0:
					ok(t, w.Barrier())
				default:
					ok(t, shmem.WaitUntil(w.Ctx(), x, shmem.NE, 0))
				}
				os.Exit(99) // beyond GlobalExit
			}, shmemtest.Status(status))
		}
	}
}

// Each PE of each job sees the same again after Init, Finalize, Init.
func TestInitAgain(t *testing.T) {
	for _, npes := range peCounts {
		shmemtest.Run(t, npes, func(t *testing.T, w *shmem.World) {
			for range 3 {
				ok(t, w.Finalize())
				yes(t, "Initialized", shmem.Initialized(), false)
				w = must(shmem.Init(shmem.Threads(shmem.ThreadFunneled)))(t)
				index(t, "level", int(w.QueryThread()), int(shmem.ThreadFunneled))
				x := must(shmem.Calloc[int64](w, 1))(t)
				must(shmem.AtomicFetchAdd(w.Ctx(), x, 1, npes-1))(t)
				ok(t, w.Barrier())
				index(t, "all", int(must(shmem.G(w.Ctx(), x, npes-1))(t)), npes)
			}
		})
	}
}

var _ = routine("shmem_pe_accessible", func(t *testing.T, w *shmem.World) {
	for pe := range w.NPEs() {
		yes(t, "a PE of the job", w.PEAccessible(pe), true)
	}
	for _, pe := range []int{-1, w.NPEs(), 1 << 40} {
		yes(t, "no PE", w.PEAccessible(pe), false)
	}
	yes(t, "of no world", (*shmem.World)(nil).PEAccessible(0), false)
})

var _ = routine("shmem_addr_accessible", func(t *testing.T, w *shmem.World) {
	x := must(shmem.Calloc[int64](w, 4))(t)
	for pe := range w.NPEs() {
		yes(t, "an object", x.Accessible(pe), true)
		yes(t, "its last element", x.At(3).Accessible(pe), true)
		yes(t, "an element beyond it", x.At(4).Accessible(pe), false)
		yes(t, "no object", shmem.Sym[int64]{}.Accessible(pe), false)
	}
	for _, pe := range []int{-1, w.NPEs()} {
		yes(t, "on no PE", x.Accessible(pe), false)
	}
	released(t, w, x)
	yes(t, "freed", x.Accessible(0), false)
})

var _ = routine("shmem_ptr", func(t *testing.T, w *shmem.World) {
	me, n := w.MyPE(), w.NPEs()
	x := must(shmem.Calloc[int32](w, 3+n))(t)
	for pe := range n { // each writes its element on all, and reads it as the others do
		p, reachable := x.Slice(3, 3+n).Peer(pe)
		yes(t, "reachable", reachable, true)
		index(t, "elements", len(p), n)
		p[me] = int32(100*me + pe)
	}
	ok(t, w.Barrier())
	for from, v := range x.Local()[3:] {
		index(t, "an element that another PE has stored", int(v), 100*from+me)
	}
	for pe := range n {
		index(t, "an element of another PE", int(must(shmem.G(w.Ctx(), x.At(3+me), pe))(t)), 100*me+pe)
	}
	for _, pe := range []int{-1, n} {
		_, reachable := x.Peer(pe)
		yes(t, "no PE", reachable, false)
	}
	released(t, w, x)
	_, reachable := x.Peer(0)
	yes(t, "freed", reachable, false)
})

// What has died is not accessible.
func TestAccessibleAfterDeath(t *testing.T) {
	const victim = 1
	shmemtest.Run(t, 3, func(t *testing.T, w *shmem.World) {
		x := must(shmem.Calloc[int64](w, 1))(t)
		if w.MyPE() == victim {
			die()
		}
		until(t, "the death is known", func() bool { return len(w.Failed()) > 0 })
		for pe := range w.NPEs() {
			yes(t, "PEAccessible", w.PEAccessible(pe), pe != victim)
			yes(t, "Accessible", x.Accessible(pe), pe != victim)
		}
	}, shmemtest.Recover(victim))
}

var _ = routine("shmem_info_get_version", func(t *testing.T, _ *shmem.World) {
	major, minor := shmem.InfoVersion()
	index(t, "major version", major, 1)
	index(t, "minor version", minor, 6)
	index(t, "the constant", shmem.MajorVersion*100+shmem.MinorVersion, major*100+minor)
})

var _ = routine("shmem_info_get_name", func(t *testing.T, _ *shmem.World) {
	if name := shmem.InfoName(); !strings.HasPrefix(name, "goshmem ") || len(name) > shmem.MaxNameLen {
		t.Errorf("name %q, want goshmem and a version, in %d bytes at most", name, shmem.MaxNameLen)
	}
})
