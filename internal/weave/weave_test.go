package weave

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// newModule writes a module with one package, whose test prints what f returns.
func newModule(t *testing.T, text string) *Overlay {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module m\n\ngo 1.26\n",
		"p/p.go":      text,
		"p/p_test.go": "package p\n\nimport (\n\t\"fmt\"\n\t\"testing\"\n)\n\nfunc Test(*testing.T) { fmt.Println(f()) }\n",
	} {
		name = filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o, err := New(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// wantOutput checks that the test program prints a line.
func wantOutput(t *testing.T, program, mutant, want string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), MutantVar+"="+mutant)
	out, err := cmd.CombinedOutput()
	if got, _, _ := strings.Cut(string(out), "\n"); err != nil || got != want {
		t.Errorf("mutant %q prints %q (%v), want %q", mutant, got, err, want)
	}
}

// A program has one active mutant at a time, in methods and generic functions as well.
func TestSwitch(t *testing.T) {
	t.Parallel()
	o := newModule(t, `package p

type x int

func (x x) twice() int { return 2 * int(x) }

func add[T any](list []T, more T) []T { return append(list, more) }

const c = 7

func f() (int, int, int) { return x(3).twice(), len(add([]int{1}, 2)), c }
`)
	alone, err := o.Switch([]Change{
		{"p/p.go", "2 * int(x)", "4 * int(x)"},
		{"p/p.go", "append(list, more)", "append(list, more, more)"},
		{"p/p.go", "c = 7", "c = 8"},
	})
	if err != nil || len(alone) != 1 || !alone[3] {
		t.Fatalf("mutants that need their own program: %v, %v; want only the third", alone, err)
	}
	program, err := o.Build(t.Context(), "p", "")
	if err != nil {
		t.Fatal(err)
	}
	wantOutput(t, program, "", "6 2 7")
	wantOutput(t, program, "1", "12 2 7")
	wantOutput(t, program, "2", "6 3 7")
}

// It is an error to replace a text that is missing or occurs twice.
func TestSwitchRefuses(t *testing.T) {
	t.Parallel()
	o := newModule(t, "package p\n\nfunc f() int { return 1 + 1 }\n")
	for _, old := range []string{"2", "1"} {
		if _, err := o.Switch([]Change{{"p/p.go", old, "3"}}); err == nil {
			t.Errorf("%q was replaced, want an error", old)
		}
	}
}

// Accesses go through other functions: calls, methods with their receivers, and statements.
func TestWeave(t *testing.T) {
	t.Parallel()
	o := newModule(t, `package p

import "sync/atomic"

type word struct{ v uint64 }

func (w *word) get(add uint64) uint64 { return w.v + add }

type holder struct{ w *word }

func f() (uint64, int) {
	h, mine := holder{&word{5}}, uint64(1)
	atomic.StoreUint64(&h.w.v, 6)
	atomic.StoreUint64(&mine, 7)
	b := make([]byte, 2)
	copy(b, "ab")
	return h.w.get(mine), points
}

var points int

func store(p *uint64, v uint64) { *p = 10 * v }

func got(w *word, add uint64) uint64 { return w.v + 2*add }
`)
	err := o.Weave("p", Rules{
		Calls:  map[string]string{"atomic.StoreUint64": "store(", ".w.get": "got("},
		Except: []string{"&mine"},
		Point:  "points++;", Memory: []string{"copy("},
	})
	if err != nil {
		t.Fatal(err)
	}
	program, err := o.Build(t.Context(), "p", "")
	if err != nil {
		t.Fatal(err)
	}
	wantOutput(t, program, "", "74 1")
}
