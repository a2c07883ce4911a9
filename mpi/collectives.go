package mpi

import (
	"unsafe"

	"github.com/goshmem/goshmem/mpi/sched"
)

// Each collective is described once (describeGather and so on). Three functions use the description: the one that waits (Gather), the
// one that does not (Igather), and the one that makes a persistent request (GatherInit).

// begin begins a collective that was described.
func (c *Comm) begin(x *call, err error) (Request, error) {
	if err != nil {
		return Request{}, handledOf(c, err)
	}
	if isIntercepted() {
		return interceptStart(x.seen(c), func() (Request, error) { return beginQuietly(c, x) })
	}
	q, err := beginQuietly(c, x)
	if err != nil {
		err = handled(c.g, err)
	}
	return q, err
}

// seen returns what an interceptor sees of a collective.
func (x *call) seen(c *Comm) Call {
	root := AnySource
	switch x.kind {
	case ofBcast, ofReduce, ofGather, ofScatter:
		root = x.root
	default:
	}
	return Call{x.op, c, root, AnyTag, x.bytes}
}

// beginQuietly is begin without the interceptor and the communicator's handler.
func beginQuietly(c *Comm, x *call) (Request, error) {
	r, err := startCall(c.g, x)
	if err != nil {
		return failedRequest(err), c.g.reportDeath(err)
	}
	return r.handle(c.ctx), nil
}

// run executes a collective that was described.
func (c *Comm) run(x *call, err error) error {
	if err != nil {
		return handledOf(c, err)
	}
	if isWatched(c) {
		return watched(x.seen(c), func() error { return runUnseen(c, x) })
	}
	return runUnseen(c, x)
}

// runNow is run without a look at the interceptor.
func runNow(c *Comm, x *call, err error) error {
	if err != nil {
		return handledOf(c, err)
	}
	return runUnseen(c, x)
}

// runUnseen is runNow for what was described without an error.
func runUnseen(c *Comm, x *call) error {
	if c.g.checks {
		if err := c.compare(x.op, "%s", x.describe()); err != nil {
			return handled(c.g, err)
		}
	}
	r, err := startCall(c.g, x)
	if err != nil {
		return handled(c.g, c.g.reportDeath(err))
	}
	_, err = r.finish(c.ctx)
	return handled(c.g, err)
}

// startCall begins a collective of a communicator that was described.
func startCall(g *group, x *call) (*request, error) {
	if x.in != nil {
		g = x.in
	}
	return g.collectives.start(x)
}

// foldOf returns an operator without its type.
func foldOf[T any](op Op[T]) func(acc, in unsafe.Pointer, bytes int) {
	size := int(unsafe.Sizeof(*new(T)))
	return func(acc, in unsafe.Pointer, bytes int) {
		if n := bytes / size; n > 0 {
			op(unsafe.Slice((*T)(acc), n), unsafe.Slice((*T)(in), n))
		}
	}
}

// data returns the address of a slice.
func data[T any](s []T) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(s)) }

// elemSize returns the bytes of an element, for a type that checkType has passed.
func elemSize[T any]() int { return int(unsafe.Sizeof(*new(T))) }

// checkBuffers checks the type, the communicator, and that buffers do not overlap unless they are the same.
func checkBuffers[T any](c *Comm, op string, dst, src []T) error {
	if err := checkType[T](op); err != nil {
		return err
	}
	if err := c.usable(op); err != nil {
		return err
	}
	if d, s := spanOf(dst), spanOf(src); d.at != s.at && d.overlaps(s) {
		return usage(op, ErrArgument, "source and destination overlap, want the same memory as this collective has it in place, or disjoint slices")
	}
	return nil
}

// checkLength checks the length of a buffer.
func checkLength(op, what string, got, want int) error {
	if got != want {
		return usage(op, ErrArgument, "%s has %d elements, want %d", what, got, want)
	}
	return nil
}

// Counts says which elements of a buffer are for which rank: Counts[i] elements from Displs[i] on. With nil Displs, the parts are one after
// the other.
type Counts struct {
	Counts []int
	Displs []int
}

// partsOf returns the parts in bytes, and checks that they are in a buffer of have elements.
func (x Counts) partsOf(op, what string, n, have, elem int) ([]sched.Part, error) {
	if len(x.Counts) != n || x.Displs != nil && len(x.Displs) != n {
		return nil, usage(op, ErrArgument, "%d counts and %d displacements for the %s, want %d of each, or no displacements", len(x.Counts), len(x.Displs), what, n)
	}
	parts := make([]sched.Part, n)
	at := 0
	for i, count := range x.Counts {
		if x.Displs != nil {
			at = x.Displs[i]
		}
		if count < 0 || at < 0 || count > have || at > have-count {
			return nil, usage(op, ErrArgument, "part of rank %d is %d elements from %d on, want one inside of the %s of %d elements", i, count, at, what, have)
		}
		parts[i] = sched.Part{At: at * elem, N: count * elem}
		at += count
	}
	return parts, nil
}

// bytesIn returns how many bytes are in some parts.
func bytesIn(parts []sched.Part) (sum int) {
	for _, p := range parts {
		sum += p.N
	}
	return sum
}

func describeBarrier(c *Comm, op string) (*call, error) {
	if err := c.usable(op); err != nil {
		return nil, err
	}
	v := viewOf(c.g)
	return &call{op: op, kind: ofBarrier, plan: sched.Barrier(v.n, v.me), in: v.inner}, nil
}

func describeBcast[T any](c *Comm, op string, buf []T, root int) (*call, error) {
	if err := checkType[T](op); err != nil {
		return nil, err
	}
	if err := c.checkRoot(op, root); err != nil {
		return nil, err
	}
	v := viewOf(c.g)
	at, err := v.root(c.g, op, root)
	if err != nil {
		return nil, err
	}
	return &call{op: op, kind: ofBcast, root: root, bytes: spanOf(buf).bytes, plan: sched.Bcast(v.n, v.me, at, spanOf(buf).bytes), dst: data(buf), in: v.inner}, nil
}

func describeReduce[T any](c *Comm, name string, dst, src []T, op Op[T], root int) (*call, error) {
	if err := c.checkRoot(name, root); err != nil {
		return nil, err
	}
	if err := checkReduce(name, dst, src, op, root == c.g.me); err != nil {
		return nil, err
	}
	v := viewOf(c.g)
	at, err := v.root(c.g, name, root)
	if err != nil {
		return nil, err
	}
	plan := sched.Reduce(v.n, v.me, at, spanOf(src).bytes, elemSize[T]())
	return &call{op: name, kind: ofReduce, root: root, bytes: spanOf(src).bytes, plan: plan, src: data(src), dst: data(dst), fold: foldOf(op), in: v.inner}, nil
}

func describeAllreduce[T any](c *Comm, name string, dst, src []T, op Op[T]) (*call, error) {
	if err := c.usable(name); err != nil {
		return nil, err
	}
	if err := checkReduce(name, dst, src, op, true); err != nil {
		return nil, err
	}
	v := viewOf(c.g)
	plan := sched.Allreduce(v.n, v.me, spanOf(src).bytes, elemSize[T]())
	return &call{op: name, kind: ofAllreduce, bytes: spanOf(src).bytes, plan: plan, src: data(src), dst: data(dst), fold: foldOf(op), in: v.inner}, nil
}

func describeScan[T any](c *Comm, name string, dst, src []T, op Op[T], exclusive bool) (*call, error) {
	if err := c.usable(name); err != nil {
		return nil, err
	}
	if err := checkReduce(name, dst, src, op, true); err != nil {
		return nil, err
	}
	v := viewOf(c.g)
	plan := sched.Scan(v.n, v.me, spanOf(src).bytes, exclusive)
	kind := ofScan
	if exclusive {
		kind = ofExscan
	}
	return &call{op: name, kind: kind, bytes: spanOf(src).bytes, plan: plan, src: data(src), dst: data(dst), fold: foldOf(op), in: v.inner}, nil
}

func describeReduceScatter[T any](c *Comm, name string, dst, src []T, counts []int, op Op[T]) (*call, error) {
	if err := checkBuffers(c, name, dst, src); err != nil {
		return nil, err
	}
	if op == nil {
		return nil, usage(name, ErrArgument, "operator is nil, want Sum, Max or another one")
	}
	parts, err := Counts{Counts: counts}.partsOf(name, "source", c.g.n, len(src), elemSize[T]())
	if err == nil && data(dst) != data(src) {
		err = checkLength(name, "destination", len(dst), counts[c.g.me])
	}
	if err != nil {
		return nil, err
	}
	v := viewOf(c.g)
	plan := sched.ReduceScatter(v.n, v.me, v.pick(parts))
	return &call{op: name, kind: ofReduceScatter, bytes: spanOf(src).bytes, plan: plan, src: data(src), dst: data(dst), fold: foldOf(op), in: v.inner}, nil
}

// sameCounts returns n equal counts.
func sameCounts(n, count int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = count
	}
	return all
}

// rootParts returns the parts of the whole that the root has of a gather or a scatter, and nil at other ranks. mine is what each rank has.
func rootParts[T any](c *Comm, op, whole string, all []T, part string, mine []T, counts Counts, root int) ([]sched.Part, error) {
	if err := checkType[T](op); err != nil {
		return nil, err
	}
	if err := c.checkRoot(op, root); err != nil || root != c.g.me {
		return nil, err
	}
	parts, err := counts.partsOf(op, whole, c.g.n, len(all), elemSize[T]())
	if err == nil {
		err = checkLength(op, part, len(mine), counts.Counts[root])
	}
	if err != nil {
		return nil, err
	}
	if w, m := spanOf(all), spanOf(mine); m.bytes > 0 && w.overlaps(m) && uintptr(m.at) != uintptr(w.at)+uintptr(parts[root].At) {
		return nil, usage(op, ErrArgument, "%s and %s overlap, want disjoint slices, or as %s the root's part of the %s", part, whole, part, whole)
	}
	return parts, nil
}

func describeGather[T any](c *Comm, op string, dst, src []T, counts Counts, root int) (*call, error) {
	parts, err := rootParts(c, op, "destination", dst, "source", src, counts, root)
	if err != nil {
		return nil, err
	}
	v := viewOf(c.g)
	at, err := v.root(c.g, op, root)
	if err != nil {
		return nil, err
	}
	return &call{op: op, kind: ofGather, root: root, plan: sched.Gather(v.n, v.me, at, spanOf(src).bytes, v.pick(parts)), src: data(src), dst: data(dst), in: v.inner}, nil
}

func describeScatter[T any](c *Comm, op string, dst, src []T, counts Counts, root int) (*call, error) {
	parts, err := rootParts(c, op, "source", src, "destination", dst, counts, root)
	if err != nil {
		return nil, err
	}
	v := viewOf(c.g)
	at, err := v.root(c.g, op, root)
	if err != nil {
		return nil, err
	}
	return &call{op: op, kind: ofScatter, root: root, plan: sched.Scatter(v.n, v.me, at, spanOf(dst).bytes, v.pick(parts)), src: data(src), dst: data(dst), in: v.inner}, nil
}

func describeAllgather[T any](c *Comm, op string, dst, src []T, counts Counts) (*call, error) {
	if err := checkType[T](op); err != nil {
		return nil, err
	}
	if err := c.usable(op); err != nil {
		return nil, err
	}
	parts, err := counts.partsOf(op, "destination", c.g.n, len(dst), elemSize[T]())
	if err == nil {
		err = checkLength(op, "source", len(src), counts.Counts[c.g.me])
	}
	if err != nil {
		return nil, err
	}
	if d, s := spanOf(dst), spanOf(src); d.overlaps(s) && uintptr(s.at) != uintptr(d.at)+uintptr(parts[c.g.me].At) {
		return nil, usage(op, ErrArgument, "source and destination overlap, want disjoint slices, or as source this rank's part of the destination")
	}
	v := viewOf(c.g)
	return &call{op: op, kind: ofAllgather, bytes: bytesIn(parts), plan: sched.Allgather(v.n, v.me, v.pick(parts)), src: data(src), dst: data(dst), in: v.inner}, nil
}

func describeAlltoall[T any](c *Comm, op string, dst, src []T, get, give Counts) (*call, error) {
	if err := checkBuffers(c, op, dst, src); err != nil {
		return nil, err
	}
	to, err := give.partsOf(op, "source", c.g.n, len(src), elemSize[T]())
	if err != nil {
		return nil, err
	}
	from, err := get.partsOf(op, "destination", c.g.n, len(dst), elemSize[T]())
	if err == nil {
		err = checkLength(op, "part of this rank in the destination", get.Counts[c.g.me], give.Counts[c.g.me])
	}
	if err != nil {
		return nil, err
	}
	inPlace := len(src) > 0 && data(src) == data(dst)
	v := viewOf(c.g)
	return &call{op: op, kind: ofAlltoall, plan: sched.Alltoall(v.n, v.me, v.pick(to), v.pick(from), inPlace), src: data(src), dst: data(dst), in: v.inner}, nil
}

// splitCounts returns equal counts of a buffer that is divided among all ranks.
func splitCounts(c *Comm, op, what string, have int) (Counts, error) {
	if err := c.usable(op); err != nil {
		return Counts{}, err
	}
	if have%c.g.n != 0 {
		return Counts{}, usage(op, ErrArgument, "%s has %d elements, want a multiple of the number of ranks, %d", what, have, c.g.n)
	}
	return Counts{Counts: sameCounts(c.g.n, have/c.g.n)}, nil
}

// rootCounts is splitCounts for a buffer that only the root has.
func rootCounts(c *Comm, op, what string, have, root int) (Counts, error) {
	if err := c.checkRoot(op, root); err != nil || root != c.g.me {
		return Counts{}, err
	}
	return splitCounts(c, op, what, have)
}
