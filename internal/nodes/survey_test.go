package nodes

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/fence"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// roundOf returns how long a round of n daemons takes by the LogP model, played event by event: the front end sends to one
// after another, each answers, and the front end handles an answer when it is there and nothing is left to be sent.
func roundOf(p tree.LogP, n int) time.Duration {
	free := n * p.Overhead // when the front end has sent all
	for i := range n {
		there := (i+1)*p.Overhead + p.Latency + 2*p.Overhead + p.Latency // sent, on its way, handled and answered, on its way back
		free = max(free, there) + p.Overhead
	}
	return time.Duration(free)
}

// What is measured where the model holds gives back the model's L and o: where the wires take longest, and where the front
// end does.
func TestFit(t *testing.T) {
	t.Parallel()
	for _, want := range []tree.LogP{{Latency: 20_000, Overhead: 4_000}, {Latency: 1_000_000, Overhead: 10}, {Latency: 0, Overhead: 9_000}, {Latency: 50, Overhead: 900}} {
		for n := 2; n <= 40; n++ {
			alone := roundOf(want, 1)
			got := fit(alone, alone, roundOf(want, n), n)
			if off := got.Overhead - want.Overhead; off < -1 || off > 1 || got.Latency < want.Latency-2 || got.Latency > want.Latency+2 {
				t.Errorf("%d daemons, L and o %+v: fitted %+v", n, want, got)
			}
		}
	}
	// Times that no model explains give what can be used: o from 1, L from 0.
	for _, times := range [][3]time.Duration{{0, 0, 0}, {100, 900, 100}, {100, 100, 1e9}, {3, 3, 3}} {
		if got := fit(times[0], times[1], times[2], 4); got.Overhead < 1 || got.Latency < 0 {
			t.Errorf("%v: %+v, want o from 1 and L from 0", times, got)
		}
	}
}

// chosen returns the radix that the nodes of a job have been told, and the front end's word about it.
func (j *job) chosen() (radix int, said string) {
	j.t.Helper()
	said = await(j.t, j.log, "collectives between nodes")
	return j.member(0).root.step.share.CollRadix, said
}

// The radix is the user's, or the best by what was stored, or by what the start measures. Fewer than 4 nodes have one tree.
func TestChooseRadix(t *testing.T) {
	t.Parallel()
	stored := func(p tree.LogP, known bool, err error) func() (tree.LogP, bool, error) {
		return func() (tree.LogP, bool, error) { return p, known, err }
	}
	star := tree.LogP{Latency: 1_000_000, Overhead: 1}
	for name, c := range map[string]struct {
		nodes, option int
		tuned         func() (tree.LogP, bool, error)
		radix         int // 0: any
		by            string
	}{
		"option":      {4, 3, stored(star, true, nil), 3, "option"},
		"option of 2": {2, 7, nil, 7, "option"},
		"stored":      {5, 0, stored(star, true, nil), 4, "tune"},
		"few":         {3, 0, stored(star, true, nil), tree.DefaultRadix, "default"},
		"not stored":  {4, 0, stored(tree.LogP{}, false, nil), 0, ""},
		"spoiled":     {4, 0, stored(tree.LogP{}, false, errors.New("spoiled")), 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, c.nodes, LocalAgent(oshrun(t)))
			j.cfg.CollRadix, j.cfg.Tuned = c.option, c.tuned
			j.begin()
			k, said := j.chosen()
			if c.radix != 0 && k != c.radix || k < tree.LeastRadix || k > tree.MostRadix || !strings.Contains(said, fmt.Sprintf(`"radix":%d`, k)) {
				t.Errorf("radix %d, said %s; want %d", k, said, c.radix)
			}
			if c.by != "" && !strings.Contains(said, `"by":"`+c.by+`"`) {
				t.Errorf("said %s, want that %s chose", said, c.by)
			}
			if name == "spoiled" {
				await(t, j.notices, "spoiled")
			}
		})
	}
}

// Daemons that do not answer delay no start, and neither fails it: the time is over, and the radix is the default.
func TestSurveyOfSilentDaemons(t *testing.T) {
	t.Parallel()
	b := newMailboxes(t, 4)
	j := newJob(t, 4, b.agent())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	started := make(chan error, 1)
	go func() { started <- j.start(ctx) }()
	var puppets []*puppet
	for node := range 4 {
		puppets = append(puppets, b.join(node))
	}
	for _, p := range puppets {
		p.await(t, wire.KindProbe)  // to which it says nothing
		p.await(t, wire.KindConfig) // and the start goes on
	}
	said := await(t, j.log, "collectives between nodes")
	if want := fmt.Sprintf(`"radix":%d`, tree.DefaultRadix); !strings.Contains(said, want) || !strings.Contains(said, `"by":"default"`) || !strings.Contains(said, "have not answered within 3ms") {
		t.Errorf("said %s, want %s and why", said, want)
	}
	cancel()
	if err := <-started; err == nil {
		t.Error("the start ends well although it was canceled")
	}
}

// Measure asks real daemons, and leaves none. A context that ends, ends it.
func TestMeasure(t *testing.T) {
	t.Parallel()
	j := newJob(t, 3, LocalAgent(oshrun(t)))
	hooks := daemon.Hooks{Logger: zerolog.Nop(), Notice: func(text string) { t.Error(text) }}
	v, err := Starter{j.cfg}.Measure(t.Context(), j.layout, hooks)
	if err != nil || v.Nodes != 3 || v.Cycles < 1 || v.Cycles > thorough.cycles || v.Typical <= 0 || v.All <= 0 || v.LogP.Overhead < 1 || v.LogP.Latency < 0 {
		t.Errorf("measured %+v, %v", v, err)
	}
	if trip := 2*v.LogP.Latency + 4*v.LogP.Overhead; trip > int(v.Typical)+4 {
		t.Errorf("L and o %+v make a round trip of %d ns, measured was %v", v.LogP, trip, v.Typical)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("not wanted any more")
	cancel(cause)
	if _, err := (Starter{j.cfg}).Measure(ended, j.layout, hooks); !errors.Is(err, cause) {
		t.Errorf("with a context that has ended: %v, want %v", err, cause)
	}
	j.layout.Hosts = j.layout.Hosts[:1]
	if _, err := (Starter{j.cfg}).Measure(t.Context(), j.layout, hooks); err == nil || !strings.Contains(err.Error(), "want 2 or more") {
		t.Errorf("one node: %v", err)
	}
}

// The radix of the share is that of the tree along which a node calls its neighbors to a fence: node 3 of 4 is below node 2
// with radix 2, and below node 0 with radix 3.
func TestRadixOfFences(t *testing.T) {
	t.Parallel()
	for radix, want := range map[int][]int{2: {2}, 3: {0}, 0: {0}} {
		var to []int
		j := junction{logger: zerolog.Nop(), send: func(f wire.Frame) {
			_, inner, err := parseRelay(f)
			if err != nil || inner.Kind != wire.KindFence {
				t.Errorf("frame %+v, %v, want one of a fence", f, err)
			}
			to = append(to, int(f.Stream))
		}}
		share := daemon.Share{Name: "goshmem-x", Hosts: []string{"a", "b", "c", "d"}, Homes: []int{0, 1, 2, 3}, Node: 3, CollRadix: radix}
		w, err := j.openWays(share)
		if err != nil {
			t.Fatal(err)
		}
		var procs []codec.Proc
		for rank := range 4 {
			procs = append(procs, codec.Proc{Nspace: share.Name, Rank: codec.Rank(rank)})
		}
		w.fences.Start(deafServer{})
		w.fences.Fence(server.FencePart{FenceCall: server.FenceCall{ID: server.FenceID{FenceSet: server.FenceSet{Procs: "all"}, Seq: 1}, Procs: procs}})
		slices.Sort(to)
		if to = slices.Compact(to); !slices.Equal(to, want) {
			t.Errorf("radix %d: node 3 sends to nodes %v, want %v", radix, to, want)
		}
	}
}

// deafServer is the server of a node in a fence that does not end.
type deafServer struct{ fence.Server }

func (deafServer) FenceCalled(server.FenceCall) {}
