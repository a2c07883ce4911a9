package daemon

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The error for a missing /dev/null says what to do. Opening it may also fail for too many open files, which needs
// another remedy.
func TestExplainNull(t *testing.T) {
	for errno, want := range map[syscall.Errno]bool{
		syscall.ENOENT: true, syscall.EACCES: true, syscall.EMFILE: false, syscall.ENFILE: false,
	} {
		err := explainNull(&fs.PathError{Op: "open", Path: os.DevNull, Err: errno})
		if got := errors.As(err, new(*HintError)); got != want || !errors.Is(err, errno) {
			t.Errorf("%v becomes %v, explained: %v, want %v", errno, err, got, want)
		}
	}
}

// The error for a program that cannot be started says what the file is, with a hint where one helps.
func TestExplainProgram(t *testing.T) {
	dir := t.TempDir()
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	other := bytes.Clone(self)
	other[18], other[19] = 0x2b, 0 // the machine: SPARC V9
	cut := other[:100]
	for name, x := range map[string]struct {
		text string
		want string
		hint string
	}{
		"text":           {"echo hello\n", "is a text without a line that begins with #!", "#!/bin/sh"},
		"empty":          {"", "is an empty file", "cut short"},
		"windows":        {"MZ\x90\x00", "is a program for another system", "GOARCH="},
		"mac":            {"\xcf\xfa\xed\xfe\x00", "is a program for another system", "GOARCH="},
		"cut":            {string(cut), "is a program for an unknown machine", "GOARCH="},
		"sparc":          {string(other), "is a program for EM_SPARCV9", "GOARCH="},
		"data":           {"\x00\x01", "is no program", "right file"},
		"no interpreter": {"#!/no/such/interpreter\n", "its interpreter", ""},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(x.text), 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		err := launchError(t, path)
		var hint *HintError
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%s: %v, want an error with %q", name, err, x.want)
		}
		if is := errors.As(err, &hint); is != (x.hint != "") || is && !strings.Contains(hint.Hint, x.hint) {
			t.Errorf("%s: hint %+v, want one with %q", name, hint, x.hint)
		}
	}
	if err := launchError(t, dir); !errors.Is(err, os.ErrPermission) {
		t.Errorf("a directory: %v, want %v", err, os.ErrPermission)
	}
	if err := launchError(t, filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v, want %v", err, os.ErrNotExist)
	}
}

// launchError returns the error of starting the second program of a job. The first program ends with the step.
func launchError(t *testing.T, path string) error {
	t.Helper()
	s, err := sleepers(t, 1, func(c *settings) { c.Apps = append(c.Apps, App{NPEs: 1, Path: path, Name: path}) }).start()
	if err != nil {
		t.Fatal(err)
	}
	launched := s.Launch()
	first := s.PID(ID{})
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if !look(first).over() {
		t.Error("a PE of a job that could not be started is still running")
	}
	return launched
}
