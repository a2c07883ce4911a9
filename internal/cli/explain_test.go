package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// If the kernel cannot run a file, the error says what the file is and what helps.
func TestExecFormat(t *testing.T) {
	elf := []byte("\x7fELF\x02\x01\x01" + strings.Repeat("\x00", 57)) // 64 bits, little-endian
	elf[16], elf[18], elf[20], elf[52] = 2, 0xf3, 1, 64               // a program for RISC-V
	for name, x := range map[string]struct {
		text  []byte
		words []string
	}{
		"script":  {[]byte("echo hi\n"), []string{"a text without a line that begins with #!", "hint: let it begin with #!/bin/sh"}},
		"foreign": {elf, []string{"a program for EM_RISCV", "this machine is ", "hint: build it for this machine"}},
		"empty":   {nil, []string{"an empty file", "hint: was its build cut short?"}},
		"bytes":   {[]byte{1, 0, 2}, []string{"no program", "hint: "}},
	} {
		path := filepath.Join(t.TempDir(), name)
		check(t, os.WriteFile(path, x.text, 0o600))
		check(t, os.Chmod(path, 0o700))
		status, _, said := execute(t, "-n", "2", path)
		if status != 4 {
			t.Errorf("%s: status %d, want 4", name, status)
		}
		for _, w := range append(x.words, path+" is ", "exec format error") {
			if !strings.Contains(said, w) {
				t.Errorf("%s: stderr lacks %q:\n%s", name, w, said)
			}
		}
	}
}

// If the machine lacks something that oshrun needs, oshrun says so at once, with what helps.
func TestSurroundings(t *testing.T) {
	testenv.Need(t, testenv.Namespaces)
	for name, x := range map[string]struct {
		kinds, command string
		words          []string
	}{
		"proc of another namespace": {"--pid --fork", "true", []string{"/proc is that of another PID namespace", "hint: mount -t proc"}},
		"no proc":                   {"--mount", "umount --lazy /proc", []string{"/proc is not mounted", "hint: mount -t proc"}},
		"no null":                   {"--mount", "mount -t tmpfs none /dev", []string{"open /dev/null: no such file", "hint: mount /dev"}},
	} {
		t.Run(name, func(t *testing.T) {
			j := prepare(t, "-n", "2", "sh", "-c", "echo hi")
			j.inNamespaces(x.kinds, x.command)
			j.begin()
			begin := time.Now()
			j.expect(4, x.words...)
			if said := j.stdout.String(); said != "" {
				t.Errorf("a PE has run and printed %q, want none to start", said)
			}
			t.Logf("oshrun ended after %v", time.Since(begin))
		})
	}
}

// Without a loopback interface, programs that need one fail with an error, and oshrun says so. Other programs run.
func TestNoLoopback(t *testing.T) {
	testenv.Need(t, testenv.Namespaces)
	const notice, hint = "no loopback interface, so programs of goshmem and Open MPI cannot join the job", "hint: ip link set lo up"
	j := prepare(t, "-n", "2", "sh", "-c", "echo hi")
	j.inNamespaces("--net", "true")
	j.begin()
	j.expect(0, notice, hint)
	j = prepare(t, "-n", "2", "t-pe", "ok")
	j.inNamespaces("--net", "true")
	j.begin()
	j.expect(1, notice, "there is no loopback interface, "+hint)
}

// If oshrun may not wait for processes, it says so and starts none.
func TestNoWaitid(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skipf("no way to refuse a system call: %v; hint: Debian: apt install strace", err)
	}
	for _, errno := range []string{"EPERM", "ENOSYS"} {
		j := prepare(t, "-n", "2", "sh", "-c", "echo hi")
		j.cmd.Args = append([]string{
			"strace", "-f", "-o", os.DevNull, "-e", "trace=waitid", "-e", "inject=waitid:error=" + errno, j.cmd.Path,
		}, j.cmd.Args[1:]...)
		j.cmd.Path = strace
		j.begin()
		j.expect(4, "waitid", "oshrun could not learn how PEs end", "hint: a sandbox (seccomp) must allow waitid")
		if out := j.stdout.String(); out != "" {
			t.Errorf("%s: a PE printed %q, want none to start", errno, out)
		}
	}
}
