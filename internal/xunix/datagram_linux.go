package xunix

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Sender is the address that a datagram came from.
type Sender struct {
	raw  unix.RawSockaddrAny
	size uint32
}

// ReceiveDatagram receives a datagram without blocking. It allocates nothing. A datagram that does not fit is cut.
//
//   - Errors: ErrAgain if there is none.
func ReceiveDatagram(fd int, b []byte, from *Sender) (int, error) {
	for {
		from.size = unix.SizeofSockaddrAny
		n, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			unix.MSG_DONTWAIT, uintptr(unsafe.Pointer(&from.raw)), uintptr(unsafe.Pointer(&from.size)))
		switch errno {
		case 0:
			return int(n), nil
		case unix.EAGAIN:
			return 0, ErrAgain
		case unix.EINTR:
		default:
			return 0, fmt.Errorf("recvfrom: %w", errno)
		}
	}
}

// SendDatagram sends a datagram to where another one came from, without blocking. It allocates nothing.
//
//   - Errors: ErrAgain if the kernel has no room.
func SendDatagram(fd int, b []byte, to *Sender) error {
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)),
			unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, uintptr(unsafe.Pointer(&to.raw)), uintptr(to.size))
		switch errno {
		case 0:
			return nil
		case unix.EAGAIN:
			return ErrAgain
		case unix.EINTR:
		default:
			return fmt.Errorf("sendto: %w", errno)
		}
	}
}

// GoRealTime puts all threads of this process, and those that they will start, under SCHED_FIFO. They go before all
// others that are not. So it is for a small process that sleeps nearly always.
//
//   - Errors: EPERM if the user may not do so (CAP_SYS_NICE, RLIMIT_RTPRIO).
func GoRealTime(priority uint32) error {
	for again := true; again; { // a new thread is as the one that starts it, so none is left once all of a list are
		again = false
		threads, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range threads {
			tid, err := strconv.Atoi(t.Name())
			if err != nil {
				continue
			}
			attr, err := unix.SchedGetAttr(tid, 0)
			if err == nil && attr.Policy == unix.SCHED_FIFO {
				continue
			}
			again = true
			if err == nil {
				err = unix.SchedSetAttr(tid, &unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: priority}, 0)
			}
			if err != nil && !errors.Is(err, unix.ESRCH) { // ESRCH: it has ended
				return fmt.Errorf("sched_setattr SCHED_FIFO: %w", err)
			}
		}
	}
	return nil
}

// LockMemory keeps the pages of what this process has mapped so far in memory, from their first access on.
func LockMemory() error {
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("mlockall: %w", err)
	}
	return nil
}
