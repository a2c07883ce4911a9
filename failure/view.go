package failure

import (
	"cmp"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Failure is a published death.
type Failure struct {
	PE          int
	Incarnation uint32
	Cause       Cause
	Epoch       uint64        // epoch of the publication
	At          time.Duration // time of the death on CLOCK_MONOTONIC; 0: unknown
	Stored      time.Duration // time of the publication on CLOCK_MONOTONIC
}

// View is a reader's side of a failure page. A nil View stands for a process without
// a page, to which no PE is dead. Any goroutine may call the methods.
type View struct {
	page *layout.FailurePage
	npes int
}

// Attach maps the failure page of a job of npes PEs, whose descriptor is fd. The
// descriptor may be closed afterwards; the mapping stays.
//
//   - Errors: the descriptor is not of this job's page.
func Attach(fd int, job [16]byte, npes int) (*View, error) {
	var h layout.FailureHeader
	if err := xunix.ReadAt(fd, unsafe.Slice((*byte)(unsafe.Pointer(&h)), unsafe.Sizeof(h)), 0); err != nil {
		return nil, fmt.Errorf("failure page: header: %w", err)
	}
	size, err := xunix.FileSize(fd)
	if err == nil && npes < 1 {
		err = fmt.Errorf("of %d PEs, want 1 or more", npes)
	}
	if err != nil {
		return nil, fmt.Errorf("failure page: %w", err)
	}
	if err := h.Check(job, uint32(npes), size); err != nil {
		return nil, err
	}
	at, err := xunix.Map(fd, uintptr(h.Size), false)
	if err != nil {
		return nil, fmt.Errorf("failure page: %w", err)
	}
	return &View{page: (*layout.FailurePage)(at), npes: npes}, nil
}

// Epoch returns the number of publications so far. After it, the other methods see
// all deaths up to that number.
//
//   - Cost: one load.
func (v *View) Epoch() uint64 {
	if v == nil {
		return 0
	}
	return atomic.LoadUint64(&v.page.Epoch)
}

// Dead reports whether an incarnation of a PE is dead. If it is, Since finds that death.
//
//   - Cost: one load; two more for a death that is being published.
func (v *View) Dead(pe int, incarnation uint32) bool {
	if v == nil || uint(pe) >= uint(v.npes) {
		return false
	}
	latest := atomic.LoadUint32(&v.page.Failure(pe).Incarnation)
	if latest&layout.FailureFresh == 0 {
		return latest >= incarnation
	}
	return v.deadFresh(pe, latest&^layout.FailureFresh, incarnation)
}

// deadFresh is Dead while the death of the latest incarnation is fresh: only its epoch tells whether it is published.
//
//go:noinline
func (v *View) deadFresh(pe int, latest, incarnation uint32) bool {
	if latest != incarnation {
		return latest > incarnation
	}
	epoch := atomic.LoadUint64(&v.page.Failure(pe).Epoch)
	return epoch != 0 && epoch <= v.Epoch()
}

// All returns the latest death of each PE that has died, in the order of PEs, and the
// epoch up to which the list is complete.
func (v *View) All() (all []Failure, epoch uint64) { return v.Since(0) }

// Since is All without the deaths that were published up to an epoch.
//
//   - Cost: proportional to the deaths since that epoch, which it finds in the page's log. If the
//     log does not go back so far, one look at each PE of the job.
func (v *View) Since(epoch uint64) (all []Failure, last uint64) {
	last = v.Epoch()
	if last <= epoch {
		return nil, last
	}
	all, isComplete := v.readLog(atomic.LoadUint64(&v.page.Log(v.npes).Count), epoch, last)
	if !isComplete {
		all = v.scan(epoch, last)
	}
	return all, last
}

// scan returns the latest death of each PE that was published after one epoch and up to another one,
// in the order of PEs.
func (v *View) scan(after, last uint64) (all []Failure) {
	for pe := range v.npes {
		if f, ok := v.Failure(pe); ok && f.Epoch > after && f.Epoch <= last {
			all = append(all, f)
		}
	}
	return all
}

// readLog is scan by means of the page's log. End is its count, loaded after the page's Epoch was found to be last or
// more. Ok is false if the log does not go back so far, or did not any more while readLog read it. Package
// symheap/layout argues why this finds what scan finds.
func (v *View) readLog(end, after, last uint64) (all []Failure, ok bool) {
	l := v.page.Log(v.npes)
	// The place of position end-LogLength may be the one that the step is writing to.
	lowest := end - min(end, layout.LogLength-1)
	position := end
	isComplete := lowest == 0
	for position > lowest {
		position--
		d := l.Death(position)
		epoch, pe := atomic.LoadUint64(&d.Epoch), atomic.LoadUint64(&d.PE)
		if epoch <= after {
			isComplete = true
			break
		}
		// Bound the PE: a place that is being written may have anything.
		if epoch > last || pe >= uint64(v.npes) {
			continue
		}
		if f, ok := v.Failure(int(pe)); ok && f.Epoch == epoch {
			all = append(all, f)
		}
	}
	if !isComplete || atomic.LoadUint64(&l.Count) >= position+layout.LogLength {
		return nil, false
	}
	slices.SortFunc(all, func(a, b Failure) int { return cmp.Compare(a.PE, b.PE) })
	return all, true
}

// Failure returns the latest death of a PE. Ok is false if the PE has not died, and
// while the step replaces the death by that of a later incarnation.
func (v *View) Failure(pe int) (f Failure, ok bool) {
	if v == nil || pe < 0 || pe >= v.npes {
		return f, false
	}
	p := v.page.Failure(pe)
	f = Failure{
		PE:          pe,
		Epoch:       atomic.LoadUint64(&p.Epoch),
		Incarnation: atomic.LoadUint32(&p.Incarnation) &^ layout.FailureFresh,
		Cause:       Cause(atomic.LoadUint32(&p.Cause)),
		At:          time.Duration(atomic.LoadInt64(&p.At)),
		Stored:      time.Duration(atomic.LoadInt64(&p.Stored)),
	}
	return f, f.Epoch != 0 && atomic.LoadUint64(&p.Epoch) == f.Epoch
}
