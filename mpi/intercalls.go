package mpi

import (
	"slices"

	"github.com/goshmem/goshmem/mpi/sched"
)

// # Collectives of two groups
//
// A collective of an Intercomm is a schedule of the communicator of both groups, made for sched.Sides. As with other collectives, each is described once, for the
// function that waits (InterBcast, in intercollectives.go) and for the one that does not (IinterBcast, in internonblocking.go).
//
//   - Ranks compare the kind of what they call, and where it has a root, which group that is in. The ranks with ProcNull know no more of it.

// begin begins a collective of an Intercomm that was described.
func (x *Intercomm) begin(c *call, err error) (Request, error) {
	if err != nil {
		return Request{}, x.refuse(err)
	}
	if isIntercepted() {
		var q Request
		err := intercept(x.seen(c), func() (err error) {
			q, err = beginQuietly(x.both, c)
			return handled(x.both.g, err)
		})
		return q, err
	}
	q, err := beginQuietly(x.both, c)
	return q, handled(x.both.g, err)
}

// run executes a collective of an Intercomm that was described.
func (x *Intercomm) run(c *call, err error) error {
	if err != nil {
		return x.refuse(err)
	}
	if isIntercepted() {
		return intercept(x.seen(c), func() error { return runUnseen(x.both, c) })
	}
	return runUnseen(x.both, c)
}

// refuse returns the error of a collective that was not described.
func (x *Intercomm) refuse(err error) error {
	if x == nil {
		return err
	}
	return handledOf(x.both, err)
}

// seen returns what an interceptor sees of a collective of an Intercomm. The communicator is Remote: the program does not have that of both groups.
func (x *Intercomm) seen(c *call) Call { return Call{c.op, x.remote, c.rootArg, AnyTag, c.bytes} }

// sides returns how this rank sees the groups.
func (x *Intercomm) sides() sched.Sides {
	return sched.Sides{Me: x.local.g.me, Local: x.local.g.n, Remote: x.remote.g.n, First: x.low}
}

// rootGroup returns which group has the root: 0 for the first one.
func (x *Intercomm) rootGroup(root int) int {
	if here := root == Root || root == ProcNull; here == x.low {
		return 0
	}
	return 1
}

// checkInter checks the type, the Intercomm and the root of a collective.
func checkInter[T any](x *Intercomm, op string, root int) error {
	if err := checkType[T](op); err != nil {
		return err
	}
	if err := x.usable(op); err != nil {
		return err
	}
	if root != Root && root != ProcNull && (root < 0 || root >= x.remote.g.n) {
		return usage(op, ErrRankRange, "root %d, want Root, ProcNull, or 0 to %d for a rank of the other group", root, x.remote.g.n-1)
	}
	return nil
}

// checkInterBuffers is checkInter for a collective without a root, whose buffers do not overlap.
func checkInterBuffers[T any](x *Intercomm, op string, dst, src []T) error {
	if err := checkInter[T](x, op, Root); err != nil {
		return err
	}
	return checkApart(x.both, op, dst, src)
}

// checkOperator checks the operator of a reduction.
func checkOperator[T any](name string, op Op[T]) error {
	if op == nil {
		return usage(name, ErrArgument, "operator is nil, want Sum, Max or another one")
	}
	return nil
}

// remoteCounts returns equal counts of a buffer that is divided among the ranks of the other group.
func remoteCounts(x *Intercomm, op, what string, have int) (Counts, error) {
	if err := x.usable(op); err != nil {
		return Counts{}, err
	}
	n := x.remote.g.n
	if have%n != 0 {
		return Counts{}, usage(op, ErrArgument, "%s has %d elements, want a multiple of the other group's size, %d", what, have, n)
	}
	return Counts{Counts: sameCounts(n, have/n)}, nil
}

// remoteRootCounts is remoteCounts for a buffer that only the root has.
func remoteRootCounts(x *Intercomm, op, what string, have, root int) (Counts, error) {
	if root != Root {
		return Counts{}, nil
	}
	return remoteCounts(x, op, what, have)
}

// wholeFor returns parts of n bytes each that are the same memory, one for each rank of the other group.
func (x *Intercomm) wholeFor(n int) []sched.Part {
	return slices.Repeat([]sched.Part{{N: n}}, x.remote.g.n)
}

func describeInterBarrier(x *Intercomm, op string) (*call, error) {
	if err := x.usable(op); err != nil {
		return nil, err
	}
	c, err := describeBarrier(x.both, op)
	if err == nil {
		c.rootArg = AnySource
	}
	return c, err
}

func describeInterBcast[T any](x *Intercomm, op string, buf []T, root int) (*call, error) {
	if err := checkInter[T](x, op, root); err != nil {
		return nil, err
	}
	s, n := x.sides(), spanOf(buf).bytes
	c := &call{op: op, kind: ofBcast, root: x.rootGroup(root), rootArg: root}
	switch root {
	case ProcNull:
		c.plan = s.Nothing()
	case Root:
		c.plan, c.src = s.Exchange(x.wholeFor(n), nil), data(buf)
	default:
		c.plan, c.dst = s.Get(root, n), data(buf)
	}
	return c, nil
}

func describeInterReduce[T any](x *Intercomm, name string, dst, src []T, op Op[T], root int) (*call, error) {
	err := checkInter[T](x, name, root)
	if err == nil {
		err = checkOperator(name, op)
	}
	if err != nil {
		return nil, err
	}
	s := x.sides()
	c := &call{op: name, kind: ofReduce, root: x.rootGroup(root), rootArg: root}
	switch root {
	case ProcNull:
		c.plan = s.Nothing()
	case Root:
		c.plan, c.dst, c.fold = s.Reduce(spanOf(dst).bytes), data(dst), foldOf(op)
	default:
		c.plan, c.src = s.Give(root, spanOf(src).bytes), data(src)
	}
	return c, nil
}

func describeInterAllreduce[T any](x *Intercomm, name string, dst, src []T, op Op[T]) (*call, error) {
	err := checkInter[T](x, name, Root)
	if err == nil {
		err = checkReduce(name, dst, src, op, true)
	}
	if err != nil {
		return nil, err
	}
	n := spanOf(src).bytes
	plan := x.sides().Allreduce(n)
	return &call{op: name, kind: ofAllreduce, bytes: n, plan: plan, src: data(src), dst: data(dst), fold: foldOf(op), rootArg: AnySource}, nil
}

func describeInterReduceScatter[T any](x *Intercomm, name string, dst, src []T, counts []int, op Op[T]) (*call, error) {
	err := checkInterBuffers(x, name, dst, src)
	if err == nil {
		err = checkOperator(name, op)
	}
	if err != nil {
		return nil, err
	}
	elem := elemSize[T]()
	parts, err := Counts{Counts: counts}.partsOf(name, "result", x.local.g.n, len(src), elem)
	if err == nil {
		err = checkLength(name, "destination", len(dst), counts[x.local.g.me])
	}
	if sum := bytesIn(parts) / elem; err == nil && sum != len(src) {
		err = usage(name, ErrArgument, "the ranks of this group get %d elements together, want as many as the source has, %d", sum, len(src))
	}
	if err != nil {
		return nil, err
	}
	n := spanOf(src).bytes
	plan := x.sides().ReduceScatter(n, elem, parts)
	return &call{op: name, kind: ofReduceScatter, bytes: n, plan: plan, src: data(src), dst: data(dst), fold: foldOf(op), rootArg: AnySource}, nil
}

// localCounts returns equal counts of the result of a ReduceScatterBlock, which is as long as a source.
func localCounts(x *Intercomm, op string, have int) ([]int, error) {
	if err := x.usable(op); err != nil {
		return nil, err
	}
	for _, n := range [...]int{x.local.g.n, x.remote.g.n} {
		if have%n != 0 {
			return nil, usage(op, ErrArgument, "source has %d elements, want a multiple of the sizes of both groups, %d and %d", have, x.local.g.n, x.remote.g.n)
		}
	}
	return sameCounts(x.local.g.n, have/x.local.g.n), nil
}

func describeInterGather[T any](x *Intercomm, op string, dst, src []T, counts Counts, root int) (*call, error) {
	if err := checkInter[T](x, op, root); err != nil {
		return nil, err
	}
	s := x.sides()
	c := &call{op: op, kind: ofGather, root: x.rootGroup(root), rootArg: root}
	switch root {
	case ProcNull:
		c.plan = s.Nothing()
	case Root:
		parts, err := counts.partsOf(op, "destination", x.remote.g.n, len(dst), elemSize[T]())
		if err != nil {
			return nil, err
		}
		c.plan, c.dst = s.Exchange(nil, parts), data(dst)
	default:
		c.plan, c.src = s.Give(root, spanOf(src).bytes), data(src)
	}
	return c, nil
}

func describeInterScatter[T any](x *Intercomm, op string, dst, src []T, counts Counts, root int) (*call, error) {
	if err := checkInter[T](x, op, root); err != nil {
		return nil, err
	}
	s := x.sides()
	c := &call{op: op, kind: ofScatter, root: x.rootGroup(root), rootArg: root}
	switch root {
	case ProcNull:
		c.plan = s.Nothing()
	case Root:
		parts, err := counts.partsOf(op, "source", x.remote.g.n, len(src), elemSize[T]())
		if err != nil {
			return nil, err
		}
		c.plan, c.src = s.Exchange(parts, nil), data(src)
	default:
		c.plan, c.dst = s.Get(root, spanOf(dst).bytes), data(dst)
	}
	return c, nil
}

func describeInterAllgather[T any](x *Intercomm, op string, dst, src []T, counts Counts) (*call, error) {
	if err := checkInterBuffers(x, op, dst, src); err != nil {
		return nil, err
	}
	parts, err := counts.partsOf(op, "destination", x.remote.g.n, len(dst), elemSize[T]())
	if err != nil {
		return nil, err
	}
	plan := x.sides().Exchange(x.wholeFor(spanOf(src).bytes), parts)
	return &call{op: op, kind: ofAllgather, plan: plan, src: data(src), dst: data(dst), rootArg: AnySource}, nil
}

func describeInterAlltoall[T any](x *Intercomm, op string, dst, src []T, get, give Counts) (*call, error) {
	if err := checkInterBuffers(x, op, dst, src); err != nil {
		return nil, err
	}
	from, err := get.partsOf(op, "destination", x.remote.g.n, len(dst), elemSize[T]())
	if err != nil {
		return nil, err
	}
	to, err := give.partsOf(op, "source", x.remote.g.n, len(src), elemSize[T]())
	if err != nil {
		return nil, err
	}
	return &call{op: op, kind: ofAlltoall, plan: x.sides().Exchange(to, from), src: data(src), dst: data(dst), rootArg: AnySource}, nil
}

// exchangeCounts returns the counts of an InterAlltoall by the lengths of its buffers.
func exchangeCounts(x *Intercomm, op string, get, give int) (from, to Counts, err error) {
	if from, err = remoteCounts(x, op, "destination", get); err == nil {
		to, err = remoteCounts(x, op, "source", give)
	}
	return from, to, err
}
