package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/rma"
)

// An operation on another PE's memory has two halves. The fast half is generic: it tests
// its arguments in a few instructions, and the compiler puts the access in line (Put, P,
// AtomicAdd, ...). It reaches the PE by Ctx.target and by nothing else. The slow half is
// here, and knows no types: whatever the fast test does not let pass becomes an operation,
// which Ctx.carryOut checks in full and then performs.
//
// These are the two places that change when a PE's memory is on another node.

// opCode is what an operation does.
type opCode uint8

// The codes. "Element" is the first one of the object on the PE; "old" is what it held before,
// which the operation returns.
const (
	opPut         opCode = iota // copies n elements from local to the object
	opPutStrided                // copies stride.N blocks from local to the object
	opPutSignal                 // opPut, and then the signal: operand is stored there, or added
	opGet                       // copies n elements of the object to local
	opGetStrided                // copies stride.N blocks of the object to local
	opFetch                     // returns the element
	opSet                       // stores operand in the element
	opSwap                      // stores operand, returns old
	opCompareSwap               // stores operand if old is cond, returns old
	opAdd                       // adds operand, returns old
	opAnd                       // combines with operand bit by bit, returns old
	opOr
	opXor
)

// reads reports whether the code leaves the PE's memory as it is.
func (code opCode) reads() bool { return code == opGet || code == opGetStrided || code == opFetch }

// routine is what the slow half knows of a routine of this package.
type routine struct {
	name string // for errors
	code opCode
	// single says of strided ones that their blocks are of one element, and Stride.Block 0 or 1.
	single bool
}

// The routines. The fast half passes the address of one: a single register.
var (
	routinePut    = routine{name: "Put", code: opPut}
	routinePutNBI = routine{name: "PutNBI", code: opPut}
	routineP      = routine{name: "P", code: opPut}
	routineGet    = routine{name: "Get", code: opGet}
	routineGetNBI = routine{name: "GetNBI", code: opGet}
	routineG      = routine{name: "G", code: opGet}

	routineIPut  = routine{name: "IPut", code: opPutStrided, single: true}
	routineIGet  = routine{name: "IGet", code: opGetStrided, single: true}
	routineIBPut = routine{name: "IBPut", code: opPutStrided}
	routineIBGet = routine{name: "IBGet", code: opGetStrided}

	routinePutSignal    = routine{name: "PutSignal", code: opPutSignal}
	routinePutSignalNBI = routine{name: "PutSignalNBI", code: opPutSignal}
	routineSignalSet    = routine{name: "Ctx.SignalSet", code: opSet}
	routineSignalAdd    = routine{name: "Ctx.SignalAdd", code: opAdd}

	routineAtomicFetch       = routine{name: "AtomicFetch", code: opFetch}
	routineAtomicSet         = routine{name: "AtomicSet", code: opSet}
	routineAtomicSwap        = routine{name: "AtomicSwap", code: opSwap}
	routineAtomicCompareSwap = routine{name: "AtomicCompareSwap", code: opCompareSwap}
	routineAtomicFetchInc    = routine{name: "AtomicFetchInc", code: opAdd}
	routineAtomicInc         = routine{name: "AtomicInc", code: opAdd}
	routineAtomicFetchAdd    = routine{name: "AtomicFetchAdd", code: opAdd}
	routineAtomicAdd         = routine{name: "AtomicAdd", code: opAdd}
	routineAtomicFetchAnd    = routine{name: "AtomicFetchAnd", code: opAnd}
	routineAtomicAnd         = routine{name: "AtomicAnd", code: opAnd}
	routineAtomicFetchOr     = routine{name: "AtomicFetchOr", code: opOr}
	routineAtomicOr          = routine{name: "AtomicOr", code: opOr}
	routineAtomicFetchXor    = routine{name: "AtomicFetchXor", code: opXor}
	routineAtomicXor         = routine{name: "AtomicXor", code: opXor}

	routineAtomicFetchNBI       = routine{name: "AtomicFetchNBI", code: opFetch}
	routineAtomicSwapNBI        = routine{name: "AtomicSwapNBI", code: opSwap}
	routineAtomicCompareSwapNBI = routine{name: "AtomicCompareSwapNBI", code: opCompareSwap}
	routineAtomicFetchIncNBI    = routine{name: "AtomicFetchIncNBI", code: opAdd}
	routineAtomicFetchAddNBI    = routine{name: "AtomicFetchAddNBI", code: opAdd}
	routineAtomicFetchAndNBI    = routine{name: "AtomicFetchAndNBI", code: opAnd}
	routineAtomicFetchOrNBI     = routine{name: "AtomicFetchOrNBI", code: opOr}
	routineAtomicFetchXorNBI    = routine{name: "AtomicFetchXorNBI", code: opXor}
)

// operation is one operation on the memory of one PE, without its type.
type operation struct {
	*routine
	pe     int            // in the context's team
	object ref            // what it works on, on that PE
	need   int            // elements that object must have
	size   uint64         // bytes of an element
	local  unsafe.Pointer // puts and gets: the caller's elements
	n      int            // puts and gets: elements to copy; strided ones: elements that local has
	// operand and cond are values of size bytes, in the low bits.
	operand, cond uint64
	*particulars
}

// particulars is what only some operations have. It lies apart so that others need not clear its
// nine words.
type particulars struct {
	stride Stride   // strided ones
	signal ref      // the word that opPutSignal updates
	update SignalOp // and how
}

// target returns the way to a PE whose number has passed the fast test.
func (c *Ctx) target(pe int) rma.Target {
	return rma.Target{Segment: unsafe.Add(c.base, pe*c.stride)}
}

// carryOut checks an operation in full and performs it if nothing is wrong with it. That is so
// for operations on no elements, for all on a team whose members are no arithmetic sequence, and
// for all once any PE has died.
//
// It returns the element's old value for codes that fetch it. The operation does not escape, so
// the caller has it on its stack.
func (c *Ctx) carryOut(o *operation) (old uint64, err error) {
	if err := c.check(o.name, o.object, o.need, o.pe); err != nil {
		return 0, err
	}
	switch o.code {
	case opPutSignal:
		if err := c.checkSignal(o); err != nil {
			return 0, err
		}
	case opPutStrided:
		if err := o.stride.check(o.name, o.single, o.object.n, o.n); err != nil {
			return 0, err
		}
	case opGetStrided:
		if err := o.stride.check(o.name, o.single, o.n, o.object.n); err != nil {
			return 0, err
		}
	default:
	}
	*c.mark = 1
	if o.object.tag&hollow != 0 && o.code != opPutSignal {
		return 0, nil // no elements, whose place there is none of
	}
	return o.perform(rma.Target{Segment: c.h.segment(c.of.team.g.pes[o.pe])}), nil
}

// checkSignal checks what a put with a signal has beside a put.
func (c *Ctx) checkSignal(o *operation) error {
	if err := c.check(o.name, o.signal, 1, o.pe); err != nil {
		return err
	}
	if o.update > SignalAdd {
		return usage(o.name, ErrArgument, "signal operation %d, want SignalSet or SignalAdd", o.update)
	}
	if o.object.tag == o.signal.tag && overlaps(o.object.off, o.size, o.n, o.signal.off) {
		return usage(o.name, ErrOverlap, "the signal is among the %d elements that are copied to, want another place", o.n)
	}
	return nil
}

// perform makes an operation that was checked on a PE whose segment is mapped.
func (o *operation) perform(t rma.Target) (old uint64) {
	at := t.At(o.object.off)
	switch o.code {
	case opPut:
		rma.CopyElements(at, o.local, uintptr(o.size), o.n)
	case opGet:
		rma.CopyElements(o.local, at, uintptr(o.size), o.n)
	case opPutStrided:
		o.copyStrided(at, o.local)
	case opGetStrided:
		o.copyStrided(o.local, at)
	case opPutSignal:
		if o.n > 0 {
			rma.CopyElements(at, o.local, uintptr(o.size), o.n)
			rma.Fence()
		}
		updateSignal(t.At(o.signal.off), o.operand, o.update)
	default:
		if o.size == 4 {
			old = uint64(atomicOn(o.code, at, uint32(o.operand), uint32(o.cond)))
		} else {
			old = atomicOn(o.code, at, o.operand, o.cond)
		}
	}
	if !o.code.reads() {
		t.Ring()
	}
	return old
}

func (o *operation) copyStrided(dst, src unsafe.Pointer) {
	block := o.stride.Block
	if o.single {
		block = 1
	}
	rma.CopyStrided(dst, src, uintptr(o.size), o.stride.Dst, o.stride.Src, block, o.stride.N)
}

// atomicOn performs an atomic operation on the word at p.
func atomicOn[W uint32 | uint64](code opCode, p unsafe.Pointer, operand, cond W) (old W) {
	switch code {
	case opFetch:
		return rma.AtomicLoad[W](p)
	case opSet:
		rma.AtomicStore(p, operand)
		return 0
	case opSwap:
		return rma.AtomicSwap(p, operand)
	case opCompareSwap:
		return rma.AtomicCompareSwap(p, cond, operand)
	case opAdd:
		return rma.AtomicAdd(p, operand)
	case opAnd:
		return rma.AtomicAnd(p, operand)
	case opOr:
		return rma.AtomicOr(p, operand)
	default: // opXor
		return rma.AtomicXor(p, operand)
	}
}
