//go:build linux

package kernel

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"go.uber.org/goleak"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

func TestParseTier(t *testing.T) {
	for tier := BPF; tier <= SIGCHLD; tier++ {
		if got, err := ParseTier(tier.String()); got != tier || err != nil {
			t.Errorf("ParseTier(%q) = %v, %v", tier, got, err)
		}
	}
	for _, bad := range []string{"", "BPF", "Tier(0)", "ebpf"} {
		if got, err := ParseTier(bad); err == nil || !strings.Contains(err.Error(), "bpf, procconn, pidfd, sigchld") {
			t.Errorf("ParseTier(%q) = %v, %v, want an error with the four names", bad, got, err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	report := func(Report) {}
	for _, bad := range []Config{{}, {Report: report, Poll: -1}, {Report: report, Tier: SIGCHLD + 1}} {
		if w, err := Open(bad); err == nil {
			t.Errorf("Open(%+v): no error", bad)
			w.Close()
		}
	}
}

func TestAddRefuses(t *testing.T) {
	w, _ := open(t, Config{Tier: PIDFD})
	for _, pid := range []int{0, -1, 1 << 30} {
		if err := w.Add(pid, 0); err == nil {
			t.Errorf("Add(%d): no error", pid)
		}
	}
	w.Close()
	if err := w.Add(os.Getpid(), 0); err == nil {
		t.Error("Add after Close: no error")
	}
	w.Remove(os.Getpid())
}

// heldPrograms returns the programs that descriptors of this process hold: other processes have
// watches of their own.
func heldPrograms(t *testing.T) (all []ebpf.ProgramID) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/fdinfo/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the descriptor of Glob
		}
		for line := range strings.Lines(string(text)) {
			var id ebpf.ProgramID
			if n, _ := fmt.Sscanf(line, "prog_id: %d", &id); n == 1 && !slices.Contains(all, id) {
				all = append(all, id)
			}
		}
	}
	return all
}

// loadedPrograms returns the ids of this package's programs in the kernel.
func loadedPrograms(t *testing.T) (all []ebpf.ProgramID) {
	t.Helper()
	names := []string{"exit_with_group", "exit_alone", "deliver", "sample_task"}
	for id := ebpf.ProgramID(0); ; {
		next, err := ebpf.ProgramGetNextID(id)
		if errors.Is(err, os.ErrNotExist) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		id = next
		p, err := ebpf.NewProgramFromID(id)
		if err != nil {
			continue // unloaded meanwhile
		}
		if info, err := p.Info(); err == nil && slices.Contains(names, info.Name) {
			all = append(all, id)
		}
		p.Close()
	}
}

func countDescriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// TestCloseLeavesNothing: Close leaves no descriptor, goroutine or program behind, and no report
// comes after it, even while processes are watched.
func TestCloseLeavesNothing(t *testing.T) {
	for tier := BPF; tier <= SIGCHLD; tier++ {
		t.Run(tier.String(), func(t *testing.T) {
			v := spawn(t, "exit", "0")
			if w, _ := open(t, Config{Tier: tier}); w.Close() != nil { // opens what the runtime opens only once
				t.Fatal("Close failed")
			}
			others := goleak.IgnoreCurrent()
			before := countDescriptors(t)
			var ours []ebpf.ProgramID
			w, l := open(t, Config{Tier: tier, Poll: time.Millisecond, early: true})
			if err := w.Add(v.pid(), 1); err != nil {
				t.Fatal(err)
			}
			if tier == BPF {
				if ours = heldPrograms(t); len(ours) != 3 {
					t.Errorf("programs %d are loaded, want three of them", ours)
				}
			}
			if err := w.Close(); err != nil {
				t.Error(err)
			}
			told := l.every()
			v.act()
			v.reap()
			if now := l.every(); len(now) > len(told) {
				t.Errorf("got reports %+v after Close", now[len(told):])
			}
			if n := countDescriptors(t); n > before { // there may be fewer, without those of the compiler's process
				t.Errorf("%d descriptors, want %d", n, before)
			}
			goleak.VerifyNone(t, others)
			// The kernel frees programs only when no processor can be inside them.
			left := func(id ebpf.ProgramID) bool { return slices.Contains(loadedPrograms(t), id) }
			for over := time.Now().Add(tooLong); slices.ContainsFunc(ours, left); {
				if time.Now().After(over) {
					t.Fatalf("programs %d are loaded, want none of ours: %d", loadedPrograms(t), ours)
				}
			}
		})
	}
}

// TestHelperRights logs the tier that this process gets, for TestRights.
func TestHelperRights(t *testing.T) {
	if os.Getenv("KERNEL_TEST_RIGHTS") == "" {
		t.Skip("for TestRights")
	}
	w, err := Open(Config{Report: func(Report) {}})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Logf("tier %v, passed %v", w.Tier(), w.Passed())
	_, err = Open(Config{Tier: BPF, Report: func(Report) {}})
	var missing *TierError
	if !errors.As(err, &missing) || missing.Tier != BPF {
		t.Fatalf("bpf: %v, want a TierError", err)
	}
	t.Logf("forced: missing %q, %v", missing.Missing, err)
}

// TestRights: without a capability the next tier is used, and the log names the capability.
func TestRights(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.EBPF)
	for drop, want := range map[string]string{
		"bpf,sys_admin":         "CAP_BPF",
		"perfmon,sys_admin":     "CAP_PERFMON",
		"bpf,perfmon,sys_admin": "CAP_BPF and CAP_PERFMON",
	} {
		t.Run(drop, func(t *testing.T) {
			cmd := exec.Command("setpriv", "--bounding-set", "-"+strings.ReplaceAll(drop, ",", ",-"),
				os.Args[0], "-test.run", "^TestHelperRights$", "-test.v")
			cmd.Env = append(os.Environ(), "KERNEL_TEST_RIGHTS=1")
			text, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			for _, w := range []string{"tier procconn", `missing "` + want + `"`, "missing: " + want} {
				if !strings.Contains(string(text), w) {
					t.Errorf("the output lacks %q:\n%s", w, text)
				}
			}
			if strings.Contains(string(text), "MEMLOCK") {
				t.Errorf("the output has a wrong hint:\n%s", text)
			}
		})
	}
}

// TestOrdinaryUser: an ordinary user gets a lower tier on which everything works.
func TestOrdinaryUser(t *testing.T) {
	testenv.Need(t, testenv.User)
	if testenv.Has(testenv.EBPF) {
		t.Skip("this user may load programs")
	}
	w, l := openAny(t)
	if w.Tier() == BPF || len(w.Passed()) == 0 {
		t.Fatalf("tier %v, passed %v", w.Tier(), w.Passed())
	}
	var missing *TierError
	if !errors.As(w.Passed()[0], &missing) || missing.Tier != BPF || !strings.Contains(missing.Missing, "CAP_BPF") {
		t.Errorf("passed %v, want CAP_BPF missing in the first", w.Passed())
	}
	v := spawn(t, "exit", "6")
	if err := w.Add(v.pid(), 1); err != nil {
		t.Fatal(err)
	}
	v.act()
	dead, _ := l.awaitEnd(t, 1)
	wantStatus(t, dead, v.reap())
}

// TestPIDNamespace: process numbers are those of the watcher's namespace.
func TestPIDNamespace(t *testing.T) {
	testenv.Need(t, testenv.Root, testenv.EBPF)
	if os.Getenv("KERNEL_TEST_NAMESPACE") != "" {
		t.Skip("this is the process inside the namespace")
	}
	cmd := exec.Command("unshare", "--fork", "--pid", "--mount-proc", os.Args[0],
		"-test.run", "^(TestEnds|TestStranger|TestHangs)$/^(kill|segv|leader_first|stopped|bpf)$/^bpf$", "-test.v")
	cmd.Env = append(os.Environ(), "KERNEL_TEST_NAMESPACE=1")
	text, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, want := range []string{"PASS: TestEnds/kill/bpf", "PASS: TestEnds/leader_first/bpf", "PASS: TestStranger/bpf", "PASS: TestHangs/stopped/bpf"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the output lacks %q:\n%s", want, text)
		}
	}
}
