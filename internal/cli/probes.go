package cli

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/xunix"
)

// probes are what oshrun doctor tries, in the order of its output.
var probes = []probe{
	{"system", true, func() finding { return trySystem(runtime.GOOS) }},
	{"cores", false, tryCores},
	{"memory", false, tryMemory},
	{"huge_pages", false, tryHugePages},
	{"memfd", true, tryMemfd},
	{"unix_sockets", true, tryUnixSockets},
	{"loopback", true, tryLoopback},
	{"network", false, tryNetwork},
	{"futex", true, tryFutex},
	{"membarrier", false, tryMembarrier},
	{"subreaper", false, trySubreaper},
	{"open_files", false, tryOpenFiles},
	{"temp_dir", false, tryTempDir},
	{"dev_null", true, func() finding { return tryNull(os.DevNull) }},
	{"namespaces", false, tryNamespaces},
	{"user_namespaces", false, tryUserNamespaces},
	{"bpf", false, tryBPF},
	{"btf", false, tryBTF},
	{"watchdog", false, tryWatchdog},
	{"responder", false, tryResponder},
	{"oshrun", false, func() finding { return tryPath(os.Getenv("PATH")) }},
	{"mpicc", false, program("mpicc", "builds MPI programs in C, which goshmem does without; Debian: apt install libopenmpi-dev openmpi-bin")},
	{"oshcc", false, program("oshcc", "builds OpenSHMEM programs in C, for comparison; Debian: apt install libopenmpi-dev openmpi-bin")},
	{"mpiexec.hydra", false, program("mpiexec.hydra", "MPICH's launcher, for comparison; Debian: apt install mpich")},
	{"srun", false, program("srun", "Slurm's launcher, on clusters that have it; Debian: apt install slurm-client")},
}

// trySystem is the only probe that runs on other systems.
func trySystem(goos string) finding {
	value := goos + "/" + runtime.GOARCH
	if goos != "linux" {
		return finding{Status: healthMissing, Value: value, Hint: "goshmem requires Linux to run jobs"}
	}
	if release, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		value += ", kernel " + strings.TrimSpace(string(release))
	}
	return fine("%s", value)
}

func tryCores() finding {
	n := runtime.NumCPU()
	if n == 1 {
		return noted("1", "PEs take turns on one core: any job runs, none runs fast")
	}
	return fine("%d", n)
}

func tryMemory() finding {
	const hint = "how many PEs fit is not known"
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return missing(err, hint)
	}
	total, available := meminfo(text, "MemTotal"), meminfo(text, "MemAvailable")
	if total == 0 {
		return missing(errors.New("/proc/meminfo has no MemTotal"), hint)
	}
	value := fmt.Sprintf("%s total, %s available", gib(total), gib(available))
	if available < envvar.DefaultSymmetricSize {
		return noted(value, "less than one full symmetric heap of the default size; heaps take memory only as they are used")
	}
	return fine("%s", value)
}

// meminfo returns a figure of /proc/meminfo in bytes, 0 if it is not there.
func meminfo(text []byte, name string) uint64 {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, name+":"); ok {
			kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 54)
			if err == nil {
				return kib << 10
			}
		}
	}
	return 0
}

func gib(n uint64) string { return strconv.FormatFloat(float64(n)/(1<<30), 'f', 1, 64) + " GiB" }

// tryHugePages reads the settings by which anonymous memory and memfds get
// huge pages unasked.
func tryHugePages() finding {
	const dir = "/sys/kernel/mm/transparent_hugepage/"
	own, err := os.ReadFile(dir + "enabled")
	if err != nil {
		return missing(err, "the kernel has no transparent huge pages: large heaps take larger page tables")
	}
	shared, err := os.ReadFile(dir + "shmem_enabled")
	if err != nil {
		return missing(err, "no huge pages in shared memory: large heaps take larger page tables")
	}
	state := chosen(shared)
	value := fmt.Sprintf("enabled: %s, shmem_enabled: %s", chosen(own), state)
	switch state {
	case "always", "within_size", "force", "advise": // heaps are advised
		return fine("%s", value)
	}
	return noted(value, fmt.Sprintf("heaps are in pages of %d KiB; as root: echo within_size >%sshmem_enabled", xunix.PageSize()>>10, dir))
}

// chosen returns the word in brackets, by which the kernel marks a setting.
func chosen(setting []byte) string {
	_, rest, _ := bytes.Cut(setting, []byte("["))
	word, _, ok := bytes.Cut(rest, []byte("]"))
	if !ok {
		return "unknown"
	}
	return string(word)
}

// openFiles returns how many descriptors oshrun has open for a job. For each PE these
// are its heap, stdin, stdout, stderr, the pipe that ends it with oshrun, the process
// itself, a PMIx connection and one that fetches heaps. A few are oshrun's own.
func openFiles(npes uint64) uint64 { return 8*npes + 64 }

func tryOpenFiles() finding {
	limit, err := xunix.OpenFileLimit()
	if err != nil {
		return missing(err, "how many PEs a job may have is not known")
	}
	return checkOpenFiles(limit)
}

func checkOpenFiles(limit uint64) finding {
	const npes = 128
	need := openFiles(npes)
	value := fmt.Sprintf("limit %d; a job of %d PEs takes %d", limit, npes, need)
	if limit < need {
		return noted(value, fmt.Sprintf("for such a job: ulimit -n %d, if need be with nofile raised in /etc/security/limits.conf", need))
	}
	return fine("%s", value)
}

func tryTempDir() finding {
	dir, err := os.MkdirTemp("", "goshmem-doctor-")
	if err == nil {
		err = os.Remove(dir)
	}
	return tried(err, os.TempDir()+" is writable", "set TMPDIR to a directory that you may write to")
}

// tryNull looks whether a file is as /dev/null is to be.
func tryNull(path string) finding {
	const hint = "PEs that read no input have it as their standard input; as root: mount /dev, or mknod -m 666 /dev/null c 1 3"
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return missing(err, hint)
	}
	defer func() { _ = f.Close() }() // nothing was written
	st, err := f.Stat()
	switch {
	case err != nil:
		return missing(err, hint)
	case st.Mode()&os.ModeCharDevice == 0:
		return noted(path+" is not the device of this name: what programs write there stays", hint)
	}
	return fine("%s is there", path)
}

// tryPath says which program a shell finds as oshrun: Open MPI has one by that name.
func tryPath(path string) finding {
	self, err := os.Executable()
	if err != nil {
		return missing(err, "which oshrun a shell finds first is not known")
	}
	hint := "put it in front: PATH=" + filepath.Dir(self) + ":$PATH"
	for _, dir := range filepath.SplitList(path) {
		first := filepath.Join(dir, "oshrun")
		if st, err := os.Stat(first); err != nil || st.IsDir() || st.Mode()&0o111 == 0 {
			continue
		}
		switch {
		case sameFile(first, self):
			return fine("%s is this one", first)
		case ofOpenMPI(first):
			return noted(first+" of Open MPI comes first in PATH, this one is "+self, hint)
		}
		return noted("another "+first+" comes first in PATH, this one is "+self, hint)
	}
	return noted("not in PATH, this one is "+self, hint)
}

// sameFile says whether two names are of one file.
func sameFile(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}

// ofOpenMPI says whether a program is Open MPI's launcher: a link to orterun, prterun
// or mpirun, as they are installed. It is not started.
func ofOpenMPI(path string) bool {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return false
	}
	base := filepath.Base(target)
	return base == "orterun" || base == "prterun" || strings.HasPrefix(base, "mpirun") || sameFile(path, filepath.Join(filepath.Dir(path), "orterun"))
}

// program returns a probe for a program in PATH.
func program(name, hint string) func() finding {
	return func() finding {
		path, err := exec.LookPath(name)
		if err != nil {
			return missing(errors.New("not in PATH"), hint)
		}
		return fine("%s", path)
	}
}
