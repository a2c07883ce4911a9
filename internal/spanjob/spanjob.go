// Package spanjob connects teams that span nodes (package coll/spanning) with the job of this process.
package spanjob

import (
	"context"
	"errors"
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/symheap/layout"
)

// port is the agent of this node, and the data of others.
type port struct {
	far     *far.Port
	touched *far.Touched
}

// Announce tells the agent that the words of a team have changed.
func (p port) Announce(id int) { far.AnnounceTeam(p.far, id) }

// Get copies from an offset of a PE's segment.
func (p port) Get(ctx context.Context, pe layout.PE, off uint64, data []byte) error {
	err := p.far.Get(ctx, p.touched, pe, off, unsafe.Pointer(unsafe.SliceData(data)), len(data))
	if _, is := errors.AsType[*far.DeadError](err); is {
		err = fmt.Errorf("%w: %w", spanning.ErrDead, err)
	}
	return err
}

// NewProcess returns the state of all teams of this PE that span nodes, in a job that has an agent. first is the first word of
// the name of the first team of all PEs.
func NewProcess(j *job.Job, first uint64) *spanning.Process {
	words := j.Map.Wire(j.Local).Upper()
	return spanning.NewProcess(spanning.Config{
		Port:     port{j.Far, new(far.Touched)},
		Words:    words,
		Offset:   uint64(uintptr(unsafe.Pointer(words)) - uintptr(j.Map.Segment(j.Local))),
		Waiter:   j.Waiter,
		Failures: j.Failures,
		Dead:     j.IsDead,
		First:    first,
		Near: func(pe layout.PE) *layout.Upper {
			if i, near := j.Place.Local(pe); near {
				return j.Map.Wire(i).Upper()
			}
			return nil
		},
		Local: func(pe layout.PE) layout.Local {
			i, _ := j.Place.Local(pe)
			return i
		},
		Node: func(pe layout.PE) (int, error) {
			if pe < 0 || int(pe) >= j.NPEs {
				return 0, fmt.Errorf("PE %d, want 0 to %d", pe, j.NPEs-1)
			}
			node, _ := j.Home(pe)
			return node, nil
		},
	})
}
