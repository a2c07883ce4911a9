package shmem_test

import (
	"context"
	"errors"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// With keeps nothing of a handle of the default context, which programs may make for every call. Handles of other contexts
// are kept for Destroy while they are in use.
func TestWithOfDefaultContext(t *testing.T) {
	shmemtest.Run(t, 1, func(t *testing.T, w *shmem.World) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var used []*shmem.Ctx
		for range 100 {
			used = append(used, w.Ctx().With(ctx), w.With(ctx).Ctx())
		}
		if n := shmem.Handles(w.Ctx()); n != 0 {
			t.Errorf("%d handles of the default context are kept, want none", n)
		}
		c := must(w.NewCtx())(t)
		d := c.With(ctx)
		if n := shmem.Handles(c); n != 2 {
			t.Errorf("%d handles of a context are kept, want 2", n)
		}
		ok(t, errors.Join(used[0].Quiet(), d.Quiet(), c.Destroy()))
		wantError(t, d.Quiet(), shmem.ErrDestroyed, "shmem.Ctx.Quiet:")
		ok(t, w.Finalize())
		for _, c := range append(used, w.Ctx()) {
			wantError(t, c.Quiet(), shmem.ErrFinalized, "shmem.Ctx.Quiet:")
		}
	})
}

// Quiet on all kinds of handles may be under way when another goroutine finalizes. It fails from then on.
func TestQuietDuringFinalize(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		c := must(w.NewCtx())(t)
		ended := make(chan error)
		handles := []*shmem.Ctx{w.Ctx(), w.Ctx().With(t.Context()), c, c.With(t.Context())}
		for _, c := range handles {
			err := c.Quiet()
			go func() {
				for err == nil {
					err = c.Quiet()
				}
				ended <- err
			}()
		}
		ok(t, w.Finalize())
		for range handles {
			wantError(t, <-ended, shmem.ErrFinalized, "shmem.Ctx.Quiet:")
		}
	})
}
