package shmem

import (
	"errors"
	"fmt"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
)

// This file has the waits for, and tests of, several elements of an object on this PE. All of them take skip, which
// has as many elements as the object, or none: element i counts unless skip[i] is true. skip is only read. The
// elements that count are the wait set.

// WaitUntilAll returns when the comparison with v has held for each element of x on this PE that counts. It looks at
// one element after the other, and does not look again at an element for which the comparison has held. With an empty
// wait set it returns at once.
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

// WaitUntilAllVector is WaitUntilAll with a value for each element: x[i] is compared with v[i].
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

// WaitUntilAny returns when the comparison with v holds for an element of x on this PE that counts. It returns the
// index of that element. With an empty wait set it returns -1 at once.
//
// A call looks first at the element after the one that the latest call of its kind returned. A kind is a routine
// with an object, skip, comparison and values. So repeated calls return each element for which the comparison goes on
// to hold, whatever other waits and tests of the same elements come between them.
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

// WaitUntilAnyVector is WaitUntilAny with a value for each element: x[i] is compared with v[i].
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

// WaitUntilSome returns when the comparison with v holds for at least one element of x on this PE that counts. It
// stores the indices of such elements in idx, in no particular order, and returns their number: all of them, or as
// many as idx has room for. With an empty wait set it returns 0 at once.
//
// If idx has no room for all elements of x, calls take turns as those of WaitUntilAny do.
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

// WaitUntilSomeVector is WaitUntilSome with a value for each element: x[i] is compared with v[i].
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

// TestAll reports whether the comparison with v holds for each element of x on this PE that counts. So it is true for
// an empty wait set. Like Test, TestAll and the tests below make progress for others when they find nothing.
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

// TestAny returns the index of an element of x on this PE that counts and for which the comparison with v holds, or
// -1 if there is none. Calls take turns as those of WaitUntilAny do.
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

// TestSome stores in idx the indices of the elements of x on this PE that count and for which the comparison with v
// holds. It returns their number: all of them, or as many as idx has room for. In the latter case calls take turns as
// those of WaitUntilSome do.
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

// newSet checks the arguments of a call on the elements of x, and describes them to package wait.
func newSet[T Waiter](c *Ctx, op string, x Sym[T], skip []bool, cmp Cmp, v T) (s wait.Set, err error) {
	if !c.passesHere(x.tag) || x.off&(sizeOf[T]()-1) != 0 { // a handle without elements fails the fast test and is good
		if err := c.check(op, x.alignedRef(), 0, 0); err != nil && !isDeathError(err) {
			return s, err
		}
	}
	if cmp > LE {
		return s, usage(op, ErrArgument, "comparison %d, want EQ, NE, GT, GE, LT or LE", cmp)
	}
	if len(skip) != 0 && len(skip) != x.n {
		return s, usage(op, ErrArgument, "skip has %d elements, want none or %d, as many as the object", len(skip), x.n)
	}
	s = wait.Set{Cond: newCond(x, cmp, v), N: x.n}
	s.Addr = c.addressHere(x.off)
	if len(skip) != 0 {
		s.Skip = skip
	}
	return s, nil
}

// newVector is newSet with a value for each element.
func newVector[T Waiter](c *Ctx, op string, x Sym[T], skip []bool, cmp Cmp, v []T) (wait.Set, error) {
	s, err := newSet(c, op, x, skip, cmp, 0)
	if err == nil && len(v) != x.n {
		return s, usage(op, ErrArgument, "%d values, want %d, one for each element of the object", len(v), x.n)
	}
	s.Vals = unsafe.Pointer(unsafe.SliceData(v))
	return s, err
}

func waitAll[T Waiter](c *Ctx, op string, s *wait.Set) error {
	c.h.job.Waiter.Beat() // the calls below beat only if they wait
	for i := range s.N {
		cond, counts := s.At(i)
		if !counts || cond.Ready() {
			continue
		}
		one := wait.Set{Cond: cond, N: 1}
		if _, err := c.awaitAny(op, &one); err != nil {
			return err
		}
	}
	return nil
}

func waitAny(c *Ctx, op string, s *wait.Set) (int, error) {
	if s.Empty() {
		return -1, nil
	}
	turn := c.h.chooseStart(s, turnWaitAny, 1)
	i, err := c.awaitAny(op, s)
	if err == nil {
		turn.recordReturned(i)
	}
	return i, err
}

func waitSome(c *Ctx, op string, s *wait.Set, idx []int) (int, error) {
	switch {
	case s.Empty():
		return 0, nil
	case len(idx) == 0:
		return 0, usage(op, ErrArgument, "idx has no room for an index, want at least one element")
	}
	turn := c.h.chooseStart(s, turnWaitSome, len(idx))
	i, err := c.awaitAny(op, s)
	if err != nil {
		return 0, err
	}
	idx[0] = i // in any case: the element may have changed again
	n := 1 + s.CollectBut(i, idx[1:])
	turn.recordReturned(idx[n-1])
	return n, nil
}

func testAll(c *Ctx, s *wait.Set) bool {
	c.h.job.Waiter.Beat() // the program may poll with TestAll
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
	turn := c.h.chooseStart(s, turnTestAny, 1)
	i := s.Find()
	if i >= 0 {
		turn.recordReturned(i)
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
		return 0, usage(op, ErrArgument, "idx has no room for an index, want at least one element")
	}
	turn := c.h.chooseStart(s, turnTestSome, len(idx))
	n := s.Collect(idx)
	if n > 0 {
		turn.recordReturned(idx[n-1])
	} else {
		c.h.job.Waiter.ServePeers()
	}
	return n, nil
}

// awaitAny waits until the comparison holds for one element of a set, and returns its index. Its errors are those of
// waitUntil.
func (c *Ctx) awaitAny(op string, s *wait.Set) (int, error) {
	for {
		s.Seen = c.h.acked.Load()
		i, err := c.h.job.Waiter.WaitAny(s, c.ctx)
		if err == nil {
			return i, nil
		}
		if !errors.Is(err, wait.ErrFailure) {
			return -1, c.waitError(op, s, err)
		}
		if err := c.h.endWaitOnDeath(op); err != nil {
			return -1, err
		}
	}
}

// waitError returns the error of a wait that ended with err, which is no death.
func (c *Ctx) waitError(op string, s *wait.Set, err error) error {
	if errors.Is(err, wait.ErrClosed) {
		return usage(op, ErrFinalized, "Finalize ended the wait for one of %d elements", s.N)
	}
	return fmt.Errorf("shmem.%s: waiting for one of %d elements to be %s the value: %w", op, s.N, Cmp(s.Cmp), err)
}
