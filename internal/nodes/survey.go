package nodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/wire"
)

// The radix of the trees of nodes is the same on all nodes from their first message on. So the front end chooses it, before
// any step starts, and tells all nodes by daemon.Share. Nodes that are added hear the same.
//
// It is what the user says, or what is best by L and o of the LogP model (tree.LogP). These were measured before (oshrun
// tune), or are measured now, on the links between the front end and the daemons: fences between nodes go this way, and
// these links are connections of Go programs by TCP, as those between agents are.

// fewest is the number of nodes below which all radixes give the same tree, a star.
const fewest = 4

// A survey at the start has little time: a start is never to wait for it.
var atStart = surveyPlan{members: 8, cycles: 4, within: 3 * time.Millisecond}

// surveyPlan bounds a survey.
type surveyPlan struct {
	members int // how many daemons are asked at most
	cycles  int // how often each is asked alone, and all are together
	within  time.Duration
}

// mostProbed is how many answers may wait: more than a round has.
const mostProbed = 64

// survey measures the way between the front end and the daemons. A round asks some daemons at the same time, and ends with
// their last answer.
type survey struct {
	round   atomic.Uint32 // the number of the round, which its answers have
	answers chan probed
}

// probed is the answer of a daemon.
type probed struct {
	member int
	round  uint32
	at     time.Time
}

// take takes an answer. It does not wait, and drops what nobody has asked for.
func (s *survey) take(member int, round uint32) {
	if round == 0 || round != s.round.Load() {
		return
	}
	select {
	case s.answers <- probed{member, round, time.Now()}:
	default: // a daemon has answered more often than it was asked
	}
}

// ask makes a round. It returns how long that has taken; false: time was over before.
func (s *survey) ask(members []*member, over <-chan struct{}) (took time.Duration, ok bool) {
	round := s.round.Add(1)
	waits := make(map[int]bool, len(members))
	for _, m := range members {
		waits[m.index] = true
	}
	begin := time.Now()
	for _, m := range members {
		m.send(wire.Frame{Kind: wire.KindProbe, Stream: round})
	}
	for len(waits) > 0 {
		select {
		case a := <-s.answers:
			if a.round == round && waits[a.member] {
				delete(waits, a.member)
				took = max(took, a.at.Sub(begin))
			}
		case <-over:
			s.round.Add(1) // no late answer counts
			return 0, false
		}
	}
	return took, true
}

// Survey is what was measured of the way between the front end and daemons.
type Survey struct {
	LogP    tree.LogP // in nanoseconds
	Nodes   int       // how many were asked
	Cycles  int       // how often each was asked alone, and all were together
	Typical time.Duration
	All     time.Duration
}

// measure asks some of the members, which are two or more. It is over in time; an error says that this was too short.
//
// The least times count: whatever else the machines do makes a round longer, and nothing makes it shorter.
func (s *survey) measure(ctx context.Context, members []*member, p surveyPlan) (Survey, error) {
	ctx, cancel := context.WithTimeout(ctx, p.within)
	defer cancel()
	asked := spreadOut(members, p.members)
	v := Survey{Nodes: len(asked)}
	s.ask(asked, ctx.Done()) // the first round wakes what has not run yet
	alone := make([]time.Duration, len(asked))
	for v.Cycles < p.cycles && ctx.Err() == nil {
		cycle := make([]time.Duration, len(asked))
		whole := true
		for i := range asked {
			var ok bool
			cycle[i], ok = s.ask(asked[i:i+1], ctx.Done())
			whole = whole && ok
		}
		all, ok := s.ask(asked, ctx.Done())
		if !whole || !ok {
			break
		}
		for i, took := range cycle {
			if v.Cycles == 0 || took < alone[i] {
				alone[i] = took
			}
		}
		if v.Cycles == 0 || all < v.All {
			v.All = all
		}
		v.Cycles++
	}
	if v.Cycles == 0 {
		return v, fmt.Errorf("%d daemons have not answered within %v", len(asked), p.within)
	}
	slices.Sort(alone)
	v.Typical = alone[len(alone)/2]
	v.LogP = fit(v.Typical, alone[len(alone)-1], v.All, len(asked))
	return v, nil
}

// spreadOut returns at most so many of the members, evenly.
func spreadOut(members []*member, most int) []*member {
	n := min(most, len(members))
	some := make([]*member, n)
	for i := range some {
		some[i] = members[i*len(members)/n]
	}
	return some
}

// fit returns L and o, in nanoseconds, of a round of one daemon that takes alone, with the slowest one, and of one of n
// daemons.
//
// A message takes o to be sent, L on its way, and o to be handled. So alone = 2L + 4o. The front end sends n messages one
// after another, and handles n answers: it is busy for 2no. If that is less than a round trip, the answers come o apart, and
// the round takes slowest + (n-1)o. Otherwise it takes 2no. It takes the longer of the two, so o is the lesser of what
// they give. Emulated nodes share processors, so a round of all takes even longer: o is as much as a round trip has room for.
func fit(alone, slowest, all time.Duration, n int) tree.LogP {
	o := min(all/time.Duration(2*n), alone/4)
	if n > 1 {
		o = min(o, (all-slowest)/time.Duration(n-1))
	}
	o = max(1, o)
	return tree.LogP{Latency: int(max(0, alone-4*o) / 2), Overhead: int(o)}
}

// givenRadix returns the radix of a job of few nodes: any gives the same tree, unless there will be more nodes.
func (r *root) givenRadix() int { return cmp.Or(r.cfg.CollRadix, tree.DefaultRadix) }

// What a radix is chosen by, as the log says it.
const (
	byOption   = "option"   // the user has said it
	byTune     = "tune"     // what was stored
	byMeasure  = "measured" // what the start has measured
	byDefaults = "default"  // nothing
)

// chooseRadix returns the radix of the trees of nodes. The daemons have reported themselves. It waits for them a few
// milliseconds at most, and never fails.
func (r *root) chooseRadix(ctx context.Context) int {
	p, by, because := r.model(ctx)
	radix := r.givenRadix()
	if by == byTune || by == byMeasure {
		k, _, err := p.BestKnomial(len(r.members), tree.MostRadix)
		if err != nil { // no tree has so many nodes
			by, because = byDefaults, err
		} else {
			radix = k
		}
	}
	r.logger.Info().Int("radix", radix).Str("by", by).AnErr("because", because).
		Int("latency_ns", p.Latency).Int("overhead_ns", p.Overhead).Msg("collectives between nodes")
	return radix
}

// model returns what the radix is chosen by, with L and o if they count. If it is the default, because may say why.
func (r *root) model(ctx context.Context) (p tree.LogP, by string, because error) {
	switch {
	case r.cfg.CollRadix != 0:
		return p, byOption, nil
	case len(r.members) < fewest:
		return p, byDefaults, nil
	}
	p, known, err := r.tuned()
	if err != nil {
		r.notice(fmt.Sprintf("what oshrun tune has stored cannot be used, so the start measures: %v", err))
	}
	if known {
		return p, byTune, nil
	}
	v, err := r.survey.measure(ctx, r.members, atStart)
	if err != nil {
		return p, byDefaults, err
	}
	return v.LogP, byMeasure, nil
}

// tuned returns what was measured before.
func (r *root) tuned() (p tree.LogP, known bool, err error) {
	if r.cfg.Tuned == nil {
		return p, false, nil
	}
	return r.cfg.Tuned()
}

// thorough is the survey of a user who waits for it.
var thorough = surveyPlan{members: 32, cycles: 200, within: 5 * time.Second}

// Measure starts the daemons of a layout of two or more nodes, measures the way to them, and ends them.
func (s Starter) Measure(ctx context.Context, l launch.Span, hooks daemon.Hooks) (v Survey, err error) {
	if len(l.Hosts) < 2 {
		return v, fmt.Errorf("%d nodes, want 2 or more", len(l.Hosts))
	}
	r := s.newRoot(l, func(int) daemon.Hooks { return hooks })
	r.plantTree()
	ctx, r.cancel = context.WithCancelCause(ctx)
	defer r.cancel(nil)
	go r.awaitKill(l.Kill)
	if err = r.startDaemons(ctx); err == nil {
		v, err = r.survey.measure(ctx, r.members, thorough)
		if err != nil && ctx.Err() != nil { // a node is lost, or the user does not wait
			err = context.Cause(ctx)
		}
	}
	if err != nil {
		r.giveUp(err)
	}
	return v, errors.Join(err, r.each(context.Background(), len(r.members), nil, (*member).closeRest))
}
