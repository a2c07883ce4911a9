package coverage

import (
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestList: the list has the specification's 98 routines of 1.5 and 11 of 1.6.
func TestList(t *testing.T) {
	v15, v16 := 0, 0
	seen := map[string]bool{}
	for _, r := range Routines {
		if r.V16 {
			v16++
		} else {
			v15++
		}
		if seen[r.Name] {
			t.Errorf("%s is listed twice", r.Name)
		}
		seen[r.Name] = true
	}
	if v15 != 98 || v16 != 11 {
		t.Errorf("%d routines of 1.5 and %d of 1.6, want 98 and 11", v15, v16)
	}
	for name, want := range map[string]string{
		"shmem_ctx_fence": "shmem_fence", "shmem_ctx_create": "shmem_ctx_create", "shmem_start_pes": "start_pes",
		"shmem_ctx_signal_add": "shmem_signal_add",
	} {
		if got, listed := Canonical(name); got != want || !listed {
			t.Errorf("Canonical(%s) = %s, %v, want %s", name, got, listed, want)
		}
	}
	if name, listed := Canonical("shmem_barrier"); listed {
		t.Errorf("%s is listed", name)
	}
}

// TestComplete: each routine has a function and a test, and each constant has a name or a note.
func TestComplete(t *testing.T) {
	s, err := Load("../../../shmem")
	if err != nil {
		t.Fatal(err)
	}
	for _, missing := range s.Missing() {
		t.Error(missing)
	}
}

// load loads a made-up package.
func load(t *testing.T, files map[string]string) *Source {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

const made = `package shmem

// Put puts.
//
//   - Source: shmem_put, shmem_p.
//   - Errors: none, as shmem_get has none.
func Put[T any](c *Ctx, dst Sym[T], src []T, pe int) error {
	return nil
}

// Quiet is quiet.
//
//   - Source: shmem_ctx_quiet,
//     shmem_fence.
func (c *Ctx) Quiet() (n int, err error) { return 0, nil }

// Sum adds.
//
//   - Source: shmem_sum_reduce.
func Sum[T any](acc, in []T) { acc[0] += in[0] }

// Wrong is not in the list.
//
//   - Source: shmem_broadcast32.
func Wrong() {}

// hidden does not count.
//
//   - Source: shmem_g.
func hidden() {}

// Ways.
//
//   - Source: SHMEM_CMP_EQ, SHMEM_CMP_NE.
const (
	EQ = iota
	NE
)

// Kind is a kind.
//
//   - Source: shmem_team_config_t.
type Kind int
`

const madeTest = `package shmem_test

var _ = routine("shmem_put", nil)
var _, _ = routine("shmem_ctx_quiet", nil), other("shmem_none", nil)
func f() { g("shmem_get") }
`

// TestSource: Load finds names, functions and tests in a made-up package.
func TestSource(t *testing.T) {
	s := load(t, map[string]string{"a.go": made, "a_test.go": madeTest})
	for routine, want := range map[string]string{
		"shmem_put": "Put", "shmem_p": "Put", "shmem_quiet": "Ctx.Quiet", "shmem_fence": "Ctx.Quiet", "shmem_sum_reduce": "Sum", "shmem_g": "",
	} {
		got := ""
		for _, f := range s.Of(routine) {
			got += f.Name
		}
		if got != want {
			t.Errorf("%s is %q, want %q", routine, got, want)
		}
	}
	for name, want := range map[string]string{"SHMEM_CMP_EQ": "EQ", "SHMEM_CMP_NE": "NE", "shmem_team_config_t": "Kind"} {
		if s.Consts[name] != want {
			t.Errorf("%s is %q, want %s", name, s.Consts[name], want)
		}
	}
	if s.Tests["shmem_put"] != "a_test.go" || s.Tests["shmem_quiet"] != "a_test.go" || s.Tests["shmem_get"] != "" {
		t.Errorf("tests are %v", s.Tests)
	}
	if want := []string{"a.go: Wrong stands for shmem_broadcast32", "a_test.go: a test of shmem_none"}; !slices.Equal(s.Bad, want) {
		t.Errorf("bad names: %q, want %q", s.Bad, want)
	}
	missing := s.Missing()
	for _, want := range []string{"shmem_get: no exported", "shmem_p: no test", "SHMEM_THREAD_SINGLE: no exported"} {
		if !slices.ContainsFunc(missing, func(m string) bool { return strings.HasPrefix(m, want) }) {
			t.Errorf("missing: %q, want one that begins with %q", missing, want)
		}
	}
	if md := s.Markdown(); !strings.Contains(md, "| `shmem_put` | `Put` | [a_test.go](../shmem/a_test.go) |\n") {
		t.Errorf("the table has no row of shmem_put:\n%s", md)
	}
}

// TestMutants checks the mutants and the overlay of a made-up package.
func TestMutants(t *testing.T) {
	s := load(t, map[string]string{"a.go": made, "a_test.go": madeTest})
	mutants := s.Mutants()
	var got []string
	for _, m := range mutants {
		got = append(got, m.Routine+": "+m.Func+" "+m.What)
	}
	want := []string{
		"shmem_put: Put does nothing", "shmem_put: Put takes the element after dst", "shmem_put: Put takes the PE after pe",
		"shmem_p: Put does nothing", "shmem_p: Put takes the element after dst", "shmem_p: Put takes the PE after pe",
		"shmem_sum_reduce: Sum does nothing",
		"shmem_fence: Ctx.Quiet does nothing", "shmem_quiet: Ctx.Quiet does nothing",
	}
	if !slices.Equal(got, want) {
		t.Errorf("mutants are\n%s", strings.Join(got, "\n"))
	}
	dir := t.TempDir()
	if _, err := s.Overlay(dir, mutants); err != nil {
		t.Fatal(err)
	}
	src, err := os.ReadFile(filepath.Join(dir, "a.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"pe int) error { if mutant == 1 { return *new(error) }; if mutant == 2 { dst = mutantShift(dst) }; if mutant == 3 { pe = mutantPE(pe, c) };",
		"{ if mutant == 7 { return }; acc[0]",
		"if mutant == 8 { return *new(int), *new(error) };",
	} {
		if !strings.Contains(string(src), text) {
			t.Errorf("the overlay lacks %q:\n%s", text, src)
		}
	}
	for _, name := range []string{"a.go", "mutant.go", "mutant_test.go"} {
		if _, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, name), nil, 0); err != nil {
			t.Error(err)
		}
	}
	if strings.Count(string(src), "\n") != strings.Count(made, "\n") {
		t.Error("the overlay changes line numbers")
	}
}

// TestGenerated: docs/openshmem.md is up to date.
func TestGenerated(t *testing.T) {
	s, err := Load("../../../shmem")
	if err != nil {
		t.Fatal(err)
	}
	have, err := os.ReadFile("../../../docs/openshmem.md")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != s.Markdown() {
		t.Error("docs/openshmem.md is not up to date; run go generate ./shmem")
	}
}

// TestOverlayBuilds: package shmem with all mutants in it builds.
func TestOverlayBuilds(t *testing.T) {
	s, err := Load("../../../shmem")
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := s.Overlay(t.TempDir(), s.Mutants())
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay, "../../../shmem").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
