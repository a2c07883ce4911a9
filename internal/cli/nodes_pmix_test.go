package cli

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// linesOf returns what a job has printed, sorted.
func linesOf(j *job) []string {
	lines := strings.Split(strings.TrimSpace(j.stdout.String()), "\n")
	slices.Sort(lines)
	return lines
}

// Processes of different nodes find each other by published names, and connect.
func TestEmulatedNames(t *testing.T) {
	t.Parallel()
	program := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("..", "..", "pmix", "server", "testdata", "names.c"))
	j := start(t, "--emulate", "2", "-n", "2", program)
	j.expect(0)
	want := []string{
		"0: nothing MPI_ERR_NAME: invalid name argument", "0: service found",
		"1: nothing MPI_ERR_NAME: invalid name argument", "1: received 0 over the port", "1: service found",
		"again: MPI_ERR_SERVICE: unknown service name", "twice: refused", "unpublish: found",
	}
	if got := linesOf(j); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Ranges, waiting and lifetimes of published data mean on two nodes what they mean on one; only the range "local" does not
// reach the other node.
func TestEmulatedExchange(t *testing.T) {
	t.Parallel()
	program := testenv.CompileC(t, testenv.CC, filepath.Join("..", "..", "pmix", "server", "testdata", "exchange.c"), testenv.LibPMIx)
	j := start(t, "--emulate", "2", "-n", "2", program)
	j.expect(0)
	want := []string{
		"awaited: NOT-FOUND", "awaited: SUCCESS", "for 0: NOT-FOUND", "for 1: SUCCESS",
		"of the application that has not: NOT-FOUND", "of the application: NOT-FOUND",
		"of the process that has ended: NOT-FOUND", "of the process: SUCCESS",
		"own: NOT-FOUND", "own: SUCCESS", "what never comes: TIMEOUT",
	}
	if got := linesOf(j); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
