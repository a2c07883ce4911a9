package shmem

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
)

// Waits for, and tests of, the elements of an object on this PE. All of them take
// skip, which has as many elements as the object, or none: element i counts unless
// skip[i]. It is only read. What counts is called the wait set.

// WaitUntilAll returns when each element of x on this PE that counts has compared with
// v as asked. It looks at one after the other: an element that has satisfied it is not
// looked at again. With an empty wait set it returns at once.
//
//   - Errors: as WaitUntil; ErrArgument if the length of skip is neither 0 nor that of x.
//   - Cost: as WaitUntil.
//   - Concurrent calls: allowed.
//   - Source: shmem_wait_until_all.
func WaitUntilAll[T Waiter](c *Ctx, x Sym[T], skip []bool, cmp Cmp, v T) error {
	s, err := newSet(c, "WaitUntilAll", x, skip, cmp, v)
	if err != nil {
		return err
	}
	return waitAll[T](c, "WaitUntilAll", &s)
}

// WaitUntilAllVector is WaitUntilAll with a value for each element: x[i] is compared
// with v[i].
//
//   - Errors: as WaitUntilAll; ErrArgument if the length of v is not that of x.
//   - Concurrent calls: allowed.
//   - Source: shmem_wait_until_all_vector.
func WaitUntilAllVector[T Waiter](c *Ctx, x Sym[T], skip []bool, cmp Cmp, v []T) error {
	s, err := newVector(c, "WaitUntilAllVector", x, skip, cmp, v)
	if err != nil {
		return err
	}
	return waitAll[T](c, "WaitUntilAllVector", &s)
}

// WaitUntilAny returns when an element of x on this PE that counts compares with v as
// asked, and its index. With an empty wait set it returns -1 at once.
//
// A call looks first at the element behind the one that the latest such call returned: one
// of the same routine, with the same object, skip, comparison and values. So repeated calls
// return each element that goes on to satisfy the comparison, whatever other waits and tests
// of the same elements come between them.
//
//   - Errors: as WaitUntilAll, with index -1.
//   - Cost: a poll looks at all elements that count; otherwise as WaitUntil.
//   - Concurrent calls: allowed.
//   - Source: shmem_wait_until_any.
func WaitUntilAny[T Waiter](c *Ctx, x Sym[T], skip []bool, cmp Cmp, v T) (int, error) {
	s, err := newSet(c, "WaitUntilAny", x, skip, cmp, v)
	if err != nil {
		return -1, err
	}
	return waitAny(c, "WaitUntilAny", &s)
}

// WaitUntilAnyVector is WaitUntilAny with a value for each element: x[i] is compared
// with v[i].
//
//   - Errors: as WaitUntilAllVector, with index -1.
//   - Concurrent calls: allowed.
//   - Source: shmem_wait_until_any_vector.
func WaitUntilAnyVector[T Waiter](c *Ctx, x Sym[T], skip []bool, cmp Cmp, v []T) (int, error) {
	s, err := newVector(c, "WaitUntilAnyVector", x, skip, cmp, v)
	if err != nil {
		return -1, err
	}
	return waitAny(c, "WaitUntilAnyVector", &s)
}

// WaitUntilSome returns when at least one element of x on this PE that counts compares
// with v as asked. It stores the indices of those that do in idx, in no particular
// order, and returns how many these are: as many as there are, or as idx has room for.
// With an empty wait set it returns 0 at once.
//
// Where idx has not room for all elements of x, calls take turns as those of
// WaitUntilAny do.
//
//   - Errors: as WaitUntilAll; ErrArgument if idx has no room at all.
//   - Cost: as WaitUntilAny.
//   - Concurrent calls: allowed.
//   - Source: shmem_wait_until_some.
func WaitUntilSome[T Waiter](c *Ctx, x Sym[T], idx []int, skip []bool, cmp Cmp, v T) (int, error) {
	s, err := newSet(c, "WaitUntilSome", x, skip, cmp, v)
	if err != nil {
		return 0, err
	}
	return waitSome(c, "WaitUntilSome", &s, idx)
}

// WaitUntilSomeVector is WaitUntilSome with a value for each element: x[i] is compared
// with v[i].
//
//   - Errors: as WaitUntilAllVector; ErrArgument if idx has no room at all.
//   - Concurrent calls: allowed.
//   - Source: shmem_wait_until_some_vector.
func WaitUntilSomeVector[T Waiter](c *Ctx, x Sym[T], idx []int, skip []bool, cmp Cmp, v []T) (int, error) {
	s, err := newVector(c, "WaitUntilSomeVector", x, skip, cmp, v)
	if err != nil {
		return 0, err
	}
	return waitSome(c, "WaitUntilSomeVector", &s, idx)
}

// TestAll says whether each element of x on this PE that counts compares with v as
// asked; so it is true for an empty wait set. Like Test, TestAll and its kin serve others when
// they say no.
//
//   - Errors: those of WaitUntilAll for bad arguments.
//   - Concurrent calls: allowed.
//   - Source: shmem_test_all.
func TestAll[T Waiter](c *Ctx, x Sym[T], skip []bool, cmp Cmp, v T) (bool, error) {
	s, err := newSet(c, "TestAll", x, skip, cmp, v)
	return err == nil && testAll(c, &s), err
}

// TestAllVector is TestAll with a value for each element: x[i] is compared with v[i].
//
//   - Errors: those of WaitUntilAllVector for bad arguments.
//   - Concurrent calls: allowed.
//   - Source: shmem_test_all_vector.
func TestAllVector[T Waiter](c *Ctx, x Sym[T], skip []bool, cmp Cmp, v []T) (bool, error) {
	s, err := newVector(c, "TestAllVector", x, skip, cmp, v)
	return err == nil && testAll(c, &s), err
}

// TestAny returns the index of an element of x on this PE that counts and compares
// with v as asked, -1 if there is none. Calls take turns as those of WaitUntilAny do.
//
//   - Errors: those of WaitUntilAll for bad arguments.
//   - Concurrent calls: allowed.
//   - Source: shmem_test_any.
func TestAny[T Waiter](c *Ctx, x Sym[T], skip []bool, cmp Cmp, v T) (int, error) {
	s, err := newSet(c, "TestAny", x, skip, cmp, v)
	if err != nil {
		return -1, err
	}
	return testAny(c, &s), nil
}

// TestAnyVector is TestAny with a value for each element: x[i] is compared with v[i].
//
//   - Errors: those of WaitUntilAllVector for bad arguments.
//   - Concurrent calls: allowed.
//   - Source: shmem_test_any_vector.
func TestAnyVector[T Waiter](c *Ctx, x Sym[T], skip []bool, cmp Cmp, v []T) (int, error) {
	s, err := newVector(c, "TestAnyVector", x, skip, cmp, v)
	if err != nil {
		return -1, err
	}
	return testAny(c, &s), nil
}

// TestSome stores the indices of the elements of x on this PE that count and compare
// with v as asked in idx, and returns how many these are: as many as there are, or as
// idx has room for. Then calls take turns as those of WaitUntilSome do.
//
//   - Errors: those of WaitUntilSome for bad arguments.
//   - Concurrent calls: allowed.
//   - Source: shmem_test_some.
func TestSome[T Waiter](c *Ctx, x Sym[T], idx []int, skip []bool, cmp Cmp, v T) (int, error) {
	s, err := newSet(c, "TestSome", x, skip, cmp, v)
	if err != nil {
		return 0, err
	}
	return testSome(c, "TestSome", &s, idx)
}

// TestSomeVector is TestSome with a value for each element: x[i] is compared with v[i].
//
//   - Errors: those of WaitUntilSomeVector for bad arguments.
//   - Concurrent calls: allowed.
//   - Source: shmem_test_some_vector.
func TestSomeVector[T Waiter](c *Ctx, x Sym[T], idx []int, skip []bool, cmp Cmp, v []T) (int, error) {
	s, err := newVector(c, "TestSomeVector", x, skip, cmp, v)
	if err != nil {
		return 0, err
	}
	return testSome(c, "TestSomeVector", &s, idx)
}

// newSet checks the arguments of a call on the elements of x and describes them to
// package rma.
func newSet[T Waiter](c *Ctx, op string, x Sym[T], skip []bool, cmp Cmp, v T) (s wait.Set, err error) {
	if !c.own(x.tag) || x.off&(sizeOf[T]()-1) != 0 { // good still, if it has no elements
		if err := c.check(op, x.aligned(), 0, 0); err != nil && !survivable(err) {
			return s, err
		}
	}
	if cmp > LE {
		return s, usage(op, ErrArgument, "comparison %d, want EQ, NE, GT, GE, LT or LE", cmp)
	}
	if len(skip) != 0 && len(skip) != x.n {
		return s, usage(op, ErrArgument, "skip has %d elements, want none or %d as the object", len(skip), x.n)
	}
	s = wait.Set{Cond: condition(x, cmp, v), N: x.n}
	s.Addr = c.mine(x.off)
	if len(skip) != 0 {
		s.Skip = skip
	}
	return s, nil
}

// newVector is newSet with a value for each element.
func newVector[T Waiter](c *Ctx, op string, x Sym[T], skip []bool, cmp Cmp, v []T) (wait.Set, error) {
	s, err := newSet(c, op, x, skip, cmp, 0)
	if err == nil && len(v) != x.n {
		return s, usage(op, ErrArgument, "%d values, want %d as the object's elements", len(v), x.n)
	}
	s.Vals = unsafe.Pointer(unsafe.SliceData(v))
	return s, err
}

func waitAll[T Waiter](c *Ctx, op string, s *wait.Set) error {
	c.h.job.Waiter.Beat() // there may be nothing to wait for
	for i := range s.N {
		cond, counts := s.At(i)
		if !counts || cond.Ready() {
			continue
		}
		one := wait.Set{Cond: cond, N: 1}
		if _, err := c.await(op, &one); err != nil {
			return err
		}
	}
	return nil
}

func waitAny(c *Ctx, op string, s *wait.Set) (int, error) {
	if s.Empty() {
		return -1, nil
	}
	turn := c.h.takeTurn(s, formWaitAny, 1)
	i, err := c.await(op, s)
	if err == nil {
		turn.keep(i)
	}
	return i, err
}

func waitSome(c *Ctx, op string, s *wait.Set, idx []int) (int, error) {
	switch {
	case s.Empty():
		return 0, nil
	case len(idx) == 0:
		return 0, usage(op, ErrArgument, "no room for an index, want some in idx")
	}
	turn := c.h.takeTurn(s, formWaitSome, len(idx))
	i, err := c.await(op, s)
	if err != nil {
		return 0, err
	}
	idx[0] = i // it may not hold any more
	n := 1 + s.CollectBut(i, idx[1:])
	turn.keep(idx[n-1])
	return n, nil
}

func testAll(c *Ctx, s *wait.Set) bool {
	c.h.job.Waiter.Beat() // it may be polled
	for i := range s.N {
		if cond, counts := s.At(i); counts && !cond.Ready() {
			c.h.job.Waiter.ServePeers()
			return false
		}
	}
	return true
}

func testAny(c *Ctx, s *wait.Set) int {
	c.h.job.Waiter.Beat()
	if s.N == 0 {
		return -1
	}
	turn := c.h.takeTurn(s, formTestAny, 1)
	i := s.Find()
	if i >= 0 {
		turn.keep(i)
	} else {
		c.h.job.Waiter.ServePeers()
	}
	return i
}

func testSome(c *Ctx, op string, s *wait.Set, idx []int) (int, error) {
	c.h.job.Waiter.Beat()
	switch {
	case s.Empty():
		return 0, nil
	case len(idx) == 0:
		return 0, usage(op, ErrArgument, "no room for an index, want some in idx")
	}
	turn := c.h.takeTurn(s, formTestSome, len(idx))
	n := s.Collect(idx)
	if n > 0 {
		turn.keep(idx[n-1])
	} else {
		c.h.job.Waiter.ServePeers()
	}
	return n, nil
}

// await waits for one word of a set. Its errors are those of waitUntil.
func (c *Ctx) await(op string, s *wait.Set) (int, error) {
	for {
		s.Seen = c.h.acked.Load()
		i, err := c.h.job.Waiter.WaitAny(s, c.ctx)
		if err == nil {
			return i, nil
		}
		if !errors.Is(err, wait.ErrFailure) {
			return -1, c.gaveUp(op, s, err)
		}
		if err := c.h.bereaved(op); err != nil {
			return -1, err
		}
	}
}

// gaveUp returns the error of a wait that ended with err, which is no death.
func (c *Ctx) gaveUp(op string, s *wait.Set, err error) error {
	if errors.Is(err, wait.ErrClosed) {
		return usage(op, ErrFinalized, "waiting for one of %d elements: finalized meanwhile", s.N)
	}
	return fmt.Errorf("shmem.%s: waiting for one of %d elements to be %s the value: %w", op, s.N, Cmp(s.Cmp), err)
}
