package mpi

import "math"

// Layout says which elements of a slice a message has, and in which order: those of a column of a matrix, for example. It is a value; the zero Layout has no
// element.
type Layout struct {
	runs   []run
	count  int // elements in all runs
	extent int // least length of a slice that has them all
	err    error
}

// run is elements that follow each other.
type run struct{ at, n int }

// Contiguous returns the layout of the first n elements.
//
//   - Source: MPI_Type_contiguous.
func Contiguous(n int) Layout { return Vector(1, n, n) }

// Vector returns the layout of count blocks of elements, which begin stride elements apart.
//
//   - Shape: count and block are 0 or more, and stride at least block, if there are several blocks. Otherwise functions that use it return ErrArgument.
//   - Source: MPI_Type_vector.
func Vector(count, block, stride int) (l Layout) {
	if count < 0 || block < 0 || count > 1 && stride < block {
		l.err = usage("Vector", ErrArgument, "%d blocks of %d elements, %d apart, want no negative numbers, and blocks that do not overlap", count, block, stride)
		return l
	}
	for i := range count {
		if i > 0 && stride > math.MaxInt/i {
			l.err = usage("Vector", ErrArgument, "%d blocks %d elements apart, want elements of a slice that there can be", count, stride)
			return l
		}
		addRun(&l, i*stride, block)
	}
	return l
}

// Indexed returns the layout of blocks of elements: block i has lengths[i] elements, from displs[i] on.
//
//   - Shape: as many lengths as displacements, none of them negative. Blocks may be in any order; those of a receive do not overlap, which is not checked.
//   - Source: MPI_Type_indexed.
func Indexed(lengths, displs []int) (l Layout) {
	if len(lengths) != len(displs) {
		l.err = usage("Indexed", ErrArgument, "%d lengths and %d displacements, want as many", len(lengths), len(displs))
		return l
	}
	for i, n := range lengths {
		if n < 0 || displs[i] < 0 {
			l.err = usage("Indexed", ErrArgument, "block %d has %d elements from %d on, want no negative numbers", i, n, displs[i])
			return l
		}
		addRun(&l, displs[i], n)
	}
	return l
}

// Subarray returns the layout of a part of an array with several dimensions, of which the last one is contiguous.
//
//   - Shape: in each dimension the part has sub[i] of sizes[i] elements, from starts[i] on.
//   - Source: MPI_Type_create_subarray with MPI_ORDER_C.
func Subarray(sizes, sub, starts []int) (l Layout) {
	if len(sub) != len(sizes) || len(starts) != len(sizes) || len(sizes) == 0 {
		l.err = usage("Subarray", ErrArgument, "%d sizes, %d sizes of the part and %d starts, want as many, at least one", len(sizes), len(sub), len(starts))
		return l
	}
	for i := range sizes {
		if sub[i] < 0 || starts[i] < 0 || sub[i] > sizes[i] || starts[i] > sizes[i]-sub[i] {
			l.err = usage("Subarray", ErrArgument, "dimension %d has %d elements, its part %d from %d on, want a part within it", i, sizes[i], sub[i], starts[i])
			return l
		}
	}
	addRows(&l, sizes, sub, starts, 0)
	return l
}

// addRows adds the rows of a part of an array, which begins at an element.
func addRows(l *Layout, sizes, sub, starts []int, at int) {
	if sizes[0] > 0 && at > (math.MaxInt-starts[0])/sizes[0] {
		l.err = usage("Subarray", ErrArgument, "an array of so many elements, want one that there can be")
		return
	}
	at = at*sizes[0] + starts[0]
	if len(sizes) == 1 {
		addRun(l, at, sub[0])
		return
	}
	for i := range sub[0] {
		addRows(l, sizes[1:], sub[1:], starts[1:], at+i)
	}
}

// addRun adds a run, to the last one if that ends where it begins.
func addRun(l *Layout, at, n int) {
	if n == 0 || l.err != nil {
		return
	}
	if at < 0 || at > math.MaxInt-n || l.count > math.MaxInt-n {
		l.err = usage("Layout", ErrArgument, "%d elements from %d on, want elements of a slice that there can be", n, at)
		return
	}
	l.count, l.extent = l.count+n, max(l.extent, at+n)
	if last := len(l.runs) - 1; last >= 0 && l.runs[last].at+l.runs[last].n == at {
		l.runs[last].n += n
		return
	}
	l.runs = append(l.runs, run{at, n})
}

// Count returns how many elements the layout has.
//
//   - Source: MPI_Type_size.
func (l Layout) Count() int { return l.count }

// Extent returns the least length of a slice that has all elements of the layout.
//
//   - Source: MPI_Type_get_extent.
func (l Layout) Extent() int { return l.extent }

// checkExtent returns an error unless a slice of n elements has all elements of the layout.
func checkExtent(op string, l *Layout, n int) error {
	switch {
	case l.err != nil:
		return l.err
	case n < l.extent:
		return usage(op, ErrArgument, "slice of %d elements, want at least %d for this layout", n, l.extent)
	}
	return nil
}

// isWhole reports whether the elements follow each other.
func isWhole(l *Layout) bool { return len(l.runs) <= 1 }

// gather returns the elements of the layout in base, one after the other: a part of base, or a copy.
func gather[T any](base []T, l *Layout) []T {
	switch len(l.runs) {
	case 0:
		return nil
	case 1:
		return base[l.runs[0].at:][:l.runs[0].n]
	}
	all := make([]T, 0, l.count)
	for _, r := range l.runs {
		all = append(all, base[r.at:r.at+r.n]...)
	}
	return all
}

// scatter copies elements to their places in base.
func scatter[T any](base, from []T, l *Layout) {
	for _, r := range l.runs {
		if len(from) == 0 {
			return
		}
		n := copy(base[r.at:r.at+r.n], from)
		from = from[n:]
	}
}

// SendLayout sends the elements of a layout. Its receiver may use another layout, or a plain slice.
//
//   - Shape: base has at least l.Extent() elements.
//   - Cost: as Send; a copy more unless the elements follow each other.
//   - Errors: as Send; ErrArgument for the layout.
//   - Concurrent calls: allowed.
//   - Source: MPI_Send with a derived datatype.
func SendLayout[T any](c *Comm, base []T, l Layout, dst, tag int) error {
	const op = "SendLayout"
	if err := checkLayout[T](op, base, &l); err != nil {
		return err
	}
	return sendSpan(c, op, spanOf(gather(base, &l)), dst, tag)
}

// IsendLayout begins to send the elements of a layout. base must not be changed until the request is complete.
//
//   - Shape: as SendLayout.
//   - Errors: as SendLayout, from IsendLayout or from Wait.
//   - Concurrent calls: allowed.
//   - Source: MPI_Isend with a derived datatype.
func IsendLayout[T any](c *Comm, base []T, l Layout, dst, tag int) (Request, error) {
	const op = "IsendLayout"
	if err := checkLayout[T](op, base, &l); err != nil {
		return Request{}, err
	}
	return isendSpan(c, op, spanOf(gather(base, &l)), dst, tag)
}

// RecvLayout receives a message into the elements of a layout. A message that is shorter fills the first ones.
//
//   - Shape: base has at least l.Extent() elements.
//   - Cost: as Recv; a copy more unless the elements follow each other.
//   - Errors: as Recv; ErrArgument for the layout.
//   - Concurrent calls: allowed.
//   - Source: MPI_Recv with a derived datatype.
func RecvLayout[T any](c *Comm, base []T, l Layout, src, tag int) (Status, error) {
	const op = "RecvLayout"
	if err := checkLayout[T](op, base, &l); err != nil {
		return emptyStatus, err
	}
	into := gather(base, &l)
	var s Status
	receive := func() (err error) {
		s, err = recvSpan(c, op, spanOf(into), src, tag)
		return err
	}
	var err error
	if isIntercepted() {
		err = intercept(Call{op, c, src, tag, spanOf(into).bytes}, receive)
	} else {
		err = receive()
	}
	if !isWhole(&l) {
		scatter(base, into[:max(s.Count, 0)], &l)
	}
	return s, err
}

// IrecvLayout begins to receive a message into the elements of a layout. base must not be used until the request is complete.
//
//   - Shape: as RecvLayout.
//   - Errors: as RecvLayout, from IrecvLayout or from Wait.
//   - Concurrent calls: allowed.
//   - Source: MPI_Irecv with a derived datatype.
func IrecvLayout[T any](c *Comm, base []T, l Layout, src, tag int) (Request, error) {
	const op = "IrecvLayout"
	if err := checkLayout[T](op, base, &l); err != nil {
		return Request{}, err
	}
	into := gather(base, &l)
	q, err := irecv(c, op, spanOf(into), src, tag)
	if err == nil && !isWhole(&l) && q.r != procNullRequest {
		q.r.rare = true
		q.r.after = func(r *request) { scatter(base, into[:max(r.status.Count, 0)], &l) }
	}
	return q, err
}

// checkLayout checks the type, and that a slice has all elements of a layout.
func checkLayout[T any](op string, base []T, l *Layout) error {
	if err := checkType[T](op); err != nil {
		return err
	}
	return checkExtent(op, l, len(base))
}
