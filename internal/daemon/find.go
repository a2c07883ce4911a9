package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Check says whether the working directories and programs of a step's first job are on this
// machine. Start says the same, and Check is for those who want to know it before they make
// anything.
func (c *Config) Check() error {
	_, err := c.foundApps()
	return err
}

// foundApps returns the programs of the first job with their files on this machine.
func (c *Config) foundApps() ([]App, error) {
	apps := slices.Clone(c.Apps)
	if c.Share.spans() && !slices.Contains(c.Share.Homes, c.Share.Node) {
		return apps, nil // a node that was added runs none of these programs, and need not have them
	}
	for i := range apps {
		a := &apps[i]
		if err := a.checkDir(); err != nil {
			return nil, err
		}
		if a.Path != "" {
			continue
		}
		var err error
		if a.Path, err = a.find(); err != nil {
			return nil, err
		}
	}
	return apps, nil
}

// checkDir says whether the working directory is there.
func (a *App) checkDir() error {
	if a.Dir == "" {
		return nil
	}
	info, err := os.Stat(a.Dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "stat", Path: a.Dir, Err: syscall.ENOTDIR}
	}
	if err == nil {
		return nil
	}
	if cause := (*os.PathError)(nil); errors.As(err, &cause) {
		err = cause.Err // the message names the path
	}
	host, herr := os.Hostname()
	if herr != nil {
		host = "this machine"
	}
	return &HintError{
		fmt.Errorf("working directory %s on %s: %w", a.Dir, host, err),
		"PEs start in the same directory on every node: make it there, or choose another one by --wdir",
	}
}

// find returns the program's file, as execvp(3) finds it for the PE: what has a slash is seen from
// the working directory, anything else is searched in PATH of the PE's environment. Unlike execvp,
// it does not run what PATH has in a relative directory.
func (a *App) find() (string, error) {
	path := a.Program
	if a.Dir != "" && strings.Contains(path, "/") && !filepath.IsAbs(path) {
		// Absolute, because the PEs look it up when they are in Dir already.
		abs, err := filepath.Abs(filepath.Join(a.Dir, path))
		if err != nil {
			return "", fmt.Errorf("program %s in %s: %w", path, a.Dir, err)
		}
		path = abs
	}
	dirs, _ := lastOf(a.Env, "PATH")
	found, err := lookPath(path, dirs)
	if err != nil {
		hint := "a program in this directory is started as ./" + filepath.Base(path)
		if strings.Contains(path, "/") {
			hint = "is it built, and executable?"
		}
		return "", &HintError{fmt.Errorf("program: %w", err), hint}
	}
	return found, nil
}

// lookPath is exec.LookPath with a PATH that is not this process's.
func lookPath(name, dirs string) (string, error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(dirs) {
		file := filepath.Join(dir, name)
		relative := !filepath.IsAbs(file)
		if relative {
			file = "./" + file
		}
		if _, err := exec.LookPath(file); err != nil {
			continue
		}
		if relative {
			return "", &exec.Error{Name: name, Err: exec.ErrDot}
		}
		return file, nil
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}
