package job

import (
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

const dumpOfTwo = `goroutine 1 [running]:
github.com/goshmem/goshmem/internal/wait.(*Waiter).sleep(0xc0000c2000, {0x1, 0x2}, 0x3)
	/src/goshmem/internal/wait/wait.go:231 +0x1b8
github.com/goshmem/goshmem/shmem.(*Team).sync(...)
	/src/goshmem/shmem/team.go:10
github.com/goshmem/goshmem/shmem.(*World).Barrier(0xc00001c0a0)
	/src/goshmem/shmem/sync.go:31 +0x25
main.step({0xc000012345, 0x5}, 0x7)
	/home/me/heat/main.go:42 +0x88
main.main()
	/home/me/heat/main.go:12 +0x1d

goroutine 9 [chan receive]:
github.com/goshmem/goshmem/internal/job.(*Job).wait(...)
	/src/goshmem/internal/job/news.go:9
created by github.com/goshmem/goshmem/shmem.Init in goroutine 1
	/src/goshmem/shmem/setup.go:30 +0x9c
`

const dumpOfNone = `goroutine 1 [runnable]:
runtime.asyncPreempt2()
	/go/src/runtime/preempt.go:10 +0x1
example.com/heat/solve.relax(0x1, {0x1, 0x2})
	/home/me/heat/solve/relax.go:7 +0x88
github.com/goshmem/goshmem/shmem/shmemtest.run(...)
	/src/goshmem/shmem/shmemtest/x.go:1
main.main()
	/home/me/heat/main.go:12 +0x1d
`

// mainIn returns the stack of a main function and the functions that it has called, innermost first.
func mainIn(called ...string) string {
	dump := "goroutine 1 [sleep]:\n"
	for _, function := range called {
		dump += function + "\n\t/src/x.go:1 +0x1\n"
	}
	return dump + "main.main()\n\t/home/me/main.go:18 +0x25\n"
}

// inRun returns the stack of a main function that has called shmem.Run, and of the functions that Run's body has called,
// innermost first. Library functions are given without the path of their package.
func inRun(called ...string) string {
	for i, function := range called {
		if strings.HasPrefix(function, "shmem.") {
			called[i] = module + function
		}
	}
	return mainIn(append(called, runner+"(0x1, {0x0, 0x0, 0x0})")...)
}

// stackAt runs f in a goroutine as if it were main, waits until the goroutine is in the given state, and returns its
// stack.
func stackAt(t *testing.T, state string, f func()) string {
	t.Helper()
	go f()
	for begun := time.Now(); time.Since(begun) < 10*time.Second; runtime.Gosched() {
		for stack := range strings.SplitSeq(string(stacks()), "\n\n") {
			head, rest, _ := strings.Cut(stack, "\n")
			if strings.Contains(head, state) && strings.Contains(rest, "TestProgramPlace.") {
				return "goroutine 1 [" + state + "]:\n" + rest
			}
		}
	}
	t.Fatalf("no goroutine is in state %s", state)
	return ""
}

// The place is the program's own call, by the program's name for it, whatever Go's own functions call below it.
func TestProgramPlace(t *testing.T) {
	var mu sync.Mutex
	mu.Lock()
	defer mu.Unlock()
	never := make(chan int)
	defer close(never)
	for _, c := range []struct {
		state, want string
		f           func()
	}{
		{"sleep", "; main is in time.Sleep, called at calls_test.go:", func() { time.Sleep(20 * time.Second) }},
		{"sync.Mutex.Lock", "; main is in sync.(*Mutex).Lock, called at calls_test.go:", func() { mu.Lock(); mu.Unlock() }}, //nolint:staticcheck // it only waits
		{"chan receive", "; main runs calls_test.go:", func() { <-never }},
	} {
		got := string(describeCalls([]byte(stackAt(t, c.state, c.f)), nil))
		if !strings.HasPrefix(got, "is in no call of the library"+c.want) || !strings.HasSuffix(got, ")") {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

func TestDescribeCalls(t *testing.T) {
	worker := "goroutine 7 [running]:\ngithub.com/goshmem/goshmem/mpi.(*Comm).Recv[...](0x1)\n\t/src/mpi/p2p.go:3 +0x1\nmain.work()\n\t/home/me/w.go:8 +0x1\n"
	for _, c := range []struct{ name, dump, want string }{
		{"call", dumpOfTwo, "is in shmem.(*World).Barrier, called at main.go:42 (main.step)"},
		{"call in Run", inRun("shmem.(*World).Barrier(0xc0)", "main.main.func1(0xc0)"), "is in shmem.(*World).Barrier, called at x.go:1 (main.main.func1)"},
		{"none in Run", inRun("main.main.func1(0xc0)"), "is in no call of the library; main runs x.go:1 (main.main.func1)"},
		{"Init of Run", inRun("shmem.Init({0x0, 0x0, 0x0})"), "is in shmem.Run, called at main.go:18 (main.main)"},
		{"none", dumpOfNone, "is in no call of the library; main runs relax.go:7 (solve.relax)"},
		{"channel", mainIn(), "is in no call of the library; main runs main.go:18 (main.main)"},
		{"sleep", mainIn("time.Sleep(0x3b9aca00)"), "is in no call of the library; main is in time.Sleep, called at main.go:18 (main.main)"},
		{
			"mutex", mainIn("internal/sync.runtime_SemacquireMutex(0x1?, 0x2?, 0x3?)", "internal/sync.(*Mutex).lockSlow(0x1)", "sync.(*Mutex).Lock(...)"),
			"is in no call of the library; main is in sync.(*Mutex).Lock, called at main.go:18 (main.main)",
		},
		{
			"vendored", mainIn("vendor/golang.org/x/net/dns/dnsmessage.(*Parser).skip(...)", "net/http.(*Client).Do(0x1)"),
			"is in no call of the library; main is in http.(*Client).Do, called at main.go:18 (main.main)",
		},
		{"callback", mainIn("main.main.func1(0x1, 0x2)", "sort.Slice({0x1, 0x2}, 0x3)"), "is in no call of the library; main runs x.go:1 (main.main.func1)"},
		{"module without a dot", mainIn("os.(*File).Read(...)", "heat/solve.load(...)"), "is in no call of the library; main is in os.(*File).Read, called at x.go:1 (solve.load)"},
		{"its root", mainIn("heat.load(...)"), "is in no call of the library; main runs x.go:1 (heat.load)"},
		{"not that module", mainIn("heater.f(...)"), "is in no call of the library; main is in heater.f, called at main.go:18 (main.main)"},
		{"empty", "", "is in no call of the library"},
		{"two goroutines", dumpOfTwo + "\n" + worker, "is in shmem.(*World).Barrier, called at main.go:42 (main.step); " +
			"in mpi.(*Comm).Recv[...], called at w.go:8 (main.work)"},
		{"many", strings.Repeat(worker+"\n", 7), "and 3 more goroutines are in calls"},
	} {
		if got := string(describeCalls([]byte(c.dump), []string{"heat"})); got != c.want && (c.name != "many" || !strings.HasSuffix(got, c.want)) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
