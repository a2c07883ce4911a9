package main

import (
	"errors"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// messages measures messages between two PEs, on ordinary memory as in messages.c. A
// message each way makes two operations: the time of one is half the round trip.
func (m *meter) messages() error { return m.byMessages(m.sendAndReceive) }

// allreduce measures reductions of ordinary slices among all PEs.
func (m *meter) allreduce() error { return m.byMessages(m.reductions) }

// byMessages runs body with the communicator of all PEs.
func (m *meter) byMessages(body func(c *mpi.Comm) error) (err error) {
	world, err := mpi.Init()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Finalize()) }()
	m.pes = m.w.NPEs()
	if m.word, err = shmem.Calloc[int64](m.w, 2); err != nil {
		return err
	}
	return body(world.Comm())
}

// reductions measures Allreduce. A batch ends with a barrier, as together's.
func (m *meter) reductions(c *mpi.Comm) error {
	src, dst := written[int64](1<<20/8), written[int64](1<<20/8)
	if err := m.settle(settling); err != nil {
		return err
	}
	for _, size := range []int{8, 1024, 65536, 1 << 20} {
		err := m.all("allreduce", size, func(n int) error {
			for range n {
				if err := mpi.Allreduce(c, dst[:size/8], src[:size/8], mpi.Sum); err != nil {
					return err
				}
			}
			return c.Barrier()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// written returns memory that has been written: pages that were only read are all the
// same page of zeros, which is in the first cache.
func written[T byte | int64](n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = 1
	}
	return all
}

func (m *meter) sendAndReceive(c *mpi.Comm) error {
	out, in := written[byte](4<<20), written[byte](4<<20)
	if err := m.settle(settling); err != nil {
		return err
	}
	for _, size := range []int{0, 8, 1024, 2048, 4096, 8192, 65536, 1 << 20, 4 << 20} {
		there := func() error { return mpi.Send(c, out[:size], 1-m.me, 0) }
		back := func() error {
			_, err := mpi.Recv(c, in[:size], 1-m.me, 0)
			return err
		}
		if m.me == 1 {
			there, back = back, there
		}
		err := m.all("message", size, func(n int) error {
			for i := 0; i < n; i += 2 {
				if err := there(); err != nil {
					return err
				}
				if err := back(); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
