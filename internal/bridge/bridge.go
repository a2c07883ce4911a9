// Package bridge is how package interop gets from a team of package shmem to a
// communicator of package mpi and back, which know nothing of each other: each says
// here how to get at the group that a handle of its own stands for, and how to make a
// handle of a group. What is nil belongs to a package that the program does not have.
package bridge

import (
	"context"

	"github.com/goshmem/goshmem/coll"
)

// Group is what a handle stands for.
type Group struct {
	Team *coll.Team
	Ctx  context.Context //nolint:containedctx // that of the handle
	// Fail gives an error of the team's the form of the handle's package.
	Fail func(op string, err error) error
}

// OfTeam and OfComm return the group of a *shmem.Team and of an *mpi.Comm.
var (
	OfTeam func(op string, team any) (Group, error)
	OfComm func(op string, comm any) (Group, error)
)

// NewTeam and NewComm make a *shmem.Team and an *mpi.Comm of a team that was split off. All
// its members call it. The errors of NewComm are package coll's, and name members by their rank in the team.
var (
	NewTeam func(t *coll.Team) (any, error)
	NewComm func(ctx context.Context, t *coll.Team) (any, error)
)
