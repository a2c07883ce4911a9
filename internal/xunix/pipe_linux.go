package xunix

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Unread returns how many bytes a pipe holds.
func Unread(pipe syscall.RawConn) (n int, err error) {
	err = control(pipe, func(fd int) (err error) {
		n, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("FIONREAD: %w", err)
	}
	return n, nil
}

// HungUp says whether the other end of a socket has closed or shut down its sending side. Unread data may
// remain.
func HungUp(socket syscall.RawConn) bool {
	hung := false
	err := control(socket, func(fd int) error {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		_, err := unix.Poll(fds, 0)
		hung = fds[0].Revents != 0
		return err
	})
	return err == nil && hung
}

// control calls f with the descriptor and returns its error.
func control(conn syscall.RawConn, f func(fd int) error) error {
	var ferr error
	if err := conn.Control(func(fd uintptr) { ferr = f(int(fd)) }); err != nil {
		return err
	}
	return ferr
}

// Read calls read(2) once. The error is a syscall.Errno.
func Read(fd uintptr, b []byte) (int, error) { return unix.Read(int(fd), b) }

// WaitReadable blocks the thread until fd has data to read or is at its end.
func WaitReadable(fd uintptr) error {
	for {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		if err != unix.EINTR {
			return err
		}
	}
}

// Unnamed makes a file in dir without a name. The kernel deletes it with its last descriptor.
func Unnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("O_TMPFILE in %s: %w", dir, err)
	}
	return os.NewFile(uintptr(fd), dir+"/(unnamed)"), nil
}

// Punch frees the file's memory from offset from up to offset to. The range then reads as zeros; the file
// keeps its size.
func Punch(f *os.File, from, to int64) error {
	conn, err := f.SyscallConn()
	if err == nil {
		err = control(conn, func(fd int) error {
			return unix.Fallocate(fd, unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, from, to-from)
		})
	}
	if err != nil {
		return fmt.Errorf("punch a hole from %d to %d: %w", from, to, err)
	}
	return nil
}
