package launch

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// starter is a Starter that is a function.
type starter func(ctx context.Context, s Span) ([]Node, error)

func (starter) Check(*daemon.Config) error { return nil }

func (f starter) Start(ctx context.Context, s Span, _ daemon.Config, _ func(int) daemon.Hooks) ([]Node, error) {
	return f(ctx, s)
}

// onTwoNodes returns options of a job on two nodes.
func onTwoNodes(signals <-chan os.Signal) *Options {
	layout := &plan.Layout{Homes: []int{0, 1}, Nodes: []plan.Node{{Host: plan.Host{Name: "a"}}, {Host: plan.Host{Name: "b"}}}}
	return &Options{Signals: signals, Layout: layout, Apps: []App{{NPEs: 2, Program: "true"}}}
}

// Signals count while nodes are started: a stop stops this process, the PEs' signals are kept, the first that ends ends
// the start, and the second kills.
func TestSignalsDuringStart(t *testing.T) {
	stops := make(chan struct{}, 2)
	old := stopFrontEnd
	stopFrontEnd = func() { stops <- struct{}{} }
	t.Cleanup(func() { stopFrontEnd = old })
	signals := make(chan os.Signal)
	_, early, err := onTwoNodes(signals).startNodes(t.Context(), starter(func(ctx context.Context, s Span) ([]Node, error) {
		for _, sig := range []os.Signal{xunix.SIGUSR1, xunix.SIGWINCH, xunix.SIGTSTP, xunix.SIGCONT, xunix.SIGWINCH} {
			signals <- sig
		}
		<-stops
		if ctx.Err() != nil {
			t.Errorf("the start has ended: %v", context.Cause(ctx))
		}
		signals <- syscall.SIGTERM
		<-ctx.Done()
		select {
		case <-s.Kill:
			t.Error("one signal kills")
		default:
		}
		signals <- syscall.SIGINT
		<-s.Kill
		signals <- syscall.SIGINT // changes nothing
		return nil, context.Cause(ctx)
	}), daemon.Config{}, nil)
	if want := "SIGTERM ends the job while its nodes are started"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if want := []os.Signal{xunix.SIGUSR1, xunix.SIGWINCH}; early.end != syscall.SIGTERM || !slices.Equal(early.kept, want) {
		t.Errorf("ended by %v, kept %v, want %v and %v", early.end, early.kept, syscall.SIGTERM, want)
	}
}

// A signal that comes too late for the start closes the nodes.
func TestLateSignalClosesNodes(t *testing.T) {
	signals := make(chan os.Signal)
	nodes := []Node{newFake(0, 1), newFake(1, 1)}
	got, early, err := onTwoNodes(signals).startNodes(t.Context(), starter(func(ctx context.Context, _ Span) ([]Node, error) {
		signals <- syscall.SIGINT
		<-ctx.Done()
		return nodes, nil
	}), daemon.Config{}, nil)
	if got != nil || early.end != syscall.SIGINT || err == nil {
		t.Errorf("got %v, %v, %v, want no nodes and an error", got, early.end, err)
	}
	for i, n := range nodes {
		if calls := n.(*fake).noted(); !slices.Equal(calls, []string{"close"}) {
			t.Errorf("node %d: %q, want close", i, calls)
		}
	}
}

// Signals that came during the start reach the PEs after their start.
func TestEarlySignalReachesPEs(t *testing.T) {
	signals := make(chan os.Signal)
	nodes := []*fake{newFake(0, 1), newFake(1, 1)}
	o := onTwoNodes(signals)
	var out bytes.Buffer
	o.Stdout, o.Stderr = &out, &out
	status, err := o.run(t.Context(), starter(func(context.Context, Span) ([]Node, error) {
		signals <- xunix.SIGUSR1
		for i, n := range nodes {
			n.events <- daemon.Event{Kind: daemon.Exited, ID: daemon.ID{PE: i}}
		}
		return []Node{nodes[0], nodes[1]}, nil
	}))
	if status != 0 || err != nil {
		t.Errorf("status %d, %v, %s", status, err, out.String())
	}
	for i, n := range nodes {
		if calls := strings.Join(n.noted(), ", "); !strings.HasPrefix(calls, "launch, signal 10") {
			t.Errorf("node %d: %s, want launch, and then signal 10", i, calls)
		}
	}
}

// A start that fails after a signal, but not because of it, says both.
func TestSignalAndFailure(t *testing.T) {
	signals := make(chan os.Signal)
	_, _, err := onTwoNodes(signals).startNodes(t.Context(), starter(func(ctx context.Context, _ Span) ([]Node, error) {
		signals <- syscall.SIGINT
		<-ctx.Done()
		return nil, errors.New("no way")
	}), daemon.Config{}, nil)
	if want := "SIGINT ends the job while its nodes are started\nno way"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
