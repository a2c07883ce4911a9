package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// privateDir returns the only directory in the job's TMPDIR.
func (j *job) privateDir() string {
	j.t.Helper()
	found, err := filepath.Glob(j.tmp + "/*")
	check(j.t, err)
	if len(found) != 1 || !strings.HasPrefix(filepath.Base(found[0]), fmt.Sprintf("goshmem-%d-", j.cmd.Process.Pid)) {
		j.t.Fatalf("files of the job: %q, want one directory with oshrun's number %d", found, j.cmd.Process.Pid)
	}
	return found[0]
}

// another runs a job with the same TMPDIR.
func (j *job) another() {
	j.t.Helper()
	cmd := exec.Command(self(j.t), "-n", "1", "true")
	cmd.Env = append(os.Environ(), asOshrun+"=1", "TMPDIR="+j.tmp)
	if said, err := cmd.CombinedOutput(); err != nil {
		j.t.Fatalf("another job: %v\n%s", err, said)
	}
}

// All files of Open MPI are in a directory that no other user can read and that is removed with the job. After SIGKILL
// only the directory is left. The next job removes it, but not the directory of a running job.
func TestPrivateDir(t *testing.T) {
	prog := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "wait.c"))
	j := start(t, "-n", "2", prog)
	pids := j.ready(2)
	dir := j.privateDir()
	info, err := os.Stat(dir)
	check(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, want rwx for the owner only", info.Mode())
	}
	for _, pid := range pids {
		maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", pid))
		check(t, err)
		if !strings.Contains(string(maps), dir+"/") || strings.Contains(string(maps), "/dev/shm") {
			t.Errorf("shared memory of process %d is not in %s, or is in /dev/shm, too:\n%s", pid, dir, maps)
		}
	}

	j.another() // must keep the directory in use
	if _, err := os.Stat(filepath.Join(dir, "shm")); err != nil {
		t.Errorf("another job removed the directory of a running job: %v", err)
	}

	check(t, j.cmd.Process.Kill())
	j.over(testPatience, func() {})
	if got := j.privateDir(); got != dir {
		t.Errorf("directory left behind: %s, want %s", got, dir)
	}
	other := filepath.Join(j.tmp, "goshmem-1-1-other") // another form of name
	check(t, os.Mkdir(other, 0o700))
	j.another()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s still exists: %v", dir, err)
	}
	if _, err := os.Stat(other); err != nil {
		t.Errorf("%s was removed: %v", other, err)
	}
}

// The user's choice of a directory for shared memory takes precedence.
func TestBackingDirOfUser(t *testing.T) {
	prog := testenv.CompileC(t, testenv.OpenMPI, filepath.Join("testdata", "wait.c"))
	mine := t.TempDir()
	j := start(t, "-n", "2", "-x", "OMPI_MCA_btl_vader_backing_directory="+mine, prog)
	maps, err := os.ReadFile(fmt.Sprintf("/proc/%d/maps", j.ready(2)[0]))
	check(t, err)
	if !strings.Contains(string(maps), mine+"/") {
		t.Errorf("shared memory is not in %s:\n%s", mine, maps)
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	j.expect(143)
}
