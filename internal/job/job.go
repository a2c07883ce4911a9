// Package job holds the parts that a process has only once, however many layers use
// them: its PMIx client, the mapped segments of its node, the waiter. They are
// reference-counted, so that shmem and mpi may be initialized in any order.
package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/hook"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/alloc"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Job is this process's part in its job.
type Job struct {
	Nspace string
	PE     layout.PE // rank in the job
	NPEs   int
	Place  Place        // the part of the job that is on this node
	Local  layout.Local // this PE's index in Map
	Map    *symheap.Map // the segments of the node's PEs
	// Failures is the failure page; nil if the job has none.
	Failures *failure.View
	// Recover is true if the job outlives failures of PEs. A job of one PE without
	// oshrun does not.
	Recover bool
	// CheckCollectives is true if members of a team compare their calls before each
	// collective, because a PE of the job asks for it by GOSHMEM_CHECK.
	CheckCollectives bool
	Waiter           *wait.Waiter
	// Far reaches PEs of other nodes; nil if the job has one node.
	Far *far.Port
	// NoAgent says why the node of a job of several nodes has no agent; empty: it has one, or the job has one node.
	NoAgent string
	// Home returns the node of a PE of the job, and the PE's index there; nil if the job has one node.
	Home func(pe layout.PE) (node int, local layout.Local)
	// Others are the jobs that Reach has reached.
	Others Others
	Arena  *alloc.Arena // allocator of this PE's heap

	client  *client.Client // nil without oshrun: a job of one PE
	orders  *os.File       // connection over which the step sends orders
	profile *profile       // nil without GOSHMEM_PPROF
	news    *news          // calls the listeners of OnFailure
	far     farIncarnations
	agent   *agentLine        // nil: the job has one node
	alerts  hook.List[func()] // functions that Noticed calls
	holder  atomic.Pointer[func(grant uintptr) layout.PE]
	waits   atomic.Pointer[wait.Waiter] // Waiter, for orders that come before it is set
	left    chan struct{}               // closed when the client is finalized
	refs    int                         // number of references
}

var (
	mu   sync.Mutex
	live *Job
	// maps keeps a job's mapping after the last Release. So slices of the heap
	// that a program still holds stay valid memory, and a later Acquire in the
	// same job finds the same segments.
	maps = map[string]memory{}
)

// ErrForeignServer reports a process that was started by a PMIx server other
// than oshrun's, which has no segments to map.
var ErrForeignServer = errors.New("started by a PMIx server that is not oshrun's, which is not supported; start the program by oshrun, or without a launcher as a job of one PE")

// Acquire returns the process's job, setting it up if this is the first
// reference. Setting up is collective over the PEs of the job: it ends with a
// PMIx fence.
func Acquire(ctx context.Context) (*Job, error) {
	mu.Lock()
	defer mu.Unlock()
	if live == nil {
		j, err := newJob(ctx)
		if err != nil {
			return nil, err
		}
		live = j
	}
	live.refs++
	return live, nil
}

// Live reports whether the process holds a reference.
func Live() bool {
	mu.Lock()
	defer mu.Unlock()
	return live != nil
}

// Last reports whether the next Release is the last one.
func (j *Job) Last() bool {
	mu.Lock()
	defer mu.Unlock()
	return j.refs == 1
}

// Release gives a reference back. The last Release finalizes the PMIx client. The
// memory stays mapped.
func (j *Job) Release(ctx context.Context) error {
	mu.Lock()
	defer mu.Unlock()
	if j.refs == 0 {
		return errors.New("released more often than acquired")
	}
	if j.refs--; j.refs > 0 {
		return nil
	}
	live = nil
	j.Waiter.Close()
	if j.Far != nil {
		j.Far.Close()
	}
	j.news.stop()
	j.profile.end()
	if j.client == nil {
		return nil
	}
	_ = j.orders.Close() // no answer is pending
	defer close(j.left)
	endMeeting := j.beginMeeting()
	defer endMeeting()
	if err := j.client.Finalize(ctx); err != nil {
		return fmt.Errorf("PMIx finalize: %w", err)
	}
	return nil
}

// Abort asks oshrun to end the whole job with an exit status. Without oshrun it
// returns at once.
func (j *Job) Abort(status int, msg string) error {
	j.profile.end()
	if j.client == nil {
		return nil
	}
	return j.client.Abort(status, msg)
}

// DeclareModel tells all layers of this process that handle models on its PMIx client
// of a programming model. Without oshrun there is no client, and it does nothing.
func (j *Job) DeclareModel(ctx context.Context, m client.Model) error {
	if j.client == nil {
		return nil
	}
	return j.client.Events.DeclareModel(ctx, m)
}

// Launched reports whether the process was started by oshrun.
func (j *Job) Launched() bool { return j.client != nil }

// newJob connects the process to PMIx and to the step. A process without a launcher gets a job of one PE.
func newJob(ctx context.Context) (*Job, error) {
	_, launched, err := client.FromEnv(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	checks, err := envvar.Checks(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if !launched {
		return newSingleJob(checks)
	}
	step, ok := os.LookupEnv(envvar.Step)
	if !ok {
		return nil, fmt.Errorf("%w: %s is not set", ErrForeignServer, envvar.Step)
	}
	registered := registerMembarrier()
	c, err := client.Init(ctx)
	if errors.Is(err, syscall.ENETUNREACH) {
		err = fmt.Errorf("%w; there is no loopback interface, hint: ip link set lo up", err)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the PMIx server of oshrun: %w", err)
	}
	j := &Job{Nspace: c.Nspace(), PE: layout.PE(c.Rank()), NPEs: c.Size(), client: c, left: make(chan struct{})}
	j.profile = startProfile(wire.JobNumber(j.Nspace), int(j.PE))
	if err := j.join(ctx, step, checks, registered); err != nil {
		j.profile.end()
		return nil, errors.Join(err, c.Finalize(ctx))
	}
	go j.endWithLauncher()
	return j, nil
}

// registerMembarrier registers this process for membarrier and closes the channel when
// that is done. In a process with threads, as every Go program is, it takes a grace
// period of the kernel, 10 ms and more. So newJob starts it first.
func registerMembarrier() <-chan struct{} {
	registered := make(chan struct{})
	go func() {
		defer close(registered)
		_ = xunix.MembarrierRegister() // an error comes again, at once, when the waiter is made
	}()
	return registered
}

// join maps the segments and meets the other PEs. It returns when this process is
// also registered for membarrier.
func (j *Job) join(ctx context.Context, step string, checks []string, registered <-chan struct{}) (err error) {
	if j.orders, err = dialStep(ctx, step); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = j.orders.Close()
			j.news.stop()
		}
	}()
	m := maps[j.Nspace]
	var r wire.AttachReply
	if m.segments == nil {
		m, r, err = attach(j.orders, j)
	} else {
		r, err = j.askOrders(j.orders)
	}
	if err != nil {
		return err
	}
	maps[j.Nspace], j.Recover = m, r.Recover
	if err = j.orders.SetDeadline(noDeadline); err != nil {
		return err
	}
	if err = j.useMemory(m); err != nil {
		return err
	}
	go j.serveOrders(j.orders)
	if all, _ := j.Failures.All(); len(all) > 0 {
		return &DeadError{Failures: all}
	}
	j.publish(checks)
	if err = j.Fence(ctx); err != nil {
		return err
	}
	j.CheckCollectives = j.anyAsks()
	endMeeting := j.beginMeeting() // the kernel makes many PEs that start at once wait for long
	<-registered
	endMeeting()
	j.startWaiter(int(r.Processors), m.agent)
	j.NoAgent = m.noAgent
	return j.startFar(m.agent)
}

// Fence waits until all PEs of the job have called it. It goes through the PMIx
// server, for the set-up, when segments cannot be used yet.
func (j *Job) Fence(ctx context.Context) error {
	if j.client == nil {
		return nil
	}
	endMeeting := j.beginMeeting()
	defer endMeeting()
	if err := j.client.Fence(ctx, true); err != nil {
		return j.findCause(fmt.Errorf("PMIx fence with the other PEs: %w", err))
	}
	return nil
}

// beginMeeting tells the step that this PE waits for the PMIx server or the kernel. The
// function that it returns tells the step that the wait is over, which counts as progress.
func (j *Job) beginMeeting() (end func()) {
	p := &j.Map.Control(j.Local).Progress
	atomic.StoreUint64(&p.Meets, 1)
	return func() {
		atomic.AddUint64(&p.Count, 1)
		atomic.StoreUint64(&p.Meets, 0)
	}
}

// DeadError reports that the PEs could not meet because some have died.
type DeadError struct {
	Failures []failure.Failure // in the order of PEs
	Err      error             // the operation's error; nil: no operation was tried
}

// Error names the PEs.
func (e *DeadError) Error() string {
	var parts []string
	for _, f := range e.Failures {
		parts = append(parts, fmt.Sprintf("PE %d %v", f.PE, f.Cause))
	}
	if e.Err != nil {
		return strings.Join(parts, ", ") + ": " + e.Err.Error()
	}
	return strings.Join(parts, ", ")
}

// Unwrap returns the operation's error.
func (e *DeadError) Unwrap() error { return e.Err }

// causeTimeout bounds the wait for a death on the failure page after the PMIx server
// has reported an error. The server sees a connection end before the process ends.
const causeTimeout = time.Second

// findCause returns a *DeadError if a meeting has failed with err because of a death,
// otherwise err.
func (j *Job) findCause(err error) error {
	if j.Failures == nil {
		return err
	}
	heard := make(chan struct{})
	once := sync.OnceFunc(func() { close(heard) })
	cancel := j.OnFailure(func([]failure.Failure, uint64) { once() })
	defer cancel()
	timer := time.NewTimer(causeTimeout)
	defer timer.Stop()
	select {
	case <-heard:
		all, _ := j.Failures.All()
		return &DeadError{Failures: all, Err: err}
	case <-timer.C:
		return err
	}
}

// useMemory installs m as the job's memory and formats the heap of this PE.
func (j *Job) useMemory(m memory) (err error) {
	j.Map, j.Place, j.Local = m.segments, m.place, m.place.NearLocal(j.PE)
	j.Failures, j.news = m.failures, startNews(m.failures)
	page.Store(m.failures)
	j.Arena, err = j.Map.FormatHeap(j.Local)
	return err
}

// publish tells the other PEs of the node, before the PEs meet, which process this PE is and whether it asks for the
// check of collectives.
func (j *Job) publish(checks []string) {
	atomic.StoreUint64(&j.Map.Control(j.Local).Process.PID, uint64(os.Getpid()))
	word, bit := &j.Map.Control(0).Asked[j.Local/64], uint64(1)<<(j.Local%64)
	was, asks := atomic.LoadUint64(word)&bit != 0, slices.Contains(checks, envvar.CheckCollectives)
	switch {
	case asks && !was:
		atomic.OrUint64(word, bit)
	case was && !asks:
		atomic.AndUint64(word, ^bit)
	}
}

// anyAsks says, after all PEs have met, whether any PE of the node asks for the check of collectives. All PEs find the same.
func (j *Job) anyAsks() bool {
	var all uint64
	for w := range (j.Map.Len() + 63) / 64 {
		all |= atomic.LoadUint64(&j.Map.Control(0).Asked[w])
	}
	return all != 0
}

// startWaiter makes the waiter, on a node whose PEs share a number of processors. A
// process that membarrier does not reach sets BellAsk on all bells before its first
// write.
func (j *Job) startWaiter(processors int, a *agentLine) {
	j.Waiter = wait.NewWaiter(&j.Map.Control(j.Local).Bell, wait.PolicyFor(j.consumers(a), processors))
	j.Waiter.Watch(j.Failures)
	j.Waiter.Beats(&j.Map.Control(j.Local).Progress)
	if j.Map.Len() <= mostAsked {
		j.Waiter.Spends(j.processorTime, processors)
	}
	j.waits.Store(j.Waiter)
	for i := range layout.Local(j.Map.Len()) {
		if !j.Waiter.Expedited() {
			rma.AskLocked(&j.Map.Control(i).Bell)
		}
	}
}

// mostAsked bounds the number of near PEs that read each other's processor time.
const mostAsked = 64

// processorTime returns the processor time of all near PEs. The time of a PE whose
// process is unknown counts as that of other programs.
func (j *Job) processorTime() (all time.Duration) {
	for i := range layout.Local(j.Map.Len()) {
		if pid := atomic.LoadUint64(&j.Map.Control(i).Process.PID); pid != 0 {
			one, _ := xunix.ProcessTimeOf(int(pid))
			all += one
		}
	}
	return all
}

// endWithLauncher ends the process when the connection to oshrun is lost: its output, its
// status and its abort have no receiver, and its peers end as well. It returns when the
// client is finalized.
func (j *Job) endWithLauncher() {
	select {
	case <-j.left:
		return
	case <-j.client.Lost():
	}
	fmt.Fprintf(os.Stderr, "goshmem: PE %d: the connection to oshrun is lost; ending\n", j.PE)
	j.profile.end()
	xunix.KillSelf()
}
