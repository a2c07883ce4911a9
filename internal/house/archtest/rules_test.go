package archtest

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

// fake returns a made-up module of the given files.
func fake(t *testing.T, files map[string]string) *module {
	t.Helper()
	fsys := fstest.MapFS{"go.mod": {Data: []byte("module example.org/m\n\nrequire (\n\tdep.example/x v1.0.0 // indirect\n)\n")}}
	for name, src := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(src)}
	}
	m, err := load(fsys)
	if err != nil {
		t.Fatalf("load: %v", err)
	}
	return m
}

// src returns a file with the given imports. An import may have a name.
func src(pkg string, imports ...string) string {
	out := "package " + pkg + "\n"
	for _, i := range imports {
		if !strings.Contains(i, `"`) {
			i = `"` + i + `"`
		}
		out += "import " + i + "\n"
	}
	return out
}

// TestRulesCanFail gives each checker sources that obey its rule and sources that break it.
func TestRulesCanFail(t *testing.T) {
	const m = "example.org/m/"
	type files = map[string]string
	for _, c := range []struct {
		name  string
		check func(*module) []string
		files files
		want  string // part of the only violation; empty: none
	}{
		{"known", checkKnown, files{"rma/a.go": src("rma"), "examples/01-hello/main.go": src("main")}, ""},
		{"unknown", checkKnown, files{"rmo/a.go": src("rmo")}, "rmo: unknown package; add it"},
		{"unknown root", checkKnown, files{"a.go": src("m")}, ".: unknown package"},
		{"not ours", checkKnown, files{
			"bench/go.mod": "module b\n", "bench/a.go": src("b"), "rma/testdata/x/a.go": "bad", ".git/a.go": "bad", "_x/a.go": "bad",
		}, ""},

		{"downwards", checkLayers, files{"rma/a.go": src("rma", m+"symheap", m+"internal/xunix", m+"symheap/layout")}, ""},
		{"in a test", checkLayers, files{"rma/a_test.go": src("rma", m+"shmem")}, ""},
		{"upwards", checkLayers, files{"rma/a.go": src("rma", m+"shmem")}, "rma/a.go:2: rma (layer 3) may not import shmem"},
		{"never", checkLayers, files{"rma/a.go": src("rma", m+"pmix/server")}, "may not import pmix/server"},
		{"never below", checkLayers, files{"coll/a.go": src("coll", m+"detector/kernel")}, "may not import detector/kernel"},
		{"siblings", checkLayers, files{"mpi/a.go": src("mpi", m+"shmem")}, "may not import shmem"},
		{"benchmark inside", checkLayers, files{"graph500/a.go": src("graph500", m+"rma")}, "may not import rma"},
		{"example inside", checkLayers, files{"examples/01/a.go": src("main", m+"internal/job")}, "may not import internal/job"},
		{"launcher of jobs", checkLayers, files{"internal/launch/a.go": src("launch", m+"internal/job")}, "may not import internal/job"},
		{"top", checkLayers, files{"cmd/oshrun/main.go": src("main", m+"internal/cli", m+"rma")}, ""},
		{"unlisted", checkLayers, files{"new/a.go": src("new", m+"rma")}, "(layer unknown) may not import rma"},

		{"pure", checkPure, files{"coll/tree/a.go": src("tree", "fmt", "math/bits", m+"internal/wire", "osmosis")}, ""},
		{"pure test", checkPure, files{"coll/tree/a_test.go": src("tree", "os", "time")}, ""},
		{"pure time", checkPure, files{"coll/tree/a.go": src("tree", "time")}, "coll/tree is pure and may not import time"},
		{"pure atomic", checkPure, files{"coll/tree/a.go": src("tree", "sync/atomic")}, "may not import sync/atomic"},
		{"pure log", checkPure, files{"coll/tree/a.go": src("tree", "github.com/rs/zerolog")}, "may not import github.com/rs/zerolog"},
		{"pure cgo", checkPure, files{"coll/tree/a.go": src("tree", "C")}, "may not import C"},
		{"pure goroutine", checkPure, files{"coll/tree/a.go": src("tree") + "func f() { go f() }\n"}, "may not start a goroutine"},
		{"goroutine elsewhere", checkPure, files{"rma/a.go": src("rma", "time") + "func f() { go f() }\n"}, ""},

		{"owner", checkOwners, files{"rma/a.go": src("rma", "unsafe"), "internal/xunix/a.go": src("xunix", "golang.org/x/sys/unix")}, ""},
		{"unsafe", checkOwners, files{"graph500/a_test.go": src("graph500", "unsafe")}, "graph500 may not import unsafe"},
		{"system calls", checkOwners, files{"rma/a.go": src("rma", "golang.org/x/sys/unix")}, "go through internal/xunix"},
		{"commands", checkOwners, files{"cmd/oshrun/main.go": src("main", "github.com/spf13/cobra")}, "only the command line"},
		{"kernel", checkOwners, files{"detector/a.go": src("detector", "github.com/cilium/ebpf/link")}, "kernel programs have few owners"},
		{"alike", checkOwners, files{"rma/a.go": src("rma", "golang.org/x/system")}, ""},

		{"tests test", checkTestOnly, files{"rma/a_test.go": src("rma", "pgregory.net/rapid"), "shmem/shmemtest/a.go": src("shmemtest", "go.uber.org/goleak")}, ""},
		{"tests only", checkTestOnly, files{"rma/a.go": src("rma", "github.com/google/go-cmp/cmp")}, "only tests may import"},

		{"cgo", checkCgo, files{"rma/a.go": src("rma", "C")}, "cgo in the default build"},
		{"cgo on one platform", checkCgo, files{"rma/a_linux_arm64.go": src("rma", "C")}, "cgo in the default build"},
		{"cgo by a tag", checkCgo, files{"rma/a.go": "//go:build libfabric && linux\n\n" + src("rma", "C")}, ""},

		{"lean", checkLean, files{"shmem/a.go": src("shmem", m+"rma"), "rma/a.go": src("rma", "fmt"), "rma/a_test.go": src("rma", m+"internal/cli")}, ""},
		{"lean by a tag", checkLean, files{"shmem/a.go": "//go:build extra\n\n" + src("shmem", "github.com/cilium/ebpf")}, ""},
		{
			"fat",
			checkLean,
			files{"shmem/a.go": src("shmem", m+"coll"), "coll/a.go": src("coll", m+"rma"), "rma/a.go": src("rma", "github.com/cilium/ebpf")},
			"rma/a.go:2: shmem must not depend on github.com/cilium/ebpf: shmem -> coll -> rma",
		},
		{"launcher", checkLean, files{"mpi/a.go": src("mpi", m+"internal/launch")}, "mpi must not depend on example.org/m/internal/launch"},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, c.check(fake(t, c.files)), c.want) })
	}
}

// expect fails unless there is exactly one violation, which contains want; no violation if want is empty.
func expect(t *testing.T, bad []string, want string) {
	t.Helper()
	switch {
	case want == "" && len(bad) > 0:
		t.Errorf("violations %q, want none", bad)
	case want != "" && (len(bad) != 1 || !strings.Contains(bad[0], want)):
		t.Errorf("violations %q, want one that contains %q", bad, want)
	}
}

// TestCodeRulesCanFail does the same for the rules about the content of files.
func TestCodeRulesCanFail(t *testing.T) {
	const m = "example.org/m/"
	body := func(s string) string { return "func f() {\n" + s + "\n}\n" }
	for _, c := range []struct {
		name  string
		check func(*module) []string
		file  string
		src   string
		want  string
	}{
		{"wait here", checkWaiting, "internal/wait/wait.go", src("wait", m+"internal/xunix") + body("xunix.FutexWait(); for x() {}"), ""},
		{"wait here too", checkWaiting, "internal/wait/yield_linux.go", src("wait", "runtime") + body("runtime.Gosched()"), ""},
		{"sleep there", checkWaiting, "coll/a.go", src("coll", m+"internal/xunix") + body("xunix.FutexWait()"), "coll/a.go:4: xunix.FutexWait outside package wait"},
		{"wake there", checkWaiting, "rma/path.go", src("rma", m+"internal/xunix") + body("xunix.FutexWake()"), "xunix.FutexWake"},
		{"yield there", checkWaiting, "coll/a.go", src("coll", `x "`+m+`internal/xunix"`) + body("x.SchedYield()"), "x.SchedYield"},
		{"harmless", checkWaiting, "coll/a.go", src("coll", m+"internal/xunix") + body("xunix.PageSize(); y.Gosched()"), ""},
		{"Gosched", checkWaiting, "graph500/a.go", src("graph500", "runtime") + body("runtime.Gosched()"), "runtime.Gosched"},
		{"as a value", checkWaiting, "graph500/a.go", src("graph500", "runtime") + "var f = runtime.Gosched\n", "runtime.Gosched"},
		{"nap", checkWaiting, "coll/a.go", src("coll", "time") + body("time.Sleep(1)"), "time.Sleep"},
		{"raw", checkWaiting, "coll/a.go", src("coll", "syscall") + body("syscall.RawSyscall6()"), "syscall.RawSyscall6"},
		{"poll", checkWaiting, "coll/a.go", src("coll") + body("for !ready() {}"), "loop that polls"},
		{"in a test", checkWaiting, "coll/a_test.go", src("coll", "time") + body("time.Sleep(1)"), ""},

		{"timers", checkTimers, "rma/a.go", src("rma", "time") + body("time.After(1); t.Reset(d); x.After(0); time.Unix(0, 0)"), ""},
		{"timer of no time", checkTimers, "rma/a_test.go", src("rma", "time") + body("time.After(0)"), "rma/a_test.go:4: timer of no time"},
		{"reset to no time", checkTimers, "rma/a.go", src("rma", "time") + body("t.Reset(0)"), "rma/a.go:4: timer of no time"},

		{"doc", checkPackageDocs, "rma/a.go", "// Package rma is it.\npackage rma\n", ""},
		{"no doc", checkPackageDocs, "rma/a.go", src("rma"), `"Package rma "`},
		{"other doc", checkPackageDocs, "rma/a.go", "// Copyright.\npackage rma\n", `"Package rma "`},
		{"command doc", checkPackageDocs, "cmd/x/main.go", "// Command x is it.\npackage main\n", ""},
		{"no command doc", checkPackageDocs, "cmd/x/main.go", src("main"), `"Command "`},

		{"exported", checkExportedDocs, "rma/a.go", src("rma") + "// T is.\ntype T int\n// M is.\nfunc (t T) M() {}\n// These are.\nconst (\nA = 1\nB = 2\n)\nvar (\nC int // of it\n)\n", ""},
		{"func", checkExportedDocs, "rma/a.go", src("rma") + "func F() {}\n", "exported F has no comment"},
		{"method", checkExportedDocs, "rma/a.go", src("rma") + "// T is.\ntype T[A, B any] int\nfunc (t *T[A, B]) M() {}\n", "exported M"},
		{"well-known method", checkExportedDocs, "rma/a.go", src("rma") + "// T is.\ntype T int\nfunc (t *T) Error() string\n", ""},
		{"well-known name", checkExportedDocs, "rma/a.go", src("rma") + "func Error() string\n", "exported Error"},
		{"hidden method", checkExportedDocs, "rma/a.go", src("rma") + "type t[A any] int\nfunc (x t[A]) M() {}\n", ""},
		{"type", checkExportedDocs, "rma/a.go", src("rma") + "type T int\n", "exported T"},
		{"const", checkExportedDocs, "rma/a.go", src("rma") + "const A = 1\n", "exported A"},
		{"internal", checkExportedDocs, "internal/job/a.go", src("job") + "func F() {}\n", ""},
		{"listed label", checkLabels, "rma/a.go", src("rma") + "// F does.\n//\n//   - Cost: none.\n//   - Errors: none.\nfunc F() {}\n", ""},
		{"label in a line", checkLabels, "rma/a.go", src("rma") + "// F does.\n//\n// Cost: none.\nfunc F() {}\n", `label "Cost: " in the comment is no item`},
		{"label of a type", checkLabels, "rma/a.go", src("rma") + "// T is.\n//\n// Errors: none.\ntype T int\n", `label "Errors: "`},
		{"generated", checkExportedDocs, "rma/a.go", "// Code generated by x. DO NOT EDIT.\n" + src("rma") + "func F() {}\n", ""},

		{"few methods", checkMethods, "rma/a.go", src("rma") + methods(maxMethods), ""},
		{"many methods", checkMethods, "rma/a.go", src("rma") + methods(maxMethods+1), "rma.box has 41 methods"},
		{"long enough", checkLengths, "rma/a.go", src("rma") + body(strings.Repeat("\n", maxFuncLines-3)), ""},
		{"long function", checkLengths, "rma/a.go", src("rma") + body(strings.Repeat("\n", maxFuncLines-2)), "f has 101 lines"},
		{"long file", checkLengths, "rma/a_test.go", src("rma") + strings.Repeat("\n", maxFileLines), "601 lines, want at most 600"},
		{"long generated", checkLengths, "rma/a.go", "// Code generated by x. DO NOT EDIT.\n" + src("rma") + strings.Repeat("\n", maxFileLines), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			expect(t, c.check(fake(t, map[string]string{c.file: c.src})), c.want)
		})
	}
}

func TestDependencyRule(t *testing.T) {
	m := fake(t, map[string]string{"rma/a.go": src("rma", "dep.example/x/sub", "fmt", "example.org/m/symheap")})
	const row = "| `dep.example/x` | because |\n"
	expect(t, checkDependencies(m, row, []string{"dep.example/x"}), "")
	expect(t, checkDependencies(m, "", []string{"dep.example/x"}), "rma/a.go:2: docs/dependencies.md has no row")
	expect(t, checkDependencies(m, row+"| `dep.example/y` | once |\n", m.requires), "dep.example/y is not required by any go.mod")
}

func TestLoadRefusesBrokenSource(t *testing.T) {
	for _, fsys := range []fstest.MapFS{
		{},
		{"go.mod": {Data: []byte("go 1.26\n")}},
		{"go.mod": {Data: []byte("module m\n")}, "a/a.go": {Data: []byte("package\n")}},
	} {
		if _, err := load(fsys); err == nil {
			t.Errorf("load of %v: no error", fsys)
		}
	}
}

// methods returns the source of a type with n methods.
func methods(n int) string {
	var b strings.Builder
	b.WriteString("\ntype box[T any] struct{}\n")
	for i := range n {
		fmt.Fprintf(&b, "func (b *box[T]) f%d() {}\n", i)
	}
	return b.String()
}
