// Package shmemtest runs a part of a test as the PEs of a real job: real processes, real shared memory, a real
// launcher.
//
//	func TestRing(t *testing.T) {
//		shmemtest.Run(t, 4, func(t *testing.T, w *shmem.World) {
//			x, err := shmem.Alloc[int64](w, 1)
//			...
//		})
//	}
//
// Run executes the test binary again, once per PE, with a -test.run that selects the calling test. In those processes
// the test runs up to the same call of Run. That call initializes shmem, calls the body, finalizes, and ends the
// test. If the body has finalized the World and begun another, Run finalizes that one.
//
// So code of the test before Run runs in every PE as well, and earlier calls of Run return at once there. Code after
// Run runs in the calling process only. A body fails the test by t.Error and its kin on any PE. The output of the PEs
// is shown then, and always with -v. With -short, PEs run with it too.
//
// A PE may start others by mpi.Spawn, with the program and the arguments of the test itself. These execute the body, too, and mpi.World.Parent
// tells them apart. If they fail, so does the test; it does not matter which of them end.
//
// PEs run on this machine as one node, or on emulated nodes: see Nodes and Main.
//
// Do not call Run in parallel tests. A lock of the machine lets one job run at a time, across packages too, because
// waiting PEs that share few cores slow each other down.
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

// callVar is the environment variable that tells a process which call of Run it is a PE of.
const callVar = "GOSHMEM_SHMEMTEST_CALL"

// enterMarker begins the line by which a PE reports that it has reached its call.
const enterMarker = "\x01shmemtest: entered PE "

// finishMarker begins the line by which a PE reports that it has finished without a failure.
const finishMarker = "\x01shmemtest: finished PE "

// failMarker begins the line by which a PE that another one has started reports a failure.
const failMarker = "\x01shmemtest: failed PE "

// defaultTimeout ends a job that hangs.
const defaultTimeout = time.Minute

// Option changes what Run does.
type Option func(*options)

type options struct {
	launch launch.Options
	app    launch.App
	status int
	lost   []int // PEs that must not finish, with Recover
	output io.Writer
	init   []shmem.Option
	nodes  []int // on how many nodes the job runs, one time after the other; nil: as -nodes says
}

// Timeout ends the job, and fails the test, after d. Without it, the limit is one minute.
func Timeout(d time.Duration) Option { return func(o *options) { o.launch.Timeout = d } }

// HeapSize sets the symmetric heap of each PE in bytes.
func HeapSize(bytes uint64) Option { return func(o *options) { o.launch.HeapSize = bytes } }

// Env sets variables of the PEs' environment, each as NAME=value.
func Env(vars ...string) Option {
	return func(o *options) { o.app.Env = append(o.app.Env, vars...) }
}

// Status makes Run expect that the job ends with this exit status, that of oshrun, instead of 0. If it is not 0, PEs
// need not reach the body.
func Status(want int) Option { return func(o *options) { o.status = want } }

// Recover lets the other PEs go on when one fails, as oshrun --recover does. The job must end with status 3. The PEs
// given must not finish the body and Finalize, and all others must.
func Recover(lost ...int) Option {
	return func(o *options) { o.launch.Recover, o.lost, o.status = true, lost, launch.StatusTolerated }
}

// Init has PEs initialize shmem with these options.
func Init(opts ...shmem.Option) Option { return func(o *options) { o.init = append(o.init, opts...) } }

// Output sends what the PEs and the launcher print to w as well.
func Output(w io.Writer) Option { return func(o *options) { o.output = w } }

// calls counts the calls of Run in this process.
var calls struct {
	sync.Mutex
	counts map[*testing.T]int // calls of Run so far, by test
	inside bool               // this process is a PE and runs its body
}

// countCall returns the number of this call of Run within one execution of a test, from 1 on. So PEs find their call
// under -test.count as well.
func countCall(t *testing.T) int {
	calls.Lock()
	defer calls.Unlock()
	if calls.counts == nil {
		calls.counts = map[*testing.T]int{}
	}
	if calls.counts[t] == 0 {
		t.Cleanup(func() {
			calls.Lock()
			defer calls.Unlock()
			delete(calls.counts, t)
		})
	}
	calls.counts[t]++
	return calls.counts[t]
}

// Run runs body as npes PEs of a job and returns when all have ended.
func Run(t *testing.T, npes int, body func(t *testing.T, w *shmem.World), opts ...Option) {
	t.Helper()
	run(t, npes, func() { runBody(t, body, opts) }, opts)
}

// RunBare is Run without shmem: body initializes what it uses, and finalizes it before it returns.
func RunBare(t *testing.T, npes int, body func(t *testing.T), opts ...Option) {
	t.Helper()
	run(t, npes, func() { runBareBody(t, body) }, opts)
}

// run is Run and RunBare. runAsPE is what a PE does in its call.
func run(t *testing.T, npes int, runAsPE func(), opts []Option) {
	t.Helper()
	call := t.Name() + "#" + strconv.Itoa(countCall(t))
	mine, isPE := os.LookupEnv(callVar)
	switch {
	case !isPE:
		runJob(t, npes, call, opts)
	case calls.inside:
		t.Fatal("shmemtest.Run inside the body of another Run: a PE cannot start PEs")
	case mine == call:
		runAsPE()
	}
}

// runBareBody is RunBare in a PE. It does not return.
func runBareBody(t *testing.T, body func(t *testing.T)) {
	t.Helper()
	pe := os.Getenv("PMIX_RANK")
	if _, spawned := os.LookupEnv("GOSHMEM_PARENTS"); spawned { // a PE of the job has started this one
		calls.inside = true
		defer func() {
			if t.Failed() { // the status of a job with Recover does not say so
				fmt.Fprintf(os.Stdout, "%s%s of %s\n", failMarker, pe, os.Getenv("PMIX_NAMESPACE"))
			}
		}()
		body(t)
		t.SkipNow()
	}
	fmt.Fprintf(os.Stdout, "%s%s\n", enterMarker, pe)
	calls.inside = true
	body(t)
	if t.Failed() {
		t.FailNow()
	}
	fmt.Fprintf(os.Stdout, "%s%s\n", finishMarker, pe)
	t.SkipNow()
}

// runBody is Run in a PE. It does not return.
func runBody(t *testing.T, body func(t *testing.T, w *shmem.World), opts []Option) {
	t.Helper()
	var o options
	for _, f := range opts {
		f(&o)
	}
	w, err := shmem.Init(o.init...)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stdout, "%s%d\n", enterMarker, w.MyPE())
	calls.inside = true
	me := w.MyPE()
	body(t, w)
	if t.Failed() {
		t.FailNow() // no Finalize: it would wait for the PEs that have not failed
	}
	if err := finalizeAny(w); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(os.Stdout, "%s%d\n", finishMarker, me)
	t.SkipNow()
}

// finalizeAny finalizes the World that exists after a body, if any: w, or another one that the body has begun after
// it finalized w.
func finalizeAny(w *shmem.World) (err error) {
	if shmem.Initialized() && errors.Is(w.Ctx().Fence(), shmem.ErrFinalized) {
		if w, err = shmem.Init(); err != nil { // a nested call, which returns the present World
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

// runJob is Run in the process that go test started: it runs the job and checks how it ended.
func runJob(t *testing.T, npes int, call string, opts []Option) {
	t.Helper()
	o := options{
		launch: launch.Options{Timeout: defaultTimeout},
		app:    launch.App{NPEs: npes, Env: append(os.Environ(), callVar+"="+call)},
	}
	if os.Getenv(raceVar) == "" {
		o.app.Env = append(o.app.Env, raceVar+"="+raceOptions)
	}
	for _, f := range opts {
		f(&o)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	words := []string{self}
	if given := strings.Fields(command); len(given) > 0 {
		words = given
	}
	o.app.Program = words[0]
	o.app.Args = append(words[1:],
		"-test.run="+exactPattern(t.Name()), "-test.count=1",
		"-test.timeout="+(o.launch.Timeout+10*time.Second).String(),
	)
	if testing.Verbose() {
		o.app.Args = append(o.app.Args, "-test.v")
	}
	if testing.Short() {
		o.app.Args = append(o.app.Args, "-test.short")
	}
	layouts, err := o.layouts(npes)
	if err != nil {
		t.Fatalf("shmemtest: %v", err)
	}
	o.launch.Apps = []launch.App{o.app}
	for _, count := range layouts {
		out := &output{entered: map[string]bool{}, finished: map[string]bool{}}
		job := o.launch
		job.Stdout, job.Stderr = out, out
		if err := emulate(&job, count, npes, self); err != nil {
			t.Fatalf("shmemtest: %d nodes: %v", count, err)
		}
		out.checkEnd(t, npes, count, launchAlone(t, &job), &o)
	}
}

// launchAlone runs the job while no other job of the machine runs, and returns its status.
func launchAlone(t *testing.T, o *launch.Options) int {
	t.Helper()
	unlock, err := lockMachine(t.Context())
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

// exactPattern returns a pattern for -test.run that selects only the test of that name.
func exactPattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

// output collects what a job prints, and takes out the markers of the PEs.
type output struct {
	mu       sync.Mutex
	text     bytes.Buffer
	entered  map[string]bool
	finished map[string]bool
	failed   []string // PEs that others have started, and in which the test has failed
}

// Write gets whole lines.
func (out *output) Write(b []byte) (int, error) {
	out.mu.Lock()
	defer out.mu.Unlock()
	for line := range bytes.Lines(b) {
		if _, pe, ok := bytes.Cut(line, []byte(enterMarker)); ok {
			out.entered[string(bytes.TrimSpace(pe))] = true
			continue
		}
		if _, pe, ok := bytes.Cut(line, []byte(finishMarker)); ok {
			out.finished[string(bytes.TrimSpace(pe))] = true
			continue
		}
		if _, pe, ok := bytes.Cut(line, []byte(failMarker)); ok {
			out.failed = append(out.failed, string(bytes.TrimSpace(pe)))
			continue
		}
		out.text.Write(line)
	}
	return len(b), nil
}

// checkEnd fails the test if the job did not end as expected.
func (out *output) checkEnd(t *testing.T, npes, nodes, status int, o *options) {
	t.Helper()
	pes := fmt.Sprintf("%d PEs", npes)
	if nodes > 1 {
		pes += fmt.Sprintf(" on %d nodes", nodes)
	}
	out.mu.Lock()
	defer out.mu.Unlock()
	if o.output != nil {
		_, _ = o.output.Write(out.text.Bytes())
	}
	switch {
	case status != o.status:
		t.Errorf("%s ended with status %d, want %d; they printed:\n%s", pes, status, o.status, out.text.Bytes())
	case status == 0 && len(out.entered) != npes:
		t.Errorf("%d of %s reached shmemtest.Run; they printed:\n%s", len(out.entered), pes, out.text.Bytes())
	case o.launch.Recover && !out.onlyLost(npes, o.lost):
		t.Errorf("of %s, %v finished, want all but %v; they printed:\n%s", pes, slices.Sorted(maps.Keys(out.finished)), o.lost, out.text.Bytes())
	case len(out.failed) > 0:
		t.Errorf("the test has failed in PEs %v, which PEs of the job have started; they printed:\n%s", out.failed, out.text.Bytes())
	case testing.Verbose():
		t.Logf("%s printed:\n%s", pes, out.text.Bytes())
	}
}

// onlyLost reports whether the lost PEs did not finish and all others did.
func (out *output) onlyLost(npes int, lost []int) bool {
	for pe := range npes {
		if out.finished[strconv.Itoa(pe)] == slices.Contains(lost, pe) {
			return false
		}
	}
	return true
}
