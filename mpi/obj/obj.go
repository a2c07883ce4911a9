// Package obj sends whole Go values by package mpi: structs with pointers, maps, slices of slices. It encodes them by encoding/gob, so it takes far longer than
// mpi.Send of a slice, and a value's type must be one that gob takes: exported fields, no functions and no channels.
package obj

import (
	"bytes"
	"encoding/gob"
	"fmt"

	"github.com/goshmem/goshmem/mpi"
)

// encode returns a value in bytes.
func encode(op string, v any) (_ []byte, err error) {
	defer func() { // gob panics for nil pointers
		if why := recover(); why != nil {
			err = fmt.Errorf("obj.%s: value of type %T: %v", op, v, why)
		}
	}()
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return nil, fmt.Errorf("obj.%s: value of type %T: %w", op, v, err)
	}
	return b.Bytes(), nil
}

// decode makes the value that v points to that of the bytes.
func decode(op string, b []byte, v any) error {
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(v); err != nil {
		return fmt.Errorf("obj.%s: value for a %T: %w; hint: the sender's type has to fit", op, v, err)
	}
	return nil
}

// Send sends a value.
//
//   - Errors: those of encoding/gob and of mpi.Send.
//   - Concurrent calls: allowed.
func Send(c *mpi.Comm, v any, dst, tag int) error {
	b, err := encode("Send", v)
	if err != nil {
		return err
	}
	return mpi.Send(c, b, dst, tag)
}

// Recv receives a value into what v points to.
//
//   - Errors: those of encoding/gob, and of Comm.Mprobe and mpi.Mrecv. A message that was received and cannot be decoded is gone.
//   - Concurrent calls: allowed.
func Recv(c *mpi.Comm, v any, src, tag int) (mpi.Status, error) {
	m, s, err := c.Mprobe(src, tag)
	if err != nil || s.Source == mpi.ProcNull {
		return s, err
	}
	b := make([]byte, s.Bytes)
	if s, err = mpi.Mrecv(m, b); err != nil {
		return s, err
	}
	return s, decode("Recv", b, v)
}

// Bcast makes what v points to at all ranks what it points to at the root.
//
//   - Errors: those of encoding/gob and of mpi.Bcast. If the root cannot encode the value, all ranks get an error.
//   - Collective: over the communicator, with the same root.
func Bcast(c *mpi.Comm, v any, root int) error {
	const op = "Bcast"
	var b []byte
	var failed error
	n := []int{0}
	if c.Rank() == root {
		if b, failed = encode(op, v); failed == nil {
			n[0] = len(b)
		}
	}
	if err := mpi.Bcast(c, n, root); err != nil {
		return err
	}
	if failed != nil {
		return failed
	}
	if n[0] == 0 {
		return fmt.Errorf("obj.%s: the root, rank %d, could not encode its value", op, root)
	}
	if c.Rank() != root {
		b = make([]byte, n[0])
	}
	if err := mpi.Bcast(c, b, root); err != nil || c.Rank() == root {
		return err
	}
	return decode(op, b, v)
}

// Gather returns the values of all ranks at the root, in the order of ranks, and nil at the others.
//
//   - Shape: the values have one type.
//   - Errors: those of encoding/gob and of mpi.Gatherv. A value that cannot be encoded is an error at its rank, and one of decoding at the root.
//   - Collective: over the communicator, with the same root.
func Gather[V any](c *mpi.Comm, v V, root int) ([]V, error) {
	const op = "Gather"
	b, failed := encode(op, v)
	counts := make([]int, c.Size())
	if err := mpi.Gather(c, counts, []int{len(b)}, root); err != nil {
		return nil, err
	}
	var all []byte
	parts := mpi.Counts{Counts: counts}
	if c.Rank() == root {
		total := 0
		for _, n := range counts {
			total += n
		}
		all = make([]byte, total)
	}
	if err := mpi.Gatherv(c, all, b, parts, root); err != nil || failed != nil || c.Rank() != root {
		if failed != nil {
			return nil, failed
		}
		return nil, err
	}
	values := make([]V, c.Size())
	at := 0
	for rank, n := range counts {
		if err := decode(op, all[at:at+n], &values[rank]); err != nil {
			return nil, fmt.Errorf("rank %d: %w", rank, err)
		}
		at += n
	}
	return values, nil
}
