package detectbench

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/goshmem/goshmem/internal/job"
	"github.com/goshmem/goshmem/shmem"
)

// trafficWord is the last argument of the program if PEs put data to each other all the time.
const trafficWord = "traffic"

// trafficSize is how many bytes a put has.
const trafficSize = 64 << 10

// startTraffic lets this PE put data to all others in turn, except to victims, until stop is called or it dies. All PEs
// call it: it allocates symmetric memory.
func (p *nodePE) startTraffic() (stop func(), err error) {
	in, err := shmem.Calloc[byte](p.w, trafficSize)
	if err != nil {
		return nil, err
	}
	out := make([]byte, trafficSize)
	ctx, cancel := context.WithCancel(context.Background())
	var puts sync.WaitGroup
	puts.Go(func() {
		for to := p.w.MyPE(); ctx.Err() == nil; {
			if to = (to + 1) % p.w.NPEs(); to == p.w.MyPE() || slices.Contains(p.dead, to) {
				if p.w.NPEs() <= len(p.dead)+1 {
					return // nobody is left to put to
				}
				continue
			}
			_ = shmem.Put(p.w.Ctx().With(ctx), in, out, to) // a PE that was reported falsely is counted elsewhere
			_ = p.w.Ctx().With(ctx).Quiet()
		}
	})
	return func() { cancel(); puts.Wait() }, nil
}

// idle waits for the limit in a call that nothing ends, and collects all reports of deaths: all are false.
func (p *nodePE) idle(ctx context.Context, s *nodeSeen) {
	err := shmem.WaitUntil(p.w.Ctx().With(ctx), p.flag, shmem.NE, 0)
	if dead, ok := errors.AsType[*shmem.PEError](err); ok {
		s.Failed = dead.PEs
		<-ctx.Done()
	}
	for {
		select {
		case c := <-p.calls:
			s.Told = union(s.Told, c.pes)
			continue
		default:
		}
		break
	}
	if page := job.Page(); page != nil {
		all, _ := page.All()
		for _, f := range all {
			s.Page = append(s.Page, f.PE)
		}
	}
}
