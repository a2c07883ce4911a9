package failure

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

// mostPEs bounds the size of a page. Jobs are smaller.
const mostPEs = 1 << 24

// Page is the writer's side of a job's failure page. A page has one writer. Any
// goroutine may call the methods.
type Page struct {
	file *os.File
	mu   sync.Mutex
	page *layout.FailurePage // nil: closed
	npes int
}

// Create makes the failure page of a job of npes PEs. No PE is dead in it.
//
//   - Cost: a few system calls, 4 KiB and 32 bytes for each PE in whole pages of memory.
func Create(job [16]byte, npes int) (p *Page, err error) {
	if npes < 1 || npes > mostPEs {
		return nil, fmt.Errorf("failure page for %d PEs, want 1 to %d", npes, mostPEs)
	}
	size := layout.FailurePageSize(npes)
	p = &Page{npes: npes}
	if p.file, err = xunix.Memfd("goshmem-failures", int64(size)); err != nil {
		return nil, fmt.Errorf("failure page: %w", err)
	}
	at, err := xunix.Map(int(p.file.Fd()), uintptr(size), true)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("failure page: %w", err), p.file.Close())
	}
	p.page = (*layout.FailurePage)(at)
	p.page.Header = layout.NewFailureHeader(job, uint32(npes))
	if err := xunix.SealForWriters(p.file); err != nil {
		return nil, errors.Join(fmt.Errorf("failure page: %w", err), p.Close())
	}
	return p, nil
}

// File returns the descriptor that PEs attach. It lets them read the page but not
// write it. Close closes it.
func (p *Page) File() *os.File { return p.file }

// Publish publishes the death of an incarnation of a PE, with its cause and its time
// on CLOCK_MONOTONIC (0: unknown), and returns the epoch of the publication. If the
// death of this or a later incarnation was published before, Publish changes nothing
// and returns that epoch.
//
// After Publish, every waiter whose bell is rung finds the death: see rma.Rouse. On a
// closed page, and for a PE outside of the job, Publish does nothing and returns 0.
//
//   - Cost: one read of the clock and ten stores, no allocation.
//   - Concurrent calls: allowed.
func (p *Page) Publish(pe int, incarnation uint32, c Cause, at time.Duration) (epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page == nil || pe < 0 || pe >= p.npes {
		return 0
	}
	if f := p.page.Failure(pe); f.Incarnation >= incarnation {
		return f.Epoch
	}
	epoch = p.page.Epoch + 1
	p.write(pe, incarnation, c, at, epoch)
	p.finish(epoch)
	p.settle(pe)
	return epoch
}

// PublishAll publishes the deaths of an incarnation of several PEs in one epoch, as those of a lost
// node. PEs whose death was published before keep what they have. It returns the epoch, or 0 if there
// was nothing to publish.
//
// A reader who finds the epoch finds all of these deaths. Everything else is as for Publish.
//
//   - Cost: for each PE one read of the clock and nine stores, no allocation.
//   - Concurrent calls: allowed.
func (p *Page) PublishAll(pes []int, incarnation uint32, c Cause, at time.Duration) (epoch uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page == nil {
		return 0
	}
	next := p.page.Epoch + 1
	for _, pe := range pes {
		if pe < 0 || pe >= p.npes || p.page.Failure(pe).Incarnation >= incarnation {
			continue
		}
		p.write(pe, incarnation, c, at, next)
		epoch = next
	}
	if epoch == 0 {
		return 0
	}
	p.finish(epoch)
	for _, pe := range pes {
		if pe >= 0 && pe < p.npes {
			p.settle(pe)
		}
	}
	return epoch
}

// Stir begins a new epoch without a death: readers look at what else they know that may have changed.
//
//   - Concurrent calls: allowed.
func (p *Page) Stir() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page != nil {
		p.finish(p.page.Epoch + 1)
	}
}

// PublishLoss publishes that the node of some PEs is lost. These are all of its PEs that had ended before, some of them by
// their deaths. It is PublishAll with the cause NodeLost if there is a PE whose death was not published. Otherwise the first
// PE gets a later death, with that cause: readers find by one PE with it that a node is lost.
//
// If a PE has that cause already and all are published, PublishLoss changes nothing and returns 0.
//
//   - Concurrent calls: allowed.
func (p *Page) PublishLoss(pes []int, incarnation uint32) (epoch uint64) {
	if epoch = p.PublishAll(pes, incarnation, Of(NodeLost), 0); epoch != 0 {
		return epoch
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page == nil || len(pes) == 0 {
		return 0
	}
	for _, pe := range pes {
		if pe < 0 || pe >= p.npes || Cause(p.page.Failure(pe).Cause).Kind() == NodeLost {
			return 0
		}
	}
	epoch = p.page.Epoch + 1
	p.write(pes[0], incarnation, Of(NodeLost), 0, epoch)
	p.finish(epoch)
	p.settle(pes[0])
	return epoch
}

// write writes a death on the page, of which readers learn when the epoch is finished. The caller
// holds the lock.
func (p *Page) write(pe int, incarnation uint32, c Cause, at time.Duration, epoch uint64) {
	f := p.page.Failure(pe)
	atomic.StoreUint64(&f.Epoch, 0)
	atomic.StoreUint32(&f.Cause, uint32(c))
	atomic.StoreInt64(&f.At, int64(at))
	atomic.StoreInt64(&f.Stored, int64(xunix.Monotonic()))
	atomic.StoreUint32(&f.Incarnation, incarnation|layout.FailureFresh)
	atomic.StoreUint64(&f.Epoch, epoch)
	p.logDeath(pe, epoch)
}

// logDeath adds a death to the log of the page. The caller holds the lock. The death is written:
// a reader that finds it in the log goes to the Failure of its PE.
func (p *Page) logDeath(pe int, epoch uint64) {
	l := p.page.Log(p.npes)
	d := l.Death(l.Count)
	// Swaps rather than stores, for the race detector: see finish. A reader that finds one of these
	// words must also find the count that the step had stored before.
	atomic.SwapUint64(&d.Epoch, epoch)
	atomic.SwapUint64(&d.PE, uint64(pe))
	atomic.SwapUint64(&l.Count, l.Count+1)
}

// finish makes an epoch known whose deaths are written. The caller holds the lock.
func (p *Page) finish(epoch uint64) {
	// Swap rather than Store: a plain build uses the same instruction for both, but the
	// race detector stores mapped words with release order only. The loads of the bells
	// that follow could then come before the store.
	atomic.SwapUint64(&p.page.Epoch, epoch)
}

// settle makes a death plain whose epoch is finished: readers compare epochs no more. The caller holds the lock.
func (p *Page) settle(pe int) {
	f := p.page.Failure(pe)
	atomic.StoreUint32(&f.Incarnation, f.Incarnation&^layout.FailureFresh)
}

// Close unmaps the page and closes its descriptor. PEs that have attached the page keep it.
func (p *Page) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.page == nil {
		return nil
	}
	err := xunix.Unmap(unsafe.Pointer(p.page), uintptr(layout.FailurePageSize(p.npes)))
	p.page = nil
	return errors.Join(err, p.file.Close())
}
