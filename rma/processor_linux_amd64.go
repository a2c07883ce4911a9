package rma

// Processor returns the number of the processor on which the caller runs, counted from 1; 0: it is not known.
// The caller may be on another one when it returns.
//
//   - Cost: an instruction of some tens of cycles, no system call.
func Processor() uint32
