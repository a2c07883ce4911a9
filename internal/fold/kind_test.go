package fold_test

import (
	"sync"
	"testing"

	"github.com/goshmem/goshmem/internal/fold"
)

// sum is a predefined operator.
func sum[T fold.Number](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindSum)
		return
	}
	fold.Sum(acc, in)
}

// largest is another one.
func largest[T fold.Ordered](acc, in []T) {
	if len(acc) == 0 {
		fold.Answer(recover(), fold.KindMax)
		return
	}
	fold.Max(acc, in)
}

// declared declares f commutative.
func declared[T any](f func(acc, in []T)) func(acc, in []T) {
	return func(acc, in []T) {
		if len(acc) == 0 {
			fold.Declare(recover(), f, acc, in)
			return
		}
		f(acc, in)
	}
}

type (
	ownInt     int32
	countingOp struct{ calls int }
)

func (o *countingOp) fold(acc, in []int) {
	o.calls++
	sum(acc, in)
}

// held keeps an operator of generic code in a struct.
type held[T fold.Number] struct{ op func(acc, in []T) }

func newHeld[T fold.Number]() held[T] { return held[T]{op: sum[T]} }

// kindsInGeneric returns the kinds that generic code gets.
func kindsInGeneric[T fold.Ordered]() [4]fold.Kind {
	return [4]fold.Kind{
		fold.KindOf(sum[T]), fold.KindOf(largest[T]), fold.KindOf(declared(sum[T])),
		fold.KindOf(func(acc, in []T) { sum(acc, in) }),
	}
}

// A predefined operator is recognized wherever its function value was made.
func TestKindOfPredefined(t *testing.T) {
	variable := sum[int]
	for name, kind := range map[string]fold.Kind{
		"by name": fold.KindOf(sum[int64]), "of a declared type": fold.KindOf(sum[ownInt]),
		"of a variable": fold.KindOf(variable), "of a struct": fold.KindOf(newHeld[float32]().op),
		"declared": fold.KindOf(declared(sum[int])), "declared twice": fold.KindOf(declared(declared(sum[int]))),
		"complex": fold.KindOf(sum[complex128]),
	} {
		if kind != fold.KindSum {
			t.Errorf("%s: got %v, want %v", name, kind, fold.KindSum)
		}
	}
	want := [4]fold.Kind{fold.KindSum, fold.KindMax, fold.KindSum, fold.KindUser}
	if i, f, s := kindsInGeneric[int](), kindsInGeneric[float64](), kindsInGeneric[ownInt](); i != want || f != want || s != want {
		t.Errorf("in generic code: got %v, %v and %v, want %v", i, f, s, want)
	}
}

// A function of the program is a user operator, whatever it does with a predefined operator, and
// whatever it does with empty slices.
func TestKindOfUser(t *testing.T) {
	variable, o := sum[int], &countingOp{}
	var mu sync.Mutex
	for name, op := range map[string]func(acc, in []int){
		"calls one":          func(acc, in []int) { sum(acc, in) },
		"calls a variable":   func(acc, in []int) { variable(acc, in) },
		"calls and goes on":  func(acc, in []int) { sum(acc, in); _ = append(acc, 1) },
		"defers one":         func(acc, in []int) { defer sum(acc, in) },
		"panics and defers":  func(acc, in []int) { defer sum(acc, in); acc[0] = 1 },
		"a method":           o.fold,
		"a declared one":     func(acc, in []int) { declared(sum[int])(acc, in) },
		"takes an element":   func(acc, in []int) { acc[0] += in[0] },
		"takes the last":     func(acc, in []int) { acc[len(acc)-1] = in[len(in)-1] },
		"panics":             func(_, _ []int) { panic("of an operator") },
		"panics with a lock": func(acc, _ []int) { mu.Lock(); defer mu.Unlock(); acc[0]++ },
		"recovers":           func(acc, in []int) { defer func() { _ = recover() }(); acc[0] += in[0] },
		"recovers nothing":   func(_, _ []int) { defer func() { _ = recover() }() },
		"reslices":           func(acc, in []int) { acc[:1][0] += in[:1][0] },
		"does nothing":       func(_, _ []int) {},
		"nil":                nil,
	} {
		if kind, f := fold.Ask(op); kind != fold.KindUser || (f == nil) != (op == nil) {
			t.Errorf("an operator that %s: got %v, want %v", name, kind, fold.KindUser)
		}
		if kind := fold.KindOf(declared(op)); kind != fold.KindCommutative {
			t.Errorf("an operator that %s, declared: got %v, want %v", name, kind, fold.KindCommutative)
		}
		if !mu.TryLock() {
			t.Fatalf("an operator that %s is not at its end", name)
		}
		mu.Unlock()
	}
	if o.calls != 2 {
		t.Errorf("two calls of KindOf called an operator %d times", o.calls)
	}
}

// Ask returns the function of the program, even if it is declared several times.
func TestAskReturnsFunction(t *testing.T) {
	calls := 0
	op := func(_, _ []int) { calls++ }
	for _, declared := range []func(acc, in []int){op, declared(op), declared(declared(op))} {
		_, f := fold.Ask(declared)
		calls = 0
		if f(nil, nil); calls != 1 {
			t.Errorf("the function that Ask returned called the program's function %d times, want 1", calls)
		}
	}
	if kind, f := fold.Ask(sum[int]); kind != fold.KindSum || f != nil {
		t.Errorf("Ask of a predefined operator returned %v and a function", kind)
	}
}

// The question stays between KindOf and the operator. Outside of it, a predefined operator does
// not recover panics, even if it is deferred with empty slices, and folds nothing then.
func TestPredefinedRecoversNoPanic(t *testing.T) {
	for name, op := range map[string]func(acc, in []int){"predefined": sum[int], "declared": declared(sum[int])} {
		got := func() (r any) {
			defer func() { r = recover() }()
			defer op(nil, nil)
			panic("of the program")
		}()
		if got != "of the program" {
			t.Errorf("%s: recovered %v", name, got)
		}
		op(nil, nil)
		acc := []int{1, 2}
		if op(acc, []int{3, 4}); acc[0] != 4 || acc[1] != 6 {
			t.Errorf("%s: sum is %v", name, acc)
		}
	}
}

// Many goroutines may call KindOf at the same time.
func TestKindOfConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 1000 {
				op, want := sum[int], fold.KindSum
				if i%2 == 0 {
					op, want = largest[int], fold.KindMax
				}
				if kind := fold.KindOf(op); kind != want {
					t.Errorf("got %v, want %v", kind, want)
					return
				}
			}
		})
	}
	wg.Wait()
}

func TestKindString(t *testing.T) {
	seen := map[string]bool{}
	for k := fold.KindUser; k <= fold.KindXor; k++ {
		if seen[k.String()] || k.String() == "" || k.Predefined() != (k != fold.KindUser && k != fold.KindCommutative) {
			t.Errorf("kind %d is %q, predefined: %v", k, k, k.Predefined())
		}
		seen[k.String()] = true
	}
	if unknown := (fold.KindXor + 1).String(); unknown != "unknown" {
		t.Errorf("the kind after the last is %q", unknown)
	}
}
