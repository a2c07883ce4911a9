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

// ThreadLevel says which threads of a PE make calls, one at a time or several at
// once. In C, each level allows more than the one before it and may cost more. Here
// any goroutine may call at every level, at the same cost, and collectives on one team
// are called by one goroutine at a time at every level. So a level is no more than the
// program's word, for libraries that ask for it.
type ThreadLevel uint8

// The levels, and what they say of the program.
//
//   - Source: SHMEM_THREAD_SINGLE, SHMEM_THREAD_FUNNELED, SHMEM_THREAD_SERIALIZED,
//     SHMEM_THREAD_MULTIPLE.
const (
	// ThreadSingle: one goroutine calls.
	ThreadSingle ThreadLevel = iota
	// ThreadFunneled: several run, and the one that called Init calls.
	ThreadFunneled
	// ThreadSerialized: several call, and the program sees to it that they do one
	// after the other.
	ThreadSerialized
	// ThreadMultiple: several call whenever they like.
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

// Threads asks Init for a level, which is what QueryThread returns from then on:
// every level is provided. Without it the level is ThreadMultiple. Of nested calls of
// Init the first one decides, as it does for other libraries of the process.
//
//   - Errors: of Init, ErrArgument for an unknown level.
//   - Source: shmem_init_thread.
func Threads(l ThreadLevel) Option { return func(c *config) { c.level = l } }

// QueryThread returns the level that Init has provided, ThreadSingle for a nil World.
//
//   - Concurrent calls: allowed.
//   - Source: shmem_query_thread.
func (w *World) QueryThread() ThreadLevel {
	if w == nil || w.s == nil {
		return ThreadSingle
	}
	return w.s.level
}

// StartPEs is Init as it was called once, and returns the World there is if Init was
// called before. The number of PEs is that of the job, whatever npes says.
//
// Deprecated: Init takes its place, which nests.
//
//   - Collective: over all PEs of the job.
//   - Errors: those of Init.
//   - Source: start_pes.
func StartPEs(npes int) (*World, error) {
	_ = npes
	initMu.Lock()
	w := current
	initMu.Unlock()
	if w != nil {
		return w, nil
	}
	return Init()
}

// PEAccessible says whether a PE is one of the job and not known to be dead.
//
//   - Concurrent calls: allowed.
//   - Source: shmem_pe_accessible.
func (w *World) PEAccessible(pe int) bool {
	if w.usable("World.PEAccessible") != nil {
		return false
	}
	*w.s.h.mark = 1
	return pe >= 0 && pe < w.s.h.npes && !w.s.h.dead(layout.PE(pe))
}

// Accessible says whether operations on PE pe's copy of the object are possible: the
// handle has elements and is usable, and the PE is one of the job and not known to be
// dead.
//
//   - Concurrent calls: allowed.
//   - Source: shmem_addr_accessible.
func (x Sym[T]) Accessible(pe int) bool {
	h := mapped.Load()
	if h == nil {
		return false
	}
	*h.mark = 1
	return pe >= 0 && pe < h.npes && h.liveNow(x.tag) && !h.dead(layout.PE(pe))
}

// InfoVersion returns the level of the specification that this package implements:
// MajorVersion and MinorVersion.
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
