package xunix

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenPTY opens a new pseudo terminal with the kernel's default modes. person is the side of the user (the
// master); terminal is the side of programs.
func OpenPTY() (person, terminal *os.File, err error) { return openPTY(os.O_RDWR) }

// OpenOutputPTY opens a new pseudo terminal for the output of a program. What the program writes to terminal
// arrives unchanged at read.
//
//   - Input: terminal is open for writing only, because nobody types there.
//   - Controlling terminal: opening it here does not make it one. It becomes one only if the leader of a
//     session without a terminal opens it by name, for reading and without O_NOCTTY.
func OpenOutputPTY() (read, terminal *os.File, err error) {
	read, terminal, err = openPTY(os.O_WRONLY)
	if err != nil {
		return nil, nil, err
	}
	if err = makeRaw(terminal); err != nil {
		return nil, nil, errors.Join(err, read.Close(), terminal.Close())
	}
	return read, terminal, nil
}

// openPTY opens and unlocks a new pseudo terminal. access is the mode in which the program side is opened.
func openPTY(access int) (person, terminal *os.File, err error) {
	person, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	conn, err := person.SyscallConn()
	if err != nil {
		return nil, nil, errors.Join(err, person.Close())
	}
	err = control(conn, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			terminal, err = openPeer(fd, access|unix.O_NOCTTY|unix.O_CLOEXEC)
		}
		return err
	})
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("pseudo terminal: %w", err), person.Close())
	}
	return person, terminal, nil
}

// openPeer opens the program's side of a pseudo terminal. It uses TIOCGPTPEER (Linux 4.13) if it can, because
// the path may name another terminal in a container.
func openPeer(person, flags int) (*os.File, error) {
	number, err := unix.IoctlGetInt(person, unix.TIOCGPTN)
	if err != nil {
		return nil, err
	}
	path := fmt.Sprintf("/dev/pts/%d", number)
	if fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(person), unix.TIOCGPTPEER, uintptr(flags)); errno == 0 {
		return os.NewFile(fd, path), nil
	}
	return os.OpenFile(path, flags, 0)
}

// makeRaw clears the modes of a terminal: output passes unchanged, and input has no special meaning.
func makeRaw(f *os.File) error {
	conn, err := f.SyscallConn()
	if err == nil {
		err = control(conn, func(fd int) error {
			modes, err := unix.IoctlGetTermios(fd, unix.TCGETS)
			if err != nil {
				return err
			}
			modes.Iflag, modes.Oflag, modes.Lflag = 0, 0, 0
			return unix.IoctlSetTermios(fd, unix.TCSETS, modes)
		})
	}
	if err != nil {
		return fmt.Errorf("modes of a terminal: %w", err)
	}
	return nil
}

// WindowOf returns the window size of a terminal.
func WindowOf(terminal *os.File) (w Window, err error) {
	conn, err := terminal.SyscallConn()
	if err == nil {
		err = control(conn, func(fd int) error {
			size, err := unix.IoctlGetWinsize(fd, unix.TIOCGWINSZ)
			if err == nil {
				w = Window{Rows: size.Row, Columns: size.Col, Width: size.Xpixel, Height: size.Ypixel}
			}
			return err
		})
	}
	if err != nil {
		return w, fmt.Errorf("window size: %w", err)
	}
	return w, nil
}

// SetWindow gives a terminal a window size. Its foreground gets SIGWINCH if it had another one.
func SetWindow(terminal *os.File, w Window) error {
	conn, err := terminal.SyscallConn()
	if err == nil {
		size := unix.Winsize{Row: w.Rows, Col: w.Columns, Xpixel: w.Width, Ypixel: w.Height}
		err = control(conn, func(fd int) error { return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &size) })
	}
	if err != nil {
		return fmt.Errorf("window size: %w", err)
	}
	return nil
}

// TerminalModes returns the modes of a terminal as a string, for comparison.
func TerminalModes(f *os.File) (string, error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return "", err
	}
	var modes *unix.Termios
	err = control(conn, func(fd int) (err error) {
		modes, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("modes of a terminal: %w", err)
	}
	return fmt.Sprintf("%+v", *modes), nil
}
