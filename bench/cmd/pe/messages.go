package main

import (
	"errors"
	"time"

	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/shmem"
)

// messages measures messages between two PEs, on ordinary memory as in messages.c. A
// message each way makes two operations: the time of one is half the round trip.
func (m *meter) messages() (err error) {
	world, err := mpi.Init()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, world.Finalize()) }()
	m.pes = m.w.NPEs()
	if m.word, err = shmem.Calloc[int64](m.w, 2); err != nil {
		return err
	}
	if err := m.settle(400 * time.Millisecond); err != nil {
		return err
	}
	c := world.Comm()
	out, in := make([]byte, 4<<20), make([]byte, 4<<20)
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
