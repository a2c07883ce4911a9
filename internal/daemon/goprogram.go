package daemon

import (
	"debug/buildinfo"
	"fmt"
	"os"
	"sync/atomic"
)

// isGo says whether a process runs a Go program.
func isGo(pid int) bool {
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return false
	}
	last := lastProgram.Load()
	if last == nil || !last.same(info) {
		_, err = buildinfo.Read(f)
		last = &programFile{info, err == nil}
		lastProgram.Store(last)
	}
	return last.isGo
}

// programFile is a program's file and what it was found to be. The PEs of a job mostly
// run the same one, and to look into it takes longer than all else that is done
// for a PE that joins.
type programFile struct {
	os.FileInfo
	isGo bool
}

var lastProgram atomic.Pointer[programFile]

// same says whether a file is this one, unchanged.
func (e *programFile) same(as os.FileInfo) bool {
	return os.SameFile(e.FileInfo, as) && e.ModTime().Equal(as.ModTime()) && e.Size() == as.Size()
}
