package job

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
)

// attachTimeout bounds the talk with the step process where the caller's
// context does not.
const attachTimeout = 30 * time.Second

// attach fetches the descriptors of all segments of the node from the step
// process and maps them.
func attach(ctx context.Context, step string, j *Job) (*symheap.Map, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "unixpacket", step)
	if err != nil {
		return nil, fmt.Errorf("connect to oshrun's step process at %s: %w", step, err)
	}
	defer func() { _ = c.Close() }()
	conn, ok := c.(*net.UnixConn)
	if !ok {
		return nil, fmt.Errorf("step process at %s: not a unix socket", step)
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(attachTimeout)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		return nil, err
	}
	var m *symheap.Map
	for next := 0; next < j.NPEs; {
		n, err := attachFrom(conn, j, &m, next)
		if err != nil {
			return nil, fmt.Errorf("segments of the node: %w", err)
		}
		next += n
	}
	return m, nil
}

// attachFrom maps the segments of one reply, and makes the map if it is the
// first. It returns how many there were.
func attachFrom(conn *net.UnixConn, j *Job, m **symheap.Map, first int) (int, error) {
	req := wire.AttachRequest{Nspace: j.Nspace, PE: uint32(j.PE), Incarnation: 1, First: uint32(first)}
	if err := xunix.SendFDs(conn, req.Append(nil), nil); err != nil {
		return 0, err
	}
	packet, fds, err := xunix.RecvFDs(conn, wire.MaxPacket, wire.MaxFDs)
	if err != nil {
		return 0, fmt.Errorf("answer of the step process: %w", err)
	}
	defer xunix.CloseFDs(fds)
	r, err := wire.ParseAttachReply(packet)
	switch {
	case err != nil:
		return 0, err
	case r.Err != "":
		return 0, fmt.Errorf("refused by the step process: %s", r.Err)
	case len(fds) == 0 || len(fds) != int(r.Count) || int(r.First) != first || int(r.NPEs) != j.NPEs:
		return 0, fmt.Errorf("step process sent %d descriptors of %d from PE %d of %d, want them from PE %d of %d",
			len(fds), r.Count, r.First, r.NPEs, first, j.NPEs)
	}
	if *m == nil {
		if *m, err = symheap.NewMap(r.Job, j.NPEs, r.SegmentSize); err != nil {
			return 0, err
		}
	}
	for i, fd := range fds {
		if err := (*m).Attach(first+i, uint32(first+i), fd); err != nil {
			return 0, err
		}
	}
	return len(fds), nil
}

// single sets up the job of a program that was started without oshrun: one PE
// that makes its own segment.
func single() (*Job, error) {
	const name = "single"
	j := &Job{Nspace: fmt.Sprintf("goshmem-%s-%d", name, os.Getpid()), NPEs: 1}
	m := maps[name]
	if m == nil {
		var err error
		if m, err = singleMap(); err != nil {
			return nil, err
		}
		maps[name] = m
	}
	return j, j.use(m, 0)
}

func singleMap() (m *symheap.Map, err error) {
	heap, err := envvar.HeapSize(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	id := symheap.Identity{NPEs: 1, Incarnation: 1}
	_, _ = rand.Read(id.Job[:]) // never fails
	f, err := symheap.Create(id, heap)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if m, err = symheap.NewMap(id.Job, 1, uint64(info.Size())); err != nil {
		return nil, err
	}
	return m, m.Attach(0, 0, int(f.Fd()))
}
