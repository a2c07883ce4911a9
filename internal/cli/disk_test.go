package cli

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// fullDisk runs a job after a shell command that makes writes to $D fail. It checks that a message names a file that
// could not be written, and that the job ends.
func fullDisk(t *testing.T, setUp, cause string, attr *syscall.SysProcAttr) {
	t.Helper()
	dir := t.TempDir()
	j := prepare(t, "-n", "2", "--heap-size", "64K", "--output", "dir="+dir+"/out", "t-say", "lines", "1000000000")
	j.cmd.Path = "/bin/sh"
	j.cmd.Args = append([]string{"sh", "-c", setUp + ` && exec "$@"`, "sh"}, j.cmd.Args...)
	j.cmd.Env = append(j.cmd.Env, "D="+dir)
	j.cmd.SysProcAttr = attr
	j.begin()
	status, said := j.ended(testPatience)
	j.check(status, said, 1, []string{"oshrun: write output: write " + dir + "/out/rank.", "/stdout: " + cause})
	if n := strings.Count(said, cause); n != 1 {
		t.Errorf("the cause appears %d times, want once:\n%s", n, said)
	}
	if n := j.stdout.Len(); n < 200_000 {
		t.Errorf("%d bytes on stdout, want many", n)
	}
	if attr != nil {
		return // the files are gone with the file system
	}
	for pe := range 2 {
		got, err := os.ReadFile(fmt.Sprintf("%s/out/rank.%d/stdout", dir, pe))
		check(t, err)
		if n := checkLines(t, bytes.NewReader(got[:bytes.LastIndexByte(got, '\n')+1]), "", 2)[pe]; n == 0 {
			t.Errorf("the file of PE %d is empty", pe)
		}
	}
}

// If a copy of the output cannot grow, the job ends. The limit, in blocks of 512 bytes, is larger than a segment.
func TestFileLimit(t *testing.T) {
	fullDisk(t, "ulimit -f 24000", "file too large", nil)
}

// If the disk is full, the job ends as well.
func TestFullFileSystem(t *testing.T) {
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Unshareflags |= syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	const mount = `mount -t tmpfs -o size=256k none "$D"`
	try := exec.Command("/bin/sh", "-c", mount)
	try.Env = append(os.Environ(), "D="+t.TempDir())
	try.SysProcAttr = attr
	if out, err := try.CombinedOutput(); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v: %s", err, out)
	}
	fullDisk(t, mount, "no space left on device", attr)
}

// If the output itself cannot be written, the job ends with a message.
func TestFullOutput(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	j := prepare(t, "-n", "2", "yes")
	j.cmd.Stdout = full
	j.begin()
	j.expect(1, "oshrun: write output: ", "no space left on device")
}
