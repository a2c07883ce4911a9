package shmem

import (
	"errors"
	"fmt"
	"math"
	"math/cmplx"
	"slices"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/coll/spanning"
	"github.com/goshmem/goshmem/internal/fold"
)

// foldJob calls reductions that agents fold, of all types, on a job of several nodes.
type foldJob struct {
	*farJob
	object  []Sym[complex128] // by PE
	results [][]string        // by PE: the bytes of results that depend on the order
	few     bool              // only as many elements as agents fold
}

// newFoldJob starts a job whose PEs have room for two lists of the most elements that agents fold.
func newFoldJob(t *testing.T, near ...int) *foldJob {
	f := &foldJob{farJob: newFarJob(t, near...)}
	f.object, f.results = make([]Sym[complex128], len(f.worlds)), make([][]string, len(f.worlds))
	f.each(t, func(w *World) (err error) {
		f.object[w.MyPE()], err = Alloc[complex128](w, 2*(spanning.MostFolded/16+1))
		return err
	})
	return f
}

// partOf returns the first or the second half of a PE's object, as elements of a type.
func partOf[T any](f *foldJob, pe, half int) Sym[T] {
	x := f.object[pe].Slice(half*f.object[pe].n/2, (half+1)*f.object[pe].n/2)
	return Sym[T]{off: x.off, n: x.n * 16 / int(sizeOf[T]()), tag: x.tag}
}

// check has all members of a team fold elements, into another object, in place, and by value. one is the operator for two elements, and
// near how far results may be from a fold of one member after the other; nil: they are the same.
func checkFold[T comparable](f *foldJob, team *Team, op Op[T], one func(a, b T) T, value func(member, i int) T, near func(got, want T) bool) error {
	me := int(team.group.pe(team.MyPE()))
	src, dst := partOf[T](f, me, 0), partOf[T](f, me, 1)
	from, to := memory(f.farJob, src, me), memory(f.farJob, dst, me)
	want := func(i int) T {
		v := value(0, i)
		for k := 1; k < team.NPEs(); k++ {
			v = one(v, value(k, i))
		}
		return v
	}
	compare := func(how string, got []T) error {
		for i := range got {
			if w := want(i); got[i] != w && (near == nil || !near(got[i], w)) {
				return fmt.Errorf("%T %s: element %d of %d is %v, want %v", got, how, i, len(got), got[i], w)
			}
		}
		if near != nil {
			f.results[me] = append(f.results[me], fmt.Sprintf("%T %s: %x", got, how, unsafe.Slice((*byte)(unsafe.Pointer(&got[0])), len(got)*int(sizeOf[T]()))))
		}
		return nil
	}
	most := spanning.MostFolded / int(sizeOf[T]())
	for _, n := range []int{1, 5, most, most + 1} {
		if f.few && n > most {
			break
		}
		for i := range from {
			from[i], to[i] = value(team.MyPE(), i), value(100, i)
		}
		if err := Reduce(team, dst, src.Slice(0, n), op); err != nil {
			return err
		}
		if err := compare("out of place", to[:n]); err != nil {
			return err
		}
		if n < len(to) && to[n] != value(100, n) || from[0] != value(team.MyPE(), 0) {
			return fmt.Errorf("%T: %v behind %d elements, source %v", from, to[n], n, from[0])
		}
		if err := Reduce(team, src.Slice(0, n), src.Slice(0, n), op); err != nil {
			return err
		}
		if err := compare("in place", from[:n]); err != nil {
			return err
		}
	}
	v, err := ReduceValue(team, value(team.MyPE(), 3), op)
	if err != nil {
		return err
	}
	if near != nil {
		f.results[me] = append(f.results[me], fmt.Sprintf("%T: %x", v, bytesOf(&v)))
	}
	if w := want(3); v != w && (near == nil || !near(v, w)) {
		return fmt.Errorf("value of %T: %v, want %v", v, v, w)
	}
	return nil
}

// foldBits makes integers of random-looking bits.
func foldBits(member, i int) uint64 {
	return (uint64(member+1)*0x9e3779b97f4a7c15 + uint64(i)*0xbf58476d1ce4e5b9) >> 7
}

func checkIntegerFolds[T interface {
	Ordered
	Bits
}](f *foldJob, team *Team) error {
	value := func(member, i int) T { return T(foldBits(member, i)) }
	for _, c := range []struct {
		op  Op[T]
		one func(a, b T) T
	}{
		{Sum[T], func(a, b T) T { return a + b }},
		{Prod[T], func(a, b T) T { return a * b }},
		{Min[T], func(a, b T) T { return min(a, b) }},
		{Max[T], func(a, b T) T { return max(a, b) }},
		{And[T], func(a, b T) T { return a & b }},
		{Or[T], func(a, b T) T { return a | b }},
		{Xor[T], func(a, b T) T { return a ^ b }},
	} {
		if err := checkFold(f, team, c.op, c.one, value, nil); err != nil {
			return err
		}
	}
	return nil
}

func checkFloatFolds[T float32 | float64](f *foldJob, team *Team, precision float64) error {
	value := func(member, i int) T { return T(math.Sin(float64(foldBits(member, i)%1000))+1.5) / 3 }
	near := func(got, want T) bool { return math.Abs(float64(got-want)) <= precision*math.Abs(float64(want)) }
	for _, c := range []struct {
		op   Op[T]
		one  func(a, b T) T
		near func(got, want T) bool
	}{
		{Sum[T], func(a, b T) T { return a + b }, near},
		{Prod[T], func(a, b T) T { return a * b }, near},
		{Min[T], func(a, b T) T { return min(a, b) }, nil},
		{Max[T], func(a, b T) T { return max(a, b) }, nil},
	} {
		if err := checkFold(f, team, c.op, c.one, value, c.near); err != nil {
			return err
		}
	}
	// By a function of the program, the sum is that of one member after the other, to the last bit.
	return checkFold(f, team, func(acc, in []T) { fold.Sum(acc, in) }, func(a, b T) T { return a + b }, value, nil)
}

func checkComplexFolds[T complex64 | complex128](f *foldJob, team *Team, precision float64) error {
	value := func(member, i int) T { return T(cmplx.Exp(complex(0.1, float64(foldBits(member, i)%1000)))) }
	near := func(got, want T) bool { return cmplx.Abs(complex128(got-want)) <= precision }
	err := checkFold(f, team, Sum[T], func(a, b T) T { return a + b }, value, near)
	if err == nil {
		err = checkFold(f, team, Prod[T], func(a, b T) T { return a * b }, value, near)
	}
	return err
}

func checkBoolFolds(f *foldJob, team *Team) error {
	value := func(member, i int) bool { return foldBits(member, i)%3 == 0 }
	err := checkFold(f, team, And[bool], func(a, b bool) bool { return a && b }, value, nil)
	if err == nil {
		err = checkFold(f, team, Or[bool], func(a, b bool) bool { return a || b }, value, nil)
	}
	if err == nil {
		err = checkFold(f, team, Xor[bool], func(a, b bool) bool { return a != b }, value, nil)
	}
	return err
}

// ownSmall is an integer that the program declares.
type ownSmall int16

// All operators on all their types give what a fold of one PE after the other gives. Sums and products of floating-point numbers may
// be rounded otherwise, and are the same on all PEs.
func TestFarFolds(t *testing.T) {
	layouts := [][]int{{2, 1}, {1, 2, 1, 1}}
	if testing.Short() {
		layouts = layouts[1:]
	}
	for _, near := range layouts {
		t.Run(fmt.Sprint(near), func(t *testing.T) {
			f := newFoldJob(t, near...)
			f.few = len(near) > 2 // of more elements, one shape is enough
			f.each(t, func(w *World) error {
				back, err := w.Team().SplitStrided(w.NPEs()-1, -1, w.NPEs(), nil)
				if err != nil {
					return err
				}
				for _, team := range []*Team{w.Team(), back} {
					for _, check := range []func(f *foldJob, team *Team) error{
						checkIntegerFolds[int], checkIntegerFolds[int8], checkIntegerFolds[int16], checkIntegerFolds[int32], checkIntegerFolds[int64],
						checkIntegerFolds[uint], checkIntegerFolds[uint8], checkIntegerFolds[uint16], checkIntegerFolds[uint32], checkIntegerFolds[uint64],
						checkIntegerFolds[uintptr], checkIntegerFolds[ownSmall], checkBoolFolds,
						func(f *foldJob, team *Team) error { return checkFloatFolds[float32](f, team, 1e-6) },
						func(f *foldJob, team *Team) error { return checkFloatFolds[float64](f, team, 1e-15) },
						func(f *foldJob, team *Team) error { return checkComplexFolds[complex64](f, team, 1e-5) },
						func(f *foldJob, team *Team) error { return checkComplexFolds[complex128](f, team, 1e-14) },
					} {
						if err := check(f, team); err != nil {
							return fmt.Errorf("team with this PE as %d: %w", team.MyPE(), err)
						}
					}
				}
				return back.Destroy()
			})
			f.wantSame(t)
		})
	}
}

// wantSame fails the test unless all PEs have the same results.
func (f *foldJob) wantSame(t *testing.T) {
	t.Helper()
	if len(f.results[0]) == 0 {
		t.Error("no result depends on the order")
	}
	for pe := range f.results {
		if !slices.Equal(f.results[pe], f.results[0]) {
			t.Errorf("PE %d has other bytes than PE 0", pe)
		}
	}
}

// A team of more members than a step could carry values of folds in one step. Values of other types are read from all members.
func TestFarFoldsOfMany(t *testing.T) {
	f := newFoldJob(t, 30, 30, 30, 30)
	f.few = true
	f.each(t, func(w *World) error {
		team := w.Team()
		err := checkFold(f, team, Max[int16], func(a, b int16) int16 { return max(a, b) }, func(i, k int) int16 { return int16(foldBits(i, k)) }, nil)
		if err == nil {
			near := func(got, want float64) bool { return math.Abs(got-want) < 1e-13*want }
			err = checkFold(f, team, Sum[float64], func(a, b float64) float64 { return a + b }, func(i, k int) float64 { return 1 / float64(i+3*k+1) }, near)
		}
		if err != nil {
			return err
		}
		type two [2]uint64
		v, err := ReduceValue(team, two{uint64(w.MyPE()), 1}, func(acc, in []two) {
			for i := range acc {
				acc[i] = two{acc[i][0]*31 + in[i][0], acc[i][1] + in[i][1]}
			}
		})
		want := two{0, uint64(w.NPEs())}
		for pe := 1; pe < w.NPEs(); pe++ {
			want[0] = want[0]*31 + uint64(pe)
		}
		if err == nil && v != want {
			err = fmt.Errorf("fold by a function of the program: %v, want %v", v, want)
		}
		return err
	})
	f.wantSame(t)
}

// Members that fold by other operators, of other types or other numbers of elements, all get ErrMismatch, and the team goes on.
func TestFarFoldMismatch(t *testing.T) {
	f := newFoldJob(t, 2, 1)
	f.each(t, func(w *World) error {
		team, me := w.Team(), w.MyPE()
		x, y := partOf[int32](f, me, 0), partOf[uint32](f, me, 0)
		odd := me == 2
		either := func(a, b func() error) error {
			if odd {
				return b()
			}
			return a()
		}
		sum := func() error { return Reduce(team, x.Slice(0, 4), x.Slice(0, 4), Sum) }
		value := func() error { _, err := ReduceValue(team, int32(1), Sum); return err }
		for i, other := range []func() error{
			func() error { return Reduce(team, x.Slice(0, 4), x.Slice(0, 4), Prod) },
			func() error {
				return Reduce(team, x.Slice(0, 4), x.Slice(0, 4), func(acc, in []int32) { fold.Sum(acc, in) })
			},
			func() error { return Reduce(team, x.Slice(0, 5), x.Slice(0, 5), Sum) },
			func() error { return Reduce(team, x, x, Sum) },
			func() error { return Reduce(team, y.Slice(0, 4), y.Slice(0, 4), Sum) },
			func() error { return SumInScan(team, x.Slice(0, 4), x.Slice(0, 4)) },
			w.Sync,
		} {
			if err := either(sum, other); !errors.Is(err, ErrMismatch) {
				return fmt.Errorf("Reduce, case %d: %w, want ErrMismatch", i, err)
			}
		}
		for i, other := range []func() error{
			func() error { _, err := ReduceValue(team, int32(1), Max); return err },
			func() error { _, err := ReduceValue(team, uint32(1), Sum); return err },
			func() error {
				_, err := ReduceValue(team, int32(1), func(acc, in []int32) { fold.Sum(acc, in) })
				return err
			},
			func() error { _, err := BroadcastValue(team, int32(1), 0); return err },
			sum,
		} {
			if err := either(value, other); !errors.Is(err, ErrMismatch) {
				return fmt.Errorf("ReduceValue, case %d: %w, want ErrMismatch", i, err)
			}
		}
		return w.Barrier()
	})
}
