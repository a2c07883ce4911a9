package shmemtest_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
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

// TestNetworks reruns itself on two nodes with -netns. Their PEs, and this process, must be in three networks.
func TestNetworks(t *testing.T) {
	const key = "SHMEMTEST_NETWORKS"
	if os.Getenv(key) != "" {
		shmemtest.Run(t, 2, func(_ *testing.T, w *shmem.World) { fmt.Printf("\nnetwork of PE %d: %s\n", w.MyPE(), networkHere()) })
		return
	}
	testenv.Need(t, testenv.Root, testenv.Namespaces)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "-test.run=^TestNetworks$", "-test.count=1", "-test.v", "-nodes=2", "-netns")
	cmd.Env = append(os.Environ(), key+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	found := map[string]bool{networkHere(): true}
	for _, m := range regexp.MustCompile(`network of PE [01]: (\S+)`).FindAllStringSubmatch(string(out), -1) {
		found[m[1]] = true
	}
	if len(found) != 3 {
		t.Errorf("PEs of two nodes and this process are in the networks %v, want three; output:\n%s", found, out)
	}
}

// networkHere names the network of this process.
func networkHere() string {
	name, err := os.Readlink("/proc/self/ns/net")
	if err != nil {
		return err.Error()
	}
	return name
}
