package coll_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll"
)

// identity numbers members by their index.
func identity(i int) int { return i }

// All members learn alike which member calls what, and the team goes on.
func TestCompare(t *testing.T) {
	long := strings.Repeat("long ", 100)
	for _, c := range []struct {
		name  string
		calls [5]coll.Call
		want  string // empty: no difference
	}{
		{"the same", [5]coll.Call{{Text: "a"}, {Text: "a"}, {Text: "a"}, {Text: "a"}, {Text: "a"}}, ""},
		{"one", [5]coll.Call{{Text: "a"}, {Text: "a"}, {Text: "b"}, {Text: "a"}, {Text: "a"}}, "a on PE 0, 1, 3, 4, but b on PE 2"},
		{"the first", [5]coll.Call{{Text: "b"}, {Text: "a"}, {Text: "a"}, {Text: "a"}, {Text: "a"}}, "a on PE 1-4, but b on PE 0"},
		{"as many", [5]coll.Call{{Text: "b"}, {Text: "a"}, {Text: "b"}, {Text: "a"}, {Text: "c"}}, "b on PE 0, 2, but a on PE 1, 3, c on PE 4"},
		{"all", [5]coll.Call{{Text: "a"}, {Text: "b"}, {Text: "c"}, {Text: "d"}, {Text: "e"}}, "a on PE 0, but b on PE 1, c on PE 2, d on PE 3, other calls on PE 4"},
		{
			"objects",
			[5]coll.Call{{Text: "a"}, {Text: "a"}, {Text: "a", Objects: [2]uint64{64, 128}}, {Text: "a"}, {Text: "b"}},
			"a (from offset 0 to offset 0) on PE 0, 1, 3, but a (from offset 128 to offset 64) on PE 2, b on PE 4",
		},
		{"refused", [5]coll.Call{{Text: "a"}, {Text: "a"}, {Text: "a"}, {Text: "a"}, {Text: "a", Refused: true}}, "a on PE 0-3, but a on PE 4"},
		{"long", [5]coll.Call{{Text: long}, {Text: long}, {Text: long}, {Text: long}, {Text: long}}, ""},
		{
			"far behind",
			[5]coll.Call{{Text: long}, {Text: long + "x"}, {Text: long}, {Text: long}, {Text: long}},
			long[:205] + "... on PE 0, 2-4, but " + long[:205] + "... on PE 1",
		},
		{"half a letter", [5]coll.Call{{Text: long[:204] + "é" + long}, {Text: "a"}, {Text: "a"}, {Text: "a"}, {Text: "a"}}, "a on PE 1-4, but " + long[:204] + "... on PE 0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nd := newNode(t, 5)
			nd.each(t, 5, []int{0, 1, 2, 3, 4}, func(me int, tm *coll.Team) error {
				for round := range 200 {
					all, err := tm.Compare(t.Context(), c.calls[me])
					if err != nil {
						return err
					}
					if all == nil != (c.want == "") {
						return fmt.Errorf("round %d: Compare returned %v, want the difference %q", round, all, c.want)
					}
					if all != nil {
						if have := coll.NameCallers(all, "PE", identity); have != c.want {
							return fmt.Errorf("round %d: got %q, want %q", round, have, c.want)
						}
					}
				}
				return tm.Sync(t.Context())
			})
		})
	}
}

// A member in a collective without comparison is noticed, whatever its slot contains. The members
// of that collective do not take a record of the comparison for their data.
func TestCompareWithAnother(t *testing.T) {
	nd := newNode(t, 3)
	nd.each(t, 5, []int{0, 1, 2}, func(me int, tm *coll.Team) error {
		for round := range 100 {
			if all, err := tm.Compare(t.Context(), coll.Call{Text: "a"}); all != nil || err != nil {
				return fmt.Errorf("round %d: Compare returned %v, %w, want no difference", round, all, err)
			}
			if me == 1 {
				var err error
				if round%2 == 0 {
					err = tm.Sync(t.Context())
				} else {
					differs, _, _, e := tm.Same(t.Context(), coll.Words{1, 2, 3, 4})
					if err = e; differs != 1 {
						return fmt.Errorf("round %d: Same returned %d, want 1", round, differs)
					}
				}
				if err != nil {
					return err
				}
				continue
			}
			all, err := tm.Compare(t.Context(), coll.Call{Text: "a"})
			if err != nil {
				return err
			}
			if have, want := coll.NameCallers(all, "rank", identity), "a on rank 0, 2, but a call that is not compared on rank 1"; have != want {
				return fmt.Errorf("round %d: got %q, want %q", round, have, want)
			}
		}
		return tm.Sync(t.Context())
	})
}

func makeNothing() func() { return func() {} }

type maker struct{}

func (maker) make() {}

func generic[T any]() {}

// callLiteral is inlined by its callers, which changes the name of its function literal.
func callLiteral() string { return coll.NameFunction(coll.CodeOf(func() {})) }

func viaOne() string { return callLiteral() }
func viaTwo() string { return callLiteral() }

func literalIn[T any]() func() { return func() { _ = *new(T) } }

func handOn[T any]() string { return coll.NameFunction(coll.CodeOf(generic[T])) }

// A function has the same name, wherever it is called from.
func TestNameFunction(t *testing.T) {
	for _, c := range []struct{ have, want string }{
		{coll.NameFunction(coll.CodeOf(identity)), "coll_test.identity"},
		{coll.NameFunction(coll.CodeOf(generic[int])), "coll_test.generic[...]"},
		{coll.NameFunction(coll.CodeOf(maker{}.make)), "coll_test.maker.make-fm"},
		{coll.NameFunction(coll.CodeOf(literalIn[int]())), "a function of generic code"},
		{handOn[int](), "a function of generic code"},
		{coll.NameFunction(1), "an unknown function"},
		{coll.NameElements[float64](3), "3 elements of float64"},
		{coll.NameElements[[2]maker](-1), "elements of [2]coll_test.maker"},
	} {
		if c.have != c.want {
			t.Errorf("got %q, want %q", c.have, c.want)
		}
	}
	one, two, other := viaOne(), viaTwo(), coll.NameFunction(coll.CodeOf(makeNothing()))
	if one != two || one != callLiteral() || one == other || !strings.HasPrefix(one, "the function at compare_test.go:") {
		t.Errorf("one literal is named %q and %q, another one %q, want equal names and a different one", one, two, other)
	}
	if reflect.ValueOf(identity).Pointer() != coll.CodeOf(identity) {
		t.Error("CodeOf differs from the code pointer of package reflect")
	}
}
