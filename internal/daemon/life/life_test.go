package life

import (
	_ "embed"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/ending"
)

// The package documentation, whose tables these tests read.
//
//go:embed doc.go
var doc string

// all returns every state in which a PE can be described, reachable or not.
func all() (states []PE) {
	for o := alive; o <= diedBadly; o++ {
		for n := held; n <= reaped; n++ {
			for w := unwatched; w <= blind; w++ {
				for ms := outside; ms <= lost; ms++ {
					for m := UnknownMember; m <= WatchedMember; m++ {
						states = append(states, PE{o, n, w, ms, m, false}, PE{o, n, w, ms, m, true})
					}
				}
			}
		}
	}
	return states
}

// answer is any answer to an input.
type answer struct {
	Outcome
	first, was, released, is bool
}

// input is an input, with the name that the tables give it.
type input struct {
	name  string
	badly bool // for a death: the end is a failure in every state
	gone  bool // for the own process's death: the member is known to be reaped
	do    func(*PE) answer
}

var inputs = []input{
	{name: "joined", do: func(l *PE) answer { return answer{first: l.Join()} }},
	{name: "left", do: func(l *PE) answer { return answer{was: l.Leave()} }},
	{name: "connection lost", do: func(l *PE) answer { return answer{was: l.Lose()} }},
	{name: "member is unknown", do: member(UnknownMember)},
	{name: "member is own", do: member(OwnMember)},
	{name: "member is other", do: member(OtherMember)},
	{name: "member is watched", do: member(WatchedMember)},
	{name: "watched", do: func(l *PE) answer { l.Watch(); return answer{} }},
	{name: "memory freed", do: func(l *PE) answer { return answer{released: l.Free()} }},
	{name: "sight lost", do: func(l *PE) answer { return answer{released: l.LoseSight()} }},
	{name: "ended", do: func(l *PE) answer { l.End(); return answer{} }},
	{name: "reaped", do: func(l *PE) answer { l.Reap(); return answer{} }},
	{name: "died well", do: dies(ending.End{}, false)},
	{name: "died well", gone: true, do: dies(ending.End{Unfinished: true}, true)},
	{name: "died badly", badly: true, do: dies(ending.End{Signal: 9}, false)},
	{name: "died badly", badly: true, gone: true, do: dies(ending.End{Code: 1}, true)},
	{name: "member died", do: memberDies(ending.End{})},
	{name: "member died", do: memberDies(ending.End{Unknown: true, Unfinished: true})},
	{name: "member died", badly: true, do: memberDies(ending.End{Signal: 9})},
	{name: "member sight lost", do: func(l *PE) answer { return answer{Outcome: l.LoseSightOfMember()} }},
	{name: "forsaken", do: func(l *PE) answer { is, o := l.Forsake(); return answer{is: is, Outcome: o} }},
	{name: "concluded", do: func(l *PE) answer { return answer{Outcome: l.Conclude()} }},
}

func member(m Member) func(*PE) answer {
	return func(l *PE) answer { l.SetMember(m); return answer{} }
}

func dies(e ending.End, gone bool) func(*PE) answer {
	return func(l *PE) answer { return answer{Outcome: l.Die(e, gone)} }
}

func memberDies(e ending.End) func(*PE) answer {
	return func(l *PE) answer { return answer{Outcome: l.EndMember(e)} }
}

// part is a part of the state that has a table.
type part struct {
	states []string
	of     func(*PE) int
}

var parts = map[string]part{
	"own":        {[]string{"alive", "well", "badly"}, func(l *PE) int { return int(l.own) }},
	"number":     {[]string{"held", "ended", "reaped"}, func(l *PE) int { return int(l.number) }},
	"watch":      {[]string{"unwatched", "watched", "seen", "blind"}, func(l *PE) int { return int(l.watch) }},
	"membership": {[]string{"outside", "inside", "left", "lost"}, func(l *PE) int { return int(l.membership) }},
	"member":     {[]string{"unknown", "own", "other", "watched"}, func(l *PE) int { return int(l.member) }},
}

// table is a table of the documentation: for each input, the next state for each state.
type table map[string][]string

// tables returns the documentation's tables by the part of the state that they describe.
func tables(t *testing.T) map[string]table {
	t.Helper()
	found := map[string]table{}
	of := "" // the table of the current line
	for line := range strings.Lines(doc) {
		head, entries, ok := strings.Cut(strings.TrimPrefix(line, "//\t"), "|")
		if !ok || !strings.HasPrefix(line, "//\t") {
			of = ""
			continue
		}
		name, fields := strings.TrimSpace(head), strings.Fields(entries)
		switch p, isPart := parts[name]; {
		case of == "" && isPart:
			if !slices.Equal(fields, p.states) {
				t.Fatalf("table %s has columns %q, want %q", name, fields, p.states)
			}
			of, found[name] = name, table{}
		case of != "" && len(fields) != len(parts[of].states):
			t.Fatalf("table %s, row %q: entries %q, want %d", of, name, fields, len(parts[of].states))
		case of != "":
			found[of][name] = fields
		}
	}
	if len(found) != len(parts) {
		t.Fatalf("the documentation has %d tables, want %d", len(found), len(parts))
	}
	return found
}

// In all states, each input changes each part of the state as the documentation's tables say.
func TestTransitions(t *testing.T) {
	documented := tables(t)
	known := map[string]bool{}
	for _, in := range inputs {
		known[in.name] = true
		for _, before := range all() {
			after := before
			in.do(&after)
			for name, p := range parts {
				from := p.of(&before)
				want := "-"
				if row := documented[name][in.name]; row != nil {
					want = row[from]
				}
				if want == "-" {
					want = p.states[from]
				}
				if got := p.states[p.of(&after)]; got != want {
					t.Fatalf("%+v, %s: %s is %s, want %s", before, in.name, name, got, want)
				}
			}
		}
	}
	for name, rows := range documented {
		for row := range rows {
			if !known[row] {
				t.Errorf("table %s has the unknown input %q", name, row)
			}
		}
	}
}

// failure returns whose failure an input reveals, as the documentation has it in words: that of the own process, or
// that of the input's process; "" for none.
func failure(l PE, in input) (of string) {
	inside, unfinished := l.membership == inside, l.membership == inside || l.membership == lost
	if l.failed {
		return ""
	}
	switch in.name {
	case "died well", "died badly":
		waits := inside && l.member != OwnMember && (in.badly && l.member == WatchedMember || !in.badly && !in.gone)
		if l.own == alive && !waits && (in.badly || unfinished) {
			return "own"
		}
	case "member died":
		if l.own == diedBadly {
			return "own"
		}
		if unfinished && (l.own == diedWell || in.badly) {
			return "told"
		}
	case "member sight lost":
		if l.own == diedBadly {
			return "own"
		}
	case "forsaken":
		if l.membership == lost {
			return "told"
		}
	case "concluded":
		if l.own == diedBadly || unfinished {
			return "own"
		}
	}
	return ""
}

// In all states, an input reveals a failure if and only if the documentation says so, and the failure is of the end
// that it names.
func TestFailures(t *testing.T) {
	for _, in := range inputs {
		for _, before := range all() {
			after := before
			a := in.do(&after)
			of := failure(before, in)
			if a.Fails != (of != "") || a.ByOwn != (of == "own") || a.Unfinished != (a.Fails && before.Unfinished()) {
				t.Fatalf("%+v, %s: %+v, want a failure of %q", before, in.name, a, of)
			}
			if after.failed != (before.failed || a.Fails) {
				t.Fatalf("%+v, %s: failed %v", before, in.name, after.failed)
			}
			kills := in.name == "died badly" && before.own == alive && before.membership == inside && before.member != OwnMember
			if a.KillRest != kills {
				t.Fatalf("%+v, %s: kill the rest: %v, want %v", before, in.name, a.KillRest, kills)
			}
			if a.is != (in.name == "forsaken" && before.membership == lost) {
				t.Fatalf("%+v, %s: forsaken is %v", before, in.name, a.is)
			}
			if a.Well != (in.name == "concluded" && !after.failed) {
				t.Fatalf("%+v, %s: ended well is %v", before, in.name, a.Well)
			}
		}
	}
}

// history is what the invariants need to know of the inputs of one PE and of the answers.
type history struct {
	fails, kills, firsts, released int
	open                           bool // joined, and its departure is not answered yet
	watched, died                  bool
}

// node is a state and the inputs that lead to it.
type node struct {
	PE
	history
}

// The invariants hold for all sequences of inputs, of any length. A state and the history that the invariants need make
// a node of a finite graph. A visit to all nodes thus covers all sequences.
func TestInvariants(t *testing.T) {
	start := node{}
	seen := map[node]bool{start: true}
	for todo := []node{start}; len(todo) > 0; {
		n := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, in := range inputs {
			next := n
			next.note(in, in.do(&next.PE))
			if what := next.broken(&n.PE); what != "" {
				t.Fatalf("%+v, %s: %+v: %s", n, in.name, next, what)
			}
			if !seen[next] {
				seen[next] = true
				todo = append(todo, next)
			}
		}
	}
	if states := len(all()); len(seen) < states/2 {
		t.Errorf("%d nodes visited, want half of the %d states or more", len(seen), states)
	}
}

// note adds an input and its answer. Counts stop at 2, which violates every invariant.
func (h *history) note(in input, a answer) {
	count := func(n *int, more bool) {
		if more {
			*n = min(*n+1, 2)
		}
	}
	count(&h.fails, a.Fails)
	count(&h.kills, a.KillRest)
	count(&h.firsts, a.first)
	count(&h.released, a.released)
	switch in.name {
	case "joined":
		h.open = true
	case "left", "connection lost":
		h.open = h.open && !a.was
	case "watched":
		h.watched = true
	case "died well", "died badly":
		h.died = true
	}
}

// broken returns the invariant that does not hold. before is the state before the last input.
func (n *node) broken(before *PE) string {
	l := &n.PE
	switch {
	case n.fails > 1:
		return "a failure is reported twice"
	case l.Failed() != (n.fails == 1):
		return "failed, and it was not reported; or the reverse"
	case n.kills > 1:
		return "the rest is killed twice"
	case n.firsts > 1:
		return "two first joins"
	case n.released > 1 || n.released == 1 != l.Freed():
		return "the process is released twice, or not when it is freed"
	case l.Freed() && !n.watched:
		return "freed, but never watched"
	case n.open != l.Inside():
		return "inside, but its departure was answered; or the reverse"
	case l.Dead() != n.died:
		return "dead, but its death was not reported; or the reverse"
	case before.Failed() && !l.Failed(), before.Dead() && !l.Dead(), before.Ended() && !l.Ended(), before.Reaped() && !l.Reaped(), before.Freed() && !l.Freed(), before.Watched() && !l.Watched():
		return "a final state has changed"
	case l.Reaped() && !l.Ended(), l.Seen() && !l.Freed(), l.GoesOn() && (!l.Inside() || !l.Ended()):
		return "two answers contradict each other"
	case l.Inside() && l.Left(), l.Inside() && !l.Unfinished(), l.Left() && l.Unfinished():
		return "inside and left"
	}
	return ""
}

// A PE whose end is final has ended well or has failed, and exactly one of the two is reported once.
func TestConcluded(t *testing.T) {
	for _, before := range all() {
		after := before
		if o := after.Conclude(); o.Well == after.Failed() || o.Fails && before.Failed() {
			t.Fatalf("%+v: %+v", before, o)
		}
	}
}

// If a shell is killed, the PE fails only when its program is dead, too, whatever happens in between.
func TestKilledShellWaitsForProgram(t *testing.T) {
	bad, good := ending.End{Signal: 9}, ending.End{}
	var l PE
	l.Join()
	l.SetMember(WatchedMember)
	if o := l.Die(bad, false); o != (Outcome{KillRest: true}) {
		t.Fatalf("at the end of the shell: %+v, want the rest killed and no failure", o)
	}
	l.End()
	l.Reap()
	if !l.AwaitsLeave(false) || !l.GoesOn() {
		t.Error("the PE does not wait for its program")
	}
	if o := l.Die(good, true); o != (Outcome{}) {
		t.Errorf("second report of the end: %+v", o)
	}
	if o := l.EndMember(good); o != (Outcome{Fails: true, ByOwn: true, Unfinished: true}) {
		t.Errorf("at the end of the program: %+v, want the failure of the shell", o)
	}
	if l.AwaitsLeave(true) {
		t.Error("a PE that has failed still counts as waiting")
	}
}
