package board

// The marks in the arrival word of a member that will enter no further step; the
// other bits still hold the number of the last one that it had entered. A marked
// word is greater than any step, so that it ends waits.
const (
	Left     = 1 << 63 // it has left the team
	GaveUp   = 1 << 62 // it has given the team up
	Withdrew = 1 << 61 // it did so in a step in which others may still read its source
	Marks    = Left | GaveUp | Withdrew
)

// Verdict is what is known of a member at a step.
type Verdict uint8

// The verdicts. All but Open are final, and the same for everybody who gets to one.
const (
	Open     Verdict = iota // it may enter the step still
	In                      // it has entered the step
	Out                     // it died short of it
	HasLeft                 // it left the team short of it
	HasGiven                // it gave the team up short of it
)

// Judge says what a word means for step seq. Behind says that the word was looked at
// behind the news of its owner's death.
func Judge(word, seq uint64, behind bool) Verdict {
	switch {
	case word&^Marks >= seq:
		return In
	case word&Left != 0:
		return HasLeft
	case word&GaveUp != 0:
		return HasGiven
	case behind:
		return Out
	}
	return Open
}

// Ask is what a Wait wants next.
type Ask uint8

// What a Wait may want.
const (
	Word  Ask = iota // Tell it the member's word, looked at now
	News             // Heard: whether the member's death is known now
	Sleep            // Woken, when the word may have changed or there is news of a death
	Done             // nothing: Verdict has the answer
)

// Wait is one member's wait for another one to enter a step. The zero value with Seq
// set is ready for use.
type Wait struct {
	Seq     uint64
	verdict Verdict
	next    Ask
	dead    bool
}

// Next returns what is wanted.
func (w *Wait) Next() Ask { return w.next }

// Tell takes the word. Where the death was not known before, nothing is concluded from a
// word that is short.
func (w *Wait) Tell(word uint64) {
	w.verdict = Judge(word, w.Seq, w.dead)
	if w.next = News; w.verdict != Open {
		w.next = Done
	}
}

// Heard takes whether the member is known to be dead. If so, its word is looked at
// once more: only now is it the last one.
func (w *Wait) Heard(dead bool) {
	if w.dead, w.next = dead, Word; !dead {
		w.next = Sleep
	}
}

// Woken says that a sleep is over.
func (w *Wait) Woken() { w.next = Word }

// Verdict returns the answer, Open before there is one.
func (w *Wait) Verdict() Verdict { return w.verdict }
