package daemon

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/daemon/pulse"
	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// incarnation is that of all PEs: none is started again.
const incarnation = 1

// jobMemory is what the PEs of a job share: their segments and the page of their failures. It has a lock of its own, which
// is held for reads and writes of memory and for futex wakes. A caller that holds the lock of the table may take this one.
// The other way round is forbidden.
type jobMemory struct {
	mu     sync.Mutex
	heaps  []*os.File       // by index of the PE on the node
	page   *failure.Page    // nil: not made yet, or the job is over
	vitals []symheap.Vitals // by index on the node: the words by which it is woken and watched
	loans  int              // how many answers are being sent that have descriptors of these files
	closed bool             // the memory is given back when the last loan is
	begun  bool             // the page has an epoch: see beginEpochs
}

// loan is the files of a job while they are being sent to a PE.
type loan struct {
	heaps []*os.File
	page  *os.File
}

// create makes the segments of a job's near PEs and the page on which the failures of all its PEs are written, and maps
// the words by which the near ones are woken.
func (m *jobMemory) create(key [16]byte, npes int, near []int, size uint64, options ...symheap.Option) (err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, pe := range near {
		f, err := symheap.Create(symheap.Identity{Job: key, PE: uint32(pe), NPEs: uint32(npes), Incarnation: incarnation}, size, options...)
		if err != nil {
			return err
		}
		m.heaps = append(m.heaps, f)
	}
	if m.page, err = failure.Create(key, npes); err != nil {
		return err
	}
	for _, f := range m.heaps {
		v, err := symheap.MapVitals(f)
		if err != nil {
			return err
		}
		m.vitals = append(m.vitals, v)
	}
	return nil
}

// exists says whether the job has its memory.
func (m *jobMemory) exists() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.page != nil && !m.closed
}

// lend returns the files of the job, which stay open until endLoan is called. No lock is held meanwhile, because the
// receiver decides how long it takes to send it descriptors.
func (m *jobMemory) lend() (loan, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.page == nil || m.closed {
		return loan{}, errEnding
	}
	m.loans++
	return loan{m.heaps, m.page.File()}, nil
}

// endLoan ends what lend has begun.
func (m *jobMemory) endLoan() error {
	m.mu.Lock()
	m.loans--
	m.mu.Unlock()
	return m.closeUnlent()
}

// close gives the memory back, the files when they are not lent any more. Failures are not told from now on.
func (m *jobMemory) close() error {
	m.mu.Lock()
	m.closed = true
	vitals := m.vitals
	m.vitals = nil
	m.mu.Unlock()
	var errs []error
	for _, v := range vitals {
		errs = append(errs, v.Unmap())
	}
	return errors.Join(append(errs, m.closeUnlent())...)
}

// closeUnlent closes the files of a closed memory that is not lent.
func (m *jobMemory) closeUnlent() error {
	m.mu.Lock()
	if !m.closed || m.loans > 0 {
		m.mu.Unlock()
		return nil
	}
	heaps, page := m.heaps, m.page
	m.heaps, m.page = nil, nil
	m.mu.Unlock()
	var errs []error
	for _, f := range heaps {
		errs = append(errs, f.Close())
	}
	if page != nil {
		errs = append(errs, page.Close())
	}
	return errors.Join(errs...)
}

// publish writes a failure on the page and wakes all near PEs that sleep, so that they look at it.
func (m *jobMemory) publish(pe int, cause failure.Cause, at time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.page == nil || m.closed {
		return
	}
	m.page.Publish(pe, incarnation, cause, at)
	m.rouseAll()
}

// stir begins a new epoch of the page, without a death, and wakes all near PEs that sleep: the page of another job has changed, which they read, too.
func (m *jobMemory) stir() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.page == nil || m.closed {
		return
	}
	m.page.Stir()
	m.rouseAll()
}

// beginEpochs begins an epoch of the page, once: deaths in other jobs that a PE finds when it reaches these count from an epoch on that is not 0.
func (m *jobMemory) beginEpochs() {
	m.mu.Lock()
	begun := m.begun
	m.begun = true
	m.mu.Unlock()
	if !begun {
		m.stir()
	}
}

// publishAll is publish for failures of other nodes, all in one epoch. Their times are left out: clocks of two machines
// cannot be compared.
func (m *jobMemory) publishAll(pes []int, cause failure.Cause) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.page == nil || m.closed {
		return
	}
	m.page.PublishAll(pes, incarnation, cause, 0)
	m.rouseAll()
}

// publishLoss writes on the page that the node of PEs is lost which had ended before, and says whether that was news.
func (m *jobMemory) publishLoss(pes []int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.page == nil || m.closed || m.page.PublishLoss(pes, incarnation) == 0 {
		return false
	}
	m.rouseAll()
	return true
}

// rouseAll wakes all near PEs that sleep. The caller holds the lock.
func (m *jobMemory) rouseAll() {
	for _, v := range m.vitals {
		rma.Rouse(v.Bell)
	}
}

// readProgress reads the words of a near PE's progress; false: the job is over.
func (m *jobMemory) readProgress(i layout.Local) (pulse.Look, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if int(i) >= len(m.vitals) {
		return pulse.Look{}, false
	}
	return readProgress(m.vitals[i]), true
}
