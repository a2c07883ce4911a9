package agreebench

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	mathrand "math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/internal/lab/measure"
	"github.com/goshmem/goshmem/internal/xunix"
	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/transport/tcp"
)

// Exit statuses of the program of the PEs.
const (
	exitOK    = 0
	exitError = 1
)

// stepTimeout is how long a PE waits for the deaths, and for the end of a batch.
const stepTimeout = time.Minute

// warmUp is how many agreements of a variant are not measured at first. They open the connections. The first one lists
// the dead, and rebalances the tree.
const warmUp = 10

// plan is what the PEs of a job do. It is the argument of their program.
type plan struct {
	Variants []Variant `json:"variants"`
	Samples  int       `json:"samples"`
	Calls    int       `json:"calls"`
	Seed     uint64    `json:"seed"`
	Dead     []int     `json:"dead"` // the victims, ascending
}

// turns returns the order of the variants in a round.
func (p *plan) turns(round int) []int {
	return mathrand.New(mathrand.NewPCG(p.Seed, uint64(round))).Perm(len(p.Variants))
}

// line is a line of output of a PE: that it is ready, then, of a survivor, what it did in each round.
type line struct {
	PE    int    `json:"pe"`
	PID   int    `json:"pid"`
	Round *round `json:"round,omitempty"`
	Error string `json:"error,omitempty"`
}

// round is what a survivor did in a round.
type round struct {
	Number  int     `json:"number"` // from 0 on
	Batches []batch `json:"batches"`
}

// batch is what a survivor did in a variant's turn. Times are of CLOCK_MONOTONIC.
type batch struct {
	Began  time.Duration `json:"began"`  // the call of the first measured agreement
	Ended  time.Duration `json:"ended"`  // the return of the last one
	Digest uint64        `json:"digest"` // of all decisions
	Wrong  int           `json:"wrong"`  // decisions that do not follow from the votes of the survivors
	What   string        `json:"what,omitempty"`
}

// pe is a PE of a measurement.
type pe struct {
	plan
	w       *shmem.World
	team    *shmem.Team // the survivors
	out     *json.Encoder
	link    *link
	members []member // by variant
	calls   []uint64 // by variant: agreements so far
	sendErr error

	mu   sync.Mutex
	news []int // deaths that no machine knows of yet
	dead []int // deaths that the machines know of, ascending
}

// Main runs the program and returns its exit status. The argument is the plan.
func Main(args []string, stdout, stderr io.Writer) int {
	err := runPE(args, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "agree-pe: %v\n", err)
		return exitError
	}
	return exitOK
}

// parsePlan returns the plan in the arguments of the program.
func parsePlan(args []string) (p plan, err error) {
	if len(args) != 1 {
		return p, fmt.Errorf("%d arguments, want 1: a plan; this program is part of oshrun agree-bench, use that", len(args))
	}
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		return p, fmt.Errorf("plan: %w; this program is part of oshrun agree-bench, use that", err)
	}
	for _, v := range p.Variants {
		if err := measure.CheckWords("plan", []string{v.Algorithm}, Algorithms); err != nil {
			return p, err
		}
	}
	return p, nil
}

// runPE runs this PE's part of a measurement.
func runPE(args []string, stdout io.Writer) error {
	plan, err := parsePlan(args)
	if err != nil {
		return err
	}
	w, err := shmem.Init()
	if err != nil {
		return err
	}
	p := &pe{plan: plan, w: w, team: w.Team(), out: json.NewEncoder(stdout), calls: make([]uint64, len(plan.Variants))}
	if err := p.run(); err != nil {
		return errors.Join(err, p.out.Encode(line{PE: w.MyPE(), PID: os.Getpid(), Error: err.Error()}))
	}
	return w.Finalize()
}

func (p *pe) run() (err error) {
	if err := p.connect(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.link.close()) }()
	cancel := p.w.OnFailure(func(f shmem.Failure) {
		p.mu.Lock()
		p.news = append(p.news, f.PEs...)
		p.mu.Unlock()
		p.link.transport.Wake()
	})
	defer cancel()
	if err := p.w.Barrier(); err != nil {
		return err
	}
	if err := p.out.Encode(line{PE: p.w.MyPE(), PID: os.Getpid()}); err != nil {
		return err
	}
	if slices.Contains(p.Dead, p.w.MyPE()) {
		err := p.wait(stepTimeout, func() bool { return false })
		return fmt.Errorf("the victim was not killed: %w", err)
	}
	if err := p.prepare(); err != nil {
		return err
	}
	for v := range p.Variants {
		if _, err := p.runBatch(v, warmUp); err != nil {
			return fmt.Errorf("%s, warming up: %w", p.Variants[v], err)
		}
	}
	return p.measure()
}

// connect makes the link, with the addresses of all PEs.
func (p *pe) connect() error {
	pes, me := p.w.NPEs(), p.w.MyPE()
	var key [48]byte // secret and job
	if _, err := rand.Read(key[:]); err != nil {
		return err
	}
	key, err := shmem.BroadcastValue(p.w.Team(), key, 0)
	if err != nil {
		return err
	}
	t, err := newTransport(pes, me, tcp.Secret(key[:32]), [16]byte(key[32:]))
	if err != nil {
		return err
	}
	p.link = newLink(t, pes, p.take)
	own, err := shmem.Calloc[uint64](p.w, 1)
	if err != nil {
		return err
	}
	ports, err := shmem.Calloc[uint64](p.w, pes)
	if err != nil {
		return err
	}
	addr := t.Addrs()[0]
	own.Local()[0] = uint64(addr.Port())
	if err := shmem.FCollect(p.w.Team(), ports, own); err != nil {
		return err
	}
	for q, port := range ports.Local() {
		if q == me {
			continue
		}
		if err := t.SetPeer(q, 1, []netip.AddrPort{netip.AddrPortFrom(addr.Addr(), uint16(port))}); err != nil {
			return err
		}
	}
	return nil
}

// prepare waits for the deaths, and makes the machines and the team of the survivors.
func (p *pe) prepare() error {
	if err := p.wait(stepTimeout, func() bool { return len(p.dead) == len(p.Dead) }); err != nil {
		return fmt.Errorf("%d of %d deaths are known: %w", len(p.dead), len(p.Dead), err)
	}
	for i, v := range p.Variants {
		send := func(to int, message []byte) {
			if err := p.link.send(to, byte(i), message); err != nil && p.sendErr == nil {
				p.sendErr = fmt.Errorf("%s: message to PE %d: %w", v, to, err)
			}
		}
		m, err := newMember(v, p.w.NPEs(), p.w.MyPE(), p.Dead, send)
		if err != nil {
			return err
		}
		for _, q := range p.dead {
			m.peerFailed(q)
		}
		p.members = append(p.members, m)
	}
	if len(p.Dead) == 0 {
		return nil
	}
	p.w.AckFailed()
	team, err := p.w.Team().Shrink()
	if err == nil {
		p.team = team
	}
	return err
}

// take gives a message to the machine of its variant.
func (p *pe) take(from int, variant byte, message []byte) error {
	if int(variant) >= len(p.members) {
		return fmt.Errorf("%w of PE %d: variant %d, want at most %d", agree.ErrMessage, from, variant, len(p.members)-1)
	}
	return p.members[variant].receive(from, message)
}

// learn gives the machines the news of deaths. A death that was not planned is an error.
func (p *pe) learn() error {
	p.mu.Lock()
	news := p.news
	p.news = nil
	p.mu.Unlock()
	for _, q := range news {
		if !slices.Contains(p.Dead, q) {
			return fmt.Errorf("PE %d has failed, want only %v to fail", q, p.Dead)
		}
		p.dead = append(p.dead, q)
		for _, m := range p.members {
			m.peerFailed(q)
		}
	}
	slices.Sort(p.dead)
	return nil
}

// wait moves messages until done. It returns an error after the timeout.
func (p *pe) wait(timeout time.Duration, done func() bool) error {
	var deadline time.Time // zero as long as there was no need for it
	for {
		if err := errors.Join(p.learn(), p.sendErr); err != nil {
			return err
		}
		if done() {
			return nil
		}
		moved, err := p.link.poll(timeout / 16)
		if err != nil {
			return err
		}
		if moved {
			continue
		}
		now := time.Now()
		if deadline.IsZero() {
			deadline = now.Add(timeout)
		}
		if now.After(deadline) {
			return errors.Join(fmt.Errorf("not done after %v", timeout), p.link.trouble(p.dead))
		}
	}
}

// measure runs all rounds, and then says what happened in them.
func (p *pe) measure() error {
	rounds := make([]round, p.Samples)
	for r := range rounds {
		rounds[r] = round{Number: r, Batches: make([]batch, len(p.Variants))}
		for _, v := range p.turns(r) {
			b, err := p.runBatch(v, p.Calls)
			if err != nil {
				return fmt.Errorf("%s, sample %d of %d: %w", p.Variants[v], r+1, p.Samples, err)
			}
			rounds[r].Batches[v] = b
		}
	}
	if err := p.sync(); err != nil { // output would slow down those that still measure
		return err
	}
	for r := range rounds {
		if err := p.out.Encode(line{PE: p.w.MyPE(), PID: os.Getpid(), Round: &rounds[r]}); err != nil {
			return err
		}
	}
	return nil
}

// sync waits for the other survivors.
func (p *pe) sync() error {
	ctx, cancel := context.WithTimeout(context.Background(), stepTimeout)
	defer cancel()
	return p.team.With(ctx).Sync()
}

// runBatch runs one agreement of a variant and then calls more of them. It looks at the decisions afterwards.
func (p *pe) runBatch(v, calls int) (b batch, err error) {
	if err := p.sync(); err != nil {
		return b, err
	}
	decisions := make([]agree.Decision, 1+calls)
	for i := range decisions {
		if i == 1 {
			b.Began = xunix.Monotonic()
		}
		if decisions[i], err = p.agree(v); err != nil {
			return b, err
		}
	}
	b.Ended = xunix.Monotonic()
	if err := p.wait(stepTimeout, func() bool { return !p.link.underWay() }); err != nil {
		return b, err
	}
	digest := fnv.New64a()
	first := p.calls[v] - uint64(calls)
	for i := range decisions {
		_, _ = digest.Write(appendDecision(nil, &decisions[i])) // a hash takes all
		want := expected(p.w.NPEs(), p.Dead, first+uint64(i), p.Variants[v].Algorithm == Allreduce)
		if what := differs(&decisions[i], &want); what != "" {
			b.Wrong, b.What = b.Wrong+1, what
		}
	}
	b.Digest = digest.Sum64()
	return b, nil
}

// agree makes one call and waits for its return.
func (p *pe) agree(v int) (d agree.Decision, err error) {
	p.calls[v]++
	m := p.members[v]
	m.enter(voteOf(p.w.MyPE(), p.calls[v]))
	var ok bool
	var failed error
	err = p.wait(stepTimeout, func() bool {
		d, ok, failed = m.taken()
		return ok || failed != nil
	})
	if err = errors.Join(failed, err); err != nil {
		return d, fmt.Errorf("call %d: %w", p.calls[v], err)
	}
	return d, nil
}
