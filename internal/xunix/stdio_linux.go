package xunix

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// TakeStandardIO returns standard input and output as files whose reads and writes may have deadlines. Afterwards nothing
// else in this process reads the one or writes to the other: descriptor 0 is the null device, and 1 is standard error.
func TakeStandardIO() (in, out *os.File, err error) {
	var streams [3]unix.Stat_t
	for fd := range streams {
		if err := unix.Fstat(fd, &streams[fd]); err != nil {
			return nil, nil, fmt.Errorf("%s: fstat: %w", standardNames[fd], err)
		}
	}
	if streams[1].Dev == streams[2].Dev && streams[1].Ino == streams[2].Ino {
		return nil, nil, errors.New("standard output and standard error are one file: messages would stand between bytes for another process")
	}
	if in, err = takeStream(0); err != nil {
		return nil, nil, err
	}
	if out, err = takeStream(1); err == nil {
		err = leaveStandardIO()
	}
	if err != nil {
		in.Close() //nolint:errcheck // the error before says more
		return nil, nil, err
	}
	return in, out, nil
}

var standardNames = [...]string{"standard input", "standard output", "standard error"}

// takeStream returns a copy of a descriptor. Who shares its file with this process must not use it meanwhile: reads and
// writes do not wait any more.
func takeStream(fd int) (*os.File, error) {
	name := standardNames[fd]
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("%s: dup: %w", name, err)
	}
	if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own) //nolint:errcheck // the error before says more
		return nil, fmt.Errorf("%s: fcntl: %w", name, err)
	}
	f := os.NewFile(uintptr(own), name)
	if err := f.SetDeadline(time.Time{}); err != nil {
		f.Close() //nolint:errcheck // the error before says more
		return nil, fmt.Errorf("%s is no pipe and no socket: %w", name, err)
	}
	return f, nil
}

// leaveStandardIO makes descriptor 0 the null device, and 1 standard error.
func leaveStandardIO() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer null.Close() //nolint:errcheck // descriptor 0 is a copy
	if err := unix.Dup3(int(null.Fd()), 0, 0); err != nil {
		return fmt.Errorf("standard input: dup: %w", err)
	}
	if err := unix.Dup3(2, 1, 0); err != nil {
		return fmt.Errorf("standard output: dup: %w", err)
	}
	return nil
}

// ReadNow returns what can be read of a pipe without waiting, at most some bytes. A deadline that is over does not matter.
func ReadNow(f *os.File, most int) []byte {
	b := make([]byte, most)
	n := 0
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			for n < most {
				k, err := unix.Read(int(fd), b[n:])
				if k <= 0 || err != nil {
					return
				}
				n += k
			}
		})
	}
	if err != nil {
		return nil // it is closed
	}
	return b[:n]
}
