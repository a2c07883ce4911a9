package xunix

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TryFutex checks that a process can sleep on a word of a shared mapping for a
// while, and that it does not where the word has changed already.
func TryFutex() error {
	size := uintptr(PageSize())
	f, err := Memfd("goshmem-futex", int64(size))
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	at, err := Reserve(size)
	if err != nil {
		return err
	}
	defer func() { _ = Unmap(at, size) }()
	if err := MapShared(int(f.Fd()), at, size); err != nil {
		return err
	}
	word := (*uint32)(at)
	// A signal may end the sleep early, which is no failure either.
	if err := FutexWait(word, 0, time.Millisecond); err != nil && !errors.Is(err, ErrTimeout) {
		return fmt.Errorf("futex wait: %w", err)
	}
	if err := FutexWait(word, 1, time.Minute); err != nil {
		return fmt.Errorf("futex wait for another value: %w", err)
	}
	return nil
}

// TrySubreaper checks that this process could make itself a subreaper, by
// setting that attribute to the value that it has.
func TrySubreaper() error {
	var now int32
	_, _, e := unix.RawSyscall6(unix.SYS_PRCTL, unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&now)), 0, 0, 0, 0)
	if e != 0 {
		return fmt.Errorf("prctl PR_GET_CHILD_SUBREAPER: %w", e)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, uintptr(now), 0, 0, 0); err != nil {
		return fmt.Errorf("prctl PR_SET_CHILD_SUBREAPER: %w", err)
	}
	return nil
}

var (
	bpfReturnZero = [16]byte{0: 0xb7, 8: 0x95} // r0 = 0; exit
	bpfLicense    = []byte("GPL\x00")
)

// TryBPF checks that this process may load a program that traces the kernel;
// it loads one that does nothing and is attached to nothing. The rights are
// those of every tracing program: CAP_BPF and CAP_PERFMON, or CAP_SYS_ADMIN.
func TryBPF() error {
	attr := struct { // the head of union bpf_attr for BPF_PROG_LOAD, on 64-bit systems
		progType, insnCount uint32
		insns, license      unsafe.Pointer
		logLevel, logSize   uint32
		logBuf              unsafe.Pointer
		kernVersion, flags  uint32
	}{
		progType: unix.BPF_PROG_TYPE_RAW_TRACEPOINT, insnCount: uint32(len(bpfReturnZero) / 8),
		insns: unsafe.Pointer(&bpfReturnZero[0]), license: unsafe.Pointer(&bpfLicense[0]),
	}
	const attempts = 10 // the verifier gives up with EAGAIN when a signal comes
	for i := 1; ; i++ {
		fd, _, e := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_LOAD, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
		runtime.KeepAlive(&attr)
		switch {
		case e == 0:
			return unix.Close(int(fd))
		case e != unix.EAGAIN || i == attempts:
			return fmt.Errorf("bpf BPF_PROG_LOAD: %w", e)
		}
	}
}

// TryNamespaces checks that this process can start a child in network and
// process number namespaces of its own, with the rights that it has or, if user
// is set, with those that a new user namespace gives.
func TryNamespaces(user bool) error {
	sys := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID}
	if user {
		sys.Cloneflags |= unix.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	// The child is to run nothing: its exec fails by an error that nothing
	// before it can have, which says that everything before it worked.
	tooLong := strings.Repeat("/", 2*unix.PathMax)
	_, err := syscall.ForkExec(tooLong, []string{"goshmem"}, &syscall.ProcAttr{Sys: sys})
	if errors.Is(err, unix.ENAMETOOLONG) {
		return nil
	}
	return fmt.Errorf("clone into new namespaces: %w", err)
}

// AddressLimit returns how many bytes of addresses this process may have; false: any number.
func AddressLimit() (bytes uint64, limited bool) {
	var lim unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_AS, &lim)
	return lim.Cur, err == nil && lim.Cur != unix.RLIM_INFINITY
}

// OpenFileLimit returns how many descriptors this process may have.
func OpenFileLimit() (uint64, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 0, fmt.Errorf("getrlimit RLIMIT_NOFILE: %w", err)
	}
	return lim.Cur, nil
}
