package rma

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// Move copies exactly the given bytes, for all sizes around those at which it changes its method,
// every alignment, and overlaps in both directions.
func TestMove(t *testing.T) {
	const room = bulkMax + 1<<16
	rng := rand.New(rand.NewPCG(1, 2))
	seed := make([]byte, room)
	for i := range seed {
		seed[i] = byte(rng.Uint32())
	}
	memory, want := make([]byte, 2*room), make([]byte, 2*room)
	for _, n := range []int{0, 1, 15, 16, 4096, bulkMin - 1, bulkMin, bulkMin + 17, piece, 2 * piece, 2*piece + 16, bulkMax - 1, bulkMax} {
		for _, at := range [][2]int{
			{0, room},
			{room, 0},
			{1, room},
			{8, room + 3},
			{15, room + 16},
			{0, 64}, // from here on they overlap
			{64, 0},
			{4096 + 8, 0},
			{0, n / 2},
			{n / 2, 0},
		} {
			dst, src := at[0], at[1]
			copy(memory, seed)
			copy(memory[room:], seed)
			copy(want, memory)
			copy(want[dst:dst+n], want[src:src+n])
			name := fmt.Sprintf("%d bytes from %d to %d", n, src, dst)
			switch n % 4 {
			case 0:
				CopyElements(unsafe.Pointer(&memory[dst]), unsafe.Pointer(&memory[src]), 4, n/4)
			case 2:
				Move(unsafe.Pointer(&memory[dst]), memory[src:src+n])
			default:
				MoveOut(memory[dst:dst+n], unsafe.Pointer(&memory[src]))
			}
			if !bytes.Equal(memory, want) {
				t.Errorf("%s: the copy differs", name)
			}
		}
	}
}

// Few counts bytes, not elements.
func TestFew(t *testing.T) {
	if !Few(make([]byte, bulkMin-1)) || Few(make([]byte, bulkMin)) || Few(make([][64]byte, bulkMin/64)) || !Few[int64](nil) {
		t.Error("Few is true for a mebibyte of elements, or false for less")
	}
}
