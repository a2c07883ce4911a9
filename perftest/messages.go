package perftest

import (
	"errors"

	"github.com/goshmem/goshmem/mpi"
)

// withMessages measures body for each size, with a private buffer on two ranks of package mpi. Body
// sends a number of messages n times.
func (b *bench) withMessages(t *test, body func(c *mpi.Comm, buf []byte, n int) error, messages int) (err error) {
	m, err := mpi.Init()
	if err != nil {
		return err
	}
	defer func() {
		if err == nil {
			err = m.Finalize()
		}
	}()
	for _, bytes := range b.sizes(t, 1) {
		buf := make([]byte, bytes)
		if b.me == 0 {
			fill(buf, 0)
		}
		if err := b.w.Barrier(); err != nil {
			return err
		}
		wrong := 0
		if b.me <= 1 {
			us, count, err := b.timed(bytes, func(n int) error { return body(m.Comm(), buf, n) }, 1)
			us /= float64(messages)
			if err == nil {
				err = b.emit(t, Row{Bytes: bytes, Iterations: count, AvgUS: us, MBPerS: float64(bytes) / us, PerS: 1e6 / us})
			}
			if err != nil {
				return err
			}
			wrong = countWrong(buf, bytes, 0) // rank 1 has what rank 0 has sent
		}
		if err := b.w.Barrier(); err != nil {
			return err
		}
		if err := b.validate(bytes, wrong); err != nil {
			return err
		}
	}
	return nil
}

// messageTag is the tag of all messages.
const messageTag = 1

// messagePingPong bounces a message and takes half the time of a round trip.
func (b *bench) messagePingPong(t *test) error {
	return b.withMessages(t, func(c *mpi.Comm, buf []byte, n int) error {
		other := 1 - b.me
		for range n {
			if b.me == 0 {
				if err := mpi.Send(c, buf, other, messageTag); err != nil {
					return err
				}
			}
			if _, err := mpi.Recv(c, buf, other, messageTag); err != nil {
				return err
			}
			if b.me == 1 {
				if err := mpi.Send(c, buf, other, messageTag); err != nil {
					return err
				}
			}
		}
		return nil
	}, 2)
}

// messageWindows sends windows of messages without waiting. The receiver answers each window.
func (b *bench) messageWindows(t *test) error {
	all := make([]mpi.Request, b.o.Window)
	return b.withMessages(t, func(c *mpi.Comm, buf []byte, n int) (err error) {
		other := 1 - b.me
		for range n {
			for i := range all {
				if b.me == 0 {
					all[i], err = mpi.Isend(c, buf, other, messageTag)
				} else {
					all[i], err = mpi.Irecv(c, buf, other, messageTag)
				}
				if err != nil {
					return err
				}
			}
			err = mpi.WaitAll(all, nil)
			if b.me == 0 {
				_, answer := mpi.Recv(c, buf[:0], other, messageTag)
				err = errors.Join(err, answer)
			} else {
				err = errors.Join(err, mpi.Send(c, buf[:0], other, messageTag))
			}
			if err != nil {
				return err
			}
		}
		return nil
	}, b.o.Window)
}
