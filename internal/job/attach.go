package job

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// attachTimeout bounds the exchange with the step process if the caller's context
// has no deadline.
const attachTimeout = 30 * time.Second

// noDeadline removes the deadline of a connection.
var noDeadline time.Time

// dialStep connects to the step process.
func dialStep(ctx context.Context, step string) (*os.File, error) {
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(attachTimeout)
		var cancel func()
		ctx, cancel = context.WithDeadline(ctx, deadline)
		defer cancel()
	}
	conn, err := xunix.DialPackets(ctx, step)
	if err != nil {
		return nil, fmt.Errorf("connect to oshrun's step process at %s: %w", step, err)
	}
	if err := conn.SetDeadline(deadline); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// requestAttach sends a request and returns the answer with its descriptors, which the
// caller owns.
func requestAttach(conn *os.File, req *wire.AttachRequest) (r wire.AttachReply, fds []int, err error) {
	serr := xunix.SendFDs(conn, req.Append(nil), nil)
	packet, fds, err := xunix.RecvFDs(conn, wire.MaxPacket, wire.MaxFDs)
	if errors.Is(err, syscall.ECONNRESET) {
		// The step has closed the connection before it read the request. The
		// kernel reports that once, before the packet that the step had sent, which
		// holds the reason of the refusal.
		packet, fds, err = xunix.RecvFDs(conn, wire.MaxPacket, wire.MaxFDs)
	}
	if serr != nil && (err != nil || len(packet) == 0) {
		return r, nil, serr
	}
	if err != nil {
		return r, nil, fmt.Errorf("answer of the step process: %w", err)
	}
	r, err = wire.ParseAttachReply(packet)
	if err == nil && r.Err != "" {
		err = fmt.Errorf("refused by the step process: %s", r.Err)
	}
	if err != nil {
		xunix.CloseFDs(fds)
		return r, nil, err
	}
	return r, fds, nil
}

// memory is the memory that the processes of a job share on a node.
type memory struct {
	segments *symheap.Map
	place    Place
	failures *failure.View // nil: the job has no failure page
	agent    *agentLine    // nil: the job has one node, or the node has no agent
	noAgent  string        // why the node of a job of several nodes has no agent
}

// attach fetches the descriptors of the node's segments and of the failure page from
// the step process, and maps them. It returns the last reply as well. After that reply
// the step may send orders over conn.
func attach(conn *os.File, j *Job) (m memory, r wire.AttachReply, err error) {
	for next := 0; m.segments == nil || next < m.place.Near; {
		if r, err = attachFrom(conn, j, &m, next); err != nil {
			return m, r, fmt.Errorf("segments of the node: %w", err)
		}
		next += int(r.Count)
	}
	return m, r, nil
}

// attachFrom maps the segments of one reply. With the first reply it makes the map.
func attachFrom(conn *os.File, j *Job, m *memory, first int) (wire.AttachReply, error) {
	r, fds, err := requestAttach(conn, &wire.AttachRequest{Nspace: j.Nspace, PE: uint32(j.PE), Incarnation: firstIncarnation, First: uint32(first)})
	if err != nil {
		return r, err
	}
	defer xunix.CloseFDs(fds)
	want := int(r.Count)
	if r.Page {
		want++
	}
	more := 0
	if r.Agent {
		more = agentFDs
		if r.Homes {
			more++
		}
	}
	want += more
	if r.Count == 0 || len(fds) != want || int(r.First) != first || first+int(r.Count) > int(r.Near) {
		return r, fmt.Errorf("step process sent %d descriptors, want %d: %d segments from segment %d of %d, asked for from segment %d",
			len(fds), want, r.Count, r.First, r.Near, first)
	}
	if r.Agent && m.agent == nil {
		if m.agent, err = mapAgent(fds[r.Count+1:], j.NPEs); err != nil {
			return r, err
		}
	}
	place, err := j.readPlace(&r, m)
	if err != nil {
		return r, err
	}
	if m.segments == nil {
		if m.segments, err = symheap.NewMap(r.Job, place.Near, r.SegmentSize); err != nil {
			return r, err
		}
		m.place = place
	}
	if place != m.place {
		return r, fmt.Errorf("step process says %d nodes and %s of this node, want %d nodes and %s as in its first reply",
			place.Nodes, place, m.place.Nodes, m.place)
	}
	for i, fd := range fds[:r.Count] {
		local := layout.Local(first + i)
		if err := m.segments.Attach(local, place.PE(local), fd); err != nil {
			return r, err
		}
	}
	if r.Page && m.failures == nil {
		m.failures, err = failure.Attach(fds[r.Count], r.Job, j.NPEs)
	}
	if r.Page {
		m.noAgent = r.NoAgent
	}
	return r, err
}

// readPlace returns the place that a reply speaks of. This PE is near in it, and the agent's page says the same of the node.
func (j *Job) readPlace(r *wire.AttachReply, m *memory) (Place, error) {
	p := Place{Nodes: int(r.Nodes), First: layout.PE(r.FirstPE), Near: int(r.Near), NPEs: int(r.NPEs)}
	switch {
	case !r.Scattered:
	case m.segments != nil:
		p.First, p.gaps = m.place.First, m.place.gaps
	case m.agent == nil:
		return p, fmt.Errorf("answer of the step process: the %d near PEs do not have consecutive numbers, and no agent's page lists them", p.Near)
	case m.agent.npes == p.NPEs && uint(j.PE) < uint(p.NPEs): // otherwise the place is refused below
		p = Scattered(p.Nodes, p.NPEs, m.agent.nodeOf(j.PE))
		p.Near = int(r.Near)
	}
	err := p.check(j.PE, j.NPEs)
	if err == nil && m.agent != nil {
		err = m.agent.checkPlace(p)
	}
	if err != nil {
		return p, fmt.Errorf("answer of the step process: %w", err)
	}
	return p, nil
}

// newSingleJob sets up the job of a program that was started without oshrun: one PE,
// which makes its own segment.
func newSingleJob(checks []string) (*Job, error) {
	const name = "single"
	warnForeign()
	j := &Job{Nspace: fmt.Sprintf("goshmem-%s-%d", name, os.Getpid()), NPEs: 1, profile: startProfile(0, 0)}
	m := maps[name]
	if m.segments == nil {
		var err error
		if m.segments, err = singleMap(); err != nil {
			return nil, err
		}
		m.place = Place{Nodes: 1, Near: 1, NPEs: 1}
		maps[name] = m
	}
	if err := j.useMemory(m); err != nil {
		return nil, err
	}
	j.publish(checks)
	j.CheckCollectives = j.anyAsks()
	j.startWaiter(runtime.NumCPU(), nil)
	return j, nil
}

func singleMap() (m *symheap.Map, err error) {
	heap, err := envvar.HeapSize(os.LookupEnv)
	if err != nil {
		return nil, err
	}
	id := symheap.Identity{NPEs: 1, Incarnation: firstIncarnation}
	binary.NativeEndian.PutUint64(id.Job[:], rand.Uint64())
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
