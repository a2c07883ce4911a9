package main

import (
	"errors"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// messages measures messages between two PEs in ordinary memory, as messages.c does. A message and its answer are
// two operations, so the time of one is half the round trip.
func (m *meter) messages() error {
	return m.byMessages(func(c *mpi.Comm) error {
		out, in := written[byte](4<<20), written[byte](4<<20)
		if err := m.warmUp(warmUpTime); err != nil {
			return err
		}
		for _, measure := range []func(c *mpi.Comm, out, in []byte) error{m.sendAndReceive, m.windows, m.rate} {
			if err := measure(c, out, in); err != nil {
				return err
			}
		}
		return nil
	})
}

// private measures collectives of ordinary slices among all PEs.
func (m *meter) private() error { return m.byMessages(m.privateCollectives) }

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

// privateCollectives measures Allreduce, Bcast and Reduce. Like in together, a batch ends with a barrier.
func (m *meter) privateCollectives(c *mpi.Comm) error {
	src, dst := written[int64](1<<20/8), written[int64](1<<20/8)
	if err := m.warmUp(warmUpTime); err != nil {
		return err
	}
	for _, row := range []struct {
		name  string
		sizes []int
		op    func(n int) error
	}{
		{"allreduce", []int{8, 1024, 65536, 1 << 20}, func(n int) error { return mpi.Allreduce(c, dst[:n], src[:n], mpi.Sum) }},
		{"bcast", []int{65536, 1 << 20}, func(n int) error { return mpi.Bcast(c, dst[:n], 0) }},
		{"reduce", []int{65536, 1 << 20}, func(n int) error { return mpi.Reduce(c, dst[:n], src[:n], mpi.Sum, 0) }},
	} {
		for _, size := range row.sizes {
			err := m.all(row.name, size, func(n int) error {
				for range n {
					if err := row.op(size / 8); err != nil {
						return err
					}
				}
				return c.Barrier()
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// written returns memory that has been written. Pages that were only read share one page of zeros, which would stay
// in the first-level cache.
func written[T byte | int64](n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = 1
	}
	return all
}

// sendAndReceive measures messages that are answered by a message of the same size.
func (m *meter) sendAndReceive(c *mpi.Comm, out, in []byte) error {
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

// inWindow is the number of messages in a window, as in bandwidth tests of MPI.
const inWindow = 64

// windows measures windows of messages that are sent by Isend and received by Irecv. The receiver answers each
// window with an empty message. One window is one operation.
func (m *meter) windows(c *mpi.Comm, out, in []byte) error {
	var all [inWindow]mpi.Request
	for _, size := range []int{8, 1024, 65536, 1 << 20, 4 << 20} {
		begin := func() (mpi.Request, error) { return mpi.Isend(c, out[:size], 1, 0) }
		if m.me == 1 {
			begin = func() (mpi.Request, error) { return mpi.Irecv(c, in[:size], 0, 0) }
		}
		err := m.all("window", size, func(n int) error {
			for range n {
				for i := range all {
					var err error
					if all[i], err = begin(); err != nil {
						return err
					}
				}
				if err := mpi.WaitAll(all[:], nil); err != nil {
					return err
				}
				if err := m.acknowledge(c); err != nil {
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

// acknowledge sends an empty message from PE 1, the receiver, to PE 0, the sender.
func (m *meter) acknowledge(c *mpi.Comm) error {
	if m.me == 1 {
		return mpi.Send(c, []byte{}, 0, 1)
	}
	_, err := mpi.Recv(c, []byte{}, 1, 1)
	return err
}

// rate measures short messages one way, by Send and Recv. A batch ends with an answer.
func (m *meter) rate(c *mpi.Comm, out, in []byte) error {
	const size = 8
	return m.all("rate", size, func(n int) error {
		for range n {
			var err error
			if m.me == 0 {
				err = mpi.Send(c, out[:size], 1, 0)
			} else {
				_, err = mpi.Recv(c, in[:size], 0, 0)
			}
			if err != nil {
				return err
			}
		}
		return m.acknowledge(c)
	})
}
