package agreebench

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/xunix"
)

// survivors holds what the survivors of a job did, by PE and round. It is nil for a victim.
type survivors [][]round

// runJob runs the job of a cell: it starts the PEs, kills the victims when all are ready, and reads what the survivors say.
func runJob(parent context.Context, program string, c cell, p plan) (survivors, error) {
	ctx, cancel := context.WithTimeout(parent, jobTimeout(c, &p))
	defer cancel()
	argument, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	run, err := rerun.New(ctx, "-n", strconv.Itoa(c.pes), "--recover", program, string(argument))
	if err != nil {
		return nil, err
	}
	out, err := run.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := run.Start(); err != nil {
		return nil, err
	}
	job := &scene{pids: make([]int, c.pes), rounds: make(survivors, c.pes)}
	in := bufio.NewScanner(out)
	in.Buffer(nil, 1<<20)
	for in.Scan() { // to the end, so that no PE blocks on a full pipe
		job.read(in.Bytes(), p.Dead)
	}
	ended := run.Ended(run.Wait(), launch.StatusTolerated)
	switch {
	case ctx.Err() != nil && parent.Err() == nil:
		return nil, errors.Join(job.err, fmt.Errorf("the job has not ended after %v", jobTimeout(c, &p)))
	case job.err != nil:
		return nil, errors.Join(job.err, in.Err())
	case ended != nil:
		return nil, ended
	}
	return job.rounds, job.check(&p)
}

// jobTimeout bounds the time of a job: 1 ms for each PE in an agreement, and the time that PEs wait for each other at the
// start.
func jobTimeout(c cell, p *plan) time.Duration {
	calls := len(p.Variants) * (p.Samples*(1+p.Calls) + warmUp)
	return 3*stepTimeout + time.Duration(calls*c.pes)*time.Millisecond
}

// scene is a job.
type scene struct {
	pids   []int // process numbers, by PE; 0: not ready
	rounds survivors
	err    error // the first error of a PE, or of the kills
}

// read handles a line of output. It kills the victims when the last PE is ready.
func (s *scene) read(text []byte, victims []int) {
	var l line
	if json.Unmarshal(text, &l) != nil || l.PE < 0 || l.PE >= len(s.pids) {
		return // not of agree-pe
	}
	switch {
	case l.Error != "":
		if s.err == nil {
			s.err = fmt.Errorf("PE %d: %s", l.PE, l.Error)
		}
	case l.Round != nil:
		s.rounds[l.PE] = append(s.rounds[l.PE], *l.Round)
	default:
		s.pids[l.PE] = l.PID
		if slices.Contains(s.pids, 0) {
			return
		}
		for _, q := range victims {
			if err := xunix.Kill(s.pids[q], syscall.SIGKILL); err != nil && s.err == nil {
				s.err = fmt.Errorf("kill %d: %w", s.pids[q], err)
			}
		}
	}
}

// check returns an error unless each survivor has said what it did in all rounds.
func (s *scene) check(p *plan) error {
	for q, rounds := range s.rounds {
		switch dead := slices.Contains(p.Dead, q); {
		case dead && len(rounds) > 0:
			return fmt.Errorf("PE %d was killed and still took part in %d rounds", q, len(rounds))
		case !dead && len(rounds) != p.Samples:
			return fmt.Errorf("PE %d reports %d rounds, want %d", q, len(rounds), p.Samples)
		}
		for i := range rounds {
			if r := &rounds[i]; r.Number != i || len(r.Batches) != len(p.Variants) {
				return fmt.Errorf("PE %d reports %d batches of round %d as round %d, want %d", q, len(r.Batches), r.Number, i, len(p.Variants))
			}
		}
	}
	return nil
}
