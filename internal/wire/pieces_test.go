package wire

import (
	"bytes"
	"strings"
	"testing"
)

func TestPieces(t *testing.T) {
	var a Assembly
	for _, size := range []int{0, 1, PieceBytes, PieceBytes + 1, 3*PieceBytes - 1} {
		message := bytes.Repeat([]byte{7}, size)
		bodies := Split(message)
		if want := max(1, (size+PieceBytes-1)/PieceBytes); len(bodies) != want {
			t.Errorf("%d bytes go in %d pieces, want %d", size, len(bodies), want)
		}
		for i, body := range bodies {
			if most := MaxBody - 1024; len(body) > most { // so that it fits into a frame inside of another one
				t.Errorf("a piece has %d bytes, want at most %d", len(body), most)
			}
			got, whole, err := a.Add(body, MaxBody)
			if err != nil || whole != (i == len(bodies)-1) || whole && !bytes.Equal(got, message) {
				t.Fatalf("piece %d of %d: %d bytes, whole %v, %v", i, len(bodies), len(got), whole, err)
			}
		}
	}
}

func TestPiecesThatNobodySends(t *testing.T) {
	for _, c := range []struct {
		bodies [][]byte
		want   string
	}{
		{[][]byte{{0, 0, 0}}, "has 3 bytes, want at least 4"},
		{[][]byte{{1, 0, 0, 0}}, "is empty"},
		{[][]byte{{0, 0, 0x11, 0, 1}}, "has 1114113 bytes, want at most 1048576"},
		{[][]byte{{5, 0, 0, 0, 1}, {5, 0, 0, 0, 1}}, "leaves 6 bytes to come, want 5"},
		{[][]byte{{5, 0, 0, 0, 1}, {5, 0, 0, 0}}, "is empty"},
	} {
		var a Assembly
		var err error
		for _, body := range c.bodies {
			_, _, err = a.Add(body, MaxBody)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("pieces %x: %v, want an error with %q", c.bodies, err, c.want)
		}
		if a.open {
			t.Errorf("pieces %x: the message is still open", c.bodies)
		}
	}
}
