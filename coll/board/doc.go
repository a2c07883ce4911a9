// Package board has the decisions of tolerant collectives on shared memory, as a pure core: what a
// member concludes from the words that other members leave on the common board, and which word it
// has to read next. Package coll drives it. The test of this package explores all orders in which
// members write, read, die and are reported.
//
// # Who contributed
//
// Each member has an arrival word: the number of the latest step that it has entered. Only the member
// writes its word, and the word only grows. A member that dies writes nothing any more, and its death
// is published afterwards: detector/kernel reports a death only when no thread of the process can
// run, and says for each of its tiers why.
//
// Claim: for a step s, all survivors agree on whether member i has entered s. The contributors
// {i: word(i) >= s} are a fact that no member decides for others, so no member can die while it does.
//
//   - A survivor that reads word(i) after the news of i's death reads its last value. So does every
//     other survivor that reads it after the news.
//   - A survivor that reads word(i) >= s before the news concludes that i has entered s. The last value
//     is not smaller, so survivors that read later conclude the same.
//   - A survivor that reads word(i) < s before the news concludes nothing, and reads again.
//
// This is why a node needs none of the machines of coll/ftco. They are for members that see each
// other through messages only.
//
// # Slots
//
// A member writes its contribution to step s before it enters s, into a cell of its own: in a slot or
// on the line of its arrival word. It writes the cell again only when all living members have entered
// a step after s. A member enters step s+1 only when it is done with what belongs to s, so no reader
// is left. The dead read nothing, and no member writes a dead member's cells.
//
// # Parts of a large reduction
//
// In a large reduction, each contributor of step s owns one part. It makes its part piece by piece and
// pushes each piece into all destinations. A destination may be the source, so a push may overwrite
// what others would need to make the piece again. Therefore the owner
//
//  1. makes the piece in its log,
//  2. sets its word to [Logged],
//  3. pushes the piece into all destinations,
//  4. sets its word to [Pushed],
//
// and after its last piece enters step s+1. The word of an owner that dies says how far it has come.
// Pieces before that are in all destinations. The logged piece is in the log. Of the pieces after
// it, all sources are untouched, also those of the dead, whose memory stays.
//
// Members agree on the contributors of s+1 as on those of s. If they are the same, all parts are
// complete, and all members return. Then survival has cost two stores for each piece. Otherwise each
// survivor knows that all others know which are missing. Each makes the missing pieces aside, enters a
// further step, and puts the pieces into its own destination when all survivors have entered that
// step: no source changes before its last reader is done.
package board
