package shmem_test

import (
	"context"
	"testing"
	"time"

	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// This library and another layer of the process, which uses the same PMIx client, see each other's
// programming model, whichever initializes first.
//
// Source: paper failure-detection-propagation, Figure 16.
func TestModelsOfTwoLayers(t *testing.T) {
	shmemtest.Run(t, 2, func(t *testing.T, w *shmem.World) {
		other := client.Model{Programming: "MPI", Library: "another", Version: "1", Threads: "NONE"}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		begin := func() (*client.Client, chan client.Model) {
			t.Helper()
			c := must(client.Init(ctx))(t)
			seen := make(chan client.Model, 8)
			_, err := c.Events.HandleModels(ctx, "other layer", func(m client.Model) { seen <- m })
			ok(t, err)
			ok(t, c.Events.DeclareModel(ctx, other))
			return c, seen
		}
		expect := func(seen chan client.Model, want ...string) {
			t.Helper()
			for _, programming := range want {
				select {
				case m := <-seen:
					if m.Programming != programming || m.Library == "" || m.Version == "" || m.Threads == "" {
						t.Errorf("got model %+v, want one of %s", m, programming)
					}
				case <-ctx.Done():
					t.Fatalf("got no model of %s", programming)
				}
			}
		}

		c, seen := begin() // this library is first
		expect(seen, "OpenSHMEM", "MPI")
		ok(t, w.Finalize())
		ok(t, c.Finalize(ctx))

		c, seen = begin() // the other layer is first
		expect(seen, "MPI")
		w = must(shmem.Init())(t)
		expect(seen, "OpenSHMEM")
		ok(t, w.Finalize())
		ok(t, c.Finalize(ctx))
	})
}
