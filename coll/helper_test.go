package coll_test

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/goshmem/goshmem/coll"
	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// node has the segments of n PEs mapped once. Goroutines stand for the PEs.
type node struct {
	m        segmentMap
	waiters  []*wait.Waiter
	page     *failure.Page
	failures *failure.View
}

// sleepEarly makes waits sleep early and without a timeout, so a missing wake-up is a hang and not
// a delay. The end of a context still ends a wait, but needs the timeout; one test has it.
//
// No wait yields first: the kernel would give the processor to another package's tests for
// milliseconds, thousands of times. The tests of package shmem yield, as programs do.
var sleepEarly = wait.Policy{Polls: 20, First: time.Hour, Most: time.Hour}

func newNode(t *testing.T, n int) *node {
	t.Helper()
	return newNodeWith(t, n, sleepEarly)
}

func newNodeWith(t *testing.T, n int, p wait.Policy) *node {
	t.Helper()
	return newNodeOf(t, n, 1<<20, p)
}

// newNodeOf is newNodeWith with a heap size.
func newNodeOf(t testing.TB, n int, heap uint64, p wait.Policy) *node {
	t.Helper()
	files := newSegments(t, n, heap)
	page, err := failure.Create([16]byte{}, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = page.Close() })
	nd := mapSegments(t, files, page, p)
	for _, f := range files {
		_ = f.Close()
	}
	return nd
}

// segmentMap is the map of a node whose first PE is PE 0, so tests name segments by PEs.
type segmentMap struct{ *symheap.Map }

func (m segmentMap) Control(pe int) *layout.Control { return m.Map.Control(layout.Local(pe)) }

func (m segmentMap) Segment(pe int) unsafe.Pointer { return m.Map.Segment(layout.Local(pe)) }

// nearMembers returns PEs of such a node as members.
func nearMembers(pes ...int) (members []coll.Member) {
	for _, pe := range pes {
		members = append(members, coll.Member{Local: layout.Local(pe), PE: layout.PE(pe)})
	}
	return members
}

// newSegments makes the segments of n PEs.
func newSegments(t testing.TB, n int, heap uint64) (files []*os.File) {
	t.Helper()
	for pe := range n {
		f, err := symheap.Create(symheap.Identity{PE: uint32(pe), NPEs: uint32(n), Incarnation: 1}, heap)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// mapSegments maps the segments of all PEs, as one process does.
func mapSegments(t testing.TB, files []*os.File, page *failure.Page, p wait.Policy) *node {
	t.Helper()
	nd := &node{page: page}
	st, err := files[0].Stat()
	if err == nil {
		nd.m.Map, err = symheap.NewMap([16]byte{}, len(files), uint64(st.Size()))
	}
	if err == nil {
		nd.failures, err = failure.Attach(int(page.File().Fd()), [16]byte{}, len(files))
	}
	if err != nil {
		t.Fatal(err)
	}
	for pe, f := range files {
		if err := nd.m.Attach(layout.Local(pe), layout.PE(pe), int(f.Fd())); err != nil {
			t.Fatal(err)
		}
		w := wait.NewWaiter(&nd.m.Control(pe).Bell, p)
		w.Watch(nd.failures)
		nd.waiters = append(nd.waiters, w)
	}
	return nd
}

// firstPEs returns the PEs 0 to n-1.
func firstPEs(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// config is the configuration of member me of a strict team of PEs.
func (nd *node) config(id, me int, pes []int) coll.Config {
	return coll.Config{Map: nd.m.Map, Waiter: nd.waiters[pes[me]], Members: nearMembers(pes...), Me: me, ID: id, Failures: nd.failures}
}

// newTeam returns a member's side of a team.
func newTeam(tb testing.TB, cfg coll.Config) *coll.Team {
	tb.Helper()
	tm, err := coll.New(cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return tm
}

// each runs body for every member of a team, in parallel.
func (nd *node) each(t *testing.T, id int, members []int, body func(me int, tm *coll.Team) error) {
	t.Helper()
	var wg sync.WaitGroup
	errs := make([]error, len(members))
	for me := range members {
		tm := newTeam(t, nd.config(id, me, members))
		wg.Go(func() { errs[me] = body(me, tm) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// elements returns n elements of PE pe's heap, from byte offset off on.
func elements[T any](nd *node, pe int, off uint64, n int) []T {
	return unsafe.Slice((*T)(unsafe.Add(nd.m.Segment(pe), int(layout.HeapOffset+off))), n)
}

// waitForSleeper waits until a PE has set its bell.
func (nd *node) waitForSleeper(pe int) {
	for atomic.LoadUint32(&nd.m.Control(pe).Bell.Sleeping)&layout.BellAsleep == 0 {
		runtime.Gosched()
	}
}

func sum(acc, in []uint32) {
	for i := range acc {
		acc[i] += in[i]
	}
}
