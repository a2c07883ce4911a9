package span

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/fold"
)

// drawContent returns what members of a cluster give, for a number.
func drawContent(n int) (votes, folds bool) { return n%3 == 1, n%3 == 2 }

// howOf returns by what a PE of a cluster wants its elements folded. In every fourth step PEs differ.
func howOf(i int, seq uint64) (fold.Kind, fold.Elem) {
	switch {
	case seq%4 == 1:
		return fold.KindSum, fold.Uint32
	case seq%4 == 3:
		return fold.KindMax, fold.Int8
	case roundsBy(seq):
		return fold.KindSum, fold.Float32
	case i%5 == 2:
		return fold.KindXor, fold.Uint16
	case i%5 == 4:
		return fold.KindSum, fold.Int16
	}
	return fold.KindSum, fold.Uint16
}

// roundsBy says whether the fold of a step depends on its order.
func roundsBy(seq uint64) bool { return seq%4 == 0 }

// elementsOf returns the elements that a PE of a cluster gives.
func elementsOf(i int, seq uint64) (b []byte) {
	switch {
	case seq%4 == 1: // a bit for each PE: who is in the sum twice is seen
		b = binary.NativeEndian.AppendUint32(b, 1<<i)
		return binary.NativeEndian.AppendUint32(b, uint32(i)<<8+uint32(seq))
	case seq%4 == 3:
		return append(b, byte(i*53), byte(-i*53))
	case roundsBy(seq): // the larger ones are much larger than the smaller ones, and some are negative
		return binary.NativeEndian.AppendUint32(b, math.Float32bits(float32(math.Pow(-7, float64(i*5%13)))/3))
	case i%5 == 3:
		b = append(b, 1, 2) // one more
	}
	return binary.NativeEndian.AppendUint16(b, uint16(i+3))
}

// expectFolded is expect for elements, by definition.
func (s *cluster) expectFolded(counted []int, seq uint64) []byte {
	var records []Record
	var sum, dead []byte
	var first Record
	mixed := false
	for k, at := range counted {
		r := s.record(at/s.pes, at%s.pes, seq)
		given := s.gives(s.number(at/s.pes, at%s.pes), seq)
		records = append(records, r)
		if r.Fault == Dead || r.Fault == Again {
			dead = addBits(dead, given)
		}
		if k == 0 {
			first, sum = r, given
			continue
		}
		mixed = mixed || r.Op != first.Op || r.Elem != first.Elem || r.Give != first.Give
		for i := range given {
			switch {
			case mixed:
			case seq%4 == 1 && i%4 == 0:
				binary.NativeEndian.PutUint32(sum[i:], binary.NativeEndian.Uint32(sum[i:])+binary.NativeEndian.Uint32(given[i:]))
			case seq%4 == 3:
				sum[i] = byte(max(int8(sum[i]), int8(given[i])))
			case seq%4 == 2 && i%2 == 0:
				a, b := binary.NativeEndian.Uint16(sum[i:]), binary.NativeEndian.Uint16(given[i:])
				c := a + b
				if r.Op == fold.KindXor {
					c = a ^ b
				}
				binary.NativeEndian.PutUint16(sum[i:], c)
			}
		}
	}
	r := combined(records)
	if r.Fault != NoFault {
		return withDead(&r, dead)
	}
	if mixed {
		r.Op, r.Elem, r.Give, sum = Mixed, fold.NoElem, 0, nil
	}
	return append(slices.Clone(r.Bytes()), sum...)
}

// checkRounded checks the result of a step that depends on the order of the fold: it is the sum of the right PEs as far as it can be.
func (s *cluster) checkRounded(counted []int, r *Result) error {
	var records []Record
	var sum, all float64
	for _, at := range counted {
		records = append(records, s.record(at/s.pes, at%s.pes, r.Seq))
		x := float64(math.Float32frombits(binary.NativeEndian.Uint32(s.gives(s.number(at/s.pes, at%s.pes), r.Seq))))
		sum, all = sum+x, all+math.Abs(x)
	}
	want := combined(records)
	if len(r.Data) != RecordBytes+4 || !bytes.Equal(r.Data[:RecordBytes], want.Bytes()) {
		return fmt.Errorf("%w: PEs %v, record %x, want %x and an element", errOnce, counted, r.Data, want.Bytes())
	}
	got := float64(math.Float32frombits(binary.NativeEndian.Uint32(r.Data[RecordBytes:])))
	if math.Abs(got-sum) > all*float64(len(counted))*0x1p-23 {
		return fmt.Errorf("%w: PEs %v, sum %v, want %v", errOnce, counted, got, sum)
	}
	return nil
}

// folded returns the data of a member that gives elements.
func folded(member int32, op fold.Kind, elem fold.Elem, given []byte) []byte {
	r := Record{Member: member, Differs: -1, Who: -1, Op: op, Elem: elem, Give: uint16(len(given))}
	return append(slices.Clone(r.Bytes()), given...)
}

// However contributions are combined, elements of integers come to the same, and what does not go together is mixed.
func TestElementsInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		elem, op := 1+fold.Elem(rng.UintN(uint(fold.Uint64))), fold.KindSum+fold.Kind(rng.UintN(uint(fold.KindXor-fold.KindSum)+1))
		size, mixes := elem.Size()*(2+rng.IntN(5)), rng.IntN(2) == 0
		var parts [][]byte
		var want []byte
		for i := range int32(1 + rng.IntN(6)) {
			given := make([]byte, size)
			for at := range given {
				given[at] = byte(rng.Uint32())
			}
			one := folded(i, op, elem, given)
			if mixes && rng.IntN(4) == 0 {
				one = [][]byte{
					folded(i, fold.KindSum+(op-fold.KindSum+1)%(fold.KindXor-fold.KindSum+1), elem, given),
					folded(i, op, elem%fold.Uint64+1, given[:len(given)/8*8]),
					folded(i, op, elem, given[elem.Size():]),
				}[rng.IntN(3)]
			}
			parts = append(parts, one)
			switch {
			case i == 0:
				want = slices.Clone(one)
			case shapeOf(want) != shapeOf(one):
				want = folded(0, Mixed, fold.NoElem, nil)
			case shapeOf(want).op != Mixed:
				fold.Bytes(shapeOf(want).op, shapeOf(want).elem, want[RecordBytes:], one[RecordBytes:])
			}
		}
		got := foldTree(rng, parts, FoldSteps)
		if !bytes.Equal(got, want) {
			t.Fatalf("seed %d: %d parts of %v by %v:\n%x, want\n%x", seed, len(parts), elem, op, got, want)
		}
		if err := CheckSteps(got); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

// Members that give pieces, or nothing, and members that give elements do not go together. What is mixed stays so.
func TestMixed(t *testing.T) {
	piece := AppendPiece(folded(0, fold.KindUser, fold.NoElem, nil), 0, 0, []byte("piece"))
	nothing := folded(1, fold.KindUser, fold.NoElem, nil)
	sum := folded(2, fold.KindSum, fold.Int32, []byte{1, 0, 0, 0})
	for i, parts := range [][][]byte{{piece, sum}, {sum, piece}, {nothing, sum}, {sum, nothing}, {piece, sum, piece}, {sum, nothing, sum}} {
		got := slices.Clone(parts[0])
		for _, in := range parts[1:] {
			got = FoldSteps(got, in)
		}
		if s := shapeOf(got); s != (shape{op: Mixed}) || CheckSteps(got) != nil {
			t.Errorf("case %d: %+v, %v, want mixed data", i, s, CheckSteps(got))
		}
		for _, in := range [][]byte{piece, nothing, sum, got} {
			if s := shapeOf(FoldSteps(slices.Clone(got), in)); s != (shape{op: Mixed}) {
				t.Errorf("case %d, and more: %+v, want mixed data", i, s)
			}
			if s := shapeOf(FoldSteps(slices.Clone(in), got)); s != (shape{op: Mixed}) {
				t.Errorf("more, and case %d: %+v, want mixed data", i, s)
			}
		}
	}
}
