//go:build mpidebug

package mpi_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/goshmem/goshmem/mpi"
)

// With -tags mpidebug, what a receive has not written is poison, and a send whose buffer has changed too early fails.
func TestDebug(t *testing.T) {
	run(t, 2, func(t *testing.T, c *mpi.Comm) {
		const n = 1 << 20
		if c.Rank() == 0 {
			buf := make([]byte, n)
			q := must(mpi.Isend(c, buf, 1, 1))(t)
			buf[n/2] = 1 // too early
			ok(t, mpi.Send(c, []byte{1}, 1, 2))
			if _, err := q.Wait(); !errors.Is(err, mpi.ErrBufferChanged) {
				t.Errorf("Wait: %v, want %v", err, mpi.ErrBufferChanged)
			}
			q = must(mpi.Isend(c, buf, 1, 1))(t)
			must(q.Wait())(t)
			return
		}
		in := make([]byte, n)
		must(mpi.Recv(c, in, 0, 2))(t)
		if !bytes.Equal(in[1:5], bytes.Repeat([]byte{0xa5}, 4)) {
			t.Errorf("behind the message: %x, want poison", in[1:5])
		}
		must(mpi.Recv(c, in, 0, 1))(t)
		must(mpi.Recv(c, in, 0, 1))(t)
	})
}
