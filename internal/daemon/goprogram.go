package daemon

import (
	"debug/buildinfo"
	"debug/elf"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
)

// isGo says whether a process runs a Go program.
func isGo(pid int) bool {
	program := inspectProgram(pid)
	return program != nil && program.isGo
}

// isPureGo says whether a process runs a Go program that calls no C library but libc. Other Go programs may call an MPI
// library.
func isPureGo(pid int) bool {
	program := inspectProgram(pid)
	return program != nil && program.isGo && !program.linksC
}

// inspectProgram returns what is known of the program of a process, nil if its file cannot be read.
func inspectProgram(pid int) *programFile {
	f, err := os.Open(fmt.Sprintf("/proc/%d/exe", pid))
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	last := lastProgram.Load()
	if last == nil || !last.same(info) {
		_, err = buildinfo.Read(f)
		last = &programFile{info, err == nil, linksC(f)}
		lastProgram.Store(last)
	}
	return last
}

// linksC says whether a program is linked to shared libraries other than libc's.
func linksC(f *os.File) bool {
	program, err := elf.NewFile(f)
	if err != nil {
		return false // a script
	}
	libs, _ := program.ImportedLibraries() // none of a static program
	return slices.ContainsFunc(libs, func(lib string) bool {
		name, _, _ := strings.Cut(lib, ".")
		return !slices.Contains(libcParts, name)
	})
}

// libcParts are the names of libc's libraries. A Go program that imports package net is linked to them.
var libcParts = []string{"libc", "libpthread", "libresolv", "libdl", "libm", "librt", "ld-linux-x86-64", "ld-linux-aarch64"}

// programFile is a program's file and what it was found to be. The PEs of a job mostly
// run the same one, and to look into it takes longer than all else that is done
// for a PE that joins.
type programFile struct {
	os.FileInfo
	isGo   bool
	linksC bool // The program is linked to a shared library other than libc's.
}

var lastProgram atomic.Pointer[programFile]

// same says whether a file is this one, unchanged.
func (e *programFile) same(as os.FileInfo) bool {
	return os.SameFile(e.FileInfo, as) && e.ModTime().Equal(as.ModTime()) && e.Size() == as.Size()
}
