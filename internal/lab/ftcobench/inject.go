package ftcobench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/lab/rerun"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Deadlines.
const (
	jobTimeout   = 2 * time.Minute       // for a job, in addition to NoticeDelay
	leadTime     = 50 * time.Millisecond // until all PEs have the plan
	leadTimeOfPE = 4 * time.Millisecond  // added to leadTime for each PE
)

// Reductions without failures.
const (
	warmRounds  = 3  // before those that count, and before failures
	roundsOfJob = 20 // that count, in jobs without failures
)

// scene is a job in which members are going to die.
type scene struct {
	*rerun.Run
	of      Case
	stdin   io.WriteCloser // standard input of PE 0
	lines   <-chan line    // output of the PEs
	ready   []*line        // by PE
	members [][]int        // PEs by member
}

// trial is the result of a job.
type trial struct {
	notHere string
	rounds  [][]time.Duration // by PE, of a case without faults
	dead    []int             // PEs that were to die, ascending
	silent  []int             // those of them that did not reduce
	killed  time.Duration     // when the first member was killed, on CLOCK_MONOTONIC
	seen    []*seen           // by PE; nil: no report
}

// runTrial runs the job of a case. A job that hangs and is killed counts: PEs without a report are missed.
func (b *bench) runTrial(parent context.Context, c Case) (t *trial, err error) {
	faults := findFaults(c.Faults)
	if n := c.members(); faults.victims() >= n {
		return &trial{notHere: fmt.Sprintf("the team has %d members, want more than the %d that die", n, faults.victims())}, nil
	}
	ctx, cancel := context.WithTimeout(parent, jobTimeout+4*b.NoticeDelay)
	defer cancel()
	j, err := b.start(ctx, c)
	if err != nil {
		return nil, err
	}
	t = &trial{seen: make([]*seen, c.PEs)}
	injected := false
	if err = j.awaitReady(t); err == nil && t.notHere == "" && faults.victims() > 0 {
		injected, err = true, b.inject(ctx, j, faults, t)
	}
	_ = j.stdin.Close()
	for l := range j.lines { // to the end, so that no PE blocks on a full pipe
		if l.Seen != nil {
			t.seen[l.PE] = l.Seen
		}
	}
	ended := j.Ended(j.Wait(), launch.StatusTolerated)
	if injected && ctx.Err() != nil && parent.Err() == nil {
		return t, nil // the job hung: PEs without a report are missed
	}
	return t, errors.Join(err, ended)
}

// start starts the job.
func (b *bench) start(ctx context.Context, c Case) (*scene, error) {
	const rest = 64 << 20 // bytes of a heap in addition to the vectors
	args := []string{"-n", strconv.Itoa(c.PEs), "--recover", "--watchdog", b.Watchdog, "--heap-size", strconv.Itoa(rest + 16*c.Doubles)}
	if c.Nodes > 1 {
		args = append(args, "--emulate", strconv.Itoa(c.Nodes))
	}
	if b.NoticeDelay > 0 {
		args = append(args, "--"+b.DelayFlag, b.NoticeDelay.String())
	}
	rounds := warmRounds
	if c.Faults == "none" {
		rounds += roundsOfJob
	}
	r, err := rerun.New(ctx, append(args, b.Program, c.Way, c.Faults, strconv.Itoa(c.Doubles), strconv.Itoa(rounds))...)
	if err != nil {
		return nil, err
	}
	j := &scene{Run: r, of: c, ready: make([]*line, c.PEs)}
	j.stdin, j.lines, err = rerun.StartTalk(r, func(l *line) bool { return l.PE >= 0 && l.PE < c.PEs })
	return j, err
}

// awaitReady waits until all PEs are ready, or until one says why the case cannot run here. It fills in the times of the
// reductions without failures, and the members.
func (j *scene) awaitReady(t *trial) error {
	for left := j.of.PEs; left > 0; left-- {
		l, ok := <-j.lines
		switch {
		case !ok:
			return rerun.ErrEarlyEnd
		case l.NotHere != "":
			t.notHere = l.NotHere
			return nil
		}
		j.ready[l.PE] = &l
	}
	for _, l := range j.ready {
		if len(l.Rounds) < warmRounds {
			return fmt.Errorf("PE %d has reduced %d times, want %d at least", l.PE, len(l.Rounds), warmRounds)
		}
		t.rounds = append(t.rounds, l.Rounds[warmRounds:])
	}
	return j.findMembers()
}

// findMembers finds the members: PEs, or the PEs of each node, which have one parent.
func (j *scene) findMembers() error {
	last := -1
	for pe, l := range j.ready {
		if j.of.Nodes == 1 || l.Parent != last {
			j.members = append(j.members, nil)
		}
		last = l.Parent
		m := &j.members[len(j.members)-1]
		*m = append(*m, pe)
	}
	if n := len(j.members); n != j.of.members() {
		return fmt.Errorf("the PEs are on %d nodes, want %d", n, j.of.Nodes)
	}
	return nil
}

// process returns the process whose death is the death of a member: the PE, or the agent of the node.
func (j *scene) process(member []int) (int, error) {
	l := j.ready[member[0]]
	if j.of.Nodes == 1 {
		return l.PID, nil
	}
	all, err := rerun.LookAtProcesses()
	if err != nil {
		return 0, err
	}
	agent, err := all.AgentOf(l.Parent)
	return agent.PID, err
}

// inject gives PE 0 the plan, and kills the first victims at their moment. Victims are the last members, so PE 0 and its
// node live.
func (b *bench) inject(ctx context.Context, j *scene, f *Faults, t *trial) error {
	victims := slices.Clone(j.members[len(j.members)-f.victims():])
	slices.Reverse(victims)
	pids := make([]int, len(victims))
	for i, member := range victims {
		var err error
		if pids[i], err = j.process(member); err != nil {
			return err
		}
		t.dead = append(t.dead, member...)
		if j.of.When == Before || i >= f.first {
			t.silent = append(t.silent, member...)
		}
	}
	slices.Sort(t.dead)
	lead := leadTime + leadTimeOfPE*time.Duration(j.of.PEs)
	p := plan{Start: xunix.Monotonic() + lead, Dead: t.dead, Silent: t.silent, Killer: -1, Of: victims[0][0]}
	if f.later > 0 {
		p.Killer, p.PID = victims[f.first][0], pids[f.first]
	}
	text, err := json.Marshal(p)
	if err == nil {
		_, err = j.stdin.Write(append(text, '\n'))
	}
	if err != nil {
		return err
	}
	select {
	case <-time.After(p.Start + b.moment(j) - xunix.Monotonic()):
	case <-ctx.Done():
		return ctx.Err()
	}
	t.killed = xunix.Monotonic()
	for _, pid := range pids[:f.first] {
		if err := xunix.Kill(pid, syscall.SIGKILL); err != nil {
			return fmt.Errorf("kill %d: %w", pid, err)
		}
	}
	return nil
}

// moment returns when the first members die, from the start of the reduction on.
func (b *bench) moment(j *scene) time.Duration {
	if j.of.When == Before {
		return 0
	}
	took := slices.Sorted(slices.Values(j.ready[0].Rounds))
	return time.Duration(b.rng.Int64N(int64(took[len(took)/2]) + 1))
}

// survivors returns the PEs that the plan lets live.
func (t *trial) survivors() (all []int) {
	for q := range t.seen {
		if !slices.Contains(t.dead, q) {
			all = append(all, q)
		}
	}
	return all
}
