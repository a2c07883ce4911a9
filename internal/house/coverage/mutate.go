package coverage

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Mutant is a function with one mistake, which the test of its routine must find.
type Mutant struct {
	Number  int // from 1 on
	Routine string
	Func    string
	What    string // the mistake, in words
	text    string // the statement that makes it
}

// Environment variables of test programs of package shmem. MutantVar selects a mutant, by its number, in a program
// built from an overlay; if it is unset, no mutant is active. RoutineVar restricts the tests to one routine.
const (
	MutantVar  = "TEST_MUTANT"
	RoutineVar = "TEST_ROUTINE"
)

// whole lists the functions for which an element's place means nothing: they accept only the handle of a whole
// object, or use only the object.
var whole = []string{"Free", "Realloc", "Sym.Accessible"}

// Mutants returns one mutant for each way in which a function can be wrong. It does nothing and returns zeros, or it
// uses another element or another PE than the given one. For an operator, the mutants of Reduce count as well.
func (s *Source) Mutants() []Mutant {
	var all []Mutant
	for _, r := range Routines {
		for _, f := range s.Of(r.Name) {
			for _, m := range s.mutantsOf(&f) {
				m.Number, m.Routine = len(all)+1, r.Name
				all = append(all, m)
			}
		}
	}
	return all
}

// mutantsOf returns the mutants of a function, without numbers and routines.
func (s *Source) mutantsOf(f *Func) (out []Mutant) {
	add := func(what, format string, args ...any) {
		out = append(out, Mutant{Func: f.Name, What: what, text: fmt.Sprintf(format, args...)})
	}
	if operator(f.decl) {
		add("does nothing", "return")
		if reduce := slices.IndexFunc(s.Funcs, func(f Func) bool { return f.Name == "Reduce" }); reduce >= 0 {
			out = append(out, s.mutantsOf(&s.Funcs[reduce])...)
		}
		return out
	}
	add("does nothing", "return %s", strings.Join(s.zeroValues(f.decl.Type.Results), ", "))
	team := ""
	for _, field := range parameters(f.decl) {
		for _, id := range field.Names {
			switch name := id.Name; {
			case name == "_":
			case typeName(field.Type) == "Sym" && slices.Contains(whole, f.Name):
			case typeName(field.Type) == "Sym":
				add("takes the element after "+name, "%[1]s = mutantShift(%[1]s)", name)
			case slices.Contains([]string{"Ctx", "Team", "World"}, typeName(field.Type)) && team == "":
				team = name
			case name == "pe" && strings.HasSuffix(f.Name, "Accessible"): // mutantPE would leave it accessible
				add("takes the PE after "+name, "%s++", name)
			case (name == "pe" || name == "root") && typeName(field.Type) == "int":
				add("takes the PE after "+name, "%[1]s = mutantPE(%[1]s, %[2]s)", name, cmp.Or(team, "nil"))
			}
		}
	}
	return out
}

// parameters returns the parameters of a function, with its receiver first.
func parameters(d *ast.FuncDecl) []*ast.Field {
	if d.Recv == nil {
		return d.Type.Params.List
	}
	return slices.Concat(d.Recv.List, d.Type.Params.List)
}

// zeroValues returns expressions for the zero values of results.
func (s *Source) zeroValues(results *ast.FieldList) (out []string) {
	if results == nil {
		return nil
	}
	for _, field := range results.List {
		for range max(1, len(field.Names)) {
			out = append(out, "*new("+s.sourceText(field.Type)+")")
		}
	}
	return out
}

// sourceText returns the source of an expression.
func (s *Source) sourceText(e ast.Expr) string {
	from, to := s.fset.Position(e.Pos()), s.fset.Position(e.End())
	src, err := os.ReadFile(from.Filename)
	if err != nil {
		return err.Error()
	}
	return string(src[from.Offset:to.Offset])
}

// operator says whether a function is an operator of reductions: func(acc, in []T).
func operator(d *ast.FuncDecl) bool {
	if d.Recv != nil || d.Type.Results != nil || len(d.Type.Params.List) != 1 {
		return false
	}
	p := d.Type.Params.List[0]
	_, slices := p.Type.(*ast.ArrayType)
	return slices && len(p.Names) == 2 && p.Names[0].Name == "acc" && p.Names[1].Name == "in"
}

// support is a file that the overlay adds: the common code of the mutants.
const support = `package shmem

import (
	"os"
	"strconv"
)

var mutant, mutantWanted = 0, func() int { n, _ := strconv.Atoi(os.Getenv("` + MutantVar + `")); return n }()

// ArmMutant makes the wanted mutant wrong, or right again.
func ArmMutant(on bool) {
	if mutant = 0; on {
		mutant = mutantWanted
	}
}

func mutantShift[T any](x Sym[T]) Sym[T] {
	if x.n > 0 {
		x.off += sizeOf[T]()
	}
	return x
}

func mutantPE(pe int, of interface{}) int {
	n := 0
	switch of := of.(type) {
	case *Ctx:
		if of != nil {
			n = of.shared.team.group.n
		}
	case *Team:
		n = of.NPEs()
	case *World:
		n = of.NPEs()
	default:
		if h := currentHeap.Load(); h != nil {
			n = h.npes
		}
	}
	if pe >= 0 && pe < n {
		pe = (pe + 1) % n
	}
	return pe
}
`

// supportTest is a test file that the overlay adds. It arms the mutant during the routine's own test only, and
// shortens the deadlines, so that a mutant that hangs ends soon.
const supportTest = `package shmem_test

import (
	"os"
	"time"

	"github.com/goshmem/goshmem/shmem"
)

func init() {
	arm = shmem.ArmMutant
	if os.Getenv("` + MutantVar + `") != "" {
		routinePatience, routineJobPatience = time.Second, 10*time.Second
	}
}
`

// Overlay writes sources with all mutants to a folder, and returns the file for "go test -overlay". The mutants must
// be those of s.Mutants.
func (s *Source) Overlay(dir string, mutants []Mutant) (string, error) {
	replace := map[string]string{}
	write := func(name string, src []byte) error {
		from, err := filepath.Abs(filepath.Join(s.dir, name))
		if err != nil {
			return err
		}
		replace[from] = filepath.Join(dir, name)
		return os.WriteFile(replace[from], src, 0o644)
	}
	for name, tree := range s.files {
		src, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			return "", err
		}
		var at []insertion
		for _, d := range tree.Decls {
			if f, is := d.(*ast.FuncDecl); is && f.Body != nil {
				if text := openingStatements(qualified(f), mutants); text != "" {
					at = append(at, insertion{s.fset.Position(f.Body.Lbrace).Offset + 1, text})
				}
			}
		}
		if len(at) > 0 {
			if err := write(name, insert(src, at)); err != nil {
				return "", err
			}
		}
	}
	if err := write("mutant.go", []byte(support)); err != nil {
		return "", err
	}
	if err := write("mutant_test.go", []byte(supportTest)); err != nil {
		return "", err
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, list, 0o644)
}

// openingStatements returns the statements to insert at the start of a function with mutants.
func openingStatements(name string, mutants []Mutant) string {
	var b strings.Builder
	for _, m := range mutants {
		if m.Func == name {
			b.WriteString(" if mutant == " + strconv.Itoa(m.Number) + " { " + m.text + " };")
		}
	}
	return b.String()
}

// insertion is a text to insert before an offset of a file.
type insertion struct {
	offset int
	text   string
}

// insert inserts texts, which are sorted by offset, into a file. Line numbers do not change.
func insert(src []byte, at []insertion) []byte {
	var b bytes.Buffer
	done := 0
	for _, i := range at {
		b.Write(src[done:i.offset])
		b.WriteString(i.text)
		done = i.offset
	}
	b.Write(src[done:])
	return b.Bytes()
}
