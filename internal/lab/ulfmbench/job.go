package ulfmbench

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/launch"
)

// outcome is what the ranks of a job measured.
type outcome struct {
	records []*record     // by rank; nil: a victim
	killed  time.Duration // when the victim of barrier, recvany or respawn killed itself
	calls   int           // in a batch
	err     error         // the first error of a rank
}

// jobTimeout bounds the time of a job: a minute, 1 ms for each rank in a call, and 10 pauses for each revocation.
func jobTimeout(c cell, p *plan) time.Duration {
	calls := 2 * (warmUp + p.Samples*p.Calls)
	return time.Minute + time.Duration(calls*c.ranks)*time.Millisecond + time.Duration(2*p.Samples)*10*pause
}

// runJob runs the job of a cell and reads what its ranks print.
func runJob(parent context.Context, program string, nodes int, c cell, p plan) (out *outcome, err error) {
	ctx, cancel := context.WithTimeout(parent, jobTimeout(c, &p))
	defer cancel()
	if c.awaitsDeath() {
		if p.Killed, err = newTimeFile(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, os.Remove(p.Killed)) }()
	}
	argument, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	args := []string{"-n", strconv.Itoa(c.ranks), "--recover"}
	if nodes > 1 {
		args = append(args, "--emulate", strconv.Itoa(nodes))
	}
	run, err := rerun.New(ctx, append(args, program, string(argument))...)
	if err != nil {
		return nil, err
	}
	pipe, err := run.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := run.Start(); err != nil {
		return nil, err
	}
	out = &outcome{records: make([]*record, c.ranks), calls: p.Calls}
	in := bufio.NewScanner(pipe)
	in.Buffer(nil, 16<<20)
	for in.Scan() { // to the end, so that no rank blocks on a full pipe
		out.read(in.Bytes())
	}
	ended := run.Ended(run.Wait(), launch.StatusTolerated)
	switch {
	case ctx.Err() != nil && parent.Err() == nil:
		return nil, errors.Join(out.err, fmt.Errorf("the job has not ended after %v", jobTimeout(c, &p)))
	case out.err != nil:
		return nil, errors.Join(out.err, in.Err())
	case ended != nil:
		return nil, ended
	}
	if p.Killed != "" {
		if out.killed, err = readTime(p.Killed); err != nil {
			return nil, err
		}
	}
	return out, out.check(c, &p)
}

// newTimeFile makes the file for the time of a victim and returns its name.
func newTimeFile() (string, error) {
	f, err := os.CreateTemp("", "ulfm-bench-*")
	if err != nil {
		return "", err
	}
	return f.Name(), f.Close()
}

// readTime reads the time that a victim has written.
func readTime(file string) (time.Duration, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	if len(b) != 8 {
		return 0, fmt.Errorf("the victim has written %d bytes, want its time in 8", len(b))
	}
	return time.Duration(binary.LittleEndian.Uint64(b)), nil
}

// read handles a line of output.
func (out *outcome) read(text []byte) {
	var l line
	if json.Unmarshal(text, &l) != nil || l.Rank < 0 || l.Rank >= len(out.records) {
		return // not of ulfm-pe
	}
	switch {
	case l.Error != "" && out.err == nil:
		out.err = fmt.Errorf("rank %d: %s", l.Rank, l.Error)
	case l.Record != nil:
		out.records[l.Rank] = l.Record
	}
}

// check returns an error unless exactly the survivors have said all that they measured.
func (out *outcome) check(c cell, p *plan) error {
	for rank, rec := range out.records {
		dead := slices.Contains(p.Dead, rank)
		switch {
		case dead && rec != nil:
			return fmt.Errorf("rank %d was to kill itself and still reports", rank)
		case dead:
		case rec == nil:
			return fmt.Errorf("rank %d reports nothing", rank)
		case c.makesCalls() && len(rec.Rounds) != p.Samples:
			return fmt.Errorf("rank %d reports %d samples, want %d", rank, len(rec.Rounds), p.Samples)
		case c.makesCalls() && c.dead > 0 && rec.First <= 0:
			return fmt.Errorf("rank %d reports no first call", rank)
		case c.awaitsDeath() && rec.Learned < out.killed:
			return fmt.Errorf("rank %d learned of the death %v before it", rank, out.killed-rec.Learned)
		case c.name == Respawn && len(rec.Steps) != len(steps):
			return fmt.Errorf("rank %d reports %d steps, want %v", rank, len(rec.Steps), steps)
		case c.name == Revoke:
			for _, wait := range waits {
				if n := len(rec.Revoked[wait]); n != p.Samples {
					return fmt.Errorf("rank %d reports %d revocations in %s, want %d", rank, n, wait, p.Samples)
				}
			}
		}
	}
	return nil
}
