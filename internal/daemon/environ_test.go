package daemon

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/xunix"
	pmix "github.com/goshmem/goshmem/pmix/codec"
)

// Each directive changes an environment as its name says.
func TestChangedEnvironment(t *testing.T) {
	envar := func(key, name, value string) pmix.Info {
		return pmix.Info{Key: key, Value: pmix.Value{Type: pmix.TypeEnvar, Data: pmix.Envar{Name: name, Value: value, Separator: ':'}}}
	}
	env := []string{"A=1", "B=2", "B=3", "C=4"}
	for want, info := range map[string]pmix.Info{
		"B=2 B=3 C=4 A=9":     envar(pmix.KeySetEnvar, "A", "9"),
		"A=1 B=2 B=3 C=4 D=9": envar(pmix.KeySetEnvar, "D", "9"),
		"A=1 B=2 B=3 C=4":     envar(pmix.KeyAddEnvar, "A", "9"), // exists already
		"A=1 B=2 B=3 C=4 E=9": envar(pmix.KeyAddEnvar, "E", "9"),
		"A=1 C=4 B=9:3":       envar(pmix.KeyPrependEnvar, "B", "9"),
		"A=1 C=4 B=3:9":       envar(pmix.KeyAppendEnvar, "B", "9"),
		"A=1 B=2 B=3 C=4 F=9": envar(pmix.KeyAppendEnvar, "F", "9"),
		"A=1 C=4":             {Key: pmix.KeyUnsetEnvar, Value: pmix.StringValue("B")},
	} {
		if got := applyDirectives(env, []pmix.Info{info}); strings.Join(got, " ") != want {
			t.Errorf("%s %v: %q, want %q", info.Key, info.Value, got, want)
		}
	}
	if !slices.Equal(env, []string{"A=1", "B=2", "B=3", "C=4"}) {
		t.Errorf("the environment itself has changed: %q", env)
	}
	other := []pmix.Info{{Key: "pmix.other", Value: pmix.BoolValue(true)}, envar("pmix.other", "A", "9")}
	if got := applyDirectives(env, other); !slices.Equal(got, env) {
		t.Errorf("other directives change %q", got)
	}
}

// A killed owner does not live, though its parent has not reaped it.
func TestStaleDirectoryOfZombie(t *testing.T) {
	base := t.TempDir()
	var dirs []string
	var owners []*exec.Cmd
	for i := range 2 {
		owner := exec.Command("sleep", "1000")
		if err := owner.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = owner.Process.Kill()
			_ = owner.Wait()
		})
		pid := owner.Process.Pid
		dirs = append(dirs, filepath.Join(base, fmt.Sprintf("goshmem-%d-%d-aaaaaaaaaaa%d", pid, look(pid).start, i)))
		if err := os.Mkdir(dirs[i], 0o700); err != nil {
			t.Fatal(err)
		}
		owners = append(owners, owner)
	}
	zombie := owners[0].Process
	if err := errors.Join(zombie.Kill(), xunix.WaitExited(zombie.Pid)); err != nil {
		t.Fatal(err)
	}
	removeStale(filepath.Join(base, "own"), zerolog.Nop())
	if left, err := filepath.Glob(base + "/*"); err != nil || !slices.Equal(left, dirs[1:]) {
		t.Errorf("left %q, %v, want that of the owner who lives, %q", left, err, dirs[1:])
	}
}

// Only directories whose names have the right form are removed, and none that is in use or that is a link.
func TestStaleDirectories(t *testing.T) {
	base := t.TempDir()
	t.Setenv("TMPDIR", base)
	mine := &private{}
	if err := mine.choosePath(); err != nil {
		t.Fatal(err)
	}
	mine.makeOnce(func(err error) { t.Fatal(err) })
	const gone = "goshmem-2147483646-7-" // no process has this number
	if err := os.Mkdir(filepath.Join(base, gone+"aaaaaaaaaaaa"), 0o700); err != nil {
		t.Fatal(err)
	}
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(base, gone+"aaaaaaaaaaaa", "link")); err != nil {
		t.Fatal(err)
	}
	locked := filepath.Join(base, gone+"bbbbbbbbbbbb") // as if in use by another container
	held := &private{path: locked}
	held.makeOnce(func(err error) { t.Fatal(err) })
	for _, name := range []string{gone + "short", "goshmem-x-7-cccccccccccc", "goshmem-7-cccccccccccc", "other"} {
		if err := os.Mkdir(filepath.Join(base, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	removeStale(mine.path, zerolog.Nop())
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, e := range entries {
		left = append(left, e.Name())
	}
	want := []string{
		filepath.Base(mine.path), gone + "bbbbbbbbbbbb", gone + "short", "goshmem-x-7-cccccccccccc", "goshmem-7-cccccccccccc", "other",
	}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left %q, want %q", left, want)
	}
	if _, err := os.Stat(filepath.Join(outside, "precious")); err != nil {
		t.Errorf("a link was followed, and its target removed: %v", err)
	}
	for _, d := range []*private{mine, held} {
		if err := d.remove(); err != nil {
			t.Error(err)
		}
		if _, err := os.Stat(d.path); !os.IsNotExist(err) {
			t.Errorf("%s still exists: %v", d.path, err)
		}
	}
}
