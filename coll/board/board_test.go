package board

import "testing"

// A verdict depends first on the step in the word, then on its marks, then on the death of its
// owner.
func TestVerdictOf(t *testing.T) {
	for _, x := range []struct {
		word   uint64
		behind bool
		want   Verdict
	}{
		{4, false, Open},
		{4, true, Died},
		{5, false, Entered},
		{6, true, Entered},
		{4 | Left, false, HasLeft},
		{4 | Left, true, HasLeft},
		{4 | GaveUp, false, HasGivenUp},
		{4 | GaveUp, true, HasGivenUp},
		{4 | Left | GaveUp, false, HasLeft},
		{5 | Left, false, Entered},
		{5 | GaveUp, false, Entered},
	} {
		if got := VerdictOf(x.word, 5, x.behind); got != x.want {
			t.Errorf("VerdictOf(%#x, 5, %v) = %d, want %d", x.word, x.behind, got, x.want)
		}
	}
}

// A word that was read before the news of its owner's death decides nothing: it is read once more.
func TestWaitLooksAgain(t *testing.T) {
	for _, x := range []struct {
		last uint64
		want Verdict
	}{{4, Died}, {5, Entered}} {
		w := Wait{Seq: 5}
		w.SetWord(4)
		if w.Next() != News || w.Verdict() != Open {
			t.Fatalf("after a word of an earlier step: Next %d, verdict %d, want News and Open", w.Next(), w.Verdict())
		}
		w.SetDead(false)
		if w.Next() != Sleep {
			t.Fatalf("without news: Next %d, want Sleep", w.Next())
		}
		w.SetAwake()
		w.SetWord(4)
		w.SetDead(true)
		if w.Next() != Word || w.Verdict() != Open {
			t.Fatalf("after the news: Next %d, verdict %d, want Word and Open", w.Next(), w.Verdict())
		}
		if w.SetWord(x.last); w.Next() != Done || w.Verdict() != x.want {
			t.Errorf("last word %d: Next %d, verdict %d, want Done and %d", x.last, w.Next(), w.Verdict(), x.want)
		}
	}
}

// Contributions to two steps do not overlap while both may be read. A contribution that reuses a
// cell waits until all have entered the step after the one for which the cell was written.
func TestCells(t *testing.T) {
	for _, p := range []Place{InSlot, InCell, OnLine} {
		for seq := range uint64(200) {
			first, n := Cell(seq, p)
			for other := range uint64(3) {
				if at, m := Cell(seq+1, Place(other)); first < at+m && at < first+n {
					t.Fatalf("step %d has cells %d to %d, which overlap those of step %d: %d to %d", seq, first, first+n, seq+1, at, at+m)
				}
			}
		}
	}
	for _, x := range []struct {
		name  string
		place []Place // of the contributions to steps 1, 3, 5 ...
		want  uint64  // the step that the last one waits for
	}{
		{"a slot after a cell that is not its last", []Place{InCell, InSlot}, 2},
		{"a cell after the whole slot", []Place{InSlot, InCell}, 2},
		{"a slot after a slot", []Place{InSlot, InSlot}, 2},
		{"a cell after another cell", []Place{InCell, InCell}, 0},
		{"a slot after two cells", []Place{InCell, InCell, InSlot}, 4},
		{"a line after a line", []Place{OnLine, OnLine}, 2},
		{"a line after a slot", []Place{InSlot, OnLine}, 0},
	} {
		var c Cells
		var free uint64
		for k, p := range x.place {
			free = c.Occupy(uint64(2*k+1), p)
		}
		if free != x.want {
			t.Errorf("%s waits for step %d, want %d", x.name, free, x.want)
		}
	}
	var c Cells
	for seq := range uint64(NumCells - 2) {
		if free := c.Occupy(seq+1, InCell); free != 0 {
			t.Fatalf("cell %d of %d waits for step %d, want none", seq, NumCells-2, free)
		}
	}
	if free := c.Occupy(NumCells-1, InCell); free != 2 {
		t.Errorf("the first reused cell waits for step %d, want 2", free)
	}
}

// A survivor concludes exactly what an owner says of a piece.
func TestParts(t *testing.T) {
	for piece := range 20 {
		for _, x := range []struct {
			name string
			word uint64
			of   int
			want Means
		}{
			{"nothing said", 0, piece, Make},
			{"logged", Logged(piece), piece, Log},
			{"pushed", Pushed(piece), piece, Have},
			{"the next piece logged", Logged(piece + 1), piece, Have},
			{"the previous piece logged", Logged(piece), piece + 1, Make},
			{"the previous piece pushed", Pushed(piece), piece + 1, Make},
		} {
			if got := Recover(x.word, x.of); got != x.want {
				t.Errorf("piece %d, %s: got %d, want %d", piece, x.name, got, x.want)
			}
		}
		if got := Last(Logged(piece)); got != piece {
			t.Errorf("the last piece in a log of piece %d is %d, want the same", piece, got)
		}
		if got := Last(Pushed(piece)); got != piece {
			t.Errorf("the last piece in a log whose piece %d was pushed is %d, want the same", piece, got)
		}
	}
	if got := Last(0); got != -1 {
		t.Errorf("the last piece in an empty log is %d, want -1", got)
	}
}

// Shares are adjacent, together cover everything, and differ by at most one element.
func TestShare(t *testing.T) {
	for n := range 40 {
		for contributors := 1; contributors < 9; contributors++ {
			end := 0
			for i := range contributors {
				lo, hi := Share(n, contributors, i)
				if size := hi - lo; lo != end || size != n/contributors && size != n/contributors+1 {
					t.Errorf("share %d of %d elements among %d is %d to %d, but the one before ends at %d", i, n, contributors, lo, hi, end)
				}
				end = hi
			}
			if end != n {
				t.Errorf("shares of %d elements among %d end at %d", n, contributors, end)
			}
		}
	}
}
