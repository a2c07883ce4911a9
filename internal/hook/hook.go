// Package hook keeps functions for later: lists of them that a place calls without knowing the packages that have added
// them, such as the waits of a process and its news of deaths, and calls of what is not there yet.
package hook

import (
	"slices"
	"sync"
	"sync/atomic"
)

// List is a list of functions of type F. Its zero value is empty. The place calls the functions without a
// lock:
//
//		for _, f := range list.All() { (*f)() }
//
//	  - Concurrent calls: allowed, also by a function of the list.
type List[F any] struct {
	mu    sync.Mutex // orders changes
	funcs atomic.Pointer[[]*F]
}

// Add appends f to the list, and returns a function that removes f. A call of f that began before the removal
// may still be under way when remove returns. A second call of remove does nothing.
func (l *List[F]) Add(f F) (remove func()) {
	entry := &f
	l.change(func(old []*F) []*F { return append(old, entry) })
	return func() {
		l.change(func(old []*F) []*F { return slices.DeleteFunc(old, func(e *F) bool { return e == entry }) })
	}
}

// change replaces the list by an edited copy. Readers go on with the slice that they have loaded.
func (l *List[F]) change(edit func(copied []*F) []*F) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := edit(slices.Clone(l.All()))
	l.funcs.Store(&changed)
}

// All returns the functions of the list, in the order of their addition. The slice is shared: the caller must
// not change it.
//
//   - Cost: one atomic load.
func (l *List[F]) All() []*F {
	if funcs := l.funcs.Load(); funcs != nil {
		return *funcs
	}
	return nil
}
