package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goshmem/goshmem/internal/weave"
)

// detectors has the paths of the test programs with all mutants of the packages of the detector between nodes, by package.
type detectors map[string]string

// detectHunt returns the hunt for mutants of the detector between nodes. Its tests are named by package and test.
func detectHunt() *hunt {
	p := detectors{}
	return &hunt{
		of:    "detector/bmg, detector/ring and detector/view",
		table: slices.Concat(detectMutants, viewMutants),
		closing: func(n counts) string {
			return fmt.Sprintf("%d mutants of detector/bmg, detector/ring and detector/view are found; of the tables %d change nothing, %d are open",
				n.known, n.argued, n.open)
		},
		build:   p.build,
		command: p.command,
		tests: func(m mutant) []string {
			return []string{filepath.Dir(m.File) + " Test.*", "detector/ring Test.*", "sim/detect Test.*"}
		},
	}
}

// build builds the programs.
func (p detectors) build(ctx context.Context, o *weave.Overlay) (err error) {
	for _, pkg := range []string{"detector/bmg", "detector/ring", "detector/view", "sim/detect"} {
		if p[pkg], err = o.Build(ctx, pkg, ""); err != nil {
			return err
		}
	}
	return nil
}

// command returns how to run a test.
func (p detectors) command(_ mutant, test string) command {
	pkg, pattern, _ := strings.Cut(test, " ")
	return command{
		program: p[pkg], dir: pkg, pattern: "^" + pattern + "$", limit: treeLimit, args: []string{"-test.short"},
		env: []string{"GOMAXPROCS=1"},
		found: func(out string) string {
			f := failure.FindStringSubmatch(out)
			if f == nil {
				return ""
			}
			name, _, _ := strings.Cut(f[1], "/")
			return pkg + " Test" + name
		},
	}
}
