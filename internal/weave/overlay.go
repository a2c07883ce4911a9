package weave

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Overlay is a set of files that a build uses in place of a module's files. The zero value is not usable; call New.
type Overlay struct {
	root, dir string
	texts     map[string]string // by the file's path in the module
}

// New returns an overlay without files. root is the module's folder. dir is a folder for the files that Build
// writes; the caller removes it.
func New(root, dir string) (*Overlay, error) {
	root, err := filepath.Abs(root)
	if err != nil {
		return nil, err
	}
	return &Overlay{root: root, dir: dir, texts: map[string]string{}}, nil
}

// Write sets the text of a file in the overlay. The file need not exist. Its path is relative to the module's
// folder.
func (o *Overlay) Write(file, text string) { o.texts[file] = text }

// Read returns the text of a file as the build sees it.
func (o *Overlay) Read(file string) (string, error) {
	if text, ok := o.texts[file]; ok {
		return text, nil
	}
	text, err := os.ReadFile(filepath.Join(o.root, file))
	return string(text), err
}

// Replace makes one change.
func (o *Overlay) Replace(c Change) error {
	text, err := o.Read(c.File)
	if err != nil {
		return err
	}
	if text, _, err = replaceOnce(c.File, text, c.Old, c.New); err != nil {
		return err
	}
	o.Write(c.File, text)
	return nil
}

// replaceOnce returns the text of a file with one change, and the offset of the change.
func replaceOnce(file, text, from, to string) (changed string, at int, err error) {
	if n := strings.Count(text, from); n != 1 {
		return "", 0, fmt.Errorf("%s holds %q %d times, want once", file, from, n)
	}
	at = strings.Index(text, from)
	return text[:at] + to + text[at+len(from):], at, nil
}

// Build builds the test program of a package with the overlay's files, and returns the program's path. tags are
// build tags, which may be empty; other tags give another path.
func (o *Overlay) Build(ctx context.Context, pkg, tags string) (program string, err error) {
	replace := map[string]string{}
	for file, text := range o.texts {
		name := filepath.Join(o.dir, strings.ReplaceAll(file, "/", "_"))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(o.root, file)] = name
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(o.dir, "overlay.json")
	if err := os.WriteFile(overlay, list, 0o600); err != nil {
		return "", err
	}
	program = filepath.Join(o.dir, strings.ReplaceAll(pkg, "/", "_")+tags+".test")
	var out bytes.Buffer
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-ldflags=-s -w", "-tags", tags, "-overlay", overlay, "-o", program, "./"+pkg)
	cmd.Dir, cmd.Stdout, cmd.Stderr = o.root, &out, &out
	cmd.Env = append(os.Environ(), "GOTMPDIR="+o.dir) // an interrupted build leaves files there, which the caller removes with dir
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("building %s with changed sources: %w\n%s", pkg, err, &out)
	}
	return program, nil
}
