package shmem

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
)

// turns remembers for some calls that return one of several elements which they returned
// last, so that the next call of the same kind begins behind it.
//
// A kind is a routine with all its arguments: the place of the object, its length, what is
// skipped, the comparison and its values. Calls of one kind have the same candidates, so each
// candidate gets its turn. Calls of two kinds have words of their own: one that shared a word
// with another could be sent back by it to the same element for ever.
//
// A word has in its high half a part of the kind's hash, which is not 0, and in its low half
// the index behind the element. The other part of the hash leads to a row of words. Kinds
// beyond the length of a row take words from each other. A call that finds no word of its kind
// begins at random, so that it passes over no element for good even then. What two goroutines
// lose when they write a word at the same time is a turn as well, no more.
type turns struct {
	rows [32][4]uint64
	seed uint64 // of hashes, so that no program has kinds with one hash always
}

// turn is where the next call of a kind begins; the zero value is that of calls without turns.
type turn struct {
	word *uint64
	kind uint64 // the high half of the word
}

// form is a routine that takes turns; those with values for each element are told apart by
// their values.
type form uint64

const (
	formWaitAny form = 1 + iota
	formWaitSome
	formTestAny
	formTestSome
)

// golden is 2^64 divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

// takeTurn sets where a call begins to look at a set that has elements. A call with room for
// several indices and for all elements returns all that satisfy the comparison, and so has no
// turn.
func (h *heap) takeTurn(s *wait.Set, f form, room int) turn {
	if room >= s.N && room > 1 {
		return turn{}
	}
	hash := h.turns.hash(s, uint64(f)|uint64(room)<<3)
	row := &h.turns.rows[hash%uint64(len(h.turns.rows))]
	t := turn{kind: hash >> 32}
	for i := range row {
		word := atomic.LoadUint64(&row[i])
		if word>>32 == t.kind {
			t.word, s.Start = &row[i], int(uint64(uint32(word))%uint64(s.N))
			return t
		}
		if word == 0 && t.word == nil {
			t.word = &row[i]
		}
	}
	s.Start = rand.IntN(s.N)
	if t.word == nil {
		t.word = &row[rand.IntN(len(row))]
	}
	return t
}

// keep says that a call returned element i.
func (t turn) keep(i int) {
	if t.word != nil {
		rma.StoreRelease(t.word, t.kind<<32|uint64(uint32(i+1)))
	}
}

// hash returns the kind of a call. Its high half is not 0.
func (t *turns) hash(s *wait.Set, how uint64) uint64 {
	k := t.seed ^ how*golden
	k = stir(k ^ uint64(uintptr(s.Addr)))
	k = stir(k ^ uint64(s.N)<<16 ^ uint64(s.Width)<<8 ^ uint64(s.Cmp))
	if s.Skip != nil {
		k = stirBytes(k, unsafe.Pointer(unsafe.SliceData(s.Skip)), s.N)
	}
	if s.Vals != nil {
		k = stirBytes(^k, s.Vals, s.N*int(s.Width))
	} else {
		k = stir(k ^ s.Val)
	}
	return k | 1<<63
}

// stir folds a product of 128 bits, in which each bit of x moves many.
func stir(x uint64) uint64 {
	hi, lo := bits.Mul64(x^golden, 0xd6e8feb86659fd93)
	return hi ^ lo
}

// stirBytes stirs n bytes of this process's memory into k. Vectors are of 2, 4 or 8 bytes,
// masks of one: the last words are read byte by byte.
func stirBytes(k uint64, at unsafe.Pointer, n int) uint64 {
	i := 0
	for ; i+8 <= n; i += 8 {
		k = stir(k ^ *(*uint64)(unsafe.Add(at, i)))
	}
	for ; i < n; i++ {
		k = stir(k ^ uint64(*(*byte)(unsafe.Add(at, i))))
	}
	return k
}
