package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/xunix"
)

// group is the members of one sample, and the busy loops beside them.
type group struct {
	mu      sync.Mutex // guards what the events of members change
	changed chan struct{}
	members []*member
	busy    []*process
	failed  error // the first member that has ended by itself
	readers sync.WaitGroup
}

// member is one member as its events show it.
type member struct {
	*process
	number int
	addr   string // where it listens; empty: not yet
	alive  []bool // the others that it holds to be alive
	others int    // their number
	left   []departure
	sent   count
	counts int  // answers to countLine
	killed bool // its end is wanted
}

// departure is a member's report that another one is dead.
type departure struct {
	who int
	at  time.Duration
}

// count is how many datagrams a member has sent until a moment.
type count struct {
	datagrams uint64
	at        time.Duration
}

// memberName returns the name of a member.
func memberName(number int) string { return "m" + strconv.Itoa(number) }

// memberNumber returns the number of the member with a name.
func memberNumber(name string) (int, error) {
	number, found := strings.CutPrefix(name, "m")
	n, err := strconv.Atoi(number)
	if !found || err != nil {
		return 0, fmt.Errorf("member %q, want a name such as m3", name)
	}
	return n, nil
}

// startGroup starts the members. All but the first join the first. The caller ends the group, also after an error.
func startGroup(ctx context.Context, o *options, c *setting) (*group, error) {
	g := &group{changed: make(chan struct{}, 1)}
	join := ""
	for i := range c.members {
		args := []string{modeMember, "--name", memberName(i), "--config", c.config, "--period", c.period.String()}
		if join != "" {
			args = append(args, "--join", join)
		}
		p, err := startProcess(o.nice, args...)
		if err != nil {
			return g, fmt.Errorf("start member %d: %w", i, err)
		}
		m := &member{process: p, number: i, alive: make([]bool, c.members)}
		g.mu.Lock()
		g.members = append(g.members, m)
		g.mu.Unlock()
		g.readers.Go(func() { g.read(m) })
		if i > 0 {
			continue
		}
		listens, err := g.wait(ctx, startTimeout, func() bool { return m.addr != "" })
		if err == nil && !listens {
			err = fmt.Errorf("the first member does not listen after %v", startTimeout)
		}
		if err != nil {
			return g, err
		}
		join = m.addr
	}
	return g, nil
}

// read reads a member's events until its end, and collects it.
func (g *group) read(m *member) {
	var err error
	for lines := bufio.NewScanner(m.stdout); err == nil && lines.Scan(); {
		var e event
		if err = json.Unmarshal(lines.Bytes(), &e); err == nil {
			err = g.note(m, &e)
		}
	}
	if err != nil {
		m.kill()
	}
	ended := m.cmd.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !m.killed && g.failed == nil {
		g.failed = fmt.Errorf("member %d has ended by itself: %w: %s", m.number, measure.FirstError(err, ended, errEnded), &m.said)
	}
	g.notify()
}

// note notes an event of m.
func (g *group) note(m *member, e *event) error {
	who, err := memberNumber(e.Member)
	if err != nil || who < 0 || who >= len(m.alive) {
		return fmt.Errorf("event of member %q: %w", e.Member, measure.FirstError(err, errNoMember))
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch e.Event {
	case eventReady:
		m.addr = e.Addr
	case eventJoined:
		if !m.alive[who] {
			m.alive[who] = true
			m.others++
		}
	case eventLeft:
		if m.alive[who] {
			m.alive[who] = false
			m.others--
		}
		m.left = append(m.left, departure{who, time.Duration(e.At)})
	case eventSent:
		m.sent = count{e.Datagrams, time.Duration(e.At)}
		m.counts++
	}
	g.notify()
	return nil
}

// notify wakes wait.
func (g *group) notify() {
	select {
	case g.changed <- struct{}{}:
	default:
	}
}

// wait waits until a condition holds, and reports whether it did in time. The condition is called with g.mu held. The
// error is that of a member that has ended by itself, or the cause of the end of ctx.
func (g *group) wait(ctx context.Context, within time.Duration, holds func() bool) (bool, error) {
	timeout := time.NewTimer(within)
	defer timeout.Stop()
	for {
		g.mu.Lock()
		ok, err := holds(), g.failed
		g.mu.Unlock()
		if ok || err != nil {
			return ok, err
		}
		select {
		case <-g.changed:
		case <-timeout.C:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		}
	}
}

// pause waits for a time. Its error is that of wait.
func (g *group) pause(ctx context.Context, d time.Duration) error {
	_, err := g.wait(ctx, d, func() bool { return false })
	return err
}

// isComplete reports whether each member holds all others to be alive. The caller holds g.mu.
func (g *group) isComplete() bool {
	for _, m := range g.members {
		if m.others != len(g.members)-1 {
			return false
		}
	}
	return true
}

// startBusy starts busy loops at the priority of this process.
func (g *group) startBusy(n int) error {
	for range n {
		p, err := startProcess(0, modeBusy)
		if err != nil {
			return fmt.Errorf("start a busy loop: %w", err)
		}
		g.busy = append(g.busy, p)
	}
	return nil
}

// count asks all members how many datagrams they have sent. It returns nil if one does not answer in time.
func (g *group) count(ctx context.Context) ([]count, error) {
	g.mu.Lock()
	before := make([]int, len(g.members))
	for i, m := range g.members {
		before[i] = m.counts
	}
	g.mu.Unlock()
	for _, m := range g.members {
		_, _ = fmt.Fprintln(m.stdin, countLine) // a member that is gone is told by read
	}
	ok, err := g.wait(ctx, countTimeout, func() bool {
		for i, m := range g.members {
			if m.counts == before[i] {
				return false
			}
		}
		return true
	})
	if err != nil || !ok {
		return nil, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []count
	for _, m := range g.members {
		all = append(all, m.sent)
	}
	return all, nil
}

// killMember kills a member by SIGKILL and returns the time just before.
func (g *group) killMember(victim int) time.Duration {
	m := g.members[victim]
	g.mu.Lock()
	m.killed = true
	g.mu.Unlock()
	at := xunix.Monotonic()
	m.kill()
	return at
}

// end kills all processes and waits for their ends.
func (g *group) end() {
	g.mu.Lock()
	for _, m := range g.members {
		m.killed = true
	}
	g.mu.Unlock()
	for _, p := range g.busy {
		p.kill()
	}
	for _, m := range g.members {
		m.kill()
	}
	g.readers.Wait()
	for _, p := range g.busy {
		_ = p.cmd.Wait() // it was killed
	}
}
