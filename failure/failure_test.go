package failure

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap/layout"
)

var testJob = [16]byte{7, 7, 7}

// newPage returns a page and a view of it.
func newPage(t *testing.T, npes int) (*Page, *View) {
	t.Helper()
	p, err := Create(testJob, npes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	v, err := Attach(int(p.File().Fd()), testJob, npes)
	if err != nil {
		t.Fatal(err)
	}
	return p, v
}

// A published failure can be read, has an epoch, and stays.
func TestPublish(t *testing.T) {
	p, v := newPage(t, 300)
	if all, epoch := v.All(); len(all) != 0 || epoch != 0 || v.Dead(0, 1) {
		t.Errorf("a new page has %v in epoch %d", all, epoch)
	}
	before := xunix.Monotonic()
	killed := BySignal(syscall.SIGKILL, false, false)
	if e := p.Publish(299, 1, killed, 5*time.Second); e != 1 {
		t.Errorf("published in epoch %d, want 1", e)
	}
	if e := p.Publish(0, 2, ByExit(7), 0); e != 2 {
		t.Errorf("published in epoch %d, want 2", e)
	}
	for _, again := range []uint32{1, 2} { // of the same incarnation, and of an earlier one
		if e := p.Publish(0, again, ByExit(8), 9); e != 2 || v.Epoch() != 2 {
			t.Errorf("incarnation %d again: in epoch %d of %d, want 2 of 2", again, e, v.Epoch())
		}
	}
	all, epoch := v.All()
	if len(all) != 2 || epoch != 2 {
		t.Fatalf("got %v in epoch %d, want 2 failures in epoch 2", all, epoch)
	}
	stored := all[1].Stored
	if stored < before || stored > xunix.Monotonic() || all[0].Stored < stored {
		t.Errorf("stored at %v and %v, want ascending times after %v", stored, all[0].Stored, before)
	}
	all[0].Stored, all[1].Stored = 0, 0
	want := []Failure{{PE: 0, Incarnation: 2, Cause: ByExit(7), Epoch: 2}, {PE: 299, Incarnation: 1, Cause: killed, Epoch: 1, At: 5 * time.Second}}
	if !slices.Equal(all, want) {
		t.Errorf("the page has %v, want %v", all, want)
	}
	if since, epoch := v.Since(1); len(since) != 1 || since[0].PE != 0 || epoch != 2 {
		t.Errorf("since epoch 1: got %v up to epoch %d, want PE 0 up to epoch 2", since, epoch)
	}
	if since, _ := v.Since(2); len(since) != 0 {
		t.Errorf("since epoch 2: got %v, want none", since)
	}
	if !v.Dead(0, 1) || !v.Dead(0, 2) || v.Dead(0, 3) || v.Dead(1, 1) || v.Dead(300, 1) || v.Dead(-1, 1) {
		t.Error("Dead is wrong: want only incarnations 1 and 2 of PE 0, and no PE outside the job")
	}
	if e := p.Publish(0, 3, ByLeaving(0), 0); e != 3 || !v.Dead(0, 3) {
		t.Errorf("a later incarnation is published in epoch %d, want 3", e)
	}
	for _, pe := range []int{-1, 300} {
		if e := p.Publish(pe, 1, killed, 0); e != 0 || v.Epoch() != 3 {
			t.Errorf("PE %d of 300 is published in epoch %d", pe, e)
		}
	}
}

// The PEs of a node die in one epoch, but for those that were dead before.
func TestPublishAll(t *testing.T) {
	p, v := newPage(t, 8)
	p.Publish(5, 1, ByExit(7), 3)
	if e := p.PublishAll([]int{4, 5, 6, -1, 8}, 1, Of(NodeLost), 0); e != 2 || v.Epoch() != 2 {
		t.Errorf("published in epoch %d of %d, want 2", e, v.Epoch())
	}
	var got []int
	all, _ := v.Since(1)
	for _, f := range all {
		got = append(got, f.PE)
		if f.Epoch != 2 || f.Cause != Of(NodeLost) || f.At != 0 || f.Stored == 0 {
			t.Errorf("page has %+v, want a lost node in epoch 2, without a time of death", f)
		}
	}
	if !slices.Equal(got, []int{4, 6}) {
		t.Errorf("PEs %v died in epoch 2, want 4 and 6", got)
	}
	if f, _ := v.Failure(5); f.Cause != ByExit(7) || f.Epoch != 1 {
		t.Errorf("PE 5 has %+v, want what was published first", f)
	}
	if e := p.PublishAll([]int{4, 5, 6}, 1, Of(NodeLost), 0); e != 0 || v.Epoch() != 2 {
		t.Errorf("nothing new is published in epoch %d of %d", e, v.Epoch())
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if e := p.PublishAll([]int{0}, 1, Of(NodeLost), 0); e != 0 || v.Dead(0, 1) {
		t.Errorf("after Close: published in epoch %d", e)
	}
}

// A node that is lost after its PEs is on the page: by PEs whose deaths are news, otherwise by a later death of one.
func TestPublishLoss(t *testing.T) {
	p, v := newPage(t, 8)
	lost := func(pes ...int) (found []int) {
		for _, pe := range pes {
			if f, ok := v.Failure(pe); ok && f.Cause == Of(NodeLost) {
				found = append(found, pe)
			}
		}
		return found
	}
	p.Publish(1, 1, ByExit(7), 3)
	p.Publish(2, 1, ByExit(7), 3)
	p.Publish(4, 1, ByExit(7), 3)
	if e := p.PublishLoss([]int{4, 5}, 1); e != 4 || !slices.Equal(lost(4, 5), []int{5}) {
		t.Errorf("epoch %d, PEs %v are lost, want epoch 4 and PE 5", e, lost(4, 5))
	}
	if e := p.PublishLoss([]int{1, 2}, 1); e != 5 || !slices.Equal(lost(1, 2), []int{1}) || !v.Dead(1, 1) {
		t.Errorf("epoch %d, PEs %v are lost, want epoch 5 and PE 1", e, lost(1, 2))
	}
	if all, _ := v.Since(4); len(all) != 1 || all[0].PE != 1 {
		t.Errorf("epoch 5 has %+v, want PE 1", all)
	}
	for _, pes := range [][]int{{1, 2}, {4, 5}, {}, {-1}, {8}} {
		if e := p.PublishLoss(pes, 1); e != 0 || v.Epoch() != 5 {
			t.Errorf("PEs %v: published in epoch %d of %d, want nothing", pes, e, v.Epoch())
		}
	}
	if e := p.Publish(1, 2, ByExit(7), 3); e != 6 || !v.Dead(1, 2) {
		t.Errorf("the death of a later incarnation is published in epoch %d, want 6", e)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if e := p.PublishLoss([]int{2}, 1); e != 0 {
		t.Errorf("after Close: published in epoch %d", e)
	}
}

// Readers see whole failures, and all of them up to each epoch, while one incarnation after the
// other of a few PEs is published.
func TestConcurrentReaders(t *testing.T) {
	const npes, rounds = 5, 20_000
	p, v := newPage(t, npes)
	var ended atomic.Bool
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for last := uint64(0); !ended.Load(); {
				for pe := range npes {
					f, ok := v.Failure(pe)
					if want := uint64(f.Incarnation-1)*npes + uint64(pe) + 1; ok && (f.Epoch != want || f.At != time.Duration(want) || f.Cause != Cause(want)) {
						t.Errorf("torn read: %+v, want epoch, time and cause %d", f, want)
						return
					}
				}
				epoch := v.Epoch()
				if epoch < last {
					t.Errorf("epoch %d came after epoch %d", epoch, last)
					return
				}
				last = epoch
				for pe := range uint64(npes) {
					if inc := uint32((epoch + npes - 1 - pe) / npes); !v.Dead(int(pe), inc) {
						t.Errorf("in epoch %d, incarnation %d of PE %d is not dead", epoch, inc, pe)
						return
					}
				}
			}
		})
	}
	for e := uint64(1); e <= rounds; e++ {
		pe := int((e - 1) % npes)
		if got := p.Publish(pe, uint32((e-1)/npes)+1, Cause(e), time.Duration(e)); got != e {
			t.Fatalf("published in epoch %d, want %d", got, e)
		}
	}
	ended.Store(true)
	readers.Wait()
}

// A process with the descriptor has no way to write to the page.
func TestReadersCannotWrite(t *testing.T) {
	p, _ := newPage(t, 2)
	if _, err := p.File().WriteAt([]byte{1}, 64); err == nil {
		t.Error("write(2) succeeded")
	}
	if _, err := xunix.Map(int(p.File().Fd()), 4096, true); err == nil {
		t.Error("a second writable mapping succeeded")
	}
	for _, size := range []int64{0, 1 << 20} {
		if err := p.File().Truncate(size); err == nil {
			t.Errorf("truncating to %d bytes succeeded", size)
		}
	}
	if e := p.Publish(1, 1, ByExit(1), 0); e != 1 {
		t.Error("the step cannot write to the page")
	}
}

func TestAttachRefuses(t *testing.T) {
	p, _ := newPage(t, 2)
	fd := int(p.File().Fd())
	short, err := xunix.Memfd("short", 8)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = short.Close() }()
	empty, err := xunix.Memfd("empty", 4096)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = empty.Close() }()
	for want, attach := range map[string]func() (*View, error){
		"belongs to job": func() (*View, error) { return Attach(fd, [16]byte{1}, 2) },
		"of 2 PEs, want": func() (*View, error) { return Attach(fd, testJob, 3) },
		"want 1 or more": func() (*View, error) { return Attach(fd, testJob, 0) },
		"header: ":       func() (*View, error) { return Attach(int(short.Fd()), testJob, 2) },
		"magic":          func() (*View, error) { return Attach(int(empty.Fd()), testJob, 2) },
	} {
		if v, err := attach(); v != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, %v, want an error with %q", v, err, want)
		}
	}
	for _, npes := range []int{-1, 0, mostPEs + 1} {
		if p, err := Create(testJob, npes); err == nil || p != nil {
			t.Errorf("NewPage for %d PEs: %v", npes, err)
		}
	}
}

// A closed page ignores publications, and its views stay readable.
func TestClosed(t *testing.T) {
	p, v := newPage(t, 2)
	p.Publish(1, 1, ByExit(3), 0)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if e := p.Publish(0, 1, ByExit(3), 0); e != 0 || v.Epoch() != 1 || !v.Dead(1, 1) {
		t.Errorf("after Close: Publish returned epoch %d, and the page has epoch %d", e, v.Epoch())
	}
}

// A process without a page knows of no death.
func TestNoPage(t *testing.T) {
	var v *View
	all, epoch := v.All()
	if _, ok := v.Failure(0); ok || v.Epoch() != 0 || v.Dead(0, 1) || len(all) != 0 || epoch != 0 {
		t.Error("a nil View knows of a failure")
	}
}

// Publishing and reading do not allocate.
func TestNoAllocation(t *testing.T) {
	p, v := newPage(t, 2)
	inc := uint32(0)
	if n := testing.AllocsPerRun(100, func() {
		inc++
		p.Publish(1, inc, ByExit(1), 0)
		if v.Epoch() == 0 || !v.Dead(1, inc) {
			t.Error("the failure was not published")
		}
	}); n != 0 {
		t.Errorf("%v allocations, want none", n)
	}
}

func TestCauses(t *testing.T) {
	for want, c := range map[string]Cause{
		"was killed by signal 9 (SIGKILL)":                             BySignal(syscall.SIGKILL, false, false),
		"was killed by signal 11 (SIGSEGV, core dumped)":               BySignal(syscall.SIGSEGV, true, false),
		"was killed by signal 9 (SIGKILL, out of memory)":              BySignal(syscall.SIGKILL, false, true),
		"was killed by signal 40":                                      BySignal(40, false, false),
		"exited with status 7":                                         ByExit(7),
		"exited with status 0 without Finalize":                        ByLeaving(0),
		"left the job without Finalize":                                Of(Left),
		"was on a node that is lost":                                   Of(NodeLost),
		"was ended because it was held for dead":                       Of(Fenced),
		"has ended, nobody knows how":                                  Of(Unknown),
		"has ended, by a cause 0xff000001 that this version does not ": 0xff000001,
	} {
		if !strings.HasPrefix(c.String(), want) || c.Error() != c.String() {
			t.Errorf("cause %#x is %q, want %q", uint32(c), c, want)
		}
	}
	c := BySignal(syscall.SIGSEGV, true, true)
	if c.Kind() != Killed || c.Signal() != syscall.SIGSEGV || !c.CoreDumped() || !c.OutOfMemory() || c.Status() != -1 {
		t.Errorf("%v: the signal and its flags are not those given", c)
	}
	if c := ByExit(255); c.Kind() != Exited || c.Status() != 255 || c.Signal() != 0 || c.CoreDumped() {
		t.Errorf("%v: the exit status is not the one given", c)
	}
	if c := ByLeaving(3); c.Kind() != Left || c.Status() != 3 || c.OutOfMemory() {
		t.Errorf("%v: the status of a PE that left is not the one given", c)
	}
}

// The words are those that the layout promises to readers in other languages.
func TestLayout(t *testing.T) {
	p, _ := newPage(t, 2)
	p.Publish(1, 3, ByExit(9), 77)
	if f := p.page.Failure(1); p.page.Header.Magic != layout.FailureMagic || p.page.Epoch != 1 || f.Epoch != 1 || f.Incarnation != 3 || f.At != 77 || f.Cause != 2<<24|9 {
		t.Errorf("header %+v, epoch %d, failure %+v", p.page.Header, p.page.Epoch, *f)
	}
}

// Who finds a PE dead finds its death in the list, at each step of a publication. Deaths of earlier incarnations stay.
func TestDeadAgreesWithList(t *testing.T) {
	p, v := newPage(t, 3)
	const pe = 1
	check := func(when string, dead ...bool) {
		t.Helper()
		all, _ := v.All()
		listed := uint32(0)
		for _, f := range all {
			listed = max(listed, f.Incarnation)
		}
		for i, want := range dead {
			if got := v.Dead(pe, uint32(i)+1); got != want {
				t.Errorf("%s: incarnation %d is dead: %v, want %v", when, i+1, got, want)
			} else if got && i == len(dead)-1 && listed < uint32(i)+1 {
				t.Errorf("%s: incarnation %d is dead, but the list has %v", when, i+1, all)
			}
		}
	}
	check("before", false)
	p.write(pe, 1, ByExit(3), 0, 1)
	check("written", false)
	p.finish(1)
	check("finished", true)
	p.settle(pe)
	check("settled", true, false)
	p.write(pe, 2, ByExit(4), 0, 2)
	check("the next one written", true, false)
	p.finish(2)
	check("the next one finished", true, true, false)
	p.settle(pe)
	check("the next one settled", true, true, false)
}
