package daemon

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program is looked up with the PE's environment and directory, not with those of this process.
func TestFindProgram(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"program": 0o700, "text": 0o600, "sub/program": 0o700} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(filepath.Join(dir, "sub"))
	const inPath, here = "a program in this directory is started as ./", "is it built, and executable?"
	for _, x := range []struct {
		program, path, dir string
		want               string // the file; or part of the error
		hint               string // of the error
	}{
		{"program", "/nowhere:" + dir, "", dir + "/program", ""},
		{"program", dir + "/sub:" + dir, "", dir + "/sub/program", ""},
		{"program", "/nowhere", "", `exec: "program": executable file not found in $PATH`, inPath + "program"},
		{"program", "", "", `exec: "program": executable file not found in $PATH`, inPath + "program"},
		{"program", ":/nowhere", "", "cannot run executable found relative to current directory", inPath + "program"},
		{"text", dir, "", `exec: "text": executable file not found in $PATH`, inPath + "text"},
		{"sub", dir, "", `exec: "sub": executable file not found in $PATH`, inPath + "sub"},
		{"./program", "/nowhere", "", "./program", ""},
		{"./program", "/nowhere", dir, dir + "/program", ""},
		{"../program", "/nowhere", dir + "/sub", dir + "/program", ""},
		{"./text", dir, dir, "permission denied", here},
		{dir + "/none", dir, "", "no such file or directory", here},
	} {
		a := App{NPEs: 1, Program: x.program, Env: []string{"PATH=/ignored", "PATH=" + x.path}, Dir: x.dir}
		c := Config{Apps: []App{a}}
		apps, err := c.foundApps()
		if x.hint == "" {
			if err != nil || apps[0].Path != x.want || c.Apps[0].Path != "" {
				t.Errorf("%+v: found %+v, %v", x, apps, err)
			}
			continue
		}
		hint := new(HintError)
		if err == nil || !strings.HasPrefix(err.Error(), "program: ") || !strings.Contains(err.Error(), x.want) || !errors.As(err, &hint) || hint.Hint != x.hint {
			t.Errorf("%+v: error %v, hint %q", x, err, hint.Hint)
		}
	}
}

// An application that has a file already is not looked up.
func TestFoundProgram(t *testing.T) {
	c := Config{Apps: []App{{Program: "none", Path: "/no/such/file"}}}
	if apps, err := c.foundApps(); err != nil || apps[0].Path != "/no/such/file" {
		t.Errorf("found %+v, %v, want the file that is given", apps, err)
	}
}

// The lookup agrees with os/exec's for the PATH of this process.
func TestLookPathAgrees(t *testing.T) {
	for _, name := range []string{"sh", "sleep", "no-such-program", "/bin/sh", "/bin", "./none"} {
		got, err := lookPath(name, os.Getenv("PATH"))
		want, werr := exec.LookPath(name)
		if got != want || (err == nil) != (werr == nil) || err != nil && err.Error() != werr.Error() {
			t.Errorf("%s: %q, %v; os/exec has %q, %v", name, got, err, want, werr)
		}
	}
}

// The error for a working directory that does not exist names the machine.
func TestNoSuchDirectory(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for dir, why := range map[string]string{"/no/such/directory": "no such file or directory", "/dev/null": "not a directory"} {
		c := Config{Apps: []App{{Program: "sh", Env: os.Environ(), Dir: dir}}}
		want := "working directory " + dir + " on " + host + ": " + why
		if err := c.Check(); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}
