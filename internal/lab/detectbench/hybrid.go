package detectbench

import (
	"context"
	"slices"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/mpi"
	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/shmem"
)

// PEs of a hybrid program use packages shmem and mpi side by side. A survivor waits in a call of each. Both models have to
// learn of the failure, and each must see what the other one has declared: itself, and deaths.

// hybridWord is the first argument of the program when its PEs are hybrid.
const hybridWord = "hybrid"

// hybridPE is the part of a PE that is of package mpi.
type hybridPE struct {
	c       *mpi.Comm
	world   *mpi.World
	pmix    *client.Client
	models  chan string
	ended   chan time.Duration // when the last receive from a victim has ended; 0: it has not
	differs bool               // the other model did not know of the victims after a call of mpi had returned
}

// modelNames are the programming models that a hybrid PE declares, and has to see.
var modelNames = []string{"MPI", "OpenSHMEM"}

// initBoth initializes shmem and mpi, in an order that differs between PEs, behind a handler of what they declare.
func initBoth() (*shmem.World, *hybridPE, error) {
	ctx := context.Background()
	c, err := client.Init(ctx)
	if err != nil {
		return nil, nil, err
	}
	h := &hybridPE{pmix: c, models: make(chan string, 2*len(modelNames)), ended: make(chan time.Duration, 1)}
	if _, err := c.Events.HandleModels(ctx, "hybrid", func(m client.Model) { h.models <- m.Programming }); err != nil {
		return nil, nil, err
	}
	var w *shmem.World
	inits := []func() error{
		func() (err error) { w, err = shmem.Init(); return err },
		func() (err error) { h.world, err = mpi.Init(); return err },
	}
	if c.Rank()%2 == 1 {
		slices.Reverse(inits)
	}
	for _, init := range inits {
		if err := init(); err != nil {
			return nil, nil, err
		}
	}
	h.c = h.world.Comm()
	return w, h, nil
}

// modelsSeen returns the models whose declaration has come, ascending. It waits a moment for those that have not.
func (h *hybridPE) modelsSeen() (seen []string) {
	late := time.After(afterTime)
	for len(seen) < len(modelNames) {
		select {
		case m := <-h.models:
			if !slices.Contains(seen, m) {
				seen = append(seen, m)
			}
		case <-late:
			slices.Sort(seen)
			return seen
		}
	}
	slices.Sort(seen)
	return seen
}

// receive waits for a message of each victim, none of which comes, until all receives have ended with an error.
func (h *hybridPE) receive(ctx context.Context, p *nodePE) {
	at := time.Duration(0)
	defer func() { h.ended <- at }()
	for _, victim := range p.dead {
		var buf [1]byte
		_, err := mpi.Recv(h.c.With(ctx), buf[:], victim, 0)
		if err == nil || ctx.Err() != nil {
			return
		}
	}
	if !containsAll(h.c.Failed(), p.dead) {
		return
	}
	at = xunix.Monotonic()
	h.differs = !containsAll(p.w.Failed(), p.dead)
}

// finish adds what mpi has seen to a survivor's report.
func (h *hybridPE) finish(p *nodePE, s *nodeSeen) {
	s.MPI = <-h.ended
	s.Models = h.modelsSeen()
	s.Differs = h.differs || s.Returned > 0 && !containsAll(h.c.Failed(), p.dead)
}

// finalize ends mpi and the handler. shmem is finalized by itself.
func (h *hybridPE) finalize() error {
	if err := h.world.Finalize(); err != nil {
		return err
	}
	return h.pmix.Finalize(context.Background())
}
