// Package testenv tells tests whether the machine has the capabilities that they need beyond Go, and builds the C
// programs of tests.
//
// A test that needs a capability begins with Need. If the machine lacks it, the test is skipped; the message has
// the cause and the Debian package to install. The test fails instead if GOSHMEM_TEST_REQUIRE names the capability,
// for machines that should have all of them.
package testenv

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Capability is a property that a machine may lack, as spelled in GOSHMEM_TEST_REQUIRE.
type Capability string

// The capabilities.
const (
	CC      Capability = "cc"      // a C compiler
	OpenMPI Capability = "openmpi" // Open MPI with its compiler
	OSHMEM  Capability = "oshmem"  // Open MPI's OpenSHMEM with its compiler
	MPICH   Capability = "mpich"   // MPICH with its compiler and launcher
	PMI1    Capability = "pmi1"    // the PMI-1 client of MPICH's static library and a C compiler
	LibPMIx Capability = "libpmix" // the PMIx reference library and a C compiler
	EBPF    Capability = "ebpf"    // the test may load programs that trace the kernel
	GDB     Capability = "gdb"     // gdb, and the test may attach it to processes that it has started
	Root    Capability = "root"    // the test runs as root
	User    Capability = "user"    // the test runs as an ordinary user

	Namespaces Capability = "netns" // the test may make namespaces of networks, processes and mounts
	// UserNamespaces is what Namespaces is, for networks alone and as an ordinary user.
	UserNamespaces Capability = "userns"

	SSH   Capability = "ssh"   // ssh and its server, and ip to make hosts for them
	Slurm Capability = "slurm" // Slurm with its daemons and munge's, and ip to make a network for them
)

// probe looks for one capability.
type probe struct {
	find func() (*toolchain, error) // the toolchain is nil for a capability without a compiler
	hint string                     // how to get the capability
}

var probes = map[Capability]probe{
	CC:      {findCC, "Debian: apt install gcc libc6-dev"},
	OpenMPI: {findOpenMPI, "Debian: apt install libopenmpi-dev openmpi-bin"},
	OSHMEM:  {findOSHMEM, "Debian: apt install libopenmpi-dev openmpi-bin"},
	MPICH:   {findMPICH, "Debian: apt install libmpich-dev mpich"},
	PMI1:    {findPMI1, "Debian: apt install gcc libmpich-dev"},
	LibPMIx: {findLibPMIx, "Debian: apt install gcc libpmix-dev"},
	EBPF:    {findEBPF, "run the test as root, or with CAP_BPF and CAP_PERFMON"},
	GDB:     {findGDB, "Debian: apt install gdb; attaching takes kernel.yama.ptrace_scope 0, or root"},
	Root:    {findRoot, "run the test as root"},
	User:    {findUser, "run the test as an ordinary user"},

	Namespaces:     {findNamespaces, "run the test as root, outside of a container that forbids it; Debian: apt install util-linux"},
	UserNamespaces: {findUserNamespaces, "allow user namespaces: sysctl user.max_user_namespaces, and kernel.unprivileged_userns_clone or kernel.apparmor_restrict_unprivileged_userns where they exist"},

	SSH:   {programsOf("ssh", "ssh-keygen", "sshd", "ip"), "Debian: apt install iproute2 openssh-client openssh-server"},
	Slurm: {programsOf("salloc", "srun", "sinfo", "slurmctld", "slurmd", "munged", "ip"), "Debian: apt install iproute2 munge slurm-wlm"},
}

// answer is the result of a probe.
type answer struct {
	tools *toolchain
	err   error
}

var answers = func() map[Capability]func() answer {
	all := map[Capability]func() answer{}
	for c, p := range probes {
		all[c] = sync.OnceValue(func() answer {
			tools, err := p.find()
			return answer{tools, err}
		})
	}
	return all
}()

// Need skips the test unless the machine has all of the capabilities. It fails the test if GOSHMEM_TEST_REQUIRE
// names a missing one.
func Need(t testing.TB, all ...Capability) {
	t.Helper()
	required, err := envvar.Required(os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		switch missing := lacks(c); {
		case missing == nil:
		case slices.Contains(required, string(c)):
			t.Fatalf("%v, although %s=%q requires it", missing, envvar.TestRequire, os.Getenv(envvar.TestRequire))
		default:
			t.Skip(missing)
		}
	}
}

// Has says whether the machine has a capability.
func Has(c Capability) bool { return lacks(c) == nil }

// lacks returns why the machine lacks a capability, or nil if it has it.
func lacks(c Capability) error {
	ask, ok := answers[c]
	if !ok {
		return fmt.Errorf("capability %q, want one that package testenv knows", string(c))
	}
	if err := ask().err; err != nil {
		return fmt.Errorf("%s: %w; hint: %s", c, err, probes[c].hint)
	}
	return nil
}

func findEBPF() (*toolchain, error) { return nil, xunix.TryBPF() }

// findGDB attaches gdb to a process.
func findGDB() (*toolchain, error) {
	sleep := exec.Command("sleep", "60")
	if err := sleep.Start(); err != nil {
		return nil, err
	}
	defer func() {
		_ = sleep.Process.Kill()
		_ = sleep.Wait() // it was killed
	}()
	cmd := exec.Command("gdb", "-nx", "-batch", "-p", fmt.Sprint(sleep.Process.Pid))
	text, err := cmd.CombinedOutput()
	if err == nil && !bytes.Contains(text, []byte(") detached]")) { // gdb's status is 0 all the same
		err = errors.New("not attached")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(text))
	}
	return nil, nil
}

func findRoot() (*toolchain, error) {
	if uid := os.Geteuid(); uid != 0 {
		return nil, fmt.Errorf("the test runs as user %d, want 0", uid)
	}
	return nil, nil
}

func findUser() (*toolchain, error) {
	if os.Geteuid() == 0 {
		return nil, fmt.Errorf("the test runs as root, want an ordinary user")
	}
	return nil, nil
}

func findNamespaces() (*toolchain, error) {
	cmd := exec.Command("unshare", "--mount", "--net", "--pid", "--fork", "mount", "--bind", "/dev/null", "/dev/ptmx")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", cmd, err, bytes.TrimSpace(text))
	}
	return nil, nil
}

func findUserNamespaces() (*toolchain, error) { return nil, xunix.TryNamespaces(true) }

// programsOf returns a probe that looks for all of some programs.
func programsOf(names ...string) func() (*toolchain, error) {
	return func() (*toolchain, error) {
		for _, name := range names {
			if _, err := exec.LookPath(name); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
}
