// Package job holds what a process has once however many layers use it: its
// PMIx client, the mapped segments of its node, the waiter. It is
// reference-counted, so that shmem and mpi may be initialized in any order.
package job

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/envvar"
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
	PE     int // rank in the job
	NPEs   int
	Map    *symheap.Map // of the node's segments; index i is PE i while a job has one node
	// Failures says which PEs have died; nil if nobody would.
	Failures *failure.View
	// Recover says that the job outlives failures of PEs; a job of one PE without
	// oshrun does not.
	Recover bool
	// CheckCollectives says that members of a team compare what each calls before each
	// collective: some PE of the job asks for it by GOSHMEM_CHECK.
	CheckCollectives bool
	Waiter           *wait.Waiter
	Arena            *alloc.Arena // of this PE's heap

	client  *client.Client    // nil without oshrun: a job of one PE
	orders  *net.UnixConn     // over which the step asks something of this process
	profile *profile          // nil if nobody asked for one
	news    *news             // tells of deaths
	alerts  hook.List[func()] // called by Noticed
	holder  atomic.Pointer[func(grant uintptr) int]
	waits   atomic.Pointer[wait.Waiter] // the waiter once it is there, for orders
	left    chan struct{}               // closed when the client is finalized
	refs    int
}

var (
	mu   sync.Mutex
	live *Job
	// maps keeps a job's mapping after the last Release: slices of the heap
	// that a program still holds stay valid memory, and a later Acquire in
	// the same job finds the same segments.
	maps = map[string]memory{}
)

// incarnation is which life of its PE this process is, until PEs can be replaced.
const incarnation = 1

// ErrForeignServer reports a process that was started by a PMIx server other
// than oshrun's, which has no segments to hand out.
var ErrForeignServer = errors.New("started by a PMIx server that is not oshrun's, which is not supported; start the program by oshrun, or without a launcher as a job of one PE")

// Acquire returns the process's job, setting it up if this is the first
// reference. Setting up is collective over the PEs of the job: it ends with a
// PMIx fence.
func Acquire(ctx context.Context) (*Job, error) {
	mu.Lock()
	defer mu.Unlock()
	if live == nil {
		j, err := setUp(ctx)
		if err != nil {
			return nil, err
		}
		live = j
	}
	live.refs++
	return live, nil
}

// Live says whether the process holds a reference.
func Live() bool {
	mu.Lock()
	defer mu.Unlock()
	return live != nil
}

// Last says whether the next Release is the one that ends the process's part.
func (j *Job) Last() bool {
	mu.Lock()
	defer mu.Unlock()
	return j.refs == 1
}

// Release gives a reference back; the last one says farewell to the PMIx
// server. The memory stays mapped.
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
	j.news.stop()
	j.profile.end()
	if j.client == nil {
		return nil
	}
	_ = j.orders.Close() // nothing is to be sent
	defer close(j.left)
	met := j.meet()
	defer met()
	if err := j.client.Finalize(ctx); err != nil {
		return fmt.Errorf("PMIx finalize: %w", err)
	}
	return nil
}

// Abort asks for the end of the whole job with an exit status. Without oshrun
// there is nobody to ask: it returns at once.
func (j *Job) Abort(status int, msg string) error {
	j.profile.end()
	if j.client == nil {
		return nil
	}
	return j.client.Abort(status, msg)
}

// DeclareModel makes a programming model known to all layers of this process
// that listen for models on its PMIx client. Without oshrun there is none.
func (j *Job) DeclareModel(ctx context.Context, m client.Model) error {
	if j.client == nil {
		return nil
	}
	return j.client.Events.DeclareModel(ctx, m)
}

// Launched says whether the process was started by oshrun.
func (j *Job) Launched() bool { return j.client != nil }

func setUp(ctx context.Context) (*Job, error) {
	_, launched, err := client.FromEnv(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	checks, err := envvar.Checks(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if !launched {
		return single(checks)
	}
	step, ok := os.LookupEnv(envvar.Step)
	if !ok {
		return nil, fmt.Errorf("%w: %s is not set", ErrForeignServer, envvar.Step)
	}
	registered := register()
	c, err := client.Init(ctx)
	if errors.Is(err, syscall.ENETUNREACH) {
		err = fmt.Errorf("%w; there is no loopback interface, hint: ip link set lo up", err)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to the PMIx server of oshrun: %w", err)
	}
	j := &Job{Nspace: c.Nspace(), PE: int(c.Rank()), NPEs: c.Size(), client: c, left: make(chan struct{})}
	j.profile = startProfile(wire.JobNumber(j.Nspace), j.PE)
	if err := j.join(ctx, step, checks, registered); err != nil {
		j.profile.end()
		return nil, errors.Join(err, c.Finalize(ctx))
	}
	go j.watch()
	return j, nil
}

// register makes this process a target of membarrier and closes the channel when
// it is one. In a process with threads, as every Go program is, that takes a
// grace period of the kernel's, 10 ms and more, so it begins first of all.
func register() <-chan struct{} {
	registered := make(chan struct{})
	go func() {
		defer close(registered)
		_ = xunix.MembarrierRegister() // says the same again, at once, when the waiter is made
	}()
	return registered
}

// join maps the segments and meets the other PEs. It returns when this process is
// registered as well.
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
	if err = j.use(m); err != nil {
		return err
	}
	go j.obey(j.orders)
	if all, _ := j.Failures.All(); len(all) > 0 {
		return &DeadError{Failures: all}
	}
	j.ask(checks)
	if err = j.Fence(ctx); err != nil {
		return err
	}
	j.learnChecks()
	met := j.meet() // with the kernel, for which many PEs that start at once wait for long
	<-registered
	met()
	j.listen(int(r.Processors))
	return nil
}

// Fence returns when all PEs of the job have called it: a meeting through the
// PMIx server, for set-up, where segments cannot be used yet.
func (j *Job) Fence(ctx context.Context) error {
	if j.client == nil {
		return nil
	}
	met := j.meet()
	defer met()
	if err := j.client.Fence(ctx, true); err != nil {
		return j.blame(fmt.Errorf("PMIx fence with the other PEs: %w", err))
	}
	return nil
}

// meet says to the step that this PE waits for the PMIx server, or the kernel. The function that
// it returns says that the wait is over, which counts as progress.
func (j *Job) meet() (met func()) {
	p := &j.Map.Control(j.PE).Progress
	atomic.StoreUint64(&p.Meets, 1)
	return func() {
		atomic.AddUint64(&p.Count, 1)
		atomic.StoreUint64(&p.Meets, 0)
	}
}

// DeadError reports that the PEs could not meet because some have died.
type DeadError struct {
	Failures []failure.Failure // in the order of PEs
	Err      error             // what has failed; nil: nothing was tried
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

// Unwrap returns what has failed.
func (e *DeadError) Unwrap() error { return e.Err }

// blameTimeout is how much later than from the PMIx server the news of a death may
// come over the failure page: a server sees a connection end before a process does.
const blameTimeout = time.Second

// blame returns a *DeadError if a meeting has failed with err for a death, otherwise
// err.
func (j *Job) blame(err error) error {
	if j.Failures == nil {
		return err
	}
	heard := make(chan struct{})
	once := sync.OnceFunc(func() { close(heard) })
	cancel := j.OnFailure(func([]failure.Failure, uint64) { once() })
	defer cancel()
	timer := time.NewTimer(blameTimeout)
	defer timer.Stop()
	select {
	case <-heard:
		all, _ := j.Failures.All()
		return &DeadError{Failures: all, Err: err}
	case <-timer.C:
		return err
	}
}

// use makes m the job's map.
func (j *Job) use(m memory) (err error) {
	j.Map, j.Failures, j.news = m.segments, m.failures, startNews(m.failures)
	page.Store(m.failures)
	j.Arena, err = j.Map.FormatHeap(j.PE)
	return err
}

// ask tells the other PEs which checks this one wants and which process it is, before all meet.
func (j *Job) ask(checks []string) {
	var word uint64
	if slices.Contains(checks, envvar.CheckCollectives) {
		word |= layout.CheckCollectives
	}
	own := &j.Map.Control(j.PE).Checks
	atomic.StoreUint64(&own.Asked, word)
	atomic.StoreUint64(&own.PID, uint64(os.Getpid()))
}

// learnChecks finds which checks any PE wants, when all have met: the same on all PEs.
func (j *Job) learnChecks() {
	var word uint64
	for i := range j.Map.Len() {
		word |= atomic.LoadUint64(&j.Map.Control(i).Checks.Asked)
	}
	j.CheckCollectives = word&layout.CheckCollectives != 0
}

// listen makes the waiter, on a node whose PEs have so many processors. A process
// that membarrier does not reach asks all bells for what it has to do itself, before
// it writes anything.
func (j *Job) listen(processors int) {
	j.Waiter = wait.NewWaiter(&j.Map.Control(j.PE).Bell, wait.PolicyFor(j.Map.Len(), processors))
	j.Waiter.Watch(j.Failures)
	j.Waiter.Beats(&j.Map.Control(j.PE).Progress)
	if j.Map.Len() <= mostAsked {
		j.Waiter.Spends(j.spent, processors)
	}
	j.waits.Store(j.Waiter)
	for i := range j.Map.Len() {
		if !j.Waiter.Expedited() {
			rma.AskLocked(&j.Map.Control(i).Bell)
		}
	}
}

// mostAsked is of how many PEs the processor time is asked for.
const mostAsked = 64

// spent returns the processor time of all PEs of the job, as far as it is known: what is
// missing counts as strangers'.
func (j *Job) spent() (all time.Duration) {
	for i := range j.Map.Len() {
		if pid := atomic.LoadUint64(&j.Map.Control(i).Checks.PID); pid != 0 {
			one, _ := xunix.ProcessTimeOf(int(pid))
			all += one
		}
	}
	return all
}

// watch ends the process when its oshrun is gone: nobody is left to take its
// output, its status or its abort, and its peers are ending as well. It returns once
// the client is finalized.
func (j *Job) watch() {
	select {
	case <-j.left:
		return
	case <-j.client.Lost():
	}
	fmt.Fprintf(os.Stderr, "goshmem: PE %d: the connection to oshrun is lost; ending\n", j.PE)
	j.profile.end()
	xunix.KillSelf()
}
