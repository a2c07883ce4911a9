package span

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/goshmem/goshmem/internal/fold"
)

// drawRecord draws what one member gives. There are few different words, so that many are the same.
func drawRecord(rng *rand.Rand, member int32) Record {
	r := Record{First: [4]uint64{rng.Uint64N(2)}, And: rng.Uint64() | rng.Uint64(), Member: member, Differs: -1, Who: -1, Give: uint16(rng.UintN(9))}
	r.Fault, r.Status = Fault(max(0, rng.IntN(8)-4)), uint32(max(0, rng.IntN(6)-3))
	if r.Fault != NoFault || r.Status != 0 {
		r.Who = rng.Int32N(8) - 1
	}
	return r
}

// foldTree folds parts in a random order and association.
func foldTree(rng *rand.Rand, parts [][]byte, fold func(acc, in []byte) []byte) []byte {
	for len(parts) > 1 {
		i, j := rng.IntN(len(parts)), rng.IntN(len(parts)-1)
		if j >= i {
			j++
		}
		in := slices.Clone(parts[j])
		parts[i] = fold(slices.Clone(parts[i]), parts[j])
		if !bytes.Equal(in, parts[j]) {
			panic("in has changed")
		}
		parts = slices.Delete(parts, j, j+1)
	}
	return parts[0]
}

// Contributions come in any order, and the tree of nodes has any form: the record is the same.
func TestRecordsInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5000) {
		rng := rand.New(rand.NewPCG(seed, 2))
		var records []Record
		var parts [][]byte
		for i := range 1 + rng.IntN(6) {
			r := drawRecord(rng, int32(i))
			records, parts = append(records, r), append(parts, slices.Clone(r.Bytes()))
		}
		want, got := combinedAnyWho(records), foldTree(rng, parts, FoldSteps)
		if !bytes.Equal(got, want.Bytes()) {
			var r Record
			copy(r.Bytes(), got)
			t.Fatalf("seed %d: %+v\nare folded to %+v\nwant %+v", seed, records, r, want)
		}
	}
}

// combinedAnyWho is combined for members that blame each other: Who is the lowest of those whom the greatest fault or, without one,
// status is about.
func combinedAnyWho(records []Record) Record {
	r := combined(records)
	r.Who = -1
	for _, in := range records {
		if in.Fault == r.Fault && (r.Fault != NoFault || in.Status == r.Status) && uint32(in.Who) < uint32(r.Who) {
			r.Who = in.Who
		}
	}
	return r
}

// The same for pieces of any sizes and for bits.
func TestFoldsInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2000) {
		rng := rand.New(rand.NewPCG(seed, 3))
		var given, parts, votes [][]byte
		var pieces, bits []byte
		for i := range 1 + rng.IntN(7) {
			r := drawRecord(rng, int32(i))
			r.Fault = NoFault
			data := make([]byte, rng.IntN(20)*rng.IntN(2))
			for at := range data {
				data[at] = 1 << rng.IntN(8)
			}
			bits = addBits(bits, data)
			node, member := i/2, i%2*300
			given = append(given, data)
			pieces = AppendPiece(pieces, node, member, data)
			parts = append(parts, AppendPiece(slices.Clone(r.Bytes()), node, member, data))
			votes = append(votes, append(slices.Clone(r.Bytes()), data...))
		}
		if got := foldTree(rng, parts, FoldSteps)[RecordBytes:]; !bytes.Equal(got, pieces) {
			t.Fatalf("seed %d: pieces\n%x, want\n%x", seed, got, pieces)
		}
		if got := foldTree(rng, votes, FoldBits)[RecordBytes:]; !bytes.Equal(got, bits) {
			t.Fatalf("seed %d: bits\n%x, want\n%x", seed, got, bits)
		}
		rest := pieces
		for i, want := range given {
			node, member, data, behind, ok := CutPiece(rest)
			if !ok || node != i/2 || member != i%2*300 || !bytes.Equal(data, want) || cap(data) > len(data) {
				t.Fatalf("seed %d: piece %d is %d of node %d, %x (%t)", seed, i, member, node, data, ok)
			}
			rest = behind
		}
		if _, _, _, _, ok := CutPiece(rest); ok || len(rest) > 0 {
			t.Fatalf("seed %d: %x is behind the pieces", seed, rest)
		}
	}
}

// A step with a fault has no pieces but that of the dead, which has all of them that a member knows.
func TestFaultsInAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 4))
		var parts [][]byte
		var pieces, dead []byte
		fault, mixes := NoFault, seed%2 == 0
		for i := range 1 + rng.IntN(6) {
			r := drawRecord(rng, int32(i))
			given := make([]byte, rng.IntN(9))
			for at := range given {
				given[at] = 1 << rng.IntN(8)
			}
			if mixes && r.Fault == NoFault && rng.IntN(2) == 0 { // what looks like a piece of the dead is an element
				r.Op, r.Elem = fold.KindSum, fold.Uint8
				parts = append(parts, AppendPiece(slices.Clone(r.Bytes()), deadNode, 0, given))
				continue
			}
			if fault = max(fault, r.Fault); r.Fault == Dead || r.Fault == Again {
				dead = addBits(dead, given)
			}
			if parts = append(parts, AppendGiven(slices.Clone(r.Bytes()), i, 0, given)); len(given) > 0 {
				pieces = AppendPiece(pieces, i, 0, given)
			}
		}
		one := len(parts) == 1
		data := foldTree(rng, parts, FoldSteps)
		got, s := data[RecordBytes:], shapeOf(data)
		switch {
		case fault == NoFault && mixes:
		case fault != NoFault && !one && (s.op != fold.KindUser || s.elem != fold.NoElem):
			t.Fatalf("seed %d: %+v, want no elements in a step with a fault", seed, s)
		case fault == NoFault && !bytes.Equal(got, pieces):
			t.Fatalf("seed %d: pieces\n%x, want\n%x", seed, got, pieces)
		case fault != NoFault && !bytes.Equal(DeadOf(got), dead):
			t.Fatalf("seed %d: dead\n%x, want\n%x", seed, DeadOf(got), dead)
		case fault != NoFault && len(got) > PieceBytes(1, len(dead)):
			t.Fatalf("seed %d: %x, want the dead alone", seed, got)
		}
	}
}

func TestPieceBytes(t *testing.T) {
	if got, want := PieceBytes(3, 5), len(AppendPiece(AppendPiece(AppendPiece(nil, 0, 0, make([]byte, 5)), 1, 0, make([]byte, 5)), 2, 0, make([]byte, 5))); got != want {
		t.Errorf("got %d, want %d", got, want)
	}
}

// What is no piece ends the pieces of a node, and those of the others stay.
func TestBrokenPieces(t *testing.T) {
	good := AppendPiece(make([]byte, RecordBytes), 1, 2, []byte("good"))
	for _, junk := range []string{"x", "\x00\x00\x00\x00\xff\xff\xff\xffshort", "\x00\x00\x00\x00\x02\x00\x00\x00x"} {
		bad := append(make([]byte, RecordBytes), junk...)
		if got := FoldSteps(slices.Clone(good), bad); !bytes.Equal(got, good) {
			t.Errorf("good and %q: got %q", junk, got[RecordBytes:])
		}
		if got := FoldSteps(slices.Clone(bad), good); !bytes.Equal(got, good) {
			t.Errorf("%q and good: got %q", junk, got[RecordBytes:])
		}
	}
}
