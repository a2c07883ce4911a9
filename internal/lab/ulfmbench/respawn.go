package ulfmbench

import (
	"errors"
	"os"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/mpi"
)

// steps lists the phases of respawn that follow the death, in their order.
var steps = []string{InShrink, InSpawn, InMerge}

// replaceDead makes a communicator of as many ranks as before: the survivors, and a process that they start. Its last step ends behind a
// barrier of them all.
func (p *pe) replaceDead() error {
	p.Steps = make(map[string]time.Duration)
	over := func(phase string) { p.Steps[phase] = xunix.Monotonic() }
	rest, err := p.c.Shrink()
	if err != nil {
		return err
	}
	over(InShrink)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	x, err := mpi.Spawn(rest, mpi.Command{Path: self, Args: os.Args[1:]}, 1, 0)
	if err != nil {
		return err
	}
	over(InSpawn)
	if p.rest, err = x.Merge(false); err != nil {
		return err
	}
	if err := p.rest.Barrier(); err != nil {
		return err
	}
	over(InMerge)
	if n := p.rest.Size(); n != p.c.Size() {
		p.countWrong("communicator of %d ranks, want %d", n, p.c.Size())
	}
	return errors.Join(x.Free(), rest.Free())
}

// join is the part of the process that the survivors start: one barrier ends the last step, the other one comes behind all measurements.
func join(parents *mpi.Intercomm) error {
	c, err := parents.Merge(true)
	if err != nil {
		return err
	}
	if err := c.Barrier(); err != nil {
		return err
	}
	if err := parents.Free(); err != nil { // as the survivors do now
		return err
	}
	return c.Barrier()
}
