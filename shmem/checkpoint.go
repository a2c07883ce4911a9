package shmem

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Checkpoint keeps copies of symmetric objects, from which the PEs that live go on when others have died. Make it while all
// PEs live, Protect objects, and Commit now and then. After a death, call Restore. It gives the objects the values of the
// latest epoch that was committed, and says who is missing. RestoreFrom and GetCommitted read what these had.
//
// A commit is whole or has not been: all PEs that live agree on it, and the copies of the epoch before stay until then.
//
// A Checkpoint takes memory of the symmetric heap: twice the size of the objects for each PE's own copy, and what its Policy
// says.
type Checkpoint struct {
	*checkpoint
	ctx context.Context //nolint:containedctx // With's purpose
}

// checkpoint is what all handles of a Checkpoint share.
type checkpoint struct {
	w      *World
	h      *heap
	policy Policy
	c      *Ctx // of the copies

	mu      sync.Mutex // a call is under way
	team    *Team      // the PEs that take part
	objects []protectedObject
	size    int             // bytes of the objects of a PE, each from a multiple of 64 on
	own     Sym[byte]       // two copies of this PE's objects: of even epochs, and of odd ones
	others  Sym[byte]       // two times what this PE keeps for others
	epoch   atomic.Uint64   // the latest that was committed; 0: none
	records [2]epochMembers // of the latest even epoch and of the latest odd one
}

// protectedObject is an object of a Checkpoint.
type protectedObject struct {
	name string
	ref  ref
	size int // in bytes
	at   int // from where on it is in a copy
}

// epochMembers says who took part in an epoch.
type epochMembers struct {
	epoch   uint64
	members []layout.PE
	keepers keepers
}

// Object is any symmetric object: a Sym of any type.
type Object interface {
	ref() ref
	bytes() uint64
}

// Restored says what Restore has done.
type Restored struct {
	Epoch  uint64 // whose values the objects have; 0: none was committed, and the objects are as they were
	Failed []int  // PEs that took part in that epoch and have died, ascending
	Lost   []int  // those of Failed whose copies are lost as well: RestoreFrom cannot read them
}

// NewCheckpoint makes a Checkpoint of all PEs.
//
//   - Cost: as Team.SplitStrided.
//   - Errors: ErrArgument for a bad policy; those of Team.SplitStrided.
//   - Collective: over all PEs, with the same policy.
//   - Source: none; like SCR's, VeloC's and Fenix's.
func NewCheckpoint(w *World, p Policy) (*Checkpoint, error) {
	const op = "NewCheckpoint"
	if err := w.checkUsable(op); err != nil {
		return nil, err
	}
	if err := p.check(op, w.NPEs()); err != nil {
		return nil, err
	}
	t, err := w.team.SplitStrided(0, 1, w.NPEs(), &TeamConfig{Mode: ModeStrict})
	if err != nil {
		return nil, err
	}
	c, err := w.NewCtx()
	if err != nil {
		return nil, err
	}
	return &Checkpoint{&checkpoint{w: w, h: w.session.h, policy: p, c: c, team: t}, w.ctx.ctx}, nil
}

// With returns a handle of the same Checkpoint whose calls end when ctx does.
func (k *Checkpoint) With(ctx context.Context) *Checkpoint {
	if k == nil || k.checkpoint == nil {
		return k
	}
	return &Checkpoint{k.checkpoint, ctx}
}

// Team returns the team of the PEs that take part: all at first, and those that live after a Restore. A collective of the program's
// own on it may not be under way together with a call of the Checkpoint.
func (k *Checkpoint) Team() *Team {
	if k == nil || k.checkpoint == nil {
		return nil
	}
	return k.team
}

// Epoch returns the number of the latest epoch that was committed, or 0.
func (k *Checkpoint) Epoch() uint64 {
	if k == nil || k.checkpoint == nil {
		return 0
	}
	return k.epoch.Load()
}

// Protect adds an object to the Checkpoint. The name is for errors, and for files. All objects are protected before the first Commit.
//
//   - Cost: none.
//   - Errors: ErrArgument after the first Commit and for a name that is there already; ErrFreed, ErrForeignHandle.
//   - Collective: each PE protects the same objects in the same order.
func (k *Checkpoint) Protect(name string, x Object) error {
	const op = "Checkpoint.Protect"
	if err := k.begin(op); err != nil {
		return err
	}
	defer k.mu.Unlock()
	switch {
	case x == nil:
		return usage(op, ErrArgument, "object %q is nil, want a symmetric object", name)
	case k.own.Len() > 0:
		return usage(op, ErrArgument, "object %q is protected after the first Commit, want all objects before it", name)
	case slices.ContainsFunc(k.objects, func(o protectedObject) bool { return o.name == name }):
		return usage(op, ErrArgument, "there is an object %q already, want another name", name)
	}
	if err := k.h.checkRef(op, x.ref(), 0); err != nil {
		return err
	}
	o := protectedObject{name: name, ref: x.ref(), size: int(x.bytes()), at: k.size}
	k.objects = append(k.objects, o)
	k.size += alignCopy(o.size)
	return nil
}

// copyAlign is what the places of objects in a copy are multiples of: a cache line.
const copyAlign = 64

// alignCopy returns the next multiple of it.
func alignCopy(n int) int { return (n + copyAlign - 1) / copyAlign * copyAlign }

// begin checks the handle, and locks the Checkpoint unless there is an error.
func (k *Checkpoint) begin(op string) error {
	if k == nil || k.checkpoint == nil {
		return usage(op, ErrArgument, "the Checkpoint is nil, want one that NewCheckpoint returned")
	}
	if err := k.w.checkUsable(op); err != nil {
		return err
	}
	if !k.mu.TryLock() {
		return usage(op, ErrArgument, "another call on the Checkpoint is under way in this PE, want one at a time: wait for its Commit first")
	}
	return nil
}

// Commit copies the objects, and returns the number of the new epoch. All operations on the objects are complete before: each PE's
// own of the default context by this call, others by a Quiet of the program.
//
// The epoch is committed on all PEs that live, or on none. When it is not, the epoch before is the latest one.
//
//   - Cost: two barriers, a copy of the objects, what the Policy says, and an agreement.
//   - Errors: *PEError with ErrPEDied when a PE has died, after which Restore is called; ErrFreed for an object; ErrExhausted, at the
//     first Commit; ErrArgument when too few PEs live for the policy; the end of the Checkpoint's With, after which it is broken.
//   - Collective: over the PEs that take part.
func (k *Checkpoint) Commit() (epoch uint64, err error) {
	p, err := k.ICommit()
	if err != nil {
		return 0, err
	}
	return p.Wait()
}

// CommitRequest is a Commit that is under way.
type CommitRequest struct {
	done  chan struct{}
	epoch uint64
	err   error
}

// Wait waits for the end of the Commit, and returns what Commit returns. Any number of calls do.
func (r *CommitRequest) Wait() (epoch uint64, err error) {
	if r == nil || r.done == nil {
		return 0, usage("CommitRequest.Wait", ErrArgument, "the request is nil, want one that Checkpoint.ICommit returned")
	}
	<-r.done
	return r.epoch, r.err
}

// Done returns a channel that is closed when Wait returns at once.
func (r *CommitRequest) Done() <-chan struct{} {
	if r == nil {
		return nil
	}
	return r.done
}

// ICommit is Commit that returns when the objects may be changed again: they are copied. What the Policy does goes on meanwhile.
// Deaths and other failures on the way are errors of Wait.
//
//   - Cost: until it returns, two barriers and a copy of the objects.
//   - Errors: ErrArgument for a Checkpoint without objects and while another call on it is under way; ErrExhausted.
//   - Collective: over the PEs that take part.
func (k *Checkpoint) ICommit() (*CommitRequest, error) {
	const op = "Checkpoint.Commit"
	if err := k.begin(op); err != nil {
		return nil, err
	}
	if err := k.allocate(op); err != nil {
		k.mu.Unlock()
		return nil, err
	}
	r := &CommitRequest{done: make(chan struct{})}
	next := epochMembers{epoch: k.epoch.Load() + 1, members: k.team.group.all()}
	next.keepers = k.policy.assign(k.nodesOf(next.members))
	err := k.copyObjects(op, &next)
	go func() {
		if err == nil {
			err = k.copyToOthers(op, &next)
		}
		r.epoch, r.err = k.decide(op, &next, err)
		k.mu.Unlock()
		close(r.done)
	}()
	return r, nil
}

// allocate allocates the copies at the first Commit.
func (k *Checkpoint) allocate(op string) error {
	if k.own.Len() > 0 {
		return nil
	}
	if k.size == 0 {
		return usage(op, ErrArgument, "no object with elements is protected, want some by Protect")
	}
	w := k.w.With(k.ctx)
	own, err := Alloc[byte](w, 2*k.size)
	if err != nil {
		return err
	}
	others, err := Alloc[byte](w, 2*k.policy.room(k.size))
	if err != nil {
		return errors.Join(err, Free(w, own))
	}
	k.own, k.others = own, others
	return nil
}

// copyObjects makes this PE's own copy of an epoch between two barriers: no PE changes anything while others copy.
func (k *Checkpoint) copyObjects(op string, r *epochMembers) error {
	t := k.team.With(k.ctx)
	err := k.w.ctx.With(k.ctx).Quiet()
	if e := t.sync(op); err == nil {
		err = e
	}
	for i := range k.objects {
		o := &k.objects[i]
		if e := k.h.checkRef(op, o.ref, 0); e != nil {
			return errors.Join(fmt.Errorf("object %q: %w", o.name, e), t.sync(op))
		}
		copy(k.copyOf(r.epoch)[o.at:], k.objectBytes(o))
	}
	if e := t.sync(op); err == nil {
		err = e
	}
	return err
}

// objectBytes returns this PE's memory of an object.
func (k *checkpoint) objectBytes(o *protectedObject) []byte {
	return Sym[byte]{off: o.ref.off, n: o.size, tag: o.ref.tag}.Local()
}

// copyOf returns this PE's own copy of an epoch.
func (k *checkpoint) copyOf(epoch uint64) []byte { return k.ownAt(epoch).Local() }

// ownAt returns the copies of the own objects of an epoch, and keptAt what is kept for others.
func (k *checkpoint) ownAt(epoch uint64) Sym[byte]  { return halfOf(k.own, epoch) }
func (k *checkpoint) keptAt(epoch uint64) Sym[byte] { return halfOf(k.others, epoch) }

// halfOf returns the half of an area that an epoch has.
func halfOf(x Sym[byte], epoch uint64) Sym[byte] {
	n := x.Len() / 2
	from := int(epoch&1) * n
	return x.Slice(from, from+n)
}

// What PEs agree on. After a death, some PEs may be in Commit and others in Restore already, so that both vote in the same agreements.
const (
	voteCopied   = 1 << iota // this PE has made its copies, or restored its objects
	voteRestores             // this PE is in Restore
)

// decide has all PEs agree whether an epoch is committed. It is not if it failed at one of them, or if one has died.
func (k *Checkpoint) decide(op string, r *epochMembers, err error) (epoch uint64, _ error) {
	flag := uint64(0)
	if err == nil {
		flag = voteCopied
	}
	t := k.team.With(k.ctx)
	a, failed := t.runAgreement(op, flag)
	switch {
	case failed != nil:
		return 0, failed
	case len(a.Failed) > 0:
		return 0, k.h.errorOfDead(op, t.group.worldPEs(a.Failed))
	case err != nil:
		return 0, err
	case a.Flags&voteCopied == 0:
		return 0, fmt.Errorf("shmem.%s: another PE could not copy its objects, or has called Restore, so epoch %d is not committed", op, r.epoch)
	}
	k.records[r.epoch&1] = *r
	k.epoch.Store(r.epoch)
	return r.epoch, nil
}

// nodesOf returns the node of each PE.
func (k *checkpoint) nodesOf(pes []layout.PE) (nodes []int) {
	for _, pe := range pes {
		node := 0
		if k.h.job.Home != nil {
			node, _ = k.h.job.Home(pe)
		}
		nodes = append(nodes, node)
	}
	return nodes
}
