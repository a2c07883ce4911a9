package mpi

import (
	"math"
	"slices"
)

// Cart is a communicator whose ranks form a grid. Ranks are in row-major order: the last dimension varies fastest. A rank that is not in the grid has
// a nil Cart, whose calls return errors.
type Cart struct {
	comm     *Comm
	dims     []int
	periodic []bool
}

// Comm returns the communicator of the grid, or nil for a nil Cart.
func (c *Cart) Comm() *Comm {
	if c == nil {
		return nil
	}
	return c.comm
}

// Rank returns the rank of this process in the grid, or -1 for a nil Cart.
func (c *Cart) Rank() int { return c.Comm().Rank() }

// Size returns the number of ranks of the grid, or 0 for a nil Cart.
func (c *Cart) Size() int { return c.Comm().Size() }

// Free is Free of the grid's communicator.
//
//   - Errors: as Comm.Free.
//   - Collective: over the grid.
//   - Source: MPI_Comm_free.
func (c *Cart) Free() error { return c.Comm().Free() }

// Dims divides n ranks among dimensions: it returns sizes whose product is n, as equal as possible, the greatest first. fixed has sizes that are
// given, and 0 for those to be found.
//
//		dims, err := mpi.Dims(24, 0, 0)     // [6 4]
//		dims, err := mpi.Dims(24, 0, 3, 0)  // [4 3 2]
//
//	  - Errors: ErrArgument for more than one rank in no dimensions, negative sizes, and sizes that do not divide n.
//	  - Source: MPI_Dims_create.
func Dims(n int, fixed ...int) ([]int, error) {
	const op = "Dims"
	if n < 1 || n > 1 && len(fixed) == 0 {
		return nil, usage(op, ErrArgument, "%d ranks in %d dimensions, want at least one of each; one rank may have no dimension", n, len(fixed))
	}
	rest, free := n, 0
	for i, size := range fixed {
		switch {
		case size < 0:
			return nil, usage(op, ErrArgument, "dimension %d has size %d, want 1 or more, or 0 to have it found", i, size)
		case size == 0:
			free++
		case rest%size != 0:
			return nil, usage(op, ErrArgument, "dimensions %v do not divide %d ranks, want a product that does", fixed, n)
		default:
			rest /= size
		}
	}
	if free == 0 && rest != 1 {
		return nil, usage(op, ErrArgument, "dimensions %v have fewer than %d ranks, want as many", fixed, n)
	}
	found := balance(rest, free, divisors(rest))
	dims := slices.Clone(fixed)
	for i := range dims {
		if dims[i] == 0 {
			dims[i], found = found[0], found[1:]
		}
	}
	return dims, nil
}

// balance returns k factors of n whose greatest one is as small as possible, and of those with the same greatest one those whose next one is as
// small as possible, in descending order. candidates has all divisors of n, in ascending order, and maybe other numbers.
func balance(n, k int, candidates []int) []int {
	switch k {
	case 0:
		return nil
	case 1:
		return []int{n}
	}
	for _, first := range candidates { // the least greatest factor that leaves factors which are not greater
		if n%first != 0 || power(first, k) < n {
			continue
		}
		if rest := balance(n/first, k-1, candidates); rest[0] <= first {
			return append([]int{first}, rest...)
		}
	}
	return nil // first = n ends the loop
}

// divisors returns the divisors of n in ascending order.
func divisors(n int) (all []int) {
	var above []int
	for d := 1; d <= n/d; d++ {
		if n%d == 0 {
			all = append(all, d)
			if d != n/d {
				above = append(above, n/d)
			}
		}
	}
	slices.Reverse(above)
	return append(all, above...)
}

// power returns x to the power of k, or a great number if that is greater.
func power(x, k int) int {
	p := 1
	for range k {
		if p > math.MaxInt/x {
			return math.MaxInt
		}
		p *= x
	}
	return p
}

// Cart makes a communicator whose first ranks form a grid with the given sizes. Ranks that are not in the grid get nil. A dimension that is periodic
// has no ends: behind its last coordinate comes the first. reorder permits other ranks than in c; goshmem keeps them.
//
//   - Errors: as Split; ErrArgument for sizes below 1, more ranks than the communicator has, and another number of flags than dimensions.
//   - Cost: as Split.
//   - Collective: over the communicator, with the same arguments.
//   - Source: MPI_Cart_create.
func (c *Comm) Cart(dims []int, periodic []bool, reorder bool) (*Cart, error) {
	const op = "Comm.Cart"
	if err := c.usable(op); err != nil {
		return nil, err
	}
	c = livingOf(c)
	_ = reorder
	if len(dims) != len(periodic) {
		return nil, usage(op, ErrArgument, "%d flags for %d dimensions, want one for each", len(periodic), len(dims))
	}
	size := 1
	for i, d := range dims {
		if d < 1 {
			return nil, usage(op, ErrArgument, "dimension %d has size %d, want 1 or more", i, d)
		}
		if d > c.g.n || size*d > c.g.n {
			return nil, usage(op, ErrArgument, "dimensions %v have more ranks than the communicator, %d", dims, c.g.n)
		}
		size *= d
	}
	color := 0
	if c.g.me >= size {
		color = Undefined
	}
	of, err := c.Split(color, 0)
	if err != nil || of == nil {
		return nil, err
	}
	return &Cart{of, slices.Clone(dims), slices.Clone(periodic)}, nil
}

// Dims returns the sizes of the grid.
//
//   - Source: MPI_Cartdim_get, MPI_Cart_get.
func (c *Cart) Dims() []int {
	if c == nil {
		return nil
	}
	return slices.Clone(c.dims)
}

// Periodic says which dimensions have no ends.
//
//   - Source: MPI_Cart_get.
func (c *Cart) Periodic() []bool {
	if c == nil {
		return nil
	}
	return slices.Clone(c.periodic)
}

// Coords returns the coordinates of a rank.
//
//   - Errors: ErrRankRange.
//   - Source: MPI_Cart_coords.
func (c *Cart) Coords(rank int) ([]int, error) {
	if err := c.Comm().usable("Cart.Coords"); err != nil {
		return nil, err
	}
	if rank < 0 || rank >= c.Size() {
		return nil, usage("Cart.Coords", ErrRankRange, "rank %d in a grid of %d ranks, want 0 to %d", rank, c.Size(), c.Size()-1)
	}
	coords := make([]int, len(c.dims))
	for i := len(c.dims) - 1; i >= 0; i-- {
		coords[i] = rank % c.dims[i]
		rank /= c.dims[i]
	}
	return coords, nil
}

// RankAt returns the rank at some coordinates. In a periodic dimension any coordinate is one of the grid.
//
//   - Errors: ErrArgument for another number of coordinates than dimensions, and for one outside of the grid.
//   - Source: MPI_Cart_rank.
func (c *Cart) RankAt(coords ...int) (int, error) {
	const op = "Cart.RankAt"
	if err := c.Comm().usable(op); err != nil {
		return 0, err
	}
	if len(coords) != len(c.dims) {
		return 0, usage(op, ErrArgument, "%d coordinates in %d dimensions, want one for each", len(coords), len(c.dims))
	}
	rank := 0
	for i, x := range coords {
		if c.periodic[i] {
			x = (x%c.dims[i] + c.dims[i]) % c.dims[i]
		}
		if x < 0 || x >= c.dims[i] {
			return 0, usage(op, ErrArgument, "coordinate %d of dimension %d, want 0 to %d", x, i, c.dims[i]-1)
		}
		rank = rank*c.dims[i] + x
	}
	return rank, nil
}

// Shift returns the ranks from which and to which this one passes data that move by some steps along a dimension: ProcNull beyond an end.
//
//   - Errors: ErrArgument for a dimension that does not exist.
//   - Source: MPI_Cart_shift.
func (c *Cart) Shift(dim, steps int) (src, dst int, err error) {
	if err := c.Comm().usable("Cart.Shift"); err != nil {
		return 0, 0, err
	}
	if dim < 0 || dim >= len(c.dims) {
		return 0, 0, usage("Cart.Shift", ErrArgument, "dimension %d of a grid with %d, want 0 to %d", dim, len(c.dims), len(c.dims)-1)
	}
	coords, err := c.Coords(c.Rank())
	if err != nil {
		return 0, 0, err
	}
	at := func(steps int) int {
		there := slices.Clone(coords)
		there[dim] += steps
		rank, err := c.RankAt(there...)
		if err != nil {
			return ProcNull
		}
		return rank
	}
	return at(-steps), at(steps), nil
}

// Sub makes the grids that have only some of the dimensions: ranks with the same coordinates in all others are together.
//
//   - Errors: as Split; ErrArgument for another number of flags than dimensions.
//   - Cost: as Split.
//   - Collective: over the communicator, with the same flags.
//   - Source: MPI_Cart_sub.
func (c *Cart) Sub(remain ...bool) (*Cart, error) {
	if err := c.Comm().usable("Cart.Sub"); err != nil {
		return nil, err
	}
	if len(remain) != len(c.dims) {
		return nil, usage("Cart.Sub", ErrArgument, "%d flags for %d dimensions, want one for each", len(remain), len(c.dims))
	}
	coords, err := c.Coords(c.Rank())
	if err != nil {
		return nil, err
	}
	color, key := 0, 0
	var dims []int
	var periodic []bool
	for i, size := range c.dims {
		if !remain[i] {
			color = color*size + coords[i]
			continue
		}
		key = key*size + coords[i]
		dims, periodic = append(dims, size), append(periodic, c.periodic[i])
	}
	of, err := c.comm.Split(color, key)
	if err != nil {
		return nil, err
	}
	return &Cart{of, dims, periodic}, nil
}

// Dup makes a grid with the same ranks, sizes and ends.
//
//   - Errors: as Comm.Dup.
//   - Cost: as Split.
//   - Collective: over the grid.
//   - Source: MPI_Comm_dup of a communicator with a grid.
func (c *Cart) Dup() (*Cart, error) {
	of, err := c.Comm().Dup()
	if err != nil {
		return nil, err
	}
	return &Cart{of, c.dims, c.periodic}, nil
}

// Neighbors returns the communicator with the neighbors of each rank in the grid: for each dimension the one before it, then the one behind it. A
// neighbor beyond an end is ProcNull: its part is left out.
//
//   - Source: MPI_Neighbor_allgather on a grid.
func (c *Cart) Neighbors() (*Neighbors, error) {
	if err := c.Comm().usable("Cart.Neighbors"); err != nil {
		return nil, err
	}
	var all []int
	for dim := range c.dims {
		src, dst, err := c.Shift(dim, 1)
		if err != nil {
			return nil, err
		}
		all = append(all, src, dst)
	}
	return &Neighbors{c.comm, all, all, true}, nil
}
