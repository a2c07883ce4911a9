package daemon

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/symheap"
)

// passages has the memory by which PEs of two jobs exchange messages: for each two jobs of which a PE has asked for it, one file. It has a lock
// of its own, under which it takes no other one.
type passages struct {
	mu    sync.Mutex
	files map[[2]int]*os.File // by the numbers of the jobs, the lower one first; nil: they are joined, but one of them has no PE on this node
	over  map[int]bool        // jobs that are over: no passage to them is made any more
}

// lend joins two jobs, and returns a descriptor of the passages between them, which the caller closes. The first call for two jobs makes the passages. Nil:
// the jobs need none, as one of them has no PE on this node.
func (p *passages) lend(a, b *localJob) (*os.File, error) {
	key := [2]int{min(a.number, b.number), max(a.number, b.number)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over[a.number] || p.over[b.number] {
		return nil, errEnding
	}
	f, joined := p.files[key]
	if !joined {
		if len(a.near) > 0 && len(b.near) > 0 {
			var err error
			if f, err = symheap.CreatePassages(len(a.near) + len(b.near)); err != nil {
				return nil, err
			}
		}
		if p.files == nil {
			p.files = map[[2]int]*os.File{}
		}
		p.files[key] = f
	}
	if f == nil {
		return nil, nil //nolint:nilnil // there are none
	}
	again, err := xunix.Dup(f)
	if err != nil {
		return nil, fmt.Errorf("passages: %w", err)
	}
	return again, nil
}

// joined returns the numbers of the jobs to which a job has passages.
func (p *passages) joined(number int) (others []int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range p.files {
		switch number {
		case key[0]:
			others = append(others, key[1])
		case key[1]:
			others = append(others, key[0])
		}
	}
	return others
}

// drop gives the passages of a job back, which is over. Processes that have them mapped keep them.
func (p *passages) drop(number int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over == nil {
		p.over = map[int]bool{}
	}
	p.over[number] = true
	var errs []error
	for key, f := range p.files {
		if key[0] == number || key[1] == number {
			if f != nil {
				errs = append(errs, f.Close())
			}
			delete(p.files, key)
		}
	}
	return errors.Join(errs...)
}

// stirJoined wakes the PEs of all jobs that have passages to a job, after a change of its failure page. The caller holds the lock of the table.
func (f *failures) stirJoined(number int) {
	for _, other := range f.passages.joined(number) {
		if j := f.table.jobs[other]; j != nil {
			j.memory.stir()
		}
	}
}

// noteUnconnected publishes the end of a PE that was started by mpi.Spawn and has ended well, without having connected to the PEs that wait for it: these
// would wait forever. It returns whether it is such a PE: other nodes hear of it, too. The caller holds the lock of the table.
func (f *failures) noteUnconnected(p *localPE, d *death) bool {
	if p.connected || p.job.number == 0 || p.job.isOver() || f.silent || !isSet(p.app().Env, envvar.Parents) {
		return false
	}
	j := p.job
	_ = f.agent.noteDeath(j, p.id.PE) // it has sent nothing: there is nothing to wait for
	j.memory.publish(p.id.PE, failure.ByLeaving(d.end.Code), d.at)
	f.stirJoined(j.number)
	if j.share.spans() {
		f.events.append(announcement{spread: unconnectedOf(p.id, d.end)})
	}
	return true
}

// unconnectedOf returns what other nodes hear of such a PE.
func unconnectedOf(id ID, end ending.End) *FarFailure {
	end.Unfinished = true
	return &FarFailure{Job: id.Job, PEs: []int{id.PE}, End: end}
}
