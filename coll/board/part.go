package board

// Logged is the word of an owner whose log has a piece, all before which are in every
// destination, and who now puts this one there.
func Logged(piece int) uint64 { return 2*uint64(piece) + 1 }

// Pushed is the word of an owner who has put a piece into every destination, and may
// write its log.
func Pushed(piece int) uint64 { return 2*uint64(piece) + 2 }

// Last returns the last piece that an owner that died with this word has had in its
// log, -1 if there was none.
func Last(word uint64) int { return (int(word)+1)/2 - 1 }

// Means is how a survivor gets a piece whose owner has died.
type Means uint8

// The means.
const (
	Have Means = iota // it is in the destination
	Log               // it is in the owner's log
	Make              // it has to be made of all contributors' sources
)

// Recover says how to get a piece of an owner that died with this word.
func Recover(word uint64, piece int) Means {
	switch {
	case word >= Pushed(piece):
		return Have
	case word == Logged(piece):
		return Log
	}
	return Make
}

// Share returns the part of n elements that the i-th of so many contributors makes.
func Share(n, contributors, i int) (lo, hi int) {
	q, r := n/contributors, n%contributors
	lo = i*q + min(i, r)
	hi = lo + q
	if i < r {
		hi++
	}
	return lo, hi
}
