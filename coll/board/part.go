package board

// Logged returns the word of an owner whose log has a piece, and that now pushes it. All pieces before
// it are in all destinations.
func Logged(piece int) uint64 { return 2*uint64(piece) + 1 }

// Pushed returns the word of an owner that has pushed a piece into all destinations. It may write its
// log again.
func Pushed(piece int) uint64 { return 2*uint64(piece) + 2 }

// Last returns the last piece in the log of an owner that died with this word, or -1 if there was none.
func Last(word uint64) int { return (int(word)+1)/2 - 1 }

// Means is how a survivor gets a piece whose owner has died.
type Means uint8

// The means.
const (
	Have Means = iota // it is in the destination already
	Log               // copy it from the owner's log
	Make              // make it of all contributors' sources
)

// Recover returns how to get a piece of an owner that died with this word.
func Recover(word uint64, piece int) Means {
	switch {
	case word >= Pushed(piece):
		return Have
	case word == Logged(piece):
		return Log
	}
	return Make
}

// Share returns the part of n elements that the i-th contributor makes: elements lo up to hi.
func Share(n, contributors, i int) (lo, hi int) {
	q, r := n/contributors, n%contributors
	lo = i*q + min(i, r)
	hi = lo + q
	if i < r {
		hi++
	}
	return lo, hi
}
