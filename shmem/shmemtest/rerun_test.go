package shmemtest_test

import (
	"os"
	"os/exec"
	"testing"

	"github.com/goshmem/goshmem/shmem"
	"github.com/goshmem/goshmem/shmem/shmemtest"
)

// rerun executes the calling test alone in a new process.
func rerun(t *testing.T, env ...string) (string, error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^"+t.Name()+"$", "-test.count=1")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// TestShort reruns itself with -short, which must reach the PEs.
func TestShort(t *testing.T) {
	const key = "SHMEMTEST_SHORT"
	short := os.Getenv(key) != ""
	shmemtest.Run(t, 2, func(t *testing.T, _ *shmem.World) {
		if short && !testing.Short() {
			t.Error("a PE runs without -short")
		}
	})
	if short {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestShort$", "-test.count=1", "-test.short")
	cmd.Env = append(os.Environ(), key+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestPEs reruns itself with -pes, whose command must start the PEs.
func TestPEs(t *testing.T) {
	const rerunKey, peKey = "SHMEMTEST_PES", "SHMEMTEST_PE"
	isRerun := os.Getenv(rerunKey) != ""
	shmemtest.Run(t, 2, func(t *testing.T, _ *shmem.World) {
		if got := os.Getenv(peKey) != ""; got != isRerun {
			t.Errorf("the command of -pes has started a PE: %t, want %t", got, isRerun)
		}
	})
	if isRerun {
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestPEs$", "-test.count=1", "-pes=env "+peKey+"=1 "+self)
	cmd.Env = append(os.Environ(), rerunKey+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
