package client

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/pmix/codec"
)

// link is a handler to insert: its name, the number of its codes, its order.
type link struct {
	name   string
	codes  int
	order  Order
	beside string
}

func (l link) registration(id int) *registration {
	r := &registration{id: HandlerID(id), opts: HandlerOptions{Name: l.name, Order: l.order, Beside: l.beside}}
	for i := range l.codes {
		r.codes = append(r.codes, codec.Status(-1-i))
	}
	return r
}

func chainNames(c *chain) string {
	var out []string
	for _, r := range c.all() {
		out = append(out, r.opts.Name)
	}
	return strings.Join(out, " ")
}

func TestOrderOfHandlers(t *testing.T) {
	for name, tt := range map[string]struct {
		links []link
		want  string // an error if it begins with "error"
	}{
		"categories": {[]link{
			{"default", 0, 0, ""}, {"multi", 2, 0, ""}, {"last", 1, OrderLast, ""}, {"single", 1, 0, ""}, {"first", 2, OrderFirst, ""},
		}, "first single multi default last"},
		"the latest first":     {[]link{{"a", 1, 0, ""}, {"b", 1, 0, ""}, {"c", 1, 0, ""}}, "c b a"},
		"prepend and append":   {[]link{{"a", 1, 0, ""}, {"b", 1, OrderAppend, ""}, {"c", 1, OrderPrepend, ""}, {"d", 1, OrderAppend, ""}}, "c a b d"},
		"first of category":    {[]link{{"a", 1, OrderFirstInCategory, ""}, {"b", 1, 0, ""}, {"c", 1, OrderPrepend, ""}, {"d", 2, OrderFirstInCategory, ""}}, "a c b d"},
		"last of category":     {[]link{{"a", 1, OrderLastInCategory, ""}, {"b", 1, OrderAppend, ""}, {"c", 1, OrderAppend, ""}, {"d", 0, OrderLastInCategory, ""}}, "b c a d"},
		"before and after":     {[]link{{"a", 1, 0, ""}, {"b", 1, OrderAppend, ""}, {"c", 1, OrderAfter, "a"}, {"d", 1, OrderBefore, "a"}, {"e", 1, OrderBefore, "b"}}, "d a c e b"},
		"after the first":      {[]link{{"f", 1, OrderFirst, ""}, {"a", 1, 0, ""}, {"b", 1, OrderAfter, "f"}}, "f b a"},
		"before the last":      {[]link{{"l", 0, OrderLast, ""}, {"a", 1, 0, ""}, {"b", 1, OrderBefore, "l"}}, "a b l"},
		"alone with its order": {[]link{{"a", 1, OrderLastInCategory, ""}, {"b", 1, 0, ""}, {"c", 1, OrderFirstInCategory, ""}}, "c b a"},
		"one and the same":     {[]link{{"a", 1, OrderFirstInCategory, ""}, {"b", 1, OrderLastInCategory, ""}, {"c", 1, OrderAfter, "a"}, {"d", 1, OrderBefore, "b"}}, "a c d b"},

		"two firsts":          {[]link{{"a", 1, OrderFirst, ""}, {"b", 1, OrderFirst, ""}}, `error place first of all is occupied by handler "a"`},
		"two lasts":           {[]link{{"a", 1, OrderLast, ""}, {"b", 2, OrderLast, ""}}, `error place last of all is occupied by handler "a"`},
		"two firsts of one":   {[]link{{"a", 1, OrderFirstInCategory, ""}, {"b", 1, OrderFirstInCategory, ""}}, `error place first in category is occupied by handler "a"`},
		"two lasts of one":    {[]link{{"a", 0, OrderLastInCategory, ""}, {"b", 0, OrderLastInCategory, ""}}, `error place last in category is occupied by handler "a"`},
		"before the first":    {[]link{{"f", 1, OrderFirst, ""}, {"b", 1, OrderBefore, "f"}}, `error no handler "f" in the category, want the name of a handler with as many codes`},
		"after the last":      {[]link{{"l", 1, OrderLast, ""}, {"b", 1, OrderAfter, "l"}}, `error no handler "l" in the category, want the name of a handler with as many codes`},
		"nobody":              {[]link{{"a", 1, 0, ""}, {"b", 1, OrderBefore, ""}}, `error no handler "" in the category, want the name of a handler with as many codes`},
		"of another category": {[]link{{"a", 2, 0, ""}, {"b", 1, OrderBefore, "a"}}, `error no handler "a" in the category, want the name of a handler with as many codes`},
		"before its first": {
			[]link{{"a", 1, OrderFirstInCategory, ""}, {"b", 1, OrderBefore, "a"}},
			`error handler "a" is the first or last of its category and stays so, want a place on its other side`,
		},
		"after its last": {
			[]link{{"a", 1, OrderLastInCategory, ""}, {"b", 1, OrderAfter, "a"}},
			`error handler "a" is the first or last of its category and stays so, want a place on its other side`,
		},
		"no order": {[]link{{"a", 1, 99, ""}}, "error order 99, want 0 (none) to 8 (after)"},
	} {
		t.Run(name, func(t *testing.T) {
			var c chain
			got := ""
			for i, l := range tt.links {
				if err := c.insert(l.registration(i)); err != nil {
					got = "error " + err.Error()
				}
			}
			if got == "" {
				got = chainNames(&c)
			}
			if got != tt.want {
				t.Errorf("order %s, want %s", got, tt.want)
			}
		})
	}
}

// After any sequence of insertions and removals, handlers with a place of their own keep it, and no handler is lost.
func TestOrderInvariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var c chain
		in := map[HandlerID]link{}
		for i := range rapid.IntRange(0, 40).Draw(rt, "steps") {
			if len(in) > 0 && rapid.IntRange(0, 3).Draw(rt, "remove") == 0 {
				ids := c.all()
				id := ids[rapid.IntRange(0, len(ids)-1).Draw(rt, "which")].id
				if c.remove(id) == nil || c.remove(id) != nil {
					rt.Fatalf("want handler %d removed exactly once", id)
				}
				delete(in, id)
				continue
			}
			l := link{
				name: fmt.Sprint(i), codes: rapid.IntRange(0, 2).Draw(rt, "codes"),
				order:  Order(rapid.IntRange(0, int(OrderAfter)).Draw(rt, "order")),
				beside: fmt.Sprint(rapid.IntRange(0, 40).Draw(rt, "beside")),
			}
			if c.insert(l.registration(i)) == nil {
				in[HandlerID(i)] = l
			}
			all := c.all()
			if len(all) != len(in) {
				rt.Fatalf("%d handlers, want %d", len(all), len(in))
			}
			checkPlaces(rt, all)
		}
	})
}

func checkPlaces(rt *rapid.T, all []*registration) {
	rank := func(r *registration) int { // rank of its category
		switch r.opts.Order {
		case OrderFirst:
			return 0
		case OrderLast:
			return 4
		default:
			return []int{3, 1, 2}[len(r.codes)]
		}
	}
	if !slices.IsSortedFunc(all, func(a, b *registration) int { return rank(a) - rank(b) }) {
		rt.Fatal("handlers are not sorted by category")
	}
	for i, r := range all {
		if r.opts.Order == OrderFirstInCategory && i > 0 && rank(all[i-1]) == rank(r) {
			rt.Fatalf("handler %s is not the first of its category", r.opts.Name)
		}
		if r.opts.Order == OrderLastInCategory && i+1 < len(all) && rank(all[i+1]) == rank(r) {
			rt.Fatalf("handler %s is not the last of its category", r.opts.Name)
		}
	}
}

func TestWhoWantsWhat(t *testing.T) {
	p := func(r codec.Rank) codec.Proc { return codec.Proc{Nspace: "job-1", Rank: r} }
	for name, tt := range map[string]struct {
		codes []codec.Status
		opts  HandlerOptions
		ev    codec.Event
		want  bool
	}{
		"code":               {[]codec.Status{-5}, HandlerOptions{}, codec.Event{Status: -5, NonDefault: true}, true},
		"other code":         {[]codec.Status{-5, -6}, HandlerOptions{}, codec.Event{Status: -7}, false},
		"default":            {nil, HandlerOptions{}, codec.Event{Status: -7}, true},
		"reserved":           {nil, HandlerOptions{}, codec.Event{Status: -7, NonDefault: true}, false},
		"first, reserved":    {nil, HandlerOptions{Order: OrderFirst}, codec.Event{Status: -7, NonDefault: true}, false},
		"affected":           {nil, HandlerOptions{Affected: []codec.Proc{p(1), p(2)}}, codec.Event{Affected: []codec.Proc{p(2)}}, true},
		"affected, all":      {nil, HandlerOptions{Affected: []codec.Proc{p(codec.RankWildcard)}}, codec.Event{Affected: []codec.Proc{p(2)}}, true},
		"not affected":       {nil, HandlerOptions{Affected: []codec.Proc{p(1)}}, codec.Event{Affected: []codec.Proc{p(2), p(3)}}, false},
		"nobody affected":    {nil, HandlerOptions{Affected: []codec.Proc{p(1)}}, codec.Event{}, true},
		"from a source":      {nil, HandlerOptions{Sources: []codec.Proc{p(1)}}, codec.Event{Source: p(1)}, true},
		"from another":       {nil, HandlerOptions{Sources: []codec.Proc{p(1)}}, codec.Event{Source: p(2)}, false},
		"from the namespace": {nil, HandlerOptions{Sources: []codec.Proc{p(codec.RankWildcard)}}, codec.Event{Source: p(2)}, true},
	} {
		r := &registration{codes: tt.codes, opts: tt.opts}
		if got := r.wants(&Event{Event: tt.ev}); got != tt.want {
			t.Errorf("%s: wants it: %v, want %v", name, got, tt.want)
		}
	}
}
