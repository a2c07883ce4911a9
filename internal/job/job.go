// Package job holds what a process has once however many layers use it: its
// PMIx client, the mapped segments of its node, the waiter. It is
// reference-counted, so that shmem and mpi may be initialized in any order.
package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/alloc"
)

// Job is this process's part in its job.
type Job struct {
	Nspace string
	PE     int // rank in the job
	NPEs   int
	Map    *symheap.Map // of the node's segments; index i is PE i while a job has one node
	Waiter *rma.Waiter
	Arena  *alloc.Arena // of this PE's heap

	client *client.Client // nil without oshrun: a job of one PE
	refs   int
}

var (
	mu   sync.Mutex
	live *Job
	// maps keeps a job's mapping after the last Release: slices of the heap
	// that a program still holds stay valid memory, and a later Acquire in
	// the same job finds the same segments.
	maps = map[string]*symheap.Map{}
)

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
	if j.client == nil {
		return nil
	}
	if err := j.client.Finalize(ctx); err != nil {
		return fmt.Errorf("PMIx finalize: %w", err)
	}
	return nil
}

// Abort asks for the end of the whole job with an exit status. Without oshrun
// there is nobody to ask: it returns at once.
func (j *Job) Abort(status int, msg string) error {
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
	return j.client.DeclareModel(ctx, m)
}

// Launched says whether the process was started by oshrun.
func (j *Job) Launched() bool { return j.client != nil }

func setUp(ctx context.Context) (*Job, error) {
	_, launched, err := client.FromEnv(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	if !launched {
		return single()
	}
	step, ok := os.LookupEnv(envvar.Step)
	if !ok {
		return nil, fmt.Errorf("%w: %s is not set", ErrForeignServer, envvar.Step)
	}
	c, err := client.Init(ctx)
	if err != nil {
		return nil, fmt.Errorf("connect to the PMIx server of oshrun: %w", err)
	}
	j := &Job{Nspace: c.Nspace(), PE: int(c.Rank()), NPEs: c.Size(), client: c}
	if err := j.join(ctx, step); err != nil {
		return nil, errors.Join(err, c.Finalize(ctx))
	}
	go j.watch()
	return j, nil
}

// join maps the segments and meets the other PEs.
func (j *Job) join(ctx context.Context, step string) error {
	m := maps[j.Nspace]
	if m == nil {
		var err error
		if m, err = attach(ctx, step, j); err != nil {
			return err
		}
		maps[j.Nspace] = m
	}
	if err := j.use(m, j.PE); err != nil {
		return err
	}
	return j.Fence(ctx)
}

// Fence returns when all PEs of the job have called it: a meeting through the
// PMIx server, for set-up, where segments cannot be used yet.
func (j *Job) Fence(ctx context.Context) error {
	if j.client == nil {
		return nil
	}
	if err := j.client.Fence(ctx, true); err != nil {
		return fmt.Errorf("PMIx fence with the other PEs: %w", err)
	}
	return nil
}

// use makes m the job's map; this PE's segment has index i there.
func (j *Job) use(m *symheap.Map, i int) (err error) {
	j.Map = m
	if j.Arena, err = m.FormatHeap(i); err != nil {
		return err
	}
	j.Waiter = rma.NewWaiter(&m.Control(i).Bell, rma.PolicyFor(m.Len(), runtime.NumCPU()))
	return nil
}

// watch ends the process when its oshrun is gone: nobody is left to take its
// output, its status or its abort, and its peers are ending as well. It does
// nothing once the client is finalized.
func (j *Job) watch() {
	<-j.client.Lost()
	fmt.Fprintf(os.Stderr, "goshmem: PE %d: the connection to oshrun is lost; ending\n", j.PE)
	xunix.KillSelf()
}
