package mpi

import (
	"encoding/binary"
	"errors"

	"github.com/goshmem/goshmem/internal/bridge"
)

// codesOf returns the set of codes of the error of a request.
func codesOf(err error) (set uint64) {
	if err == nil {
		return 0
	}
	if inner, is := errors.AsType[*bridge.FaultError](err); is {
		set = 1 << bridge.InnerBlock
		for _, codes := range inner.Outcome.Requests {
			set |= codes
		}
		return set
	}
	for _, c := range [...]struct {
		cause error
		code  int
	}{
		{ErrDied, bridge.PeerFailed},
		{ErrTimeout, bridge.TimedOut},
		{errElsewhere, bridge.Elsewhere},
		{ErrTruncated, bridge.Truncated},
		{ErrCanceled, bridge.Withdrawn},
		{ErrRequestCanceled, bridge.Withdrawn},
		{ErrRankFinalized, bridge.RankLeft},
		{ErrCommBroken, bridge.Broken},
		{ErrRevoked, bridge.Broken},
		{ErrMismatch, bridge.Broken},
	} {
		if errors.Is(err, c.cause) {
			return 1 << c.code
		}
	}
	if _, raised := errors.AsType[*raisedError](err); raised {
		if coded, ok := errors.AsType[interface {
			error
			FaultCode() int
		}](err); ok {
			if c := coded.FaultCode(); c >= bridge.Application && c < bridge.Codes {
				return 1 << c
			}
		}
		return 1 << bridge.Raised
	}
	return 1 << bridge.OtherFault
}

// faultBytes is the length of a fault in a vote: u32 rank, u64 codes, u64 block.
const faultBytes = 20

// appendFaults appends a list of faults.
func appendFaults(b []byte, faults []bridge.Fault) []byte {
	for _, f := range faults {
		b = binary.LittleEndian.AppendUint32(b, uint32(f.Rank))
		b = binary.LittleEndian.AppendUint64(b, f.Codes)
		b = binary.LittleEndian.AppendUint64(b, f.Block)
	}
	return b
}

// faultsIn is the inverse of appendFaults.
func faultsIn(body string) (faults []bridge.Fault) {
	for b := []byte(body); len(b) >= faultBytes; b = b[faultBytes:] {
		faults = append(faults, bridge.Fault{Rank: int(binary.LittleEndian.Uint32(b)), Codes: binary.LittleEndian.Uint64(b[4:]), Block: binary.LittleEndian.Uint64(b[12:])})
	}
	return faults
}

// uniteFaults unites two lists, which have no rank in common.
func uniteFaults(a, b string) string { return a + b }
