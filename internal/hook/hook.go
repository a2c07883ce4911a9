// Package hook keeps lists of functions that several packages of one process hang into a place
// which knows none of them: the waits of a process, its news of deaths.
package hook

import (
	"slices"
	"sync"
	"sync/atomic"
)

// List is a list of functions of type F. Its zero value is empty. The place calls the functions by
//
//	for _, f := range list.All() { (*f)() }
//
// without a lock. All methods may be called by any goroutine, also by a function of the list.
type List[F any] struct {
	mu    sync.Mutex // orders changes
	funcs atomic.Pointer[[]*F]
}

// Add appends f to the list and returns what removes it again. A call of f that began before its
// removal may still be under way when remove returns; a second call of remove does nothing.
func (l *List[F]) Add(f F) (remove func()) {
	entry := &f
	l.change(func(old []*F) []*F { return append(old, entry) })
	return func() {
		l.change(func(old []*F) []*F { return slices.DeleteFunc(old, func(e *F) bool { return e == entry }) })
	}
}

// change replaces the list by a changed copy: readers go on with the slice that they have loaded.
func (l *List[F]) change(edit func(copied []*F) []*F) {
	l.mu.Lock()
	defer l.mu.Unlock()
	changed := edit(slices.Clone(l.All()))
	l.funcs.Store(&changed)
}

// All returns the functions of the list in the order in which they were added. The slice is shared
// and is not to be changed.
//
//   - Cost: one atomic load.
func (l *List[F]) All() []*F {
	if funcs := l.funcs.Load(); funcs != nil {
		return *funcs
	}
	return nil
}
