package fabench

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/launch"
)

// outcome is what a run measured.
type outcome struct {
	took   time.Duration // from the start of oshrun to its end; of a restart, of both jobs
	killed time.Duration // when the first victim died; 0: nobody
	lines  []line        // of the ranks that lived to the end
	result string        // the application's line
}

// run runs a cell once.
func (o *Options) run(ctx context.Context, l cell) (*outcome, error) {
	if !l.isRestart {
		return o.runJob(ctx, l.app, l.c, l.c.policy)
	}
	died, err := o.runJob(ctx, l.app, l.c, "")
	if err != nil {
		return nil, err
	}
	whole, err := o.runJob(ctx, l.app, findCase(None), "")
	if err != nil {
		return nil, err
	}
	whole.took += died.took
	return whole, nil
}

// arguments returns the arguments of oshrun for a job. Without a policy, a job whose ranks die has no transactions and ends.
func (o *Options) arguments(a *App, c *Case, policy, killed string) ([]string, error) {
	argument, err := json.Marshal(plan{App: a.Name, Killed: killed, Node: c.Name == Node})
	if err != nil {
		return nil, err
	}
	args := []string{"-n", strconv.Itoa(o.PEs)}
	if o.Nodes > 0 {
		// Ranks that follow each other are on different nodes, so that the copy of a rank's data survives its node. With --launch-flat no node that
		// dies has started another one.
		args = append(args, "--emulate", strconv.Itoa(o.Nodes), "--map-by", "node", "--launch-flat")
	}
	isPlain := c.Name == None || c.hasDeaths() && policy == ""
	if !isPlain {
		args = append(args, "--recover")
	}
	args = append(args, o.Program, string(argument), a.SizeFlag, strconv.Itoa(o.sizeOf(a)), "--iterations", strconv.Itoa(o.Iterations))
	if isPlain {
		args = append(args, "--plain")
	}
	if policy != "" {
		args = append(args, "--policy", policy)
	}
	if c.hasDeaths() {
		args = append(args, "--kill", c.kill(o.PEs, o.Iterations))
	}
	return args, nil
}

// runJob runs a job, and reads what its ranks print.
func (o *Options) runJob(parent context.Context, a *App, c *Case, policy string) (out *outcome, err error) {
	ctx, cancel := context.WithTimeout(parent, o.Timeout)
	defer cancel()
	var times *timeFile
	killed := ""
	if c.hasDeaths() {
		if times, err = newTimeFile(); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, times.file.Close()) }()
		killed = times.path()
	}
	args, err := o.arguments(a, c, policy, killed)
	if err != nil {
		return nil, err
	}
	run, err := rerun.New(ctx, args...)
	if err != nil {
		return nil, err
	}
	pipe, err := run.StdoutPipe()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := run.Start(); err != nil {
		return nil, err
	}
	out = &outcome{}
	failed := out.read(bufio.NewScanner(pipe))
	ended := run.Wait()
	out.took = time.Since(began)
	isRestart := c.hasDeaths() && policy == ""
	switch {
	case ctx.Err() != nil && parent.Err() == nil:
		return nil, errors.Join(failed, fmt.Errorf("the job has not ended after %v", o.Timeout))
	case isRestart && ended == nil:
		return nil, errors.New("the job has ended well though a rank has died, want a failure without transactions")
	case isRestart:
		_, err = times.read(1, c.dead) // the job may end before the second victim dies
		return out, errors.Join(err, parent.Err())
	case failed != nil:
		return nil, failed
	}
	if c.hasDeaths() {
		if err := run.Ended(ended, launch.StatusTolerated); err != nil {
			return nil, err
		}
		if out.killed, err = times.read(c.dead, c.dead); err != nil {
			return nil, err
		}
	} else if err := run.Ended(ended); err != nil {
		return nil, err
	}
	return out, out.check(o, c)
}

// read reads the output of a job to its end, so that no rank blocks on a full pipe. It returns the first error of a rank.
func (out *outcome) read(in *bufio.Scanner) (failed error) {
	in.Buffer(nil, 16<<20)
	for in.Scan() {
		var l line
		if json.Unmarshal(in.Bytes(), &l) != nil || l.Program != lineMark {
			continue
		}
		if l.Error != "" && failed == nil {
			failed = fmt.Errorf("a rank has failed: %s", l.Error)
		}
		out.lines = append(out.lines, l)
		out.result += l.Result
	}
	return errors.Join(failed, in.Err())
}

// check returns an error unless a job has printed one result, and all its ranks what the phases need.
func (out *outcome) check(o *Options, c *Case) error {
	if strings.Count(out.result, "\n") != 1 {
		return fmt.Errorf("the job prints the result %q, want one line", out.result)
	}
	if len(out.lines) < o.PEs && c.Name != Node { // new ranks report as well
		return fmt.Errorf("%d ranks report, want %d", len(out.lines), o.PEs)
	}
	if c.hasDeaths() {
		_, err := out.phases()
		return err
	}
	return nil
}

// timeFile is a file for the times of victims. It has no name in any directory, so nothing is left of it.
type timeFile struct{ file *os.File }

func newTimeFile() (*timeFile, error) {
	f, err := os.CreateTemp("", "fa-bench-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &timeFile{f}, nil
}

// path returns the name under which other processes open the file.
func (f *timeFile) path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), f.file.Fd()) }

// read returns the time of the first victim, of which there are from least to most.
func (f *timeFile) read(least, most int) (first time.Duration, err error) {
	b := make([]byte, 8*most+1)
	got, _ := f.file.ReadAt(b, 0)
	if n := got / 8; got%8 != 0 || n < least || n > most {
		return 0, fmt.Errorf("the victims have written %d bytes, want %d to %d times of 8 bytes", got, least, most)
	}
	for i := range got / 8 {
		at := time.Duration(binary.LittleEndian.Uint64(b[8*i:]))
		if i == 0 || at < first {
			first = at
		}
	}
	return first, nil
}
