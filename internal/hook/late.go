package hook

// Late is a value that comes after the first calls for it, such as the server of a driver. Its zero value has none.
// It keeps the calls until then, in order.
//
//   - Concurrent calls: the caller holds a lock of its own, also while the functions run.
type Late[T any] struct {
	value   T
	isSet   bool
	waiting []func(T)
}

// Call calls f with the value: now, or in Set.
func (l *Late[T]) Call(f func(T)) {
	if !l.isSet {
		l.waiting = append(l.waiting, f)
		return
	}
	f(l.value)
}

// Set gives the value, and makes the calls that have waited.
func (l *Late[T]) Set(value T) {
	l.value, l.isSet = value, true
	for _, f := range l.waiting {
		f(value)
	}
	l.waiting = nil
}
