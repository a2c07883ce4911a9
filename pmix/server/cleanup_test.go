package server

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// makeFiles makes files below a folder. A name that ends in a slash is an empty folder, and one with an arrow is a link.
func makeFiles(t *testing.T, top string, names ...string) {
	t.Helper()
	for _, name := range names {
		name, target, isLink := strings.Cut(name, " -> ")
		path := filepath.Join(top, name)
		err := os.MkdirAll(filepath.Dir(path), 0o755)
		switch {
		case err != nil:
		case isLink:
			err = os.Symlink(strings.ReplaceAll(target, "TOP", top), path)
		case strings.HasSuffix(name, "/"):
			err = os.Mkdir(path, 0o755)
		default:
			err = os.WriteFile(path, nil, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// listFiles lists the files below a folder.
func listFiles(t *testing.T, top string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if path != top {
			name, _ := filepath.Rel(top, path)
			if d.IsDir() {
				name += "/"
			}
			out = append(out, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// runCleaner makes a cleaner remove paths below a folder, and returns its log.
func runCleaner(t *testing.T, top string, e epilog) string {
	t.Helper()
	var log strings.Builder
	c := &cleaner{log: zerolog.New(&log), uid: uint32(os.Geteuid())}
	for i := range e.paths {
		e.paths[i].path = filepath.Join(top, e.paths[i].path)
	}
	for i := range e.ignore {
		e.ignore[i] = filepath.Join(top, e.ignore[i])
	}
	c.add(e)
	c.finish()
	return log.String()
}

func TestSweep(t *testing.T) {
	for name, tt := range map[string]struct {
		plant []string
		epi   epilog
		left  []string
		log   string // part of the log
	}{
		"file":            {[]string{"a", "b"}, epilog{paths: []cleanup{{path: "a"}}}, []string{"b"}, ""},
		"gone already":    {nil, epilog{paths: []cleanup{{path: "a"}, {path: "x/y/z"}, {path: "d", dir: true}}}, nil, ""},
		"link":            {[]string{"kept/f", "a -> TOP/kept/f"}, epilog{paths: []cleanup{{path: "a"}}}, []string{"kept/", "kept/f"}, ""},
		"folder as file":  {[]string{"d/f"}, epilog{paths: []cleanup{{path: "d"}}}, []string{"d/", "d/f"}, "want a file"},
		"file as folder":  {[]string{"f"}, epilog{paths: []cleanup{{path: "f", dir: true}}}, []string{"f"}, "want a directory"},
		"linked folder":   {[]string{"kept/f", "d -> TOP/kept"}, epilog{paths: []cleanup{{path: "d", dir: true, recursive: true}}}, []string{"d", "kept/", "kept/f"}, "want a directory"},
		"flat":            {[]string{"d/f", "d/g", "d/sub/h"}, epilog{paths: []cleanup{{path: "d", dir: true}}}, []string{"d/", "d/sub/", "d/sub/h"}, ""},
		"flat, all":       {[]string{"d/f", "e"}, epilog{paths: []cleanup{{path: "d", dir: true}}}, []string{"e"}, ""},
		"recursive":       {[]string{"d/f", "d/s/t/g", "d/u/"}, epilog{paths: []cleanup{{path: "d", dir: true, recursive: true}}}, nil, ""},
		"top stays":       {[]string{"d/f", "d/s/g"}, epilog{paths: []cleanup{{path: "d", dir: true, recursive: true, leaveTop: true}}}, []string{"d/"}, ""},
		"empty only":      {[]string{"d/s/t/", "d/u/f"}, epilog{paths: []cleanup{{path: "d", dir: true, recursive: true, emptyOnly: true}}}, []string{"d/", "d/u/", "d/u/f"}, ""},
		"ignore":          {[]string{"d/f", "d/s/g", "d/s/h"}, epilog{paths: []cleanup{{path: "d", dir: true, recursive: true}}, ignore: []string{"d/s/g"}}, []string{"d/", "d/s/", "d/s/g"}, ""},
		"ignore itself":   {[]string{"f"}, epilog{paths: []cleanup{{path: "f"}}, ignore: []string{"f"}}, []string{"f"}, ""},
		"ignore a folder": {[]string{"d/f", "d/s/g"}, epilog{paths: []cleanup{{path: "d", dir: true, recursive: true}}, ignore: []string{"d/s"}}, []string{"d/", "d/s/", "d/s/g"}, ""},
		"link inside": {
			[]string{"kept/f", "d/l -> TOP/kept", "d/s/up -> ../.."},
			epilog{paths: []cleanup{{path: "d", dir: true, recursive: true}}},
			[]string{"kept/", "kept/f"},
			"",
		},
		"through links of one's own": {
			[]string{"real/d/f", "l -> TOP/real", "m -> l/../real/./d"},
			epilog{paths: []cleanup{{path: "l/d", dir: true}, {path: "m/f"}}},
			[]string{"l", "m", "real/"},
			"",
		},
		"through a file": {[]string{"f"}, epilog{paths: []cleanup{{path: "f/x"}}}, []string{"f"}, "not a directory"},
		"round and round": {
			[]string{"a -> TOP/b", "b -> TOP/a"},
			epilog{paths: []cleanup{{path: "a/x"}}},
			[]string{"a", "b"},
			"reached through more than 40 links",
		},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			makeFiles(t, top, tt.plant...)
			log := runCleaner(t, top, tt.epi)
			if diff := cmp.Diff(tt.left, listFiles(t, top)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if !strings.Contains(log, tt.log) || tt.log == "" && log != "" {
				t.Errorf("logged %q, want %q", log, tt.log)
			}
		})
	}
}

func TestSweepIsBoundedInDepth(t *testing.T) {
	top := t.TempDir()
	if err := os.MkdirAll(filepath.Join(top, "d", strings.Repeat("/e", maxDepth+3)), 0o755); err != nil {
		t.Fatal(err)
	}
	log := runCleaner(t, top, epilog{paths: []cleanup{{path: "d", dir: true, recursive: true}}})
	if !strings.Contains(log, fmt.Sprintf("more than %d directories deep", maxDepth)) {
		t.Errorf("logged %q, want the depth", log)
	}
}

// A path leads through a file or folder of another user.
func TestSweepLeavesOthersAlone(t *testing.T) {
	testenv.Need(t, testenv.Root)
	const other = 65534
	chown := func(top string, names ...string) {
		t.Helper()
		for _, name := range names {
			if err := os.Lchown(filepath.Join(top, name), other, other); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, tt := range map[string]struct {
		plant, theirs []string
		path          cleanup
		left          []string
		log           string
	}{
		"their file":         {[]string{"f"}, []string{"f"}, cleanup{path: "f"}, []string{"f"}, "belongs to another user"},
		"their folder":       {[]string{"d/f"}, []string{"d"}, cleanup{path: "d", dir: true, recursive: true}, []string{"d/", "d/f"}, "belongs to another user"},
		"in their folder":    {[]string{"d/f"}, []string{"d"}, cleanup{path: "d/f"}, []string{"d/", "d/f"}, "reached through"},
		"by their link":      {[]string{"victim/f", "d -> TOP/victim"}, []string{"d"}, cleanup{path: "d/f"}, []string{"d", "victim/", "victim/f"}, "reached through"},
		"beside their files": {[]string{"d/f", "d/g", "d/s/h"}, []string{"d/f", "d/s"}, cleanup{path: "d", dir: true, recursive: true}, []string{"d/", "d/f", "d/s/", "d/s/h"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			makeFiles(t, top, tt.plant...)
			chown(top, tt.theirs...)
			log := runCleaner(t, top, epilog{paths: []cleanup{tt.path}})
			if diff := cmp.Diff(tt.left, listFiles(t, top)); diff != "" {
				t.Errorf("left (-want +got):\n%s", diff)
			}
			if !strings.Contains(log, tt.log) || tt.log == "" && log != "" {
				t.Errorf("logged %q, want %q", log, tt.log)
			}
		})
	}
}

// Paths that are added while the cleaner works are removed, too.
func TestSweepOneAfterTheOther(t *testing.T) {
	top := t.TempDir()
	c := &cleaner{log: zerolog.Nop(), uid: uint32(os.Geteuid())}
	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprintf("d%d/f", i))
	}
	makeFiles(t, top, names...)
	for _, name := range slices.Backward(names) {
		c.add(epilog{paths: []cleanup{{path: filepath.Join(top, filepath.Dir(name)), dir: true}}})
	}
	c.finish()
	if diff := cmp.Diff([]string(nil), listFiles(t, top)); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}
