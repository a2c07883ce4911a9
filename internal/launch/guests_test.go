package launch

import (
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/symheap/layout"
)

// Jobs get indices behind those of the first job and of each other, on nodes that have an agent, and as long as there are some.
func TestSeats(t *testing.T) {
	var g guests
	first := []int{0, 0, 1} // nodes of its PEs; node 2 has none
	seat := func(homes []int) []int {
		bases := g.bases(homes, first, 3)
		g.add(homes, bases, 1)
		return bases
	}
	for _, x := range []struct{ homes, want []int }{
		{[]int{0, 1, 0}, []int{3, 2, -1}},
		{[]int{1, 2}, []int{-1, 3, -1}},
		{[]int{0}, []int{5, -1, -1}},
		{slices.Repeat([]int{0}, layout.MaxLocal-6), []int{6, -1, -1}},
		{[]int{0, 1}, []int{-1, 4, -1}},
	} {
		if got := seat(x.homes); !slices.Equal(got, x.want) {
			t.Errorf("%d PEs: bases %v, want %v", len(x.homes), got, x.want)
		}
	}
	if got, want := g.room(first, 4), []int{0, layout.MaxLocal - 5, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("room %v, want %v", got, want)
	}
	last := slices.Repeat([]int{0}, layout.MaxLocal-6)
	g.add(last, []int{6, -1, -1}, -1)
	if got := seat(last); got[0] != 6 {
		t.Errorf("after indices were given back: bases %v, want them again", got)
	}
	if got := g.bases([]int{3}, first, 4); !slices.Equal(got, []int{-1, -1, -1, -1}) {
		t.Errorf("on a node that was added: bases %v, want none", got)
	}
	var none guests
	if got := none.bases([]int{0, 0}, nil, 1); !slices.Equal(got, []int{-1}) {
		t.Errorf("a first job without homes: bases %v, want none", got)
	}
	if got := none.room(nil, 2); !slices.Equal(got, []int{noLimit, 0}) {
		t.Errorf("a first job without homes: room %v, want any number on the first node alone", got)
	}
}

// childOf returns a program of n PEs that mpi.Spawn starts, with the parents that it has.
func childOf(parents string, n int, hosts string) daemon.SpawnApp {
	a := programs(n)[0]
	a.Env, a.Placing.Hosts = []string{"A=1", envvar.Parents + "=1 2 0 " + parents}, hosts
	return a
}

// Processes that mpi.Spawn starts go to nodes whose agents have room, unless their own program says where.
func TestPlaceChildren(t *testing.T) {
	hosts := []plan.Host{{Name: "a", Slots: 2}, {Name: "b", Slots: 2}, {Name: "c", Slots: 9}}
	child := func(n int, on string) daemon.SpawnApp { return childOf("0:0-0", n, on) }
	for i, x := range []struct {
		apps []daemon.SpawnApp
		used []int
		room []int
		want []int // nil: an error
	}{
		{[]daemon.SpawnApp{child(3, "")}, []int{1, 1, 0}, []int{9, 9, 0}, []int{0, 0, 1}},
		{[]daemon.SpawnApp{child(3, "")}, []int{1, 1, 0}, []int{0, 9, 0}, []int{1, 1, 1}},
		{[]daemon.SpawnApp{child(3, "")}, []int{2, 2, 0}, []int{1, 2, 0}, []int{0, 1, 1}},
		{[]daemon.SpawnApp{child(3, "")}, []int{-1, 2, 0}, []int{9, 4, 0}, []int{1, 1, 1}},
		{[]daemon.SpawnApp{child(3, "")}, []int{1, 1, 0}, []int{1, 1, 0}, nil},
		{[]daemon.SpawnApp{child(2, ""), child(1, "c"), child(1, "")}, []int{1, 1, 0}, []int{9, 9, 0}, []int{0, 1, 2, 0}},
		{[]daemon.SpawnApp{child(1, "a"), child(2, "")}, []int{0, 0, 0}, []int{2, 9, 0}, []int{0, 0, 1}},
		{programs(4), []int{2, 2, 0}, []int{9, 9, 0}, []int{0, 1, 2, 2}},
		{[]daemon.SpawnApp{child(3, "")}, []int{5, 1, 0}, []int{noLimit, 0, 0}, []int{0, 0, 0}},
	} {
		got, err := placeApps(x.apps, hosts, x.used, x.room, 8)
		if x.apps[0].Env == nil {
			slices.Sort(got)
			if err != nil || got[len(got)-1] != 2 {
				t.Errorf("request %d, which needs no agent: on %v, %v, want some on the last node", i, got, err)
			}
			continue
		}
		if !slices.Equal(got, x.want) || (err == nil) != (x.want != nil) {
			t.Errorf("request %d: on %v, %v, want %v", i, got, err, x.want)
		}
	}
}

// A job that mpi.Spawn starts is refused before it begins if messages between it and its parents need an agent that does not serve it.
func TestUnreached(t *testing.T) {
	homesOf := func(job int) []int { return map[int][]int{0: {0, 0, 1}, 2: {1, 1}}[job] }
	for _, x := range []struct {
		parents string
		homes   []int
		bases   []int
		is      bool
	}{
		{"0:0-1", []int{0, 0}, []int{-1, -1}, false},
		{"0:0-2", []int{0, 0}, []int{-1, -1}, true},
		{"0:0-2", []int{0, 0}, []int{4, -1}, false},
		{"0:0-1", []int{0, 1}, []int{4, -1}, true},
		{"0:0-0 2:0-1", []int{0}, []int{-1, -1}, true},
		{"2:0-1", []int{1}, []int{-1, -1}, false},
		{"2:0-9 nonsense 7:5-1", []int{1}, []int{-1, -1}, false},
	} {
		parents := parentNodes([]daemon.SpawnApp{childOf(x.parents, len(x.homes), "")}, homesOf)
		if _, is := isUnreached(x.homes, x.bases, parents); is != x.is {
			t.Errorf("parents %s on %v, children on %v, bases %v: %t, want %t", x.parents, parents, x.homes, x.bases, is, x.is)
		}
	}
	if _, is := isUnreached([]int{0, 1}, []int{-1, -1}, parentNodes(programs(2), homesOf)); is {
		t.Error("a job that needs no agent is refused")
	}
}

// At the limit of an agent, children go to the other node, then beside their parents, and then they are refused.
func TestSpawnAtLimit(t *testing.T) {
	s := newSpawning(t)
	s.further.guests = guests{layout.MaxLocal - 2, layout.MaxLocal - 4} // no room, and room for two
	ask := func(id uint64, parents, hosts string) {
		s.further.take(daemon.SpawnRequest{ID: id, Apps: []daemon.SpawnApp{childOf(parents, 2, hosts)}})
	}
	ask(1, "0:0-1", "")
	s.handle(daemon.Spawned)
	if a := s.answer(); a.Number != 1 || !slices.Contains(s.a.noted(), "add 1, homes [1 1]") {
		t.Errorf("answer %+v, calls %q, want job 1 on the second node", a, s.a.noted())
	}
	ask(2, "0:0-0", "")
	s.handle(daemon.Spawned)
	if a := s.answer(); a.Number != 2 || !slices.Contains(s.a.noted(), "add 2, homes [0 0]") {
		t.Errorf("answer %+v, calls %q, want job 2 beside its parent", a, s.a.noted())
	}
	ask(3, "0:0-1", "a")
	if a := s.answer(); !strings.Contains(a.Failed, "the agent of a has no room for 2 more PEs") {
		t.Errorf("answer %+v, want that there is no room on a", a)
	}
	ask(4, "0:0-1", "")
	if a := s.answer(); !strings.HasPrefix(a.Failed, "the agents have room for 0 more PEs of spawned jobs, want room for 2: ") {
		t.Errorf("answer %+v, want that no agent has room", a)
	}
}
