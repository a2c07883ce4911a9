// Package bridge connects teams of package shmem with communicators of package mpi, for package interop. The
// two packages do not import each other: each registers functions here that return the group of a
// handle, and that make a handle of a team. Functions of a package that the program does not import are nil.
package bridge

import (
	"context"

	"github.com/goshmem/goshmem/coll"
)

// Group is what a handle, a *shmem.Team or an *mpi.Comm, stands for.
type Group struct {
	Team *coll.Team
	Ctx  context.Context //nolint:containedctx // the handle's context
	// Fail returns the form that the handle's package gives to an error of the team.
	Fail func(op string, err error) error
}

// OfTeam returns the group of a *shmem.Team, OfComm that of an *mpi.Comm.
var (
	OfTeam func(op string, team any) (Group, error)
	OfComm func(op string, comm any) (Group, error)
)

// NewTeam makes a *shmem.Team, NewComm an *mpi.Comm, of a team that was split off.
//
//   - Errors: of NewComm: those of package coll, which name members by their rank in the team.
//   - Collective: over the team.
var (
	NewTeam func(t *coll.Team) (any, error)
	NewComm func(ctx context.Context, t *coll.Team) (any, error)
)
