package shmem

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
	"unsafe"

	"github.com/goshmem/goshmem/internal/wait"
	"github.com/goshmem/goshmem/rma"
)

// turns remembers, for calls that return one or some of several elements, which element each kind of call returned
// last. The next call of the same kind begins to look after that element.
//
// A kind is a routine with all its arguments: the address of the object, its length, the elements to skip, the
// comparison and its values. Calls of one kind have the same candidates, so each candidate gets its turn. Each kind
// has a word of its own. If two kinds shared a word, one could send the other back to the same element again and
// again.
//
// The high half of a word is a part of the kind's hash, which is not 0. The low half is the index after the element
// that was returned. The other part of the hash selects a row of words. If more kinds hash to a row than it has
// words, they take words from each other. A call that finds no word of its kind begins at random, so even then it
// passes over no element forever.
//
// Two goroutines may write a word at the same time. They lose a turn then, and nothing else.
type turns struct {
	rows [32][4]uint64
	seed uint64 // of the hashes: random, so that two kinds of a program do not collide in every run
}

// turn is the word of a call's kind, in which the call records what it returns. The zero value belongs to calls
// without turns.
type turn struct {
	word *uint64
	kind uint64 // the high half of the word, in the low bits here
}

// turnRoutine is a routine that takes turns. The routines with a value for each element need no code of their own:
// their values tell them apart.
type turnRoutine uint64

const (
	turnWaitAny turnRoutine = 1 + iota
	turnWaitSome
	turnTestAny
	turnTestSome
)

// golden is 2^64 divided by the golden ratio.
const golden = 0x9e3779b97f4a7c15

// chooseStart sets where a call begins to look at a set, which has elements. The call has room for so many indices.
// If that is room for all elements, and for more than one, the call returns every element that satisfies the
// comparison, and has no turn.
func (h *heap) chooseStart(s *wait.Set, f turnRoutine, room int) turn {
	if room >= s.N && room > 1 {
		return turn{}
	}
	hash := h.turns.hashKind(s, uint64(f)|uint64(room)<<3)
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

// recordReturned records that the call returned element i.
func (t turn) recordReturned(i int) {
	if t.word != nil {
		rma.StoreRelease(t.word, t.kind<<32|uint64(uint32(i+1)))
	}
}

// hashKind returns the hash of a call's kind. Its high half is not 0.
func (t *turns) hashKind(s *wait.Set, how uint64) uint64 {
	k := t.seed ^ how*golden
	k = mixWord(k ^ uint64(uintptr(s.Addr)))
	k = mixWord(k ^ uint64(s.N)<<16 ^ uint64(s.Width)<<8 ^ uint64(s.Cmp))
	if s.Skip != nil {
		k = mixBytes(k, unsafe.Pointer(unsafe.SliceData(s.Skip)), s.N)
	}
	if s.Vals != nil {
		k = mixBytes(^k, s.Vals, s.N*int(s.Width))
	} else {
		k = mixWord(k ^ s.Val)
	}
	return k | 1<<63
}

// mixWord folds a product of 128 bits, in which each bit of x changes many.
func mixWord(x uint64) uint64 {
	hi, lo := bits.Mul64(x^golden, 0xd6e8feb86659fd93)
	return hi ^ lo
}

// mixBytes mixes n bytes of this process's memory into k. Elements of vectors have 2, 4 or 8 bytes, and those of
// masks one, so the last bytes are read one by one.
func mixBytes(k uint64, at unsafe.Pointer, n int) uint64 {
	i := 0
	for ; i+8 <= n; i += 8 {
		k = mixWord(k ^ *(*uint64)(unsafe.Add(at, i)))
	}
	for ; i < n; i++ {
		k = mixWord(k ^ uint64(*(*byte)(unsafe.Add(at, i))))
	}
	return k
}
