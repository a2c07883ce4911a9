package mpi

import (
	"maps"
	"sync"
	"time"
)

// Key names an attribute of communicators: a value that a program, mostly a library, keeps with a communicator.
//
//	var cache = mpi.NewKey(func(*plan) (*plan, bool) { return nil, false }) // a duplicate gets none
//	cache.Set(c, p)
//	p, ok := cache.Get(c)
type Key[V any] struct {
	copied func(V) (V, bool)
}

// NewKey makes a key. copied returns what a duplicate of the communicator (Dup, Idup) gets, or false if it gets nothing; nil gives it the same
// value.
//
//   - Source: MPI_Comm_create_keyval.
func NewKey[V any](copied func(V) (V, bool)) *Key[V] {
	if copied == nil {
		copied = func(v V) (V, bool) { return v, true }
	}
	return &Key[V]{copied}
}

// attributeKey is a Key without its type.
type attributeKey interface{ copyValue(v any) (any, bool) }

func (k *Key[V]) copyValue(v any) (any, bool) { return k.copied(v.(V)) } //nolint:errcheck,forcetypeassert // Set has stored a V

// attributes are those of a communicator.
type attributes struct {
	mu  sync.Mutex
	all map[attributeKey]any
}

// Set keeps a value with a communicator.
//
//   - Errors: *UsageError for a communicator that is nil or was freed.
//   - Concurrent calls: allowed.
//   - Source: MPI_Comm_set_attr.
func (k *Key[V]) Set(c *Comm, v V) error {
	if err := c.usable("Key.Set"); err != nil {
		return err
	}
	a := &c.g.attributes
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all == nil {
		a.all = map[attributeKey]any{}
	}
	a.all[k] = v
	return nil
}

// Get returns the value that is kept with a communicator, and whether there is one.
//
//   - Concurrent calls: allowed.
//   - Source: MPI_Comm_get_attr.
func (k *Key[V]) Get(c *Comm) (v V, found bool) {
	if c.usable("Key.Get") != nil {
		return v, false
	}
	a := &c.g.attributes
	a.mu.Lock()
	defer a.mu.Unlock()
	x, found := a.all[k]
	if found {
		v, found = x.(V)
	}
	return v, found
}

// Delete removes the value that is kept with a communicator.
//
//   - Concurrent calls: allowed.
//   - Source: MPI_Comm_delete_attr.
func (k *Key[V]) Delete(c *Comm) {
	if c.usable("Key.Delete") != nil {
		return
	}
	c.g.attributes.mu.Lock()
	defer c.g.attributes.mu.Unlock()
	delete(c.g.attributes.all, k)
}

// copyTo gives a duplicate its attributes.
func (a *attributes) copyTo(to *attributes) {
	a.mu.Lock()
	all := maps.Clone(a.all)
	a.mu.Unlock()
	for k, v := range all { // a key's function may use other attributes
		if copied, has := k.copyValue(v); has {
			if to.all == nil {
				to.all = map[attributeKey]any{}
			}
			to.all[k] = copied
		}
	}
}

// started is the zero of Wtime.
var started = time.Now()

// Wtime returns the seconds since the start of the process, by a clock that never goes back. time.Since does the same for a time.Time.
//
//   - Source: MPI_Wtime.
func Wtime() float64 { return time.Since(started).Seconds() }

// Wtick returns the resolution of Wtime in seconds.
//
//   - Source: MPI_Wtick.
func Wtick() float64 { return time.Nanosecond.Seconds() }
