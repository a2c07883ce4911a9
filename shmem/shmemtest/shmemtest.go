// Package shmemtest runs a part of a test as the PEs of a real job: real
// processes, real shared memory, a real launcher.
//
//	func TestRing(t *testing.T) {
//		shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
//			x, err := shmem.Alloc[int64](w, 1)
//			...
//		})
//	}
//
// Run executes the test binary again, once per PE, with a -test.run that
// selects the calling test; in those processes the test runs up to the same
// call of Run, which initializes shmem, calls the body, finalizes (also a World
// that the body began after it had finalized the first) and ends the test there. So code of the test before Run runs in every PE as well, and
// calls of Run before it are passed over; code after it runs in the calling
// process only. A body fails the test by t.Error and kin on any PE; what PEs
// print is shown then, or always with -v. With -short, PEs run with it, too.
//
// Keep Run out of parallel tests: jobs of one machine run one after the other,
// across packages too, by a machine-wide lock, because waiting PEs that share
// few cores slow each other down.
package shmemtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/shmem"
)

// callVar tells a process which call of Run it is a PE of.
const callVar = "GOSHMEM_SHMEMTEST_CALL"

// marker begins the line by which a PE says that it has reached its call.
const marker = "\x01shmemtest: entered PE "

// farewell begins the line by which a PE says that it has finished well.
const farewell = "\x01shmemtest: finished PE "

// defaultTimeout ends a job that hangs.
const defaultTimeout = time.Minute

// Option changes what Run does.
type Option func(*options)

type options struct {
	launch launch.Options
	app    launch.App
	status int
	lost   []int // with Recover
	output io.Writer
	init   []shmem.Option
}

// Timeout ends the job, and fails the test, after d; one minute otherwise.
func Timeout(d time.Duration) Option { return func(o *options) { o.launch.Timeout = d } }

// HeapSize sets the symmetric heap of each PE in bytes.
func HeapSize(bytes uint64) Option { return func(o *options) { o.launch.HeapSize = bytes } }

// Env sets variables of the PEs' environment, each as NAME=value.
func Env(vars ...string) Option {
	return func(o *options) { o.app.Env = append(o.app.Env, vars...) }
}

// Status makes Run expect that the job ends with this exit status, as oshrun
// would; 0 otherwise. With another than 0, PEs need not reach the body.
func Status(want int) Option { return func(o *options) { o.status = want } }

// Recover lets the other PEs go on when one fails, as oshrun --recover does. The job
// has to end with status 3, and just the PEs given must not have come to the end of
// the body and of Finalize.
func Recover(lost ...int) Option {
	return func(o *options) { o.launch.Recover, o.lost, o.status = true, lost, launch.StatusTolerated }
}

// Init has PEs initialize shmem with options.
func Init(opts ...shmem.Option) Option { return func(o *options) { o.init = append(o.init, opts...) } }

// Output sends what the PEs and the launcher print to w as well.
func Output(w io.Writer) Option { return func(o *options) { o.output = w } }

var calls struct {
	sync.Mutex
	made   map[*testing.T]int
	inside bool // this process is a PE and runs its body
}

// ordinal numbers the calls of Run within one execution of a test, so that PEs
// find theirs also under -test.count.
func ordinal(t *testing.T) int {
	calls.Lock()
	defer calls.Unlock()
	if calls.made == nil {
		calls.made = map[*testing.T]int{}
	}
	if calls.made[t] == 0 {
		t.Cleanup(func() {
			calls.Lock()
			defer calls.Unlock()
			delete(calls.made, t)
		})
	}
	calls.made[t]++
	return calls.made[t]
}

// Run runs body as npes PEs of a job and returns when all have ended.
func Run(t *testing.T, npes int, body func(t *testing.T, w *shmem.World), opts ...Option) {
	t.Helper()
	run(t, npes, func() { enter(t, body, opts) }, opts)
}

// RunBare is Run without shmem: body initializes what it uses, and finalizes it before it
// returns.
func RunBare(t *testing.T, npes int, body func(t *testing.T), opts ...Option) {
	t.Helper()
	run(t, npes, func() { enterBare(t, body) }, opts)
}

func run(t *testing.T, npes int, enter func(), opts []Option) {
	t.Helper()
	call := t.Name() + "#" + strconv.Itoa(ordinal(t))
	mine, isPE := os.LookupEnv(callVar)
	switch {
	case !isPE:
		start(t, npes, call, opts)
	case calls.inside:
		t.Fatal("shmemtest.Run inside the body of another Run: a PE cannot start PEs")
	case mine == call:
		enter()
	}
}

// enterBare is RunBare in a PE. It does not return.
func enterBare(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	pe := os.Getenv("PMIX_RANK")
	fmt.Fprintf(os.Stdout, "%s%s\n", marker, pe)
	calls.inside = true
	body(t)
	if t.Failed() {
		t.FailNow()
	}
	fmt.Fprintf(os.Stdout, "%s%s\n", farewell, pe)
	t.SkipNow()
}

// enter is Run in a PE. It does not return.
func enter(t *testing.T, body func(t *testing.T, w *shmem.World), opts []Option) {
	t.Helper()
	var o options
	for _, f := range opts {
		f(&o)
	}
	w, err := shmem.Init(o.init...)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stdout, "%s%d\n", marker, w.MyPE())
	calls.inside = true
	me := w.MyPE()
	body(t, w)
	if t.Failed() {
		t.FailNow() // without Finalize, which would wait for PEs that have not failed
	}
	if err := finalize(w); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stdout, "%s%d\n", farewell, me)
	t.SkipNow()
}

// finalize ends whatever World there is after a body: w, none if the body has
// ended it, or another one that it has begun since.
func finalize(w *shmem.World) (err error) {
	if shmem.Initialized() && errors.Is(w.Ctx().Fence(), shmem.ErrFinalized) {
		if w, err = shmem.Init(); err != nil { // nests, and so returns the present one
			return err
		}
	}
	for shmem.Initialized() {
		if err := w.Finalize(); err != nil {
			return err
		}
	}
	return nil
}

// start is Run in the process that go test started.
func start(t *testing.T, npes int, call string, opts []Option) {
	t.Helper()
	o := options{
		launch: launch.Options{Timeout: defaultTimeout},
		app:    launch.App{NPEs: npes, Env: append(os.Environ(), callVar+"="+call)},
	}
	if os.Getenv("GORACE") == "" {
		// The race detector lets a process linger for a second otherwise.
		o.app.Env = append(o.app.Env, "GORACE=atexit_sleep_ms=0")
	}
	for _, f := range opts {
		f(&o)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o.app.Program = self
	o.app.Args = []string{
		"-test.run=" + pattern(t.Name()), "-test.count=1",
		"-test.timeout=" + (o.launch.Timeout + 10*time.Second).String(),
	}
	if testing.Verbose() {
		o.app.Args = append(o.app.Args, "-test.v")
	}
	if testing.Short() {
		o.app.Args = append(o.app.Args, "-test.short")
	}
	out := &output{entered: map[string]bool{}, finished: map[string]bool{}}
	o.launch.Apps = []launch.App{o.app}
	o.launch.Stdout, o.launch.Stderr = out, out
	status := locked(t, &o.launch)
	out.judge(t, npes, status, &o)
}

// locked runs the job while no other one runs.
func locked(t *testing.T, o *launch.Options) int {
	t.Helper()
	unlock, err := lock(t.Context())
	if err != nil {
		t.Fatalf("shmemtest: %v", err)
	}
	defer unlock()
	status, err := launch.Run(context.WithoutCancel(t.Context()), *o)
	if err != nil {
		t.Fatalf("shmemtest: start %d PEs: %v", o.Apps[0].NPEs, err)
	}
	return status
}

// pattern selects exactly the test of that name.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// output collects what a job prints; the marks of PEs are taken out.
type output struct {
	mu       sync.Mutex
	text     bytes.Buffer
	entered  map[string]bool
	finished map[string]bool
}

// Write takes whole lines.
func (out *output) Write(b []byte) (int, error) {
	out.mu.Lock()
	defer out.mu.Unlock()
	for line := range bytes.Lines(b) {
		if _, pe, ok := bytes.Cut(line, []byte(marker)); ok {
			out.entered[string(bytes.TrimSpace(pe))] = true
			continue
		}
		if _, pe, ok := bytes.Cut(line, []byte(farewell)); ok {
			out.finished[string(bytes.TrimSpace(pe))] = true
			continue
		}
		out.text.Write(line)
	}
	return len(b), nil
}

// judge fails the test if the job did not end as wanted.
func (out *output) judge(t *testing.T, npes, status int, o *options) {
	t.Helper()
	out.mu.Lock()
	defer out.mu.Unlock()
	if o.output != nil {
		_, _ = o.output.Write(out.text.Bytes())
	}
	switch {
	case status != o.status:
		t.Errorf("%d PEs ended with status %d, want %d; they printed:\n%s", npes, status, o.status, out.text.Bytes())
	case status == 0 && len(out.entered) != npes:
		t.Errorf("%d of %d PEs reached shmemtest.Run; they printed:\n%s", len(out.entered), npes, out.text.Bytes())
	case o.launch.Recover && !out.survived(npes, o.lost):
		t.Errorf("of %d PEs, %v finished, want all but %v; they printed:\n%s", npes, slices.Sorted(maps.Keys(out.finished)), o.lost, out.text.Bytes())
	case testing.Verbose():
		t.Logf("%d PEs printed:\n%s", npes, out.text.Bytes())
	}
}

// survived says whether all PEs but the lost ones have finished well.
func (out *output) survived(npes int, lost []int) bool {
	for pe := range npes {
		if out.finished[strconv.Itoa(pe)] == slices.Contains(lost, pe) {
			return false
		}
	}
	return true
}
