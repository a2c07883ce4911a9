package job

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Peers is another job, and what this process needs to exchange messages with its PEs. Those on this node are near, the others far.
type Peers struct {
	Number   int
	NPEs     int
	Near     int           // PEs on this node
	Base     layout.PE     // by which this process calls PE 0, and the others behind it
	Map      *symheap.Map  // segments of the near ones; nil: there are none
	Failures *failure.View // of that job
	Shape    layout.LaneShape
	Mine     *layout.Passage  // of this process: what the near PEs of that job write to it; nil: there are none
	Theirs   []layout.Passage // by index on the node

	homes *guestHomes    // nil: all PEs are near
	local []layout.Local // by PE: its index on the node; -1: it is far; nil: all are near
	near  []layout.PE    // by index on the node; nil: as local
}

// Local returns the index on the node of a PE of that job, and false if the PE is far.
func (p *Peers) Local(pe layout.PE) (i layout.Local, near bool) {
	if p.local == nil {
		return layout.Local(pe), true
	}
	i = p.local[pe]
	return i, i >= 0
}

// PE returns the PE of that job that has an index on the node.
func (p *Peers) PE(i layout.Local) layout.PE {
	if p.near == nil {
		return layout.PE(i)
	}
	return p.near[i]
}

// Home returns the node of a far PE of that job, and its index with the agent there.
func (p *Peers) Home(pe layout.PE) (node int, index layout.Local) { return p.homes.seat(pe) }

// ErrNoPeers reports a process that cannot start others, or reach them.
var ErrNoPeers = errors.New("oshrun has not started this process")

// Number returns the number of the job: 0 if oshrun has started it by its command line, otherwise more.
func (j *Job) Number() int { return wire.JobNumber(j.Nspace) }

// Spawn has oshrun start further processes, as a job of their own, and returns the job's number. It returns when they are started.
func (j *Job) Spawn(ctx context.Context, apps []client.App) (number int, err error) {
	if j.client == nil {
		return 0, ErrNoPeers
	}
	nspace, err := j.client.Jobs.Spawn(ctx, apps, client.SpawnOptions{})
	if err != nil {
		return 0, err
	}
	return wire.JobNumber(nspace), nil
}

// Parent returns the process that has asked for this job: the number of its job, and its PE there.
func (j *Job) Parent() (number int, pe layout.PE, ok bool) {
	if j.client == nil {
		return 0, 0, false
	}
	parent, ok := j.client.Parent()
	if !ok || parent.Rank >= codec.Rank(1<<31) {
		return 0, 0, false
	}
	return wire.JobNumber(parent.Nspace), layout.PE(parent.Rank), true
}

// Reach maps what this process needs to exchange messages with the PEs of another job, which it calls by the numbers from base on. All are behind those of this
// job, and of others that were reached before.
//
//   - Errors: the step process refuses it, because that job is over, or has PEs on nodes that no agent reaches.
func (j *Job) Reach(ctx context.Context, number int, base layout.PE) (_ *Peers, err error) {
	if j.client == nil {
		return nil, ErrNoPeers
	}
	step, _ := os.LookupEnv(envvar.Step)
	conn, err := dialStep(ctx, step)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	p := &Peers{Number: number, Base: base}
	for next := 0; p.Failures == nil || next < p.Near; {
		count, err := p.reachFrom(conn, j, next)
		if err != nil {
			return nil, fmt.Errorf("segments of job %d: %w", number, err)
		}
		next += count
	}
	if !j.Waiter.Expedited() {
		for i := range layout.Local(p.Near) {
			rma.AskLocked(&p.Map.Control(i).Bell)
		}
	}
	j.Others.Know(p)
	return p, nil
}

// Others are the other jobs that a process has reached. Any goroutine may call their methods.
type Others struct {
	known atomic.Pointer[[]*Peers] // nil: none
}

// Know adds a job that was reached, perhaps by an earlier Job of this process. One goroutine at a time may call it.
func (o *Others) Know(p *Peers) {
	known := append(slices.Clone(o.all()), p)
	o.known.Store(&known)
}

// all returns these jobs.
func (o *Others) all() []*Peers {
	if known := o.known.Load(); known != nil {
		return *known
	}
	return nil
}

// of returns the job that a PE is of; nil: it is of the process's own.
func (o *Others) of(pe layout.PE) *Peers {
	for _, p := range o.all() {
		if pe >= p.Base && int(pe-p.Base) < p.NPEs {
			return p
		}
	}
	return nil
}

// reachFrom maps the segments of one reply, and says how many these are. With the first reply it maps everything else.
func (p *Peers) reachFrom(conn *os.File, j *Job, first int) (count int, err error) {
	r, fds, err := requestAttach(conn, &wire.AttachRequest{
		Nspace: j.Nspace, PE: uint32(j.PE), Incarnation: firstIncarnation, Kind: wire.AskPeers, First: uint32(first), Job: uint32(p.Number),
	})
	if err != nil {
		return 0, err
	}
	defer xunix.CloseFDs(fds)
	want := int(r.Count)
	for _, more := range []bool{r.Page, r.Page && r.Near > 0, r.Homes} {
		if more {
			want++
		}
	}
	if r.Count == 0 && r.Near > 0 || len(fds) != want || int(r.First) != first || first+int(r.Count) > int(r.Near) || r.Near > r.NPEs || r.Page != (first == 0) {
		return 0, fmt.Errorf("step process sent %d descriptors, want %d: %d segments from segment %d of %d, asked for from segment %d", len(fds), want, r.Count, r.First, r.Near, first)
	}
	if r.Page {
		if err := p.mapShared(&r, fds[r.Count:], j); err != nil {
			return 0, err
		}
	}
	if int(r.NPEs) != p.NPEs || int(r.Near) != p.Near {
		return 0, fmt.Errorf("step process says %d PEs and %d of this node, want %d and %d as in its first reply", r.NPEs, r.Near, p.NPEs, p.Near)
	}
	for i, fd := range fds[:r.Count] {
		local := layout.Local(first + i)
		if err := p.Map.Attach(local, p.PE(local), fd); err != nil {
			return 0, err
		}
	}
	return int(r.Count), nil
}

// mapShared maps what the first reply has besides segments: the failure page, then the passages if there are near PEs, then the homes if there are far ones.
func (p *Peers) mapShared(r *wire.AttachReply, fds []int, j *Job) (err error) {
	p.NPEs, p.Near = int(r.NPEs), int(r.Near)
	if r.Homes {
		if err := p.readHomes(fds[len(fds)-1], j); err != nil {
			return err
		}
	}
	if p.homes == nil && p.Near != p.NPEs || p.near != nil && len(p.near) != p.Near {
		return fmt.Errorf("step process says that %d PEs of %d are on this node, and the homes of the job say %d", p.Near, p.NPEs, len(p.near))
	}
	if p.Near > 0 {
		if p.Map, err = symheap.NewMap(r.Job, p.Near, r.SegmentSize); err != nil {
			return err
		}
		own := j.Place.Near
		passages, err := symheap.MapPassages(fds[1], own+p.Near)
		if err != nil {
			return err
		}
		p.Shape = layout.ShapeOfPassages(own, p.Near)
		p.Mine, p.Theirs = &passages[p.Near+int(j.Local)], passages[:p.Near]
		if j.Number() < p.Number {
			p.Mine, p.Theirs = &passages[j.Local], passages[own:]
		}
	}
	p.Failures, err = failure.Attach(fds[0], r.Job, p.NPEs)
	return err
}

// readHomes reads where the PEs of the job are.
func (p *Peers) readHomes(fd int, j *Job) error {
	if j.agent == nil {
		return errors.New("some of its PEs are on other nodes, and this process does not reach the agent of its own")
	}
	h, err := symheap.ReadHomes(fd, p.NPEs)
	if err != nil {
		return err
	}
	if p.homes, err = newGuestHomes(h, j.agent.nodes); err != nil {
		return err
	}
	here, _ := j.Home(j.PE)
	p.near, p.local = []layout.PE{}, make([]layout.Local, p.NPEs)
	for pe := range layout.PE(p.NPEs) {
		p.local[pe] = -1
		if node, _ := p.homes.home(pe); node == here {
			p.local[pe] = layout.Local(len(p.near))
			p.near = append(p.near, pe)
		}
	}
	return nil
}
