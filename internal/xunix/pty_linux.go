package xunix

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenPTY opens a new pseudo terminal: the side that a person sits at, and the
// terminal that programs see. It is for tests.
func OpenPTY() (person, terminal *os.File, err error) {
	person, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	conn, err := person.SyscallConn()
	if err != nil {
		return nil, nil, err
	}
	number := 0
	err = control(conn, func(fd int) (err error) {
		if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(fd, unix.TIOCGPTN)
		}
		return err
	})
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		_ = person.Close()
		return nil, nil, fmt.Errorf("pseudo terminal: %w", err)
	}
	return person, terminal, nil
}

// TerminalModes returns the modes of a terminal in a form that can be compared.
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
