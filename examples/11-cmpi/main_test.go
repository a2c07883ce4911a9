package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/exampletest"
	"github.com/goshmem/goshmem/internal/house/testenv"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// Open MPI and package shmem are clients of one PMIx server in each process, and work on the same memory.
func TestOpenMPI(t *testing.T) {
	testenv.Need(t, testenv.CC, testenv.OpenMPI)
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-tags", "cmpi", "-o", dir+"/", ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=1", "CC="+compiler())
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build, err, text)
	}
	exampletest.RunBuilt(t, dir, func(n int) (string, int) {
		var want strings.Builder
		for pe := range n {
			fmt.Fprintf(&want, "rank %d is PE %d: MPI sums up %d numbers, and shmem puts back what MPI has sent\n", pe, pe, 10_000*n)
		}
		return want.String(), 0
	})
}

// compiler returns the name of Open MPI's compiler; capability OpenMPI has found one.
func compiler() string {
	if _, err := exec.LookPath("mpicc.openmpi"); err == nil {
		return "mpicc.openmpi"
	}
	return "mpicc"
}

// Without the tag, the example ends with status 1 and prints no result.
func TestUntagged(t *testing.T) { exampletest.Refuse(t, 1) }
