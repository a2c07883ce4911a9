package plan

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// machine returns a topology of sockets, NUMA nodes, cores and threads. The second threads are numbered after all first
// ones, as on real machines.
func machine(sockets, nodes, cores, threads int) (t Topology) {
	all := sockets * nodes * cores
	for c := range all {
		for k := range threads {
			t = append(t, CPU{ID: k*all + c, Package: c / (nodes * cores), Core: c, Node: c / cores, L3: c / 2, Allowed: true})
		}
	}
	return t
}

// only returns t with only the given processors allowed.
func only(t Topology, list string) Topology {
	ids, err := ParseList(list)
	if err != nil {
		panic(err)
	}
	t = slices.Clone(t)
	for i := range t {
		t[i].Allowed = slices.Contains(ids, t[i].ID)
	}
	return t
}

// show formats places as lists, with "-" for none.
func show(places []Place) string {
	var out []string
	for _, p := range places {
		list := FormatList(p.CPUs)
		if p.CPUs == nil {
			list = "-"
		}
		out = append(out, list)
	}
	return strings.Join(out, " ")
}

func TestAssign(t *testing.T) {
	two := machine(1, 1, 2, 1)
	big := machine(2, 1, 4, 2) // 8 cores, 16 threads
	for _, x := range []struct {
		name string
		on   Topology
		r    Request
		want string
	}{
		{"default", two, Request{PEs: 2}, "0 1"},
		{"default, oversubscribed", two, Request{PEs: 3}, "- - -"},
		{"default, alone", big, Request{PEs: 1}, "-"},
		{"default, shares", big, Request{PEs: 4}, "0-1,8-9 2-3,10-11 4-5,12-13 6-7,14-15"},
		{"default, odd", big, Request{PEs: 3}, "0-1,8-9 2-3,10-11 4-7,12-15"},
		{"default, many", big, Request{PEs: 7}, "0,8 1,9 2,10 3,11 4,12 5,13 6-7,14-15"},
		{"default, each its core", big, Request{PEs: 8, Map: MapSlot}, "0,8 1,9 2,10 3,11 4,12 5,13 6,14 7,15"},
		{"default, more nodes than PEs", machine(2, 2, 2, 1), Request{PEs: 2}, "0-3 4-7"},
		{"default, a set", only(big, "1,4-6"), Request{PEs: 2}, "1 4-6"},
		{"by core", big, Request{PEs: 3, Map: MapCore}, "0,8 1,9 2,10"},
		{"by core, oversubscribed", two, Request{PEs: 3, Map: MapCore}, "- - -"},
		{"none", big, Request{PEs: 2, Bind: BindNone, Map: MapCore}, "- -"},
		{"none, oversubscribed", two, Request{PEs: 3, Bind: BindNone}, "- - -"},
		{"core", two, Request{PEs: 2, Bind: BindCore}, "0 1"},
		{"core, by slot", big, Request{PEs: 2, Bind: BindCore, Map: MapSlot}, "0,8 1,9"},
		{"core, overload", two, Request{PEs: 3, Bind: BindCore, Overload: true}, "0 1 0"},
		{"numa", big, Request{PEs: 2, Bind: BindNUMA}, "0-3,8-11 4-7,12-15"},
		{"numa, one PE", big, Request{PEs: 1, Bind: BindNUMA}, "0-3,8-11"},
		{"numa, by core", big, Request{PEs: 5, Bind: BindNUMA, Map: MapCore}, "0-3,8-11 0-3,8-11 0-3,8-11 0-3,8-11 4-7,12-15"},
		{"numa, overload", two, Request{PEs: 3, Bind: BindNUMA, Overload: true}, "0-1 0-1 0-1"},
		{"two nodes a socket", machine(1, 2, 2, 1), Request{PEs: 2, Bind: BindNUMA}, "0-1 2-3"},
		{"a set of one", only(two, "1"), Request{PEs: 1, Bind: BindCore}, "1"},
		{"a set", only(big, "2-5"), Request{PEs: 4, Bind: BindCore}, "2 3 4 5"},
		{"numa, blocks", big, Request{PEs: 4, Bind: BindNUMA}, "0-3,8-11 0-3,8-11 4-7,12-15 4-7,12-15"},
		{"a set, numa", only(big, "3,11,4"), Request{PEs: 2, Bind: BindNUMA}, "3,11 4"},
		{"second threads only", only(big, "8-15"), Request{PEs: 2, Bind: BindCore}, "8 9"},
		{"unknown machine", nil, Request{PEs: 2}, "- -"},
		{"socket", machine(2, 2, 2, 1), Request{PEs: 2, Bind: BindSocket}, "0-3 4-7"},
		{"socket, in turn", big, Request{PEs: 3, Map: MapSocket}, "0-3,8-11 4-7,12-15 0-3,8-11"},
		{"core, by socket", big, Request{PEs: 5, Bind: BindCore, Map: MapSocket}, "0,8 4,12 1,9 5,13 2,10"},
		{"by socket, oversubscribed", two, Request{PEs: 3, Map: MapSocket}, "- - -"},
		{"numa, in turn", machine(1, 2, 2, 1), Request{PEs: 3, Map: MapNUMA}, "0-1 2-3 0-1"},
		{"L3", big, Request{PEs: 2, Bind: BindL3}, "0-1,8-9 4-5,12-13"},
		{"L3, in turn", big, Request{PEs: 3, Map: MapL3}, "0-1,8-9 2-3,10-11 4-5,12-13"},
		{"hwthread", big, Request{PEs: 9, Bind: BindHWThread}, "0 1 2 3 4 5 6 7 8"},
		{"hwthread, more than cores", machine(1, 1, 2, 2), Request{PEs: 4, Bind: BindHWThread}, "0 1 2 3"},
		{"hwthread, overload", machine(1, 1, 1, 2), Request{PEs: 3, Bind: BindHWThread, Overload: true}, "0 1 0"},
		{"by hwthread", big, Request{PEs: 4, Map: MapHWThread}, "0 8 1 9"},
		{"core, by hwthread", big, Request{PEs: 4, Bind: BindCore, Map: MapHWThread}, "0,8 0,8 1,9 1,9"},
		{"hwthread, by socket", big, Request{PEs: 3, Bind: BindHWThread, Map: MapSocket}, "0 4 1"},
		{"by socket, ranked as filled", big, Request{PEs: 5, Bind: BindCore, Map: MapSocket, Rank: BindNone}, "0,8 1,9 2,10 4,12 5,13"},
		{"by socket, ranked by core", big, Request{PEs: 4, Bind: BindCore, Map: MapSocket, Rank: BindCore}, "0,8 1,9 4,12 5,13"},
		{"by core, ranked by socket", big, Request{PEs: 6, Bind: BindCore, Map: MapCore, Rank: BindSocket}, "0,8 4,12 1,9 5,13 2,10 3,11"},
		{"by core, ranked by L3", big, Request{PEs: 5, Bind: BindCore, Map: MapCore, Rank: BindL3}, "0,8 2,10 4,12 1,9 3,11"},
		{"by core overloaded, ranked by core", two, Request{PEs: 4, Bind: BindCore, Map: MapCore, Rank: BindCore, Overload: true}, "0 1 0 1"},
		{"by core overloaded, ranked as filled", two, Request{PEs: 4, Bind: BindCore, Map: MapCore, Rank: BindNone, Overload: true}, "0 0 1 1"},
		{"by thread, ranked by core", machine(1, 1, 2, 2), Request{PEs: 4, Map: MapHWThread, Rank: BindCore}, "0 1 2 3"},
		{"by core, ranked by thread", machine(1, 1, 2, 2), Request{PEs: 4, Bind: BindHWThread, Rank: BindHWThread}, "0 2 1 3"},
		{"shares, ranked by socket", big, Request{PEs: 4, Rank: BindSocket}, "0-1,8-9 4-5,12-13 2-3,10-11 6-7,14-15"},
		{"not bound, ranked by socket", two, Request{PEs: 3, Rank: BindSocket}, "- - -"},
		{"limited", only(two, "1"), Request{PEs: 2, Limited: true}, "1 1"},
		{"limited, none", only(big, "2-5"), Request{PEs: 2, Bind: BindNone, Limited: true}, "2-5 2-5"},
		{"limited, alone", only(big, "2-5"), Request{PEs: 1, Limited: true}, "2-5"},
	} {
		places, err := x.on.Assign(x.r)
		if got := show(places); err != nil || got != x.want {
			t.Errorf("%s: %q, %v, want %q", x.name, got, err, x.want)
		}
	}
}

// A binding that needs more cores than there are is refused.
func TestTooFew(t *testing.T) {
	for _, x := range []struct {
		on    Topology
		bind  Bind
		units int
	}{
		{machine(1, 1, 2, 2), BindCore, 2},
		{machine(1, 1, 2, 1), BindNUMA, 2},
		{only(machine(2, 1, 4, 1), "0"), BindCore, 1},
		{nil, BindCore, 0},
		{machine(1, 1, 1, 2), BindHWThread, 2},
		{machine(2, 1, 1, 2), BindSocket, 2},
	} {
		_, err := x.on.Assign(Request{PEs: 3, Bind: x.bind})
		var few *TooFewError
		if !errors.As(err, &few) || few.Units != x.units || few.PEs != 3 || !strings.Contains(err.Error(), "--bind-to "+x.bind.String()) {
			t.Errorf("%s on %d cores: %v", x.bind, x.units, err)
		}
	}
	if _, err := Topology(nil).Assign(Request{PEs: 1, Bind: BindCore, Overload: true}); err == nil {
		t.Error("bound to a core on a machine without known cores")
	}
}

// Threads are divided among the PEs that share a place.
func TestProcs(t *testing.T) {
	big := machine(2, 1, 4, 2)
	for _, x := range []struct {
		on   Topology
		r    Request
		want int
	}{
		{big, Request{PEs: 1}, 16},
		{big, Request{PEs: 4}, 4},
		{big, Request{PEs: 4, Bind: BindNUMA}, 4},
		{big, Request{PEs: 4, Bind: BindCore}, 2},
		{big, Request{PEs: 4, Bind: BindNone}, 4},
		{big, Request{PEs: 40}, 1},
		{big, Request{PEs: 16, Bind: BindCore, Overload: true}, 1},
	} {
		places, err := x.on.Assign(x.r)
		if err != nil || places[0].Procs(len(x.on.Allowed())) != x.want {
			t.Errorf("%+v: %+v, %v, want %d threads", x.r, places, err, x.want)
		}
	}
}

func TestUnion(t *testing.T) {
	two := machine(1, 1, 2, 1)
	for want, r := range map[int]Request{1: {PEs: 1, Map: MapCore}, 2: {PEs: 5, Bind: BindCore, Overload: true}, 7: {PEs: 5}} {
		places, err := two.Assign(r)
		if got := Union(places, 7); err != nil || got != want {
			t.Errorf("%+v: %d processors, %v, want %d", r, got, err, want)
		}
	}
}

// On any machine, a PE is bound to allowed processors, all of one core or node, and no core has two PEs while another
// has none.
func TestAssignProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(name string, most int) int { return rapid.IntRange(1, most).Draw(t, name) }
		m := machine(n("sockets", 3), n("nodes", 3), n("cores", 5), n("threads", 2))
		for i := range m {
			m[i].Allowed = rapid.Bool().Draw(t, "allowed")
		}
		r := Request{PEs: n("pes", 40), Bind: Bind(n("bind", 7) - 1), Map: Map(n("map", 7) - 1), Rank: Bind(n("rank", 7) - 1), Overload: true}
		places, err := m.Assign(r)
		if err != nil {
			if m.Cores() > 0 {
				t.Fatal(err)
			}
			return
		}
		uses := map[string]int{}
		for _, p := range places {
			uses[show([]Place{p})]++
			for _, id := range p.CPUs {
				if !slices.Contains(m.Allowed(), id) {
					t.Fatalf("processor %d is not allowed", id)
				}
			}
			if p.Sharers < 1 || p.CPUs != nil && len(p.CPUs) == 0 {
				t.Fatalf("place %+v has no sharers or an empty list", p)
			}
		}
		if r.Bind == BindDefault && r.Map <= MapSlot && r.PEs <= m.Cores() {
			for place, k := range uses {
				if k > 1 {
					t.Fatalf("%d PEs on %s, want one", k, place)
				}
			}
			if bindOf[r.Map] == BindDefault && Union(places, len(m.Allowed())) != len(m.Allowed()) {
				t.Fatalf("PEs do not use all of %v: %s", m.Allowed(), show(places))
			}
		}
		if r.Bind == BindHWThread && r.Map == MapHWThread {
			for place, k := range uses {
				if most := (r.PEs + len(m.Allowed()) - 1) / len(m.Allowed()); k > most {
					t.Fatalf("%d PEs on %s, want at most %d", k, place, most)
				}
			}
		}
		if r.Bind == BindCore && r.Map <= MapSlot {
			for place, k := range uses {
				if most := (r.PEs + m.Cores() - 1) / m.Cores(); k > most {
					t.Fatalf("%d PEs on %s, want at most %d", k, place, most)
				}
			}
		}
	})
}

func TestReport(t *testing.T) {
	big := only(machine(2, 1, 2, 2), "0-2,4-7")
	places, err := big.Assign(Request{PEs: 2, Bind: BindNUMA})
	if err != nil {
		t.Fatal(err)
	}
	for pe, want := range []string{"PE 0 bound to numa 0: [BB/BB][../~.]", "PE 1 bound to numa 1: [../..][BB/~B]"} {
		if got := big.Report(pe, &places[pe]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := machine(1, 1, 2, 1).Report(3, &Place{}); got != "PE 3 is not bound: [./.]" {
		t.Errorf("%q", got)
	}
}

func TestParse(t *testing.T) {
	for s, want := range map[string]string{
		"none": "none false", "core": "core false", "numa": "numa false", "core:overload-allowed": "core true", "numa:overload-allowed": "numa true",
		"socket": "socket false", "package": "socket false", "hwthread": "hwthread false", "l3cache": "l3cache false", "machine": "none false",
		"core:if-supported": "core false", "core:if-supported:overload-allowed": "core true",
		"": "", "default": "", "cores": "", "core:": "", "none:overload-allowed": "", "l2cache": "", "core:2": "", "slot": "", "node": "", ":overload-allowed": "",
	} {
		b, over, err := ParseBind(s)
		if got := fmt.Sprint(b, over); err == nil && got != want || (err != nil) != (want == "") {
			t.Errorf("ParseBind(%q) = %s, %v, want %q", s, got, err, want)
		}
	}
	for s, want := range map[string]Map{"core": MapCore, "slot": MapSlot, "numa": MapNUMA, "socket": MapSocket, "package": MapSocket, "hwthread": MapHWThread, "l3cache": MapL3, "node": MapSlot, "": 0, "default": 0, "none": 0, "machine": 0} {
		if m, err := ParseMap(s); m != want || (err != nil) != (want == 0) {
			t.Errorf("ParseMap(%q) = %v, %v, want %v", s, m, err, want)
		}
	}
}

func TestParseList(t *testing.T) {
	for s, want := range map[string]string{"0-1\n": "0-1", "3,1-2,7": "1-3,7", "": "", "5": "5", "1,1": "1", "0,2,4": "0,2,4"} {
		ids, err := ParseList(s)
		if got := FormatList(ids); err != nil || got != want {
			t.Errorf("ParseList(%q) = %q, %v, want %q", s, got, err, want)
		}
	}
	for _, s := range []string{"x", "1-", "-1", "2-1", "99999999999", "0-99999999", "1--2"} {
		if ids, err := ParseList(s); err == nil {
			t.Errorf("ParseList(%q) = %v, want an error", s, ids)
		}
	}
}

func TestLimit(t *testing.T) {
	big := machine(2, 1, 2, 2)
	limited, err := big.Limit([]int{1, 2, 5})
	if err != nil || FormatList(limited.Allowed()) != "1-2,5" || len(big.Allowed()) != 8 {
		t.Errorf("allowed %v, %v, want 1-2,5", limited.Allowed(), err)
	}
	if _, err := limited.Limit([]int{1, 3}); err == nil || !strings.Contains(err.Error(), "processor 3") || !strings.Contains(err.Error(), "1-2,5") {
		t.Errorf("limit to a processor that is not allowed: %v", err)
	}
}
