package archtest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Programs of shmem and mpi are linked without libc, also where a C compiler is installed. Package net would bring it
// in: a PE then starts a millisecond later, and runs only where that libc is.
func TestProgramsNeedNoLibc(t *testing.T) {
	uses := func(pkg string) []string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", pkg)
		cmd.Env = append(cmd.Environ(), "CGO_ENABLED=1")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list -deps %s: %v", pkg, err)
		}
		return strings.Fields(string(out))
	}
	const libc = "runtime/cgo"
	if !slices.Contains(uses("net"), libc) {
		t.Fatalf("package net does not need %s, so this test shows nothing", libc)
	}
	for _, pkg := range []string{"shmem", "mpi"} {
		if deps := uses("github.com/goshmem/goshmem/" + pkg); slices.Contains(deps, libc) {
			t.Errorf("package %s needs %s; it imports package net: %v", pkg, libc, slices.Contains(deps, "net"))
		}
	}
}
