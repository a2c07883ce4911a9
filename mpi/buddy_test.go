package mpi_test

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// buddyDeath is a death of TestBuddyCheckpoints.
type buddyDeath struct{ iteration, rank int }

// buddyDeaths are the deaths, one after the other. The last one is that of a rank which has taken another's place.
var buddyDeaths = []buddyDeath{{6, 1}, {9, 3}, {14, 1}}

const (
	buddyRanks      = 4
	buddyIterations = 18
	buddyEvery      = 4   // iterations between two checkpoints
	buddyCells      = 700 // numbers of a rank
)

// buddyRank is a rank's part in an iteration, with a checkpoint of its own and one of its predecessor.
type buddyRank struct {
	c         *mpi.Comm
	deaths    int // so far
	iteration int
	cells     []uint64
	last      checkpoint
	former    checkpoint // the one before: a rank that dies may keep others from the last one
}

// checkpoint is the cells of a rank and of its predecessor at an iteration.
type checkpoint struct {
	iteration int
	own, prev []uint64
}

// begin gives the cells of a rank before the first iteration.
func (b *buddyRank) begin(rank int) {
	b.cells = make([]uint64, buddyCells)
	for i := range b.cells {
		b.cells[i] = uint64(rank*buddyCells + i)
	}
}

// advance executes an iteration, with the cells of the predecessor before it.
func (b *buddyRank) advance(prev []uint64) {
	for i := range b.cells {
		b.cells[i] = b.cells[i]*3 + prev[(i+1)%buddyCells]
	}
	b.iteration++
}

// step executes an iteration, after a checkpoint where one is due.
func (b *buddyRank) step() error {
	next, before := (b.c.Rank()+1)%b.c.Size(), (b.c.Rank()+b.c.Size()-1)%b.c.Size()
	in := make([]uint64, buddyCells)
	if _, err := mpi.Sendrecv(b.c, b.cells, next, 1, in, before, 1); err != nil {
		return err
	}
	if b.iteration%buddyEvery == 0 {
		if err := b.c.Barrier(); err != nil {
			return err
		}
		if b.last.iteration != b.iteration || b.last.own == nil { // otherwise it has gone back to it
			b.former, b.last = b.last, checkpoint{b.iteration, slices.Clone(b.cells), slices.Clone(in)}
		}
	}
	if b.deaths < len(buddyDeaths) && buddyDeaths[b.deaths] == (buddyDeath{b.iteration, b.c.Rank()}) {
		die()
	}
	b.advance(in)
	return nil
}

// recover replaces the rank that has died, and goes back to the checkpoint.
func (b *buddyRank) recover(t *testing.T) {
	t.Helper()
	ok(t, b.c.Revoke())
	rest := must(b.c.Shrink())(t)
	dead, me := b.c.Failed()[0], b.c.Rank()
	x := must(mpi.Spawn(rest, self(t), 1, 0))(t)
	if rest.Rank() == 0 {
		ok(t, mpi.Send(x.Remote(), []int{dead, b.deaths + 1}, 0, 1))
	}
	_ = b.c.Free() // of World.Comm it is an error
	b.deaths++
	b.meet(t, x, me, false)
	ok(t, rest.Free())
	if to := b.oldest(t, b.last.iteration); to != b.last.iteration {
		b.last = b.former
	}
	if me == (dead+1)%buddyRanks {
		ok(t, mpi.Send(b.c, b.last.prev, dead, 2))
	}
	if dead == (me+1)%buddyRanks {
		ok(t, mpi.Send(b.c, b.last.own, dead, 3))
	}
	copy(b.cells, b.last.own)
	b.iteration = b.last.iteration
}

// replace is recover in the process that takes a place.
func (b *buddyRank) replace(t *testing.T, x *mpi.Intercomm) {
	t.Helper()
	as := make([]int, 2)
	must(mpi.Recv(x.Remote(), as, 0, 1))(t)
	b.deaths = as[1]
	b.begin(as[0])
	b.meet(t, x, as[0], true)
	b.iteration = b.oldest(t, buddyIterations)
	b.last = checkpoint{b.iteration, make([]uint64, buddyCells), make([]uint64, buddyCells)}
	must(mpi.Recv(b.c, b.last.own, (as[0]+1)%buddyRanks, 2))(t)
	must(mpi.Recv(b.c, b.last.prev, (as[0]+buddyRanks-1)%buddyRanks, 3))(t)
	copy(b.cells, b.last.own)
}

// oldest returns the iteration of the last checkpoint that all ranks have.
func (b *buddyRank) oldest(t *testing.T, mine int) int {
	t.Helper()
	of := []int{0}
	ok(t, mpi.Allreduce(b.c, of, []int{mine}, mpi.Min))
	return of[0]
}

// meet makes the communicator in which all have the ranks that they had.
func (b *buddyRank) meet(t *testing.T, x *mpi.Intercomm, rank int, high bool) {
	t.Helper()
	all := must(x.Merge(high))(t)
	b.c = must(all.Split(0, rank))(t)
	ok(t, all.Free())
	ok(t, x.Free())
	if b.c.Rank() != rank || b.c.Size() != buddyRanks {
		t.Fatalf("rank %d of %d, want %d of %d", b.c.Rank(), b.c.Size(), rank, buddyRanks)
	}
}

// Ranks compute, and each keeps a checkpoint of its predecessor. Processes that are started in the place of dead ones get theirs, and the result is right. This
// is buddycr of the test programs of ULFM.
func TestBuddyCheckpoints(t *testing.T) {
	run := func(t *testing.T, b *buddyRank) {
		for b.iteration < buddyIterations {
			if err := b.step(); err != nil {
				b.recover(t)
			}
		}
		all := make([]*buddyRank, buddyRanks) // the same without deaths
		for rank := range all {
			all[rank] = &buddyRank{}
			all[rank].begin(rank)
		}
		for range buddyIterations {
			before := make([][]uint64, buddyRanks)
			for rank := range all {
				before[rank] = slices.Clone(all[rank].cells)
			}
			for rank := range all {
				all[rank].advance(before[(rank+buddyRanks-1)%buddyRanks])
			}
		}
		if rank := b.c.Rank(); !slices.Equal(b.cells, all[rank].cells) {
			t.Errorf("rank %d has other numbers than without deaths: %d, want %d", rank, b.cells[:4], all[rank].cells[:4])
		}
		if b.deaths != len(buddyDeaths) {
			t.Errorf("%d deaths, want %d", b.deaths, len(buddyDeaths))
		}
		ok(t, b.c.Free())
	}
	runSpawn(t, buddyRanks, func(t *testing.T, c *mpi.Comm) {
		b := &buddyRank{c: c}
		b.begin(c.Rank())
		run(t, b)
	}, func(t *testing.T, w *mpi.World) {
		b := &buddyRank{}
		b.replace(t, w.Parent())
		run(t, b)
	}, shmemtest.Recover(1, 3), hangTimeout)
}
