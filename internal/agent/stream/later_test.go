package stream

import (
	"fmt"
	"testing"
)

// TestLater: a done that may wait goes with what does not, or when TellAll says so, or with the next welcome.
func TestLater(t *testing.T) {
	r, j := greeted(t), &journal{}
	other := recordsFrame(0, 0, 0, onePut)
	other[2] = 1 // of local PE 1
	receive(t, r, 1, j, "team message of 1.0.0.0; team message of 1.0.0.0", recordsFrame(0, 0, 0, oneTeam, oneTeam))
	expectReplies(t, r, "")
	if !r.Owes() {
		t.Error("Owes is false, although nobody is told of two records")
	}
	receive(t, r, 1, j, "put of 1.1.0.0", other)
	expectReplies(t, r, "done 1.0.0: 1; done 0.0.0: 2")
	for i, frame := range [][]byte{
		recordsFrame(0, 2, 0, oneTeam, oneLast), recordsFrame(0, 4, 0, oneLast, oneTeam), recordsFrame(0, 6, 0, onePut, oneTeam), recordsFrame(0, 8, 0, oneTeam, onePut),
	} {
		if err := r.Received(1, 1, frame, &checker{t: t}); err != nil { // which executes puts of words together
			t.Fatal(err)
		}
		expectReplies(t, r, fmt.Sprintf("done 0.0.0: %d", 4+2*i))
	}
	r.TellAll()
	expectReplies(t, r, "")
	receive(t, r, 1, j, "team message of 1.0.0.0", recordsFrame(0, 10, 0, oneTeam))
	r.TellAll()
	if r.Owes() {
		t.Error("Owes is true after TellAll")
	}
	expectReplies(t, r, "done 0.0.0: 11")

	// The connection breaks while a done waits.
	receive(t, r, 1, j, "team message of 1.0.0.0", recordsFrame(0, 11, 0, oneTeam))
	r.Broken(1, 1)
	hello(t, r, 2, "executed 0.0.0: 12, 12; executed 1.0.0: 1, 1; welcome 0.0.0: 0")
	r.TellAll()
	expectReplies(t, r, "")
}
