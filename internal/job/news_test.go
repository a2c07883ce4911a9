package job

import (
	"slices"
	"testing"
	"time"

	"github.com/goshmem/goshmem/failure"
)

// pageOf returns a failure page and a job with a view of it.
func pageOf(t *testing.T, npes int) (*failure.Page, *Job) {
	t.Helper()
	p, err := failure.Create([16]byte{1}, npes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.Close() })
	v, err := failure.Attach(int(p.File().Fd()), [16]byte{1}, npes)
	if err != nil {
		t.Fatal(err)
	}
	j := &Job{NPEs: npes, Failures: v, news: startNews(v)}
	t.Cleanup(j.news.stop)
	return p, j
}

// call is the arguments of a listener's call.
type call struct {
	pes   []int
	epoch uint64
}

// listen registers a listener. During its first call, more PEs die, so the next look at the page, whenever it comes,
// finds all of them.
func listen(p *failure.Page, j *Job, more ...int) (calls chan call, cancel func()) {
	calls = make(chan call, 100)
	return calls, j.OnFailure(func(all []failure.Failure, epoch uint64) {
		c := call{epoch: epoch}
		for _, f := range all {
			c.pes = append(c.pes, f.PE)
		}
		for _, pe := range more {
			p.Publish(pe, 1, failure.ByExit(1), 0)
		}
		more = nil
		calls <- c
	})
}

func expect(t *testing.T, calls chan call, epoch uint64, pes ...int) {
	t.Helper()
	if got := <-calls; got.epoch != epoch || !slices.Equal(got.pes, pes) {
		t.Errorf("told of PEs %v in epoch %d, want %v in %d", got.pes, got.epoch, pes, epoch)
	}
}

// Each listener is told of each death once, with the epoch, including deaths before its registration.
func TestNews(t *testing.T) {
	p, j := pageOf(t, 8)
	first, cancel := listen(p, j, 3, 7)
	p.Publish(5, 1, failure.ByExit(1), 0)
	j.Noticed()
	expect(t, first, 1, 5)
	j.Noticed()
	expect(t, first, 3, 3, 7)
	late, _ := listen(p, j)
	expect(t, late, 3, 3, 5, 7)
	cancel()
	p.Publish(0, 1, failure.ByExit(1), 0)
	j.Noticed()
	j.Noticed()
	expect(t, late, 4, 0)
	if len(first) > 0 || len(late) > 0 {
		t.Errorf("unexpected calls: %v, %v", first, late)
	}
}

// A PE that has died and whose node is lost later has not died again. A later incarnation of it has.
func TestNewsOfLostNode(t *testing.T) {
	p, j := pageOf(t, 8)
	calls, _ := listen(p, j)
	p.Publish(5, 1, failure.ByExit(1), 0)
	j.Noticed()
	expect(t, calls, 1, 5)
	p.PublishLoss([]int{5}, 1)
	j.Noticed()
	p.Publish(3, 1, failure.ByExit(1), 0)
	j.Noticed()
	expect(t, calls, 3, 3)
	p.Publish(5, 2, failure.ByExit(1), 0)
	j.Noticed()
	expect(t, calls, 4, 5)
	if len(calls) > 0 {
		t.Errorf("unexpected call: %v", <-calls)
	}
}

// A listener does not lose deaths that happen during its call. It may cancel itself, and is not called after the end.
func TestNewsMeanwhile(t *testing.T) {
	p, j := pageOf(t, 8)
	calls, entered, goOn := make(chan uint64, 100), make(chan bool), make(chan bool)
	var cancel func()
	cancel = j.OnFailure(func(_ []failure.Failure, epoch uint64) {
		entered <- true
		<-goOn
		calls <- epoch
		if epoch == 3 {
			cancel()
		}
	})
	p.Publish(1, 1, failure.ByExit(1), 0)
	j.Noticed()
	<-entered
	for pe := range 2 {
		p.Publish(2+pe, 1, failure.ByExit(1), 0)
		j.Noticed()
	}
	goOn <- true
	<-entered
	goOn <- true
	if a, b := <-calls, <-calls; a != 1 || b != 3 {
		t.Errorf("told of epochs %d and %d, want 1 and 3", a, b)
	}
	others, _ := listen(p, j)
	expect(t, others, 3, 1, 2, 3)
	p.Publish(4, 1, failure.ByExit(1), 0)
	j.Noticed()
	expect(t, others, 4, 4)
	select {
	case <-entered:
		t.Error("called after it was canceled")
	default:
	}
	j.news.stop()
	j.news.stop()
	after, _ := listen(p, j)
	if len(after) > 0 {
		t.Error("told after the end")
	}
}

// AwaitListeners waits for running calls of listeners, but not forever for one that hangs.
func TestAwaitListeners(t *testing.T) {
	p, j := pageOf(t, 8)
	j.AwaitListeners() // has nothing to wait for
	calls, _ := listen(p, j, 5, 6)
	p.Publish(4, 1, failure.ByExit(1), 0)
	j.Noticed()
	expect(t, calls, 1, 4)
	j.news.awaitListeners(time.Minute) // like AwaitListeners, whose limit is too short for a slow machine
	if len(calls) != 1 {
		t.Errorf("%d calls before AwaitListeners returns, want one", len(calls))
	}
	waits := make(chan bool)
	defer close(waits)
	j.OnFailure(func([]failure.Failure, uint64) { j.AwaitListeners(); <-waits })
	j.AwaitListeners()
	j.AwaitListeners()
	j.news.stop()
	j.AwaitListeners()
}

// Without a page, listeners are never called, at no cost.
func TestNewsWithoutPage(t *testing.T) {
	j := &Job{news: startNews(nil)}
	calls, cancel := listen(nil, j)
	j.Noticed()
	j.AwaitListeners()
	cancel()
	j.news.stop()
	if len(calls) > 0 {
		t.Errorf("unexpected call %v", <-calls)
	}
}
