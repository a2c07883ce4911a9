package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The step makes the directory for profiles, and tells which PEs have left both. Files of an earlier run do not count.
func TestProfiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	write := `for f in $*; do echo >"$0/new.$f"; mv "$0/new.$f" "$0/$f"; done`
	files := map[int][]string{
		0: {"pe.0.cpu.pprof", "pe.0.heap.pprof"},
		1: {"pe.1.cpu.pprof"},
		2: nil,
		3: {"pe.3.cpu.pprof", "pe.3.heap.pprof"},
	}
	for _, left := range []map[int]bool{{0: true, 3: true}, {3: true}} { // the second run finds the files of the first
		var apps []App
		for pe := range 4 {
			a := shell(1, write)
			a.Args = append(append(a.Args, dir), files[pe]...)
			apps = append(apps, a)
		}
		s := startTest(t, apps, func(s *settings) { s.Profiles = dir })
		for range 4 {
			if e := nextOf(t, s.Step, Exited); e.Profiled != left[e.PE] || e.End.Code != 0 {
				t.Errorf("PE %d: event %+v, want profiles: %t", e.PE, e, left[e.PE])
			}
		}
		files[0] = nil
	}
	s := startTest(t, []App{shell(1, "true")})
	if e := nextOf(t, s.Step, Exited); e.Profiled {
		t.Errorf("event %+v, but nobody has asked for profiles", e)
	}
	file := filepath.Join(dir, "pe.3.cpu.pprof")
	c := sleepers(t, 1, func(s *settings) { s.Profiles = file + "/none" })
	step, err := c.start()
	hint := new(HintError)
	if step != nil || !errors.As(err, &hint) || !strings.Contains(err.Error(), "--pprof "+file+"/none: mkdir ") {
		t.Errorf("a directory below a file: %v, %v, want an error with a hint", step, err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
}
