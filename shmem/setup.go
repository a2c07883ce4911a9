package shmem

import (
	"github.com/goshmem/goshmem/internal/version"
	"github.com/goshmem/goshmem/symheap/layout"
)

// The level of the specification that this package implements.
//
//   - Source: SHMEM_MAJOR_VERSION, SHMEM_MINOR_VERSION.
const (
	MajorVersion = 1
	MinorVersion = 6
)

// MaxNameLen is how many bytes InfoName returns at most.
//
//   - Source: SHMEM_MAX_NAME_LEN.
const MaxNameLen = 256

// ThreadLevel says which goroutines of a PE make calls, and whether several do so at once. In C, each level allows
// more than the one before it and may cost more. Here any goroutine may call at every level, at the same cost, and
// one goroutine at a time calls collectives on one team at every level. So a level only states what the program does,
// for libraries that ask for it.
type ThreadLevel uint8

// The levels.
//
//   - Source: SHMEM_THREAD_SINGLE, SHMEM_THREAD_FUNNELED, SHMEM_THREAD_SERIALIZED,
//     SHMEM_THREAD_MULTIPLE.
const (
	// ThreadSingle: the program has one goroutine.
	ThreadSingle ThreadLevel = iota
	// ThreadFunneled: it has several, and only the one that called Init makes calls.
	ThreadFunneled
	// ThreadSerialized: several make calls, and the program sees to it that they do so one
	// after the other.
	ThreadSerialized
	// ThreadMultiple: several make calls at any time.
	ThreadMultiple
)

// String returns the level's name without its prefix.
func (l ThreadLevel) String() string {
	if int(l) < len(levelNames) {
		return levelNames[l]
	}
	return "an unknown level"
}

var levelNames = [...]string{ThreadSingle: "single", ThreadFunneled: "funneled", ThreadSerialized: "serialized", ThreadMultiple: "multiple"}

// Threads asks Init for a level. Every level is provided, so QueryThread returns it from then on. Without this option
// the level is ThreadMultiple. Of nested calls of Init the first one decides, also for other libraries of the
// process.
//
//   - Errors: of Init, ErrArgument for an unknown level.
//   - Source: shmem_init_thread.
func Threads(l ThreadLevel) Option { return func(c *config) { c.level = l } }

// QueryThread returns the level that Init provided, or ThreadSingle for a nil World.
//
//   - Concurrent calls: allowed.
//   - Source: shmem_query_thread.
func (w *World) QueryThread() ThreadLevel {
	if w == nil || w.session == nil {
		return ThreadSingle
	}
	return w.session.level
}

// StartPEs is the predecessor of Init. If Init was called before, it returns the present World. The number of PEs is
// that of the job; npes is ignored.
//
// Deprecated: use Init, whose calls nest.
//
//   - Collective: over all PEs of the job.
//   - Errors: those of Init.
//   - Source: start_pes.
func StartPEs(npes int) (*World, error) {
	_ = npes
	initMu.Lock()
	w := currentWorld
	initMu.Unlock()
	if w != nil {
		return w, nil
	}
	return Init()
}

// PEAccessible reports whether pe is a PE of the job and is not known to be dead.
//
//   - Concurrent calls: allowed.
//   - Source: shmem_pe_accessible.
func (w *World) PEAccessible(pe int) bool {
	if w.checkUsable("World.PEAccessible") != nil {
		return false
	}
	*w.session.h.mark = 1
	return pe >= 0 && pe < w.session.h.npes && !w.session.h.isDead(layout.PE(pe))
}

// Accessible reports whether operations on PE pe's copy of the object are possible: the handle has elements and is
// usable, and pe is a PE of the job that is not known to be dead.
//
//   - Concurrent calls: allowed.
//   - Source: shmem_addr_accessible.
func (x Sym[T]) Accessible(pe int) bool {
	h := currentHeap.Load()
	if h == nil {
		return false
	}
	*h.mark = 1
	return pe >= 0 && pe < h.npes && h.isLive(x.tag) && !h.isDead(layout.PE(pe))
}

// InfoVersion returns the level of the specification that this package implements: MajorVersion and MinorVersion.
//
//   - Source: shmem_info_get_version.
func InfoVersion() (major, minor int) { return MajorVersion, MinorVersion }

// InfoName returns the name and the version of this package.
//
//   - Source: shmem_info_get_name.
func InfoName() string {
	name := "goshmem " + version.String()
	return name[:min(len(name), MaxNameLen)]
}
