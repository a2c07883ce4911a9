package shmem

import (
	"unsafe"

	"github.com/goshmem/goshmem/rma"
	"github.com/goshmem/goshmem/symheap/layout"
)

// An operation on another PE's memory has two halves.
//
//   - The fast half is generic. It tests its arguments in a few instructions, and the compiler inlines the access
//     (Put, P, AtomicAdd, ...). It reaches the PE by Ctx.target and by nothing else.
//   - The slow half is in this file and knows no types. A call that fails the fast test becomes an operation, which
//     Ctx.checkAndPerform checks in full and then performs.
//
// A PE whose memory is on another node is in no window, so an operation on it comes to the slow half, which gives it to
// the agent of the node (far.go).

// opCode is what an operation does.
type opCode uint8

// The codes. "Element" is the first element of the object on the PE. "old" is what it held before.
const (
	opPut         opCode = iota // copies n elements of local to the object
	opPutStrided                // copies stride.N blocks of local to the object
	opPutSignal                 // opPut, then stores operand in the signal or adds it, as update says
	opGet                       // copies n elements of the object to local
	opGetStrided                // copies stride.N blocks of the object to local
	opFetch                     // returns the element
	opSet                       // stores operand in the element
	opSwap                      // stores operand, returns old
	opCompareSwap               // stores operand if old is cond, returns old
	opAdd                       // adds operand, returns old
	opAnd                       // bitwise AND with operand, returns old
	opOr                        // bitwise OR with operand, returns old
	opXor                       // bitwise XOR with operand, returns old
)

// readsOnly reports whether the code leaves the PE's memory unchanged.
func (code opCode) readsOnly() bool { return code == opGet || code == opGetStrided || code == opFetch }

// routine is what the slow half knows of a routine of this package.
type routine struct {
	name string // for errors
	code opCode
	// single is set for the strided routines without blocks: Stride.Block is 0 or 1.
	single bool
	// updates is set for atomic routines that return no old value.
	updates bool
	// nbi is set for puts that may return before their elements were read.
	nbi bool
	// signals is set for routines that update a signal: puts made before the call need a Fence, as for any operation.
	signals bool
}

// The routines. The fast half passes a routine by its address, in one register.
var (
	routinePut    = routine{name: "Put", code: opPut}
	routinePutNBI = routine{name: "PutNBI", code: opPut, nbi: true}
	routineP      = routine{name: "P", code: opPut}
	routineGet    = routine{name: "Get", code: opGet}
	routineGetNBI = routine{name: "GetNBI", code: opGet}
	routineG      = routine{name: "G", code: opGet}

	routineIPut  = routine{name: "IPut", code: opPutStrided, single: true}
	routineIGet  = routine{name: "IGet", code: opGetStrided, single: true}
	routineIBPut = routine{name: "IBPut", code: opPutStrided}
	routineIBGet = routine{name: "IBGet", code: opGetStrided}

	routinePutSignal    = routine{name: "PutSignal", code: opPutSignal}
	routinePutSignalNBI = routine{name: "PutSignalNBI", code: opPutSignal, nbi: true}
	routineSignalSet    = routine{name: "Ctx.SignalSet", code: opSet, signals: true}
	routineSignalAdd    = routine{name: "Ctx.SignalAdd", code: opAdd, signals: true}

	routineAtomicFetch       = routine{name: "AtomicFetch", code: opFetch}
	routineAtomicSet         = routine{name: "AtomicSet", code: opSet, updates: true}
	routineAtomicSwap        = routine{name: "AtomicSwap", code: opSwap}
	routineAtomicCompareSwap = routine{name: "AtomicCompareSwap", code: opCompareSwap}
	routineAtomicFetchInc    = routine{name: "AtomicFetchInc", code: opAdd}
	routineAtomicInc         = routine{name: "AtomicInc", code: opAdd, updates: true}
	routineAtomicFetchAdd    = routine{name: "AtomicFetchAdd", code: opAdd}
	routineAtomicAdd         = routine{name: "AtomicAdd", code: opAdd, updates: true}
	routineAtomicFetchAnd    = routine{name: "AtomicFetchAnd", code: opAnd}
	routineAtomicAnd         = routine{name: "AtomicAnd", code: opAnd, updates: true}
	routineAtomicFetchOr     = routine{name: "AtomicFetchOr", code: opOr}
	routineAtomicOr          = routine{name: "AtomicOr", code: opOr, updates: true}
	routineAtomicFetchXor    = routine{name: "AtomicFetchXor", code: opXor}
	routineAtomicXor         = routine{name: "AtomicXor", code: opXor, updates: true}

	routineAtomicFetchNBI       = routine{name: "AtomicFetchNBI", code: opFetch}
	routineAtomicSwapNBI        = routine{name: "AtomicSwapNBI", code: opSwap}
	routineAtomicCompareSwapNBI = routine{name: "AtomicCompareSwapNBI", code: opCompareSwap}
	routineAtomicFetchIncNBI    = routine{name: "AtomicFetchIncNBI", code: opAdd}
	routineAtomicFetchAddNBI    = routine{name: "AtomicFetchAddNBI", code: opAdd}
	routineAtomicFetchAndNBI    = routine{name: "AtomicFetchAndNBI", code: opAnd}
	routineAtomicFetchOrNBI     = routine{name: "AtomicFetchOrNBI", code: opOr}
	routineAtomicFetchXorNBI    = routine{name: "AtomicFetchXorNBI", code: opXor}
)

// operation is one operation on the memory of one PE, without its element type.
type operation struct {
	*routine
	pe     int            // number of the PE in the context's team
	object ref            // the object on that PE
	need   int            // number of elements that object must have
	size   uint64         // size of an element in bytes
	local  unsafe.Pointer // puts and gets: the first of the caller's elements
	n      int            // puts and gets: number of elements to copy; strided ones: number of elements at local
	// operand and cond are values of size bytes, in the low bits of the words.
	operand, cond uint64
	*particulars
}

// particulars are the arguments that only some operations have. They lie apart, so that the other operations need not
// clear these nine words.
type particulars struct {
	stride Stride   // of strided operations
	signal ref      // the word that opPutSignal updates
	update SignalOp // how opPutSignal updates it
}

// target returns access to a PE whose number has passed the fast test.
func (c *Ctx) target(pe int) rma.Target {
	return rma.Target{Segment: unsafe.Add(c.base, (pe-c.first)*c.stride)}
}

// targetAndMark is target, and marks the call (heap.mark). It reads first before it stores the mark, so that the
// compiler takes the difference that the fast test has computed.
func (c *Ctx) targetAndMark(pe int) rma.Target {
	i := pe - c.first
	*c.mark = 1
	return rma.Target{Segment: unsafe.Add(c.base, i*c.stride)}
}

// checkAndPerform checks an operation in full, and performs it if its arguments are good. A good operation comes here
// if its handle has no elements, if the PE is outside of the context's window, or if a PE has died.
//
// It returns the element's old value for the codes that fetch it. The operation does not escape, so the caller keeps
// it on its stack.
func (c *Ctx) checkAndPerform(o *operation) (old uint64, err error) {
	pe, empty, err := c.checkOperation(o)
	if err != nil || empty {
		return 0, err
	}
	local, near := c.h.job.Place.Local(pe)
	if !near {
		return c.performFar(o, pe)
	}
	return o.perform(rma.Target{Segment: c.h.job.Map.Segment(local)}), nil
}

// checkOperation checks an operation in full. It returns the PE in the world, and whether there is nothing to do. It
// marks the call.
func (c *Ctx) checkOperation(o *operation) (pe layout.PE, empty bool, err error) {
	if err := c.check(o.name, o.object, o.need, o.pe); err != nil {
		return 0, false, err
	}
	switch o.code {
	case opPutSignal:
		if err := c.checkSignal(o); err != nil {
			return 0, false, err
		}
	case opPutStrided:
		if err := o.stride.check(o.name, o.single, o.object.n, o.n); err != nil {
			return 0, false, err
		}
	case opGetStrided:
		if err := o.stride.check(o.name, o.single, o.n, o.object.n); err != nil {
			return 0, false, err
		}
	default:
	}
	*c.mark = 1
	empty = o.object.tag&hollow != 0 && o.code != opPutSignal // the handle has no elements, so there is no address
	return c.shared.team.group.pe(o.pe), empty, nil
}

// checkSignal checks the arguments that a put with a signal has in addition to those of a put.
func (c *Ctx) checkSignal(o *operation) error {
	if err := c.check(o.name, o.signal, 1, o.pe); err != nil {
		return err
	}
	if o.update > SignalAdd {
		return usage(o.name, ErrArgument, "signal operation %d, want SignalSet or SignalAdd", o.update)
	}
	if o.object.tag == o.signal.tag && signalOverlaps(o.object.off, o.size, o.n, o.signal.off) {
		return usage(o.name, ErrOverlap, "the signal lies among the %d elements that the call writes, want it outside of them", o.n)
	}
	return nil
}

// perform performs an operation that was checked, on a PE whose segment is mapped.
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
			old = uint64(performAtomic(o.code, at, uint32(o.operand), uint32(o.cond)))
		} else {
			old = performAtomic(o.code, at, o.operand, o.cond)
		}
	}
	if !o.code.readsOnly() {
		t.Ring()
	}
	return old
}

// copyStrided copies the blocks of a strided operation.
func (o *operation) copyStrided(dst, src unsafe.Pointer) {
	block := o.stride.Block
	if o.single {
		block = 1
	}
	rma.CopyStrided(dst, src, uintptr(o.size), o.stride.Dst, o.stride.Src, block, o.stride.N)
}

// performAtomic performs an atomic operation on the word at p.
func performAtomic[W uint32 | uint64](code opCode, p unsafe.Pointer, operand, cond W) (old W) {
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
