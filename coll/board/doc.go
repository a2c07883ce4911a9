// Package board has the decisions of tolerant collectives on shared memory, as a pure
// core: what a member concludes from the words that others leave on the common
// board, and which word it has to look at next. Package coll drives it; the test of
// this package explores all orders in which members write, look, die and are
// reported.
//
// # Who contributed
//
// Every member has an arrival word, the number of the latest step that it has
// entered, which it alone writes and which only grows. A member that dies writes
// nothing any more, and its death is published afterwards: detector/kernel reports
// a death when no thread of the process can run, and says for each of its tiers
// why. So who looks at a word
// behind the news of its owner's death sees what it holds for good, and so does
// everybody else who does: whether it is at step s or short of it is the same for
// all. A member that looks before the news and finds the word at s or beyond finds
// the same, as words only grow; one that finds it short decides nothing. Hence the
// contributors of a step, {i: word(i) >= s}, are agreed upon without a message, and
// with no member that would have to decide for others and could die doing so. This
// is why a node needs none of the machines of coll/ftco: they are for members that
// see each other through messages only.
//
// # Slots
//
// A member writes what it contributes to step s before it enters s, into a cell of
// its own, in a slot or on the line of its arrival word. The cell is written again when all members that live have entered step
// s+1, which each does when it is done with what belongs to s. The dead read
// nothing, and nobody writes a dead member's cells.
//
// # Parts of a large reduction
//
// Of a large reduction each contributor of step s makes one part, piece by piece, and
// puts each piece into everybody's destination, which may be the source: then what
// others would need to make the piece again is lost. So the owner makes a piece in a
// log, says Logged, puts it to all, and says Pushed; having put all, it enters step
// s+1. An owner that dies leaves its word at one of these points. Pieces before it
// are everywhere, the one that is logged is in the log, and of those behind it
// all sources are untouched, those of the dead too, whose memory stays.
//
// The contributors of s+1 are agreed upon like those of s. If it is all of those of
// s, nobody needs anything, and everybody returns: nothing was added to what a
// reduction costs that survives nothing but two stores for each piece. Otherwise
// every survivor knows that the others know, each makes the missing pieces aside,
// enters a further step, and puts them into its own destination when all survivors
// have entered that: no source changes before its last reader is done.
package board
