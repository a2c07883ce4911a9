// Package bridge connects teams of package shmem with communicators of package mpi, for package interop. The
// two packages do not import each other: each registers functions here that return the group of a
// handle, and that make a handle of a group. Functions of a package that the program does not import are nil.
package bridge

import (
	"context"
	"sync"

	"github.com/goshmem/goshmem/coll"
)

// Group is what a *shmem.Team stands for.
type Group struct {
	Team *coll.Team      // nil if it has PEs of several nodes
	PEs  []int           // of the members, in their order
	Name [2]uint64       // of a team of several nodes: no other team's, and the same at all members
	Ctx  context.Context //nolint:containedctx // the handle's context
	Twin *Twin
	// Fail returns the form that the handle's package gives to an error of the team.
	Fail func(op string, err error) error
}

// Ranks is what an *mpi.Comm stands for.
type Ranks struct {
	PEs  []int           // of the ranks that live, in their order
	Me   int             // this one among them
	Ctx  context.Context //nolint:containedctx // the handle's context
	Twin *Twin
	// Gather gives the words of each rank to all, as a collective of the communicator.
	Gather func(mine Words) ([]Words, error)
}

// Words is what a rank gives to all.
type Words [2]uint64

// Twin is of a team or a communicator: the one of the other package that interop has made of it, or that it was made of.
type Twin struct {
	mu    sync.Mutex
	other any
	lives func() bool
}

// Get returns the twin, or nil if there is none, or none any more.
func (t *Twin) Get() any {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.other != nil && !t.lives() {
		t.other, t.lives = nil, nil
	}
	return t.other
}

// Set sets the twin: a handle, and whether it is not freed.
func (t *Twin) Set(other any, lives func() bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.other, t.lives = other, lives
}

// OfTeam returns the group of a *shmem.Team. OfComm returns that of an *mpi.Comm; what is the name of a call that all ranks make, which
// they compare if GOSHMEM_CHECK asks for it.
var (
	OfTeam func(op string, team any) (Group, error)
	OfComm func(op, what string, comm any) (Ranks, error)
)

// World returns the process's *shmem.World, or nil while shmem is not initialized. ContextOf returns the context of an *mpi.Comm.
//
//   - Errors: of ContextOf: those of a communicator that is nil, freed or finalized.
var (
	World     func() any
	ContextOf func(op string, comm any) (context.Context, error)
)

// NewComm makes an *mpi.Comm of a team that was split off, NewCommOf of PEs. name tells apart calls for the same PEs.
//
//   - Errors: of NewComm: those of package coll, which name members by their rank in the team.
//   - Collective: over the team; over the PEs.
var (
	NewComm   func(ctx context.Context, t *coll.Team) (any, error)
	NewCommOf func(ctx context.Context, pes []int, name [2]uint64) (any, error)
)

// NewTeam makes a *shmem.Team of PEs, in their order. All of them call it, with the same random number. gather is a collective among them.
var NewTeam func(pes []int, tolerant bool, random uint64, gather func(mine Words) ([]Words, error)) (any, error)

// TeamHandle and CommHandle return the handle of a *shmem.Team or an *mpi.Comm without a context, and what says whether it can be used.
var (
	TeamHandle func(team any) (plain any, lives func() bool)
	CommHandle func(comm any) (plain any, lives func() bool)
)
