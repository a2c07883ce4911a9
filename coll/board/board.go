package board

// Marks in the arrival word of a member that will enter no further step. The other bits still hold the
// number of the last step that the member has entered. A marked word is greater than any step, so it
// ends waits.
const (
	Left     = 1 << 63 // the member has left the team
	GaveUp   = 1 << 62 // the member has given the team up
	Withdrew = 1 << 61 // it has given up in a step in which others may still read its source
	Marks    = Left | GaveUp | Withdrew
)

// Verdict is what is known of a member at a step.
type Verdict uint8

// The verdicts. All but Open are final, and all members that come to one come to the same.
const (
	Open       Verdict = iota // the member may still enter the step
	Entered                   // it has entered the step
	Died                      // it died before it entered the step
	HasLeft                   // it left the team before it entered the step
	HasGivenUp                // it gave the team up before it entered the step
)

// VerdictOf returns what a member's word means for step seq. AfterNews says that the word was read
// after the news of the member's death.
func VerdictOf(word, seq uint64, afterNews bool) Verdict {
	switch {
	case word&^Marks >= seq:
		return Entered
	case word&Left != 0:
		return HasLeft
	case word&GaveUp != 0:
		return HasGivenUp
	case afterNews:
		return Died
	}
	return Open
}

// Ask is what a Wait asks its driver for.
type Ask uint8

// What a Wait may ask for.
const (
	Word  Ask = iota // read the member's word, and call SetWord
	News             // look whether the member's death is known, and call SetDead
	Sleep            // sleep until the word may have changed or there is news of a death, and call SetAwake
	Done             // nothing: Verdict has the answer
)

// Wait is one member's wait for another member to enter a step. The zero value with Seq set is ready
// for use.
type Wait struct {
	Seq     uint64
	verdict Verdict
	next    Ask
	dead    bool
}

// Next returns what the wait asks for.
func (w *Wait) Next() Ask { return w.next }

// SetWord gives the wait the member's word. If the death was not known before the word was read, a
// word short of the step decides nothing.
func (w *Wait) SetWord(word uint64) {
	w.verdict = VerdictOf(word, w.Seq, w.dead)
	if w.next = News; w.verdict != Open {
		w.next = Done
	}
}

// SetDead tells the wait whether the member is known to be dead. If it is, the wait asks for the word
// once more: only a word that is read now is the last one.
func (w *Wait) SetDead(dead bool) {
	if w.dead, w.next = dead, Word; !dead {
		w.next = Sleep
	}
}

// SetAwake tells the wait that a sleep is over.
func (w *Wait) SetAwake() { w.next = Word }

// Verdict returns the answer. It is Open until there is one.
func (w *Wait) Verdict() Verdict { return w.verdict }
