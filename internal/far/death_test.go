package far

import (
	"context"
	"errors"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/symheap/layout"
)

// during runs f, and calls event when f waits: the PE's bell is armed.
func (r *rig) during(t *testing.T, event func(), f func(ctx context.Context) error) error {
	t.Helper()
	ctx, cancel := limit(t)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	r.awaitAsleep(ctx)
	event()
	return <-done
}

// waits are operations that wait while node 1 is stopped.
var waits = map[string]func(ctx context.Context, r *rig, t *Touched) error{
	"put, for a block of the stream": func(ctx context.Context, r *rig, t *Touched) error {
		b := make([]byte, 2<<20)
		return r.Put(ctx, t, 2, layout.HeapOffset, at(b), len(b))
	},
	"put from the heap": func(ctx context.Context, r *rig, t *Touched) error {
		return r.Put(ctx, t, 2, layout.HeapOffset, at(r.mine()), 100_003)
	},
	"get": func(ctx context.Context, r *rig, t *Touched) error {
		var b [8]byte
		return r.Get(ctx, t, 2, layout.HeapOffset, unsafe.Pointer(&b), 8)
	},
	"long get": func(ctx context.Context, r *rig, t *Touched) error {
		b := make([]byte, 2<<20)
		return r.Get(ctx, t, 2, layout.HeapOffset, at(b), len(b))
	},
	"strided get": func(ctx context.Context, r *rig, t *Touched) error {
		b := make([]byte, 64<<10)
		return r.GetStrided(ctx, t, 2, layout.HeapOffset, at(b), 8, 2, 2, 1, 4<<10)
	},
	"fetch": func(ctx context.Context, r *rig, t *Touched) error {
		_, err := r.Fetch(ctx, t, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
		return err
	},
	"pending": func(ctx context.Context, r *rig, t *Touched) error {
		p, err := r.StartFetch(ctx, t, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0)
		if err == nil {
			_, err = p.Wait(ctx)
		}
		return err
	},
	"pending get, for a piece": func(ctx context.Context, r *rig, t *Touched) error {
		b := make([]byte, 2<<20)
		_, err := r.StartGet(ctx, t, 2, layout.HeapOffset, at(b), len(b))
		return err
	},
	"long pending get": func(ctx context.Context, r *rig, t *Touched) error {
		p, err := r.StartGet(ctx, t, 2, layout.HeapOffset, at(r.mine()), 3*record.MaxGet)
		if err == nil {
			_, err = p.Wait(ctx)
		}
		return err
	},
	"fetch, for a slot": func(ctx context.Context, r *rig, t *Touched) error {
		for {
			if _, err := r.StartFetch(ctx, t, 2, layout.HeapOffset, record.AtomicAdd, 8, 1, 0); err != nil {
				return err
			}
		}
	},
}

// Each wait ends when the PE dies, with an error that names it, although its node has not answered.
func TestDeathEndsWaits(t *testing.T) {
	for name, f := range waits {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2, 2)
			r.stop(1, true)
			var touched Touched
			err := r.during(t, func() { r.kill(2) }, func(ctx context.Context) error { return f(ctx, r, &touched) })
			wantDead(t, err, 2)
			// The node lives: records to the dead PE count as executed, and its other PE can be reached.
			r.stop(1, false)
			r.quietOf(&touched)
			v := uint64(5)
			if err := r.Put(t.Context(), &touched, 3, layout.HeapOffset, unsafe.Pointer(&v), 8); err != nil {
				t.Fatal(err)
			}
			r.quietOf(&touched)
			r.wantAllFree()
			var one [1]byte
			wantDead(t, r.Get(t.Context(), nil, 2, layout.HeapOffset, unsafe.Pointer(&one), 1), 2)
		})
	}
}

// Each wait, and Quiet, ends when the node is lost. What was reserved for it becomes free.
func TestLossEndsWaits(t *testing.T) {
	for name, f := range waits {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 3, 2)
			r.stop(1, true)
			var touched Touched
			err := r.during(t, func() { r.lose(1) }, func(ctx context.Context) error { return f(ctx, r, &touched) })
			wantDead(t, err, 2)
			r.stop(1, false)
			wantDead(t, r.Quiet(t.Context(), &touched), -1)
			r.quietOf(&touched)
			var more Touched
			b := make([]byte, 1<<20)
			ctx, cancel := limit(t)
			defer cancel()
			if err := r.Put(ctx, &more, 4, layout.HeapOffset, at(b), len(b)); err != nil {
				t.Fatal(err)
			}
			if _, err := r.Fetch(ctx, &more, 5, layout.HeapOffset, record.AtomicAdd, 8, 1, 0); err != nil {
				t.Fatal(err)
			}
			r.quietOf(&more)
			r.wantAllFree()
		})
	}
}

// Quiet ends when the node is lost during its wait.
func TestLossEndsQuiet(t *testing.T) {
	r := newRig(t, 2, 2)
	r.stop(1, true)
	var touched Touched
	v := uint64(5)
	if err := r.Put(t.Context(), &touched, 3, layout.HeapOffset, unsafe.Pointer(&v), 8); err != nil {
		t.Fatal(err)
	}
	err := r.during(t, func() { r.lose(1) }, func(ctx context.Context) error { return r.Quiet(ctx, &touched) })
	wantDead(t, err, -1)
}

// A put that waits for a block because other streams have them all ends by a death, too, and goes on when one is free.
func TestWaitForPool(t *testing.T) {
	for _, dies := range []bool{true, false} {
		r := newRig(t, 6, 1)
		var touched Touched
		b := make([]byte, maxStream*record.MaxPut)
		for node := 1; node < 5; node++ {
			r.stop(node, true)
			if err := r.Put(t.Context(), &touched, layout.PE(node), layout.HeapOffset, at(b), len(b)); err != nil {
				t.Fatal(err)
			}
		}
		event := func() { r.stop(3, false) }
		if dies {
			event = func() { r.kill(5) }
		}
		err := r.during(t, event, func(ctx context.Context) error { return r.Put(ctx, &touched, 5, layout.HeapOffset, at(b), 8) })
		if dies {
			wantDead(t, err, 5)
		} else if err != nil {
			t.Error(err)
		}
		for node := 1; node < 5; node++ {
			r.stop(node, false)
		}
		r.quietOf(&touched)
		r.wantAllFree()
	}
}

// The end of the process's job ends waits.
func TestCloseEndsWaits(t *testing.T) {
	for name, f := range waits {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 2, 2)
			r.stop(1, true)
			var touched Touched
			err := r.during(t, r.c.Waiter.Close, func(ctx context.Context) error { return f(ctx, r, &touched) })
			if !errors.Is(err, wait.ErrClosed) {
				t.Errorf("got error %v, want %v", err, wait.ErrClosed)
			}
		})
	}
}

// New reports what is missing.
func TestNewChecks(t *testing.T) {
	r := newRig(t, 2, 1)
	for name, spoil := range map[string]func(c *Config){
		"Wire":    func(c *Config) { c.Wire = nil },
		"no node": func(c *Config) { c.Nodes = 0 },
		"nodes":   func(c *Config) { c.Nodes = layout.WireNodes + 1 },
		"block": func(c *Config) {
			c.Wire = &layout.Wire{Tail: 1}
			c.Wire.Blocks[3].Node, c.Wire.Blocks[3].Fill = 7, 8
		},
		"record": func(c *Config) {
			c.Wire = &layout.Wire{Tail: 1}
			c.Wire.Blocks[3].Fill = 8
		},
	} {
		c := r.c
		spoil(&c)
		if _, err := New(c); err == nil {
			t.Errorf("%s: New returned no error", name)
		}
	}
}

// A Quiet that ends before its operations are done does not say that they have ended with a lost node. The next one does.
func TestQuietOfLostAndSlowNodes(t *testing.T) {
	r := newRig(t, 3, 1)
	r.stop(1, true)
	r.stop(2, true)
	var touched Touched
	v := uint64(1)
	for _, pe := range []layout.PE{2, 1} { // Quiet visits node 1 first
		if err := r.Put(t.Context(), &touched, pe, layout.HeapOffset, unsafe.Pointer(&v), 8); err != nil {
			t.Fatal(err)
		}
	}
	r.lose(1)
	ctx, cancel := brief(t)
	defer cancel()
	if err := r.Quiet(ctx, &touched); isDeath(err) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Quiet with a lost node and a stopped one: %v, want the end of its context alone", err)
	}
	r.stop(2, false)
	wantDead(t, r.Quiet(t.Context(), &touched), -1)
	if err := r.Quiet(t.Context(), &touched); err != nil {
		t.Errorf("Quiet once more: %v", err)
	}
}
