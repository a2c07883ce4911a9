package client_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// recorder is a handler that records its events and lets a test wait for them.
type recorder struct {
	lines  chan string
	result client.Result
}

func newRecorder() *recorder { return &recorder{lines: make(chan string, 4096)} }

func (r *recorder) handle(ev *client.Event) client.Result {
	line := fmt.Sprintf("%s: %d from %v", ev.Handler, ev.Status, ev.Source)
	for _, p := range ev.Affected {
		line += " about " + p.String()
	}
	r.lines <- line
	return r.result
}

func (r *recorder) expect(ctx context.Context, t *testing.T, want ...string) {
	t.Helper()
	for _, line := range want {
		select {
		case got := <-r.lines:
			if got != line {
				t.Errorf("handler got %q, want %q", got, line)
			}
		case <-ctx.Done():
			t.Fatalf("handler got nothing, want %q", line)
		}
	}
}

func (w *world) register(t *testing.T, rank int, r *recorder, opts client.HandlerOptions, codes ...codec.Status) client.HandlerID {
	t.Helper()
	id, err := w.clients[rank].Events.Register(w.ctx, codes, opts, r.handle)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func (w *world) notify(t *testing.T, rank int, ev codec.Event) {
	t.Helper()
	if err := w.clients[rank].Events.Notify(w.ctx, ev); err != nil {
		t.Fatal(err)
	}
}

// awaitEarlier raises a last event at a process and waits for it. Everything raised before has arrived then.
func (w *world) awaitEarlier(t *testing.T, rank int, r *recorder) {
	t.Helper()
	const mark = -9000
	id := w.register(t, rank, r, client.HandlerOptions{Name: "mark", Fresh: true}, mark)
	w.notify(t, rank, codec.Event{Status: mark, Range: codec.RangeProcLocal, NonDefault: true, NoCache: true})
	r.expect(w.ctx, t, fmt.Sprintf("mark: %d from job-1.%d", mark, rank))
	if err := w.clients[rank].Events.Deregister(w.ctx, id); err != nil {
		t.Fatal(err)
	}
}

func TestEventsReachOthers(t *testing.T) {
	w := start(t, 3)
	var recs []*recorder
	for r := range 3 {
		recs = append(recs, newRecorder())
		w.register(t, r, recs[r], client.HandlerOptions{Name: "h"}, -9999)
	}
	w.notify(t, 0, codec.Event{Status: -9999, Range: codec.RangeNamespace, Affected: []codec.Proc{{Nspace: "job-1", Rank: 7}}})
	w.notify(t, 0, codec.Event{Status: -9999, Range: codec.RangeCustom, Targets: []codec.Proc{{Nspace: "job-1", Rank: 2}}})
	w.notify(t, 0, codec.Event{Status: -9999, Range: codec.RangeProcLocal})
	w.notify(t, 0, codec.Event{Status: -9999, Range: codec.RangeRM})
	recs[0].expect(w.ctx, t, "h: -9999 from job-1.0 about job-1.7", "h: -9999 from job-1.0")
	recs[1].expect(w.ctx, t, "h: -9999 from job-1.0 about job-1.7")
	recs[2].expect(w.ctx, t, "h: -9999 from job-1.0 about job-1.7", "h: -9999 from job-1.0")
	for r := range 3 {
		w.awaitEarlier(t, r, recs[r])
	}
	if err := w.clients[0].Events.Notify(w.ctx, codec.Event{Status: -1, Range: codec.RangeCustom}); err == nil {
		t.Error("a custom range without targets was accepted")
	}
}

func TestLateHandlerGetsWhatCameBefore(t *testing.T) {
	w := start(t, 2)
	early := newRecorder()
	w.register(t, 1, early, client.HandlerOptions{Name: "early"}, -9001)
	for _, code := range []codec.Status{-9001, -9002} { // the process hears the first at once; the server keeps the second
		w.notify(t, 0, codec.Event{Status: code, Range: codec.RangeNamespace})
	}
	early.expect(w.ctx, t, "early: -9001 from job-1.0")
	w.notify(t, 1, codec.Event{Status: -9003, Range: codec.RangeProcLocal})
	w.notify(t, 1, codec.Event{Status: -9003, Range: codec.RangeProcLocal, NoCache: true})
	w.awaitEarlier(t, 1, early) // events that are not kept are over
	late, fresh := newRecorder(), newRecorder()
	w.register(t, 1, fresh, client.HandlerOptions{Name: "fresh", Fresh: true}, -9001, -9003)
	id := w.register(t, 1, late, client.HandlerOptions{Name: "late"}, -9001, -9002, -9003)
	late.expect(w.ctx, t, "late: -9001 from job-1.0", "late: -9003 from job-1.1", "late: -9002 from job-1.0")
	w.awaitEarlier(t, 1, early)
	w.awaitEarlier(t, 1, fresh)
	if err := w.clients[1].Events.Deregister(w.ctx, id); err != nil {
		t.Error(err)
	}
	if err := w.clients[1].Events.Deregister(w.ctx, id); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("second deregistration: %v, want ErrNotFound", err)
	}
	w.notify(t, 0, codec.Event{Status: -9001, Range: codec.RangeNamespace})
	early.expect(w.ctx, t, "early: -9001 from job-1.0")
	fresh.expect(w.ctx, t, "fresh: -9001 from job-1.0")
	w.awaitEarlier(t, 1, late)
}

func TestChain(t *testing.T) {
	w := start(t, 1)
	c := w.clients[0]
	var seen []string
	done := make(chan struct{}, 16)
	add := func(name string, order client.Order, result client.Result, codes ...codec.Status) {
		t.Helper()
		_, err := c.Events.Register(w.ctx, codes, client.HandlerOptions{Name: name, Order: order}, func(ev *client.Event) client.Result {
			line := name + "("
			for _, info := range ev.Results {
				line += fmt.Sprintf(" %s=%v", info.Key, info.Value)
			}
			seen = append(seen, line+" )")
			if name == "last" || result.Status == codec.StatusEventActionComplete {
				done <- struct{}{}
			}
			return result
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	extra := codec.Info{Key: "extra", Value: codec.IntValue(7)}
	add("last", client.OrderLast, client.Result{})
	add("any", 0, client.Result{Status: codec.StatusEventNoActionTaken})
	add("two", 0, client.Result{Status: codec.StatusEventPartialActionTaken, Info: []codec.Info{extra}}, -9001, -9002)
	add("one", 0, client.Result{}, -9001)
	add("first", client.OrderFirst, client.Result{}, -9001)
	add("stop", 0, client.Result{Status: codec.StatusEventActionComplete}, -9002)
	w.notify(t, 0, codec.Event{Status: -9001, Range: codec.RangeProcLocal})
	<-done
	w.notify(t, 0, codec.Event{Status: -9002, Range: codec.RangeProcLocal})
	<-done
	want := []string{
		"first( )",
		"one( first=PMIX_SUCCESS )",
		"two( first=PMIX_SUCCESS one=PMIX_SUCCESS )",
		"any( first=PMIX_SUCCESS one=PMIX_SUCCESS two=PMIX_EVENT_PARTIAL_ACTION_TAKEN extra=7 )",
		"last( first=PMIX_SUCCESS one=PMIX_SUCCESS two=PMIX_EVENT_PARTIAL_ACTION_TAKEN extra=7 any=PMIX_EVENT_NO_ACTION_TAKEN )",
		"stop( )",
	}
	if !slices.Equal(seen, want) {
		t.Errorf("handlers ran as\n%q, want\n%q", seen, want)
	}
}

// Handlers may call the client, even to register handlers and to finalize.
func TestHandlersCallTheClient(t *testing.T) {
	w := start(t, 2)
	c := w.clients[1]
	done := make(chan error, 1)
	var own client.HandlerID
	own, err := c.Events.Register(w.ctx, []codec.Status{-9001}, client.HandlerOptions{}, func(*client.Event) client.Result {
		done <- func() error {
			if err := c.Put(codec.ScopeGlobal, "k", codec.IntValue(1)); err != nil {
				return err
			}
			if err := c.Commit(w.ctx); err != nil {
				return err
			}
			if err := c.Events.Deregister(w.ctx, own); err != nil {
				return err
			}
			inner := func(*client.Event) client.Result { return client.Result{} }
			if _, err := c.Events.Register(w.ctx, []codec.Status{-9005}, client.HandlerOptions{}, inner); err != nil {
				return err
			}
			if err := c.Events.Notify(w.ctx, codec.Event{Status: -9002, Range: codec.RangeNamespace}); err != nil {
				return err
			}
			return c.Finalize(w.ctx)
		}()
		return client.Result{}
	})
	if err != nil {
		t.Fatal(err)
	}
	r := newRecorder()
	w.register(t, 0, r, client.HandlerOptions{Name: "h"}, -9002)
	w.notify(t, 0, codec.Event{Status: -9001, Range: codec.RangeNamespace})
	if err := <-done; err != nil {
		t.Error(err)
	}
	r.expect(w.ctx, t, "h: -9002 from job-1.1")
	if _, err := c.Events.Register(w.ctx, nil, client.HandlerOptions{}, r.handle); !errors.Is(err, client.ErrFinalized) {
		t.Errorf("register after finalize: %v, want ErrFinalized", err)
	}
	if err := c.Events.Notify(w.ctx, codec.Event{Status: -1, Range: codec.RangeProcLocal}); !errors.Is(err, client.ErrFinalized) {
		t.Errorf("notify after finalize: %v, want ErrFinalized", err)
	}
}

func TestOneShotAndFilters(t *testing.T) {
	w := start(t, 2)
	once, about, own := newRecorder(), newRecorder(), newRecorder()
	w.register(t, 1, once, client.HandlerOptions{Name: "once", OneShot: true}, -9001)
	w.register(t, 1, about, client.HandlerOptions{Name: "about", Affected: []codec.Proc{{Nspace: "job-1", Rank: 5}}}, -9001)
	w.register(t, 1, own, client.HandlerOptions{Name: "own", Range: codec.RangeProcLocal}, -9001)
	for _, p := range []codec.Rank{4, 5} {
		w.notify(t, 0, codec.Event{Status: -9001, Range: codec.RangeNamespace, Affected: []codec.Proc{{Nspace: "job-1", Rank: p}}})
	}
	once.expect(w.ctx, t, "once: -9001 from job-1.0 about job-1.4")
	about.expect(w.ctx, t, "about: -9001 from job-1.0 about job-1.5")
	w.notify(t, 1, codec.Event{Status: -9001, Range: codec.RangeProcLocal, Affected: []codec.Proc{{Nspace: "job-1", Rank: 6}}})
	own.expect(w.ctx, t, "own: -9001 from job-1.1 about job-1.6")
	for _, r := range []*recorder{once, about, own} {
		w.awaitEarlier(t, 1, r)
	}
	for _, opts := range []client.HandlerOptions{{Range: codec.RangeCustom}, {Range: codec.RangeRM}, {Order: client.OrderAfter, Beside: "x"}} {
		if _, err := w.clients[1].Events.Register(w.ctx, nil, opts, own.handle); err == nil {
			t.Errorf("handler with bad options %+v was accepted", opts)
		}
	}
}

func TestEndOfProcesses(t *testing.T) {
	w := start(t, 3)
	r := newRecorder()
	codes := []codec.Status{codec.StatusErrProcAbortedBySig, codec.StatusErrExitNonzeroTerm, codec.StatusErrProcTermWoSync}
	w.register(t, 0, r, client.HandlerOptions{Name: "h"}, codes...)
	w.srv.ProcExited(codec.Proc{Nspace: "job-1", Rank: 1}, server.Exit{Signal: 9})
	w.srv.ProcExited(codec.Proc{Nspace: "job-1", Rank: 2}, server.Exit{Code: 4})
	r.expect(w.ctx, t, "h: -402 from job-1.1 about job-1.1", "h: -404 from job-1.2 about job-1.2")
	ev := codec.Event{Status: codec.StatusEventNodeDown, Source: codec.Proc{Nspace: "daemons"}, Range: codec.RangeSession}
	w.register(t, 0, r, client.HandlerOptions{Name: "node"}, codec.StatusEventNodeDown)
	if err := w.srv.Notify(ev); err != nil {
		t.Fatal(err)
	}
	r.expect(w.ctx, t, "node: -231 from daemons.0")
	if err := w.srv.Notify(codec.Event{Range: codec.RangeCustom}); err == nil {
		t.Error("the server accepted an event for no process")
	}
}

func TestLossOfTheServerIsAnEvent(t *testing.T) {
	w := start(t, 1)
	r := newRecorder()
	w.register(t, 0, r, client.HandlerOptions{Name: "lost"}, codec.StatusErrLostConnection)
	if err := w.srv.Close(); err != nil {
		t.Fatal(err)
	}
	r.expect(w.ctx, t, "lost: -61 from job-1.0")
	if err := w.clients[0].Events.Notify(w.ctx, codec.Event{Status: -1, Range: codec.RangeNamespace}); !errors.Is(err, client.ErrLostConnection) {
		t.Errorf("notify: %v, want ErrLostConnection", err)
	}
}

// However registrations and events interleave, each handler gets each event once, in the order in which they were raised.
func TestNoEventPassesAHandlerBy(t *testing.T) {
	w := start(t, 2)
	const events, handlers = 200, 12
	var g errgroup.Group
	g.Go(func() error {
		for i := range events {
			ev := codec.Event{Status: -9001, Range: codec.RangeNamespace, Info: []codec.Info{{Key: "i", Value: codec.IntValue(int32(i))}}}
			if err := w.clients[0].Events.Notify(w.ctx, ev); err != nil {
				return err
			}
		}
		return nil
	})
	var mu sync.Mutex
	got := make([][]int32, handlers)
	all := make(chan struct{}, handlers)
	for h := range handlers {
		g.Go(func() error {
			codes := [][]codec.Status{{-9001}, {-9001, -9002}, nil}[h%3]
			_, err := w.clients[1].Events.Register(w.ctx, codes, client.HandlerOptions{}, func(ev *client.Event) client.Result {
				v, _ := ev.Has("i")
				mu.Lock()
				defer mu.Unlock()
				if got[h] = append(got[h], v.Data.(int32)); len(got[h]) == events {
					all <- struct{}{}
				}
				return client.Result{}
			})
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Fatal(err)
	}
	for range handlers {
		select {
		case <-all:
		case <-w.ctx.Done():
			t.Fatalf("handlers got %v", got)
		}
	}
	r := newRecorder()
	w.awaitEarlier(t, 1, r)
	mu.Lock()
	defer mu.Unlock()
	for h, list := range got {
		if len(list) != events || !slices.IsSorted(list) || len(slices.Compact(slices.Clone(list))) != events {
			t.Errorf("handler %d got %v, want %d events in order", h, list, events)
		}
	}
}

// Two layers of one process each declare their programming model and listen for other models. Both see both, whichever
// begins first. Source: paper failure-detection-propagation, Figure 16.
func TestModelsSeeEachOther(t *testing.T) {
	layers := []client.Model{
		{Programming: "OpenSHMEM", Library: "goshmem", Version: "0.1", Threads: "GOROUTINE"},
		{Programming: "MPI", Library: "gompi", Version: "4.0", Threads: "NONE"},
	}
	for _, order := range [][]int{{0, 1}, {1, 0}} {
		w := start(t, 1)
		c := w.clients[0]
		seen := []chan client.Model{make(chan client.Model, 8), make(chan client.Model, 8)}
		for _, layer := range order {
			handler := func(m client.Model) { seen[layer] <- m }
			if layer == 0 { // one declares first, the other listens first
				if err := c.Events.DeclareModel(w.ctx, layers[layer]); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := c.Events.HandleModels(w.ctx, fmt.Sprint("layer", layer), handler); err != nil {
				t.Fatal(err)
			}
			if layer == 1 {
				if err := c.Events.DeclareModel(w.ctx, layers[layer]); err != nil {
					t.Fatal(err)
				}
			}
		}
		r := newRecorder()
		w.awaitEarlier(t, 0, r)
		for layer := range layers {
			for _, want := range order {
				if got := <-seen[layer]; got != layers[want] {
					t.Errorf("order %v: layer %d saw %+v, want %+v", order, layer, got, layers[want])
				}
			}
			if n := len(seen[layer]); n != 0 {
				t.Errorf("order %v: layer %d got %d models again", order, layer, n)
			}
		}
	}
}

// Other events do not push models out of the cache.
func TestModelsStayKnown(t *testing.T) {
	w := start(t, 1)
	c := w.clients[0]
	if err := c.Events.DeclareModel(w.ctx, client.Model{Programming: "MPI"}); err != nil {
		t.Fatal(err)
	}
	for i := range 2000 {
		w.notify(t, 0, codec.Event{Status: codec.Status(-10000 - i), Range: codec.RangeProcLocal})
	}
	seen := make(chan client.Model, 1)
	if _, err := c.Events.HandleModels(w.ctx, "late", func(m client.Model) { seen <- m }); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; got.Programming != "MPI" {
		t.Errorf("model %+v, want MPI", got)
	}
	r := newRecorder()
	w.awaitEarlier(t, 0, r)
	w.register(t, 0, r, client.HandlerOptions{Name: "all", Order: client.OrderFirst})
	r.expect(w.ctx, t, fmt.Sprintf("all: %d from job-1.0", -10000-2000+511))
}
