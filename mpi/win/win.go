package win

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/goshmem/goshmem/internal/bridge"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// Win is a window: the same number of elements of type T on each rank of a communicator. Any goroutine may use it.
type Win[T any] struct {
	x shmem.Sym[T]
	h *handle
}

// Option changes what Allocate and Create do.
type Option uint8

// The options.
const (
	// NoLocks makes a window without Lock and LockAll. It saves 8 bytes for each pair of ranks on each rank.
	//
	//   - Source: the info key no_locks.
	NoLocks Option = iota + 1
)

// handle is a window without the type of its elements. The handles of a window differ in their contexts.
type handle struct {
	*window
	comm  *mpi.Comm
	ctx   context.Context //nolint:containedctx // With's purpose
	ops   *shmem.Ctx      // the window's context of operations, with ctx
	world *shmem.World    // with ctx
}

// window is what all handles of a window share.
type window struct {
	me, n   int              // rank of this process, number of ranks
	length  int              // elements of each rank
	pes     []int            // by rank
	ranks   []int            // by PE
	plain   *shmem.Ctx       // the window's context of operations, without a deadline
	memory  shmem.Sym[int64] // the words of control.go, and the locks behind them
	words   shmem.Sym[uint64]
	locks   bool         // it was made without NoLocks
	release func() error // frees the elements that Allocate has allocated; nil: Create was called
	freed   atomic.Bool

	recognized atomic.Pointer[[]bool] // by rank: it is recognized as dead; nil: none is. See Validate

	mu       sync.Mutex   // guards what follows
	held     map[int]held // by rank: what Lock and LockAll have taken
	all      bool         // LockAll has taken them
	access   *epoch       // between Start and Complete; nil: there is none
	exposure *epoch       // between Post and the end of Wait; nil: there is none
	started  []uint64     // by rank: its posts that a Start has consumed
	waited   []uint64     // by rank: its completions that a Wait has consumed
}

// Allocate makes a window of n elements on each rank. They are undefined.
//
//   - Shape: n elements of T, a type without pointers, on each rank. The window takes 8 bytes for each pair of ranks besides, for
//     its locks: see NoLocks.
//   - Cost: a few barriers.
//   - Errors: ErrArgument of mpi for a communicator without all ranks of the job; mpi.ErrFinalized and
//     shmem.ErrFinalized where a package is not initialized; those of shmem.Alloc.
//   - Collective: over the communicator, with the same arguments.
//   - Source: MPI_Win_allocate, MPI_Win_allocate_shared.
func Allocate[T any](c *mpi.Comm, n int, opts ...Option) (*Win[T], error) {
	const op = "Allocate"
	h, err := prepare(op, c, opts)
	if err != nil {
		return nil, err
	}
	x, err := shmem.Alloc[T](h.world, n)
	if err != nil {
		return nil, errors.Join(h.fail(op, err), h.plain.Destroy())
	}
	h.length = n
	if err := h.allocateControl(op); err != nil {
		_ = shmem.Free(h.world, x) // err matters more
		return nil, errors.Join(err, h.plain.Destroy())
	}
	h.release = func() error { return shmem.Free(h.world, x) }
	return &Win[T]{x: x, h: h}, nil
}

// Create makes a window of an object of the symmetric heap, or of a part of one. The object stays the program's: Free of the
// window does not free it.
//
//   - Shape: as Allocate, with x.Len() elements.
//   - Cost: a few barriers.
//   - Errors: as Allocate; ErrArgument for a handle that is not usable, and ErrMismatch of mpi for different lengths,
//     on all ranks.
//   - Collective: over the communicator, with the same object and options.
//   - Source: MPI_Win_create.
func Create[T any](c *mpi.Comm, x shmem.Sym[T], opts ...Option) (*Win[T], error) {
	const op = "Create"
	h, err := prepare(op, c, opts)
	if err != nil {
		return nil, err
	}
	n := x.Len()
	if n > 0 && x.Local() == nil || n == 0 && x == (shmem.Sym[T]{}) {
		n = -1
	}
	least := make([]int, 2)
	if err := mpi.Allreduce(c, least, []int{n, -n}, mpi.Min); err != nil {
		return nil, errors.Join(fmt.Errorf("mpi.win.%s: %w", op, err), h.plain.Destroy())
	}
	switch {
	case n < 0:
		err = usage(op, mpi.ErrArgument, "the handle is the zero one, is out of range or was freed, want one that shmem.Alloc has returned")
	case least[0] < 0:
		err = usage(op, mpi.ErrArgument, "the handle of another rank is not usable: see the error there")
	case least[0] != -least[1]:
		err = usage(op, mpi.ErrMismatch, "handles of %d to %d elements, of %d here, want the same object on all ranks", least[0], -least[1], n)
	default:
		h.length = n
		err = h.allocateControl(op)
	}
	if err != nil {
		return nil, errors.Join(err, h.plain.Destroy())
	}
	return &Win[T]{x: x, h: h}, nil
}

// prepare makes the part of a window that needs no other rank.
func prepare(op string, c *mpi.Comm, opts []Option) (*handle, error) {
	if !mpi.Initialized() {
		return nil, usage(op, mpi.ErrFinalized, "mpi is not initialized, or is finalized; hint: call mpi.Init and shmem.Init first")
	}
	s, _ := bridge.World().(*shmem.World)
	if s == nil {
		return nil, usage(op, shmem.ErrFinalized, "shmem is not initialized, or is finalized; hint: windows are on the symmetric heap: call shmem.Init as well as mpi.Init")
	}
	ctx, err := bridge.ContextOf("win."+op, c)
	if err != nil {
		return nil, err
	}
	if c.Size() != s.NPEs() {
		return nil, usage(op, mpi.ErrArgument, "communicator of %d ranks in a job of %d, want all ranks: all PEs allocate symmetric memory together; hint: use World.Comm, and operations on the ranks that take part",
			c.Size(), s.NPEs())
	}
	win := &window{me: c.Rank(), n: c.Size(), pes: c.Group().IDs(), locks: true, held: map[int]held{}}
	win.ranks = make([]int, win.n)
	for rank, pe := range win.pes {
		win.ranks[pe] = rank
	}
	win.started, win.waited = make([]uint64, win.n), make([]uint64, win.n)
	for i, o := range opts {
		if o != NoLocks {
			return nil, usage(op, mpi.ErrArgument, "option %d is %d, want NoLocks", i, o)
		}
		win.locks = false
	}
	if win.plain, err = s.NewCtx(); err != nil {
		return nil, fmt.Errorf("mpi.win.%s: %w", op, err)
	}
	return newHandle(ctx, win, c, s), nil
}

// newHandle returns a handle of a window with a context.
func newHandle(ctx context.Context, win *window, c *mpi.Comm, s *shmem.World) *handle {
	if ctx == nil {
		ctx = context.Background()
	}
	h := &handle{window: win, comm: c.With(ctx), ctx: ctx, ops: win.plain, world: s.With(ctx)}
	if ctx.Done() != nil {
		h.ops = win.plain.With(ctx)
	}
	return h
}

// With returns a handle of the same window whose waits end with an error when ctx ends. The handle that Allocate and Create
// return has the context of their communicator. A Fence that ends so breaks the communicator for collectives.
func (w *Win[T]) With(ctx context.Context) *Win[T] {
	if w == nil || w.h == nil {
		return w
	}
	return &Win[T]{x: w.x, h: newHandle(ctx, w.h.window, w.h.comm, w.h.world)}
}

// Free ends the window, after a barrier of all ranks. After a death it succeeds as well, and the memory stays taken until
// Finalize.
//
//   - Completion: of all operations of this rank on the window.
//   - Errors: shmem.ErrFreed for a window that was freed; the end of the window's context; those of shmem.Free.
//   - Collective: over the communicator.
//   - Source: MPI_Win_free.
func (w *Win[T]) Free() error {
	const op = "Free"
	h := w.handle()
	if err := h.check(op); err != nil {
		return err
	}
	if h.freed.Swap(true) {
		return h.check(op)
	}
	lost := h.ops.Quiet()
	err := shmem.Free(h.world, h.memory)
	if h.release != nil {
		if e := h.release(); err == nil {
			err = e
		}
	}
	if e := h.plain.Destroy(); err == nil {
		err = e
	}
	if err == nil {
		err = lost
	}
	if err == nil || errors.Is(err, shmem.ErrPEDied) || errors.Is(err, shmem.ErrPEFinalized) {
		return nil
	}
	return h.fail(op, err)
}

// handle returns the window's handle, or nil if no call returned the window.
func (w *Win[T]) handle() *handle {
	if w == nil {
		return nil
	}
	return w.h
}

// Len returns the number of elements on each rank, or 0 for a nil Win.
func (w *Win[T]) Len() int {
	if w.handle() == nil {
		return 0
	}
	return w.h.length
}

// Sym returns the handle of the window's memory, for operations of package shmem.
func (w *Win[T]) Sym() shmem.Sym[T] {
	if w == nil {
		return shmem.Sym[T]{}
	}
	return w.x
}

// Local returns this rank's memory of the window. Plain loads and stores are ordered with other ranks' operations only
// by the calls of the table in the package documentation.
//
//   - Concurrent calls: allowed.
//   - Source: the attribute MPI_WIN_BASE.
func (w *Win[T]) Local() []T { return w.Sym().Local() }

// Shared returns the memory of a rank of this node. It returns false for a rank of another node, for one that has died, and
// for a rank out of range.
//
//   - Concurrent calls: allowed.
//   - Source: MPI_Win_shared_query.
func (w *Win[T]) Shared(rank int) ([]T, bool) {
	h := w.handle()
	if h == nil || rank < 0 || rank >= h.n {
		return nil, false
	}
	return w.x.Peer(h.pes[rank])
}
