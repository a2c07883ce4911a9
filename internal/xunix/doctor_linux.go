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

// TryFutex checks two things on a word of a shared mapping: a futex wait sleeps until its timeout, and it
// returns at once if the word has another value.
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
	// A signal may end the sleep early; that is no failure.
	if err := FutexWait(word, 0, time.Millisecond); err != nil && !errors.Is(err, ErrTimeout) {
		return fmt.Errorf("futex wait: %w", err)
	}
	if err := FutexWait(word, 1, time.Minute); err != nil {
		return fmt.Errorf("futex wait on a changed word: %w", err)
	}
	return nil
}

// TrySubreaper checks that this process may become a subreaper. It sets the attribute to its present value, so
// nothing changes.
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

// TryBPF checks that this process may load a program that traces the kernel: CAP_BPF and CAP_PERFMON, or
// CAP_SYS_ADMIN.
//
//   - The program returns 0 and is attached to nothing. Its descriptor is closed at once, which unloads it.
//   - The type is a raw tracepoint: it needs the same rights as every tracing program, and no BTF.
//   - The verifier returns EAGAIN when a signal interrupts it, as Go's preemption signals may. TryBPF tries
//     again up to 10 times.
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
	const attempts = 10
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

// TryNamespaces checks that this process can start a child in new network and pid namespaces: with its own
// rights or, if user is set, with the rights that a new user namespace gives.
func TryNamespaces(user bool) error {
	sys := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWPID}
	if user {
		sys.Cloneflags |= unix.CLONE_NEWUSER
		sys.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		sys.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	// The child must not run a program, so its path is too long for exec. ENAMETOOLONG can come from exec
	// only, which is the last step: clone and the id maps have worked before it.
	tooLong := strings.Repeat("/", 2*unix.PathMax)
	_, err := syscall.ForkExec(tooLong, []string{"goshmem"}, &syscall.ProcAttr{Sys: sys})
	if errors.Is(err, unix.ENAMETOOLONG) {
		return nil
	}
	return fmt.Errorf("clone into new namespaces: %w", err)
}

// AddressLimit returns the limit of this process's address space in bytes (RLIMIT_AS); false: no limit.
func AddressLimit() (bytes uint64, limited bool) {
	var lim unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_AS, &lim)
	return lim.Cur, err == nil && lim.Cur != unix.RLIM_INFINITY
}

// OpenFileLimit returns how many descriptors this process may open (RLIMIT_NOFILE).
func OpenFileLimit() (uint64, error) {
	var lim unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &lim); err != nil {
		return 0, fmt.Errorf("getrlimit RLIMIT_NOFILE: %w", err)
	}
	return lim.Cur, nil
}
