package shmem

import (
	"errors"
	"fmt"
	"slices"
	"unsafe"

	"github.com/goshmem/goshmem/symheap/layout"
)

// Restore gives the objects of each PE that lives the values of the latest epoch that all of them have, and returns the epoch and
// who is missing. The result is the same on all PEs. From then on the Checkpoint is one of the PEs that live: Team returns
// their team, and Commit goes on among them.
//
// Deaths during the call are in the result. With Files, in a job that has not committed yet, Restore reads what an earlier job
// has committed.
//
//   - Cost: Team.Shrink, a copy of the objects, two agreements.
//   - Errors: those of Team.Shrink; ErrFreed for an object, on the PE that has freed it, while others get an error as well; the end
//     of the Checkpoint's With, after which it is broken.
//   - Collective: over the PEs that live.
func (k *Checkpoint) Restore() (Restored, error) {
	const op = "Checkpoint.Restore"
	if err := k.begin(op); err != nil {
		return Restored{}, err
	}
	defer k.mu.Unlock()
	for {
		old := k.team
		switch a, err := old.With(k.ctx).runAgreement(op, voteRestores); {
		case err != nil:
			return Restored{}, err
		case a.Flags&voteRestores == 0:
			continue // another PE is in Commit, which fails, so that it comes here
		}
		t, err := old.With(k.ctx).Shrink()
		if err != nil {
			return Restored{}, err
		}
		k.team = t
		_ = old.Destroy() // the dead do not come, so an error is no surprise; it frees what the team has here
		epoch, err := k.restoreOwn(op)
		flag := uint64(voteRestores)
		if err == nil {
			flag |= voteCopied
		}
		a, failed := t.With(k.ctx).runAgreement(op, flag)
		switch {
		case failed != nil:
			return Restored{}, failed
		case len(a.Failed) > 0:
			continue
		case err != nil:
			return Restored{}, err
		case a.Flags&voteCopied == 0:
			return Restored{}, fmt.Errorf("shmem.%s: another PE could not restore its objects; its error says why", op)
		}
		k.epoch.Store(epoch)
		return k.missing(epoch), nil
	}
}

// restoreOwn finds the latest epoch that all members have, and restores this PE's objects. After an error, it goes on until all have met.
func (k *Checkpoint) restoreOwn(op string) (epoch uint64, err error) {
	t := k.team.With(k.ctx)
	mine := k.epoch.Load()
	inFile := k.policy.kind == policyFiles && (mine == 0 || k.records[mine&1].epoch != mine) // an earlier job's
	if inFile {
		mine, err = k.findFile(op)
	}
	if epoch, e := ReduceValue(t, mine, Min); e != nil {
		return 0, e
	} else if mine = epoch; mine == 0 || err != nil {
		return 0, err
	}
	switch {
	case inFile:
		err = k.readOwnFile(op, mine)
	default:
		err = k.writeObjects(op, k.copyOf(mine))
	}
	return mine, err
}

// writeObjects gives this PE's objects the values of a copy.
func (k *checkpoint) writeObjects(op string, from []byte) error {
	for i := range k.objects {
		o := &k.objects[i]
		if err := k.h.checkRef(op, o.ref, 0); err != nil {
			return fmt.Errorf("object %q: %w", o.name, err)
		}
		copy(k.objectBytes(o), from[o.at:])
	}
	return nil
}

// missing returns who has taken part in an epoch and has died.
func (k *checkpoint) missing(epoch uint64) Restored {
	r := &k.records[epoch&1]
	done := Restored{Epoch: epoch}
	if epoch == 0 || r.epoch != epoch {
		return done
	}
	dead := func(member int) bool { return k.team.group.of(r.members[member]) < 0 }
	for m := range r.members {
		if dead(m) {
			done.Failed = append(done.Failed, int(r.members[m]))
		}
	}
	for _, m := range k.policy.lost(&r.keepers, dead) {
		done.Lost = append(done.Lost, int(r.members[m]))
	}
	slices.Sort(done.Lost)
	return done
}

// RestoreFrom gives this PE's objects the values that those of another PE had in the latest epoch. This PE so takes the place of
// one that has died.
//
//   - Cost: one or more gets for each object; of a file, the reading of it. With Coded, gets of all others of the group, and the
//     arithmetic.
//   - Errors: ErrArgument for a PE that took no part in the latest epoch; *PEError with ErrPEDied if the copies are lost as well.
//   - Concurrent calls: one call on the Checkpoint at a time.
func (k *Checkpoint) RestoreFrom(pe int) error {
	const op = "Checkpoint.RestoreFrom"
	if err := k.begin(op); err != nil {
		return err
	}
	defer k.mu.Unlock()
	if err := k.checkCommitted(op); err != nil {
		return err
	}
	for i := range k.objects {
		o := &k.objects[i]
		if err := k.h.checkRef(op, o.ref, 0); err != nil {
			return fmt.Errorf("object %q: %w", o.name, err)
		}
		if err := k.read(op, k.objectBytes(o), o.at, pe); err != nil {
			return err
		}
	}
	return nil
}

// GetCommitted copies what the first len(dst) elements of x had on PE pe in the latest epoch to dst. x is a protected object, or a
// part of one. The PE may live or be dead.
//
//   - Completion: on return.
//   - Cost and errors: as Checkpoint.RestoreFrom; ErrBounds; ErrArgument if x is not protected.
//   - Concurrent calls: one call on the Checkpoint at a time.
//   - Source: none; like Get.
func GetCommitted[T any](k *Checkpoint, dst []T, x Sym[T], pe int) error {
	const op = "GetCommitted"
	if err := k.begin(op); err != nil {
		return err
	}
	defer k.mu.Unlock()
	if err := k.h.checkRef(op, x.ref(), len(dst)); err != nil || len(dst) == 0 {
		return err
	}
	if err := k.checkCommitted(op); err != nil {
		return err
	}
	at := k.placeOf(x.ref())
	if at < 0 {
		return usage(op, ErrArgument, "the object is not protected, want one that Protect was called with, or a part of one")
	}
	return k.read(op, unsafe.Slice((*byte)(unsafe.Pointer(&dst[0])), len(dst)*int(sizeOf[T]())), at, pe)
}

// checkCommitted checks that there is an epoch.
func (k *checkpoint) checkCommitted(op string) error {
	if k.epoch.Load() == 0 {
		return usage(op, ErrArgument, "no epoch is committed, want one by Commit")
	}
	return nil
}

// placeOf returns where an object, or a part of one, begins in a copy, or -1.
func (k *checkpoint) placeOf(x ref) int {
	for i := range k.objects {
		if o := &k.objects[i]; o.ref.tag&^hollow == x.tag&^hollow && x.off >= o.ref.off && x.off < o.ref.off+uint64(o.size) {
			return o.at + int(x.off-o.ref.off)
		}
	}
	return -1
}

// read reads bytes of a PE's objects in the latest epoch. They begin at a place in the copy.
func (k *Checkpoint) read(op string, dst []byte, at, pe int) error {
	epoch := k.epoch.Load()
	r := &k.records[epoch&1]
	if r.epoch != epoch { // an earlier job's
		return k.readFile(op, dst, at, pe, epoch)
	}
	member := slices.Index(r.members, layout.PE(pe))
	if member < 0 {
		return usage(op, ErrArgument, "PE %d took no part in epoch %d, want one of %v", pe, epoch, r.members)
	}
	if !k.h.isDead(layout.PE(pe)) {
		return Get(k.c.With(k.ctx), dst, k.ownAt(epoch).Slice(at, at+len(dst)), pe)
	}
	switch k.policy.kind {
	case policyPartner:
		keeper := r.members[r.keepers.keeperOf(member)]
		if keeper == layout.PE(pe) || k.h.isDead(keeper) {
			return k.lostError(op, pe, "; PE %d, which had the copy, has died as well", keeper)
		}
		return Get(k.c.With(k.ctx), dst, k.keptAt(epoch).Slice(at, at+len(dst)), int(keeper))
	case policyParity:
		return k.reconstruct(op, r, dst, at, member)
	case policyFiles:
		return k.readFile(op, dst, at, pe, epoch)
	}
	return nil
}

// lostError returns the error of copies that are lost.
func (k *checkpoint) lostError(op string, pe int, format string, args ...any) error {
	err := k.h.errorOfDead(op, []layout.PE{layout.PE(pe)})
	return fmt.Errorf("%w"+format, append([]any{err}, args...)...)
}

// reconstruct computes bytes of a dead member's objects from what its group has.
func (k *Checkpoint) reconstruct(op string, r *epochMembers, dst []byte, at, member int) error {
	group, place := r.keepers.groupOf(member)
	s := k.newShards(r, group)
	for len(dst) > 0 {
		stripe, from := at/s.stripe, at%s.stripe
		n := min(len(dst), chunk, s.stripe-from)
		row, have := s.code.Row(place, stripe), 0
		for part := range s.code.Size {
			s.parts[part] = nil
			if have < s.code.Data() && part != stripe && !k.h.isDead(s.holder(row, part)) {
				s.parts[part] = s.room[part][:n]
				s.fetch(row, part, from)
				have++
			}
		}
		if have < s.code.Data() {
			_ = s.await()
			return k.lostError(op, int(r.members[member]), "; more than %d PEs of its group have died, so its data are lost", k.policy.parities)
		}
		if err := s.await(); err != nil {
			if isDeathError(err) {
				continue // without the one that has died meanwhile
			}
			return err
		}
		s.parts[stripe] = s.room[stripe][:0:n]
		if err := s.code.Restore(s.parts, stripe); err != nil {
			return fmt.Errorf("shmem.%s: %w", op, err)
		}
		copy(dst, s.room[stripe][:n])
		dst, at = dst[n:], at+n
	}
	return nil
}

// Free frees the memory of the Checkpoint, and ends it.
//
//   - Errors: as Free; also when a PE has died, and then Finalize frees it.
//   - Collective: over all PEs.
func (k *Checkpoint) Free() error {
	if err := k.begin("Checkpoint.Free"); err != nil {
		return err
	}
	defer k.mu.Unlock()
	w := k.w.With(k.ctx)
	err := errors.Join(Free(w, k.others), Free(w, k.own), k.c.Destroy(), k.team.Destroy())
	k.own, k.others, k.objects, k.size = Sym[byte]{}, Sym[byte]{}, nil, 0
	k.epoch.Store(0)
	return err
}
