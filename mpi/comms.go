package mpi

import (
	"slices"

	groups "github.com/goshmem/goshmem/mpi/group"
)

// Group is an ordered set of processes of the job: see package group.
type Group = groups.Group

// Comparison is the result of Comm.Compare: group.Ident, Congruent, Similar or Unequal.
type Comparison = groups.Comparison

// Group returns the group of the communicator. A process of it is named by its PE.
//
//   - Concurrent calls: allowed.
//   - Source: MPI_Comm_group.
func (c *Comm) Group() Group {
	if c == nil || c.g == nil {
		return Group{}
	}
	pes := make([]int, c.g.n)
	for rank, pe := range c.g.pes {
		pes[rank] = int(pe)
	}
	return groups.Of(int(c.g.e.me), pes...)
}

// Compare compares two communicators: Ident if they are the same one, Congruent if they have the same ranks, Similar if they have the same
// processes with other ranks.
//
//   - Errors: *UsageError for a communicator that is nil or was freed.
//   - Concurrent calls: allowed.
//   - Source: MPI_Comm_compare.
func (c *Comm) Compare(d *Comm) (Comparison, error) {
	const op = "Comm.Compare"
	for _, x := range []*Comm{c, d} {
		if err := x.usable(op); err != nil {
			return groups.Unequal, err
		}
	}
	if c.g == d.g {
		return groups.Ident, nil
	}
	if r := c.Group().Compare(d.Group()); r != groups.Ident {
		return r, nil
	}
	return groups.Congruent, nil
}

// Dup makes a communicator with the same ranks. Messages of the one do not meet those of the other. It gets the attributes, as their keys say.
//
//   - Errors: as Split.
//   - Cost: as Split.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_dup.
func (c *Comm) Dup() (*Comm, error) {
	of, err := c.Split(0, c.Rank())
	if err == nil {
		c.g.attributes.copyTo(&of.g.attributes)
	}
	return of, err
}

// Kind is a kind of communicator for SplitType.
type Kind int

// Shared is the kind of communicators whose ranks are on one node: they have each other's symmetric memory mapped (shmem.Sym.Peer).
const Shared Kind = 0

// SplitType makes communicators of ranks that have something in common: with Shared, those of each node. key is as in Split.
//
//   - Errors: as Split; ErrArgument for another kind.
//   - Cost: as Split.
//   - Collective: over the communicator.
//   - Source: MPI_Comm_split_type.
func (c *Comm) SplitType(kind Kind, key int) (*Comm, error) {
	const op = "Comm.SplitType"
	if err := c.usable(op); err != nil {
		return nil, err
	}
	if kind != Shared {
		return nil, usage(op, ErrArgument, "kind %d, want Shared", kind)
	}
	if c.g.e.far == nil {
		return c.Split(0, key)
	}
	return c.Split(c.g.nodeOf(c.g.me), key)
}

// Create makes a communicator of the processes of a group, in its order. Processes that are not in the group get nil.
//
//   - Shape: the group is the same at all its processes. Other ranks may give other groups, with none in common, or one
//     without processes. All processes of a group are ranks of the communicator.
//   - Errors: as Split; ErrArgument for a group with other processes.
//   - Cost: as Split.
//   - Collective: over the communicator, also over its ranks that are not in the group.
//   - Source: MPI_Comm_create.
func (c *Comm) Create(of Group) (*Comm, error) {
	const op = "Comm.Create"
	members, err := ranksOf(c, op, of)
	if err != nil {
		return nil, err
	}
	if place := slices.Index(members, c.g.me); place >= 0 {
		return c.Split(slices.Min(members), place) // ranks may give different groups that have none in common
	}
	return c.Split(Undefined, 0)
}

// ranksOf returns the ranks of a group's processes in the communicator.
func ranksOf(c *Comm, op string, of Group) ([]int, error) {
	if err := c.usable(op); err != nil {
		return nil, err
	}
	var ranks []int
	for _, pe := range of.IDs() {
		if pe < 0 || pe >= len(c.g.ranks) || c.g.ranks[pe] < 0 {
			return nil, usage(op, ErrArgument, "the group has PE %d, want only processes of the communicator", pe)
		}
		ranks = append(ranks, int(c.g.ranks[pe]))
	}
	return ranks, nil
}

// CreateGroup makes a communicator of the processes of a group, in its order. Only they call it. So it works although other ranks of the
// communicator have died, and several goroutines may call it at a time, with different tags.
//
//   - Shape: the group is the same at all its processes, and these are ranks of the communicator. tag is 0 to MaxTag.
//   - Errors: *UsageError; *RankError for processes of the group that have died; the end of c's context.
//   - Cost: two gathers of a word.
//   - Collective: over the group.
//   - Source: MPI_Comm_create_group.
func (c *Comm) CreateGroup(of Group, tag int) (*Comm, error) {
	const op = "Comm.CreateGroup"
	if c != nil && c.g != nil {
		c = livingOf(c)
	}
	members, err := ranksOf(c, op, of)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(members, c.g.me) {
		return nil, usage(op, ErrArgument, "the group lacks this process, PE %d, want a group with it", c.g.e.me)
	}
	if tag < 0 || tag > MaxTag {
		return nil, usage(op, ErrTag, "tag %d, want 0 to %d", tag, MaxTag)
	}
	made, err := newMessagingComm(c, op, members, tag)
	return made, handled(c.g, err)
}

// Idup begins to make a communicator with the same ranks. It must not be used before the request is complete.
//
//   - Errors: as Split, from Wait.
//   - Collective: over the communicator. All ranks call Idup in the same order.
//   - Source: MPI_Comm_idup.
func (c *Comm) Idup() (*Comm, Request, error) {
	const op = "Comm.Idup"
	if err := c.usable(op); err != nil {
		return nil, Request{}, err
	}
	c = livingOf(c)
	g := c.g
	members := make([]int, g.n)
	for rank := range members {
		members[rank] = rank
	}
	g.e.mu.Lock()
	g.collectives.idups++
	number := bySplit - g.collectives.idups
	g.e.unlock()
	made := &Comm{ctx: c.ctx}
	r := startGeneral(g, op, func() error {
		of, err := newMessagingComm(c, op, members, number)
		if err == nil {
			c.g.attributes.copyTo(&of.g.attributes)
			made.g = of.g
		}
		return err
	})
	return made, r.handle(c.ctx), nil
}

// startGeneral executes something in a goroutine of its own, and returns its request.
func startGeneral(g *group, op string, do func() error) *request {
	return startReceiving(g, op, func() (Status, error) { return emptyStatus, do() })
}

// startReceiving is startGeneral of something that has a status.
func startReceiving(g *group, op string, do func() (Status, error)) *request {
	e := g.e
	e.mu.Lock()
	r := g.newRequest(op, span{})
	r.general, r.rare = true, true
	e.unlock()
	go func() {
		s, err := do()
		e.mu.Lock()
		defer e.unlock()
		r.status = s
		e.complete(r, err)
	}()
	return r
}
