package layout

import (
	"fmt"
	"unsafe"
)

// FailureHeader identifies a failure page.
type FailureHeader struct {
	Magic   uint64
	Version uint32
	NPEs    uint32 // of the job, and so many Failures there are
	Job     [16]byte
	Size    uint64 // of the whole page in bytes
	_       [24]byte
}

// Failure is what the failure page has of one PE: the latest of its incarnations
// that has died. Zeros: none has.
type Failure struct {
	Incarnation uint32 // with FailureFresh while its death is being published
	Cause       uint32
	Epoch       uint64 // the page's when this was published; 0 while it is written
	At          int64  // CLOCK_MONOTONIC of the death in ns, 0 if it is not known
	Stored      int64  // CLOCK_MONOTONIC of its publication in ns
}

// FailureFresh marks an incarnation in Failure whose death may be part of an epoch that is not finished.
const FailureFresh = 1 << 31

// FailurePage is the start of a job's failure page on a node. The failures of its
// PEs follow, and then the FailureLog.
type FailurePage struct {
	Header FailureHeader
	Epoch  uint64 // number of publications so far, alone on its cache line
	_      [56]byte
}

// LogLength is how many deaths the log of a failure page holds. It has room for the PEs of a node
// that is lost, and with its count it is one page of memory.
const LogLength = 255

// FailureLog is the end of a job's failure page: the latest deaths, in the order of their
// publication. Readers that ask for the deaths after an epoch find them here without a look at every
// PE. The death of position k, from 0 on, is in Deaths[k%LogLength].
type FailureLog struct {
	Count  uint64 // number of deaths logged so far, those of an epoch that is not finished included
	_      uint64
	Deaths [LogLength]LoggedDeath
}

// LoggedDeath says of which PE a death was published in an epoch.
type LoggedDeath struct {
	Epoch uint64
	PE    uint64
}

// Death returns the place of the death of a position.
func (l *FailureLog) Death(position uint64) *LoggedDeath { return &l.Deaths[position%LogLength] }

// Failure returns what the page has of a PE, which must be below the header's NPEs.
func (p *FailurePage) Failure(pe int) *Failure {
	return (*Failure)(unsafe.Add(unsafe.Pointer(p), int(unsafe.Sizeof(*p))+pe*int(unsafe.Sizeof(Failure{}))))
}

// Log returns the log of the page, whose header has NPEs npes.
func (p *FailurePage) Log(npes int) *FailureLog {
	return (*FailureLog)(unsafe.Pointer(p.Failure(npes)))
}

// FailurePageSize returns the size in bytes of the failure page of a job of npes
// PEs: whole pages of 4096 bytes.
func FailurePageSize(npes int) uint64 {
	size := uint64(unsafe.Sizeof(FailurePage{})) + uint64(npes)*uint64(unsafe.Sizeof(Failure{})) + uint64(unsafe.Sizeof(FailureLog{}))
	return (size + 4095) &^ 4095
}

// NewFailureHeader returns the header of the failure page of a job.
func NewFailureHeader(job [16]byte, npes uint32) FailureHeader {
	return FailureHeader{Magic: FailureMagic, Version: Version, NPEs: npes, Job: job, Size: FailurePageSize(int(npes))}
}

// Check reports whether h is the header of the failure page of the job, in a file
// of size bytes.
func (h *FailureHeader) Check(job [16]byte, npes uint32, size uint64) error {
	switch {
	case h.Magic != FailureMagic:
		return fmt.Errorf("failure page: magic %#x, want %#x: not a goshmem failure page", h.Magic, uint64(FailureMagic))
	case h.Version != Version:
		return fmt.Errorf("failure page: layout version %d, want %d: oshrun and the program were built from different versions", h.Version, Version)
	case h.Job != job:
		return fmt.Errorf("failure page belongs to job %x, want %x", h.Job, job)
	case h.NPEs != npes:
		return fmt.Errorf("failure page of %d PEs, want %d", h.NPEs, npes)
	case h.Size != FailurePageSize(int(npes)) || h.Size > size:
		return fmt.Errorf("failure page of %d bytes in a file of %d, want %d", h.Size, size, FailurePageSize(int(npes)))
	}
	return nil
}
