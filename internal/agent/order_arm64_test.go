package agent

import (
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// The instructions of arm64 that order stores.
const (
	dmbStores    = 0xd5033abf // DMB ISHST
	dmbAll       = 0xd5033bbf // DMB ISH
	storeRelease = 0xc89ffc00 // STLR of 8 bytes; the low 10 bits are the registers
	registers    = 1<<10 - 1
)

// Stores that must not overtake earlier ones are behind an instruction that orders them. A processor shows a missing one
// rarely, and an emulator on amd64 never. So the test reads the code of the functions.
func TestOrderingInstructions(t *testing.T) {
	for _, x := range []struct {
		name     string
		function any
		want     uint32
		least    int
	}{
		{"rma.Fence", rma.Fence, dmbStores, 1},
		{"rma.Drain", rma.Drain, dmbAll, 1},
		{"rma.StoreRelease", rma.StoreRelease, storeRelease, 1},
		{"memory.putWord", (*memory).putWord, storeRelease, 1},
		{"memory.putWords", (*memory).putWords, storeRelease, 1},
		{"memory.execute", (*memory).execute, dmbStores, 2}, // puts, and strided ones
	} {
		if n := countCode(reflect.ValueOf(x.function).Pointer(), x.want); n < x.least {
			t.Errorf("%s has the instruction %#x %d times, want it %d times or more", x.name, x.want, n, x.least)
		}
	}
	if countCode(reflect.ValueOf(put).Pointer(), dmbAll) != 0 {
		t.Error("put has a barrier of its own, or the test finds one everywhere")
	}
}

// countCode counts an instruction, whatever its registers, in the function that begins at entry, and in the functions of
// package rma that it calls.
func countCode(entry uintptr, want uint32) (n int) {
	at := *(*unsafe.Pointer)(unsafe.Pointer(&entry)) // code does not move
	for i := uintptr(0); ; i += 4 {
		if f := runtime.FuncForPC(entry + i); f == nil || f.Entry() != entry {
			return n
		}
		word := *(*uint32)(unsafe.Add(at, i))
		if word == want || want == storeRelease && word&^registers == want {
			n++
		}
		const call, jump = 0b100101, 0b000101 // BL and B: the other bits are a signed distance in words
		if kind := word >> 26; kind != call && kind != jump {
			continue
		}
		to := entry + i + uintptr(int64(int32(word<<6)>>6)*4)
		if f := runtime.FuncForPC(to); f != nil && f.Entry() != entry && strings.HasPrefix(f.Name(), "github.com/goshmem/goshmem/rma.") {
			n += countCode(to, want)
		}
	}
}
