package hook

import (
	"slices"
	"sync"
	"testing"
)

func called(l *List[func() int]) (got []int) {
	for _, f := range l.All() {
		got = append(got, (*f)())
	}
	return got
}

// Functions are called in the order in which they were added, until they are removed; a second
// removal takes no other function away.
func TestListOrder(t *testing.T) {
	var l List[func() int]
	if got := called(&l); got != nil {
		t.Errorf("the empty list called %v", got)
	}
	number := func(i int) func() int { return func() int { return i } }
	l.Add(number(1))
	remove := l.Add(number(2))
	l.Add(number(3))
	if got := called(&l); !slices.Equal(got, []int{1, 2, 3}) {
		t.Errorf("called %v, want 1 2 3", got)
	}
	remove()
	remove()
	if got := called(&l); !slices.Equal(got, []int{1, 3}) {
		t.Errorf("called %v after the removal of 2, want 1 3", got)
	}
}

// A function may remove itself, and add others, while the list is being called: the round that is
// under way calls what was there at its beginning.
func TestListChangesItself(t *testing.T) {
	var l List[func() int]
	var remove func()
	remove = l.Add(func() int {
		remove()
		l.Add(func() int { return 3 })
		return 1
	})
	l.Add(func() int { return 2 })
	if got := called(&l); !slices.Equal(got, []int{1, 2}) {
		t.Errorf("called %v, want 1 2", got)
	}
	if got := called(&l); !slices.Equal(got, []int{2, 3}) {
		t.Errorf("called %v after the change, want 2 3", got)
	}
}

// Goroutines that add and remove at a time lose no function of another one.
func TestListConcurrent(t *testing.T) {
	var l List[func() int]
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 500 {
				l.Add(func() int { return i })()
			}
			l.Add(func() int { return i })
		})
	}
	all.Wait()
	got := called(&l)
	slices.Sort(got)
	if !slices.Equal(got, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
		t.Errorf("called %v, want each of 0 to 7 once", got)
	}
}

// Calls before the value wait for it, and keep their order.
func TestLate(t *testing.T) {
	var l Late[int]
	var got []int
	note := func(n int) func(int) { return func(value int) { got = append(got, n+value) } }
	l.Call(note(1))
	l.Call(note(2))
	if len(got) > 0 {
		t.Errorf("calls %v before the value, want none", got)
	}
	l.Set(10)
	l.Call(note(3))
	if want := []int{11, 12, 13}; !slices.Equal(got, want) {
		t.Errorf("calls %v, want %v", got, want)
	}
}
