package coverage

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown returns docs/openshmem.md.
func (s *Source) Markdown() string {
	var b strings.Builder
	have, tested := 0, 0
	for _, r := range Routines {
		if len(s.Of(r.Name)) > 0 {
			have++
		}
		if s.Tests[r.Name] != "" {
			tested++
		}
	}
	fmt.Fprintf(&b, `# OpenSHMEM in Go

<!-- Generated from the comments and tests of package shmem by "go generate ./shmem"; do not edit. -->

%d of the %d generic routines of OpenSHMEM 1.5 and 1.6 have a Go function, and %d have a test.

- Tests: each one runs with 1, 2, 3, 5 and 8 PEs ("go test -run TestRoutines ./shmem"). It fails if the function does
  nothing, or works on another element or another PE ("make mutants").
- Version: the routines include all that 1.6 has added, marked (1.6). oshrun and SHMEM_VERSION call this level "1.6,
  without deprecated names".
- Meaning: the functions' comments have it ("go doc github.com/goshmem/goshmem/shmem.Put").
`, have, len(Routines), tested)
	family := ""
	for _, r := range Routines {
		if r.Family != family {
			family = r.Family
			title := strings.ToUpper(family[:1]) + family[1:]
			fmt.Fprintf(&b, "\n## %s\n\n| routine | Go | test |\n|---|---|---|\n", title)
		}
		name := "`" + r.Name + "`"
		if r.V16 {
			name += " (1.6)"
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", name, s.goNames(r.Name), s.testLink(r.Name))
	}
	b.WriteString("\n## Constants and handles\n\n| name | Go |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(s.Consts)) {
		fmt.Fprintf(&b, "| `%s` | `%s` |\n", name, s.Consts[name])
	}
	for _, n := range constants {
		left := slices.DeleteFunc(strings.Split(n.names, ", "), func(name string) bool { return s.Consts[name] != "" })
		if len(left) > 0 {
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.Join(left, "`, `"), n.text)
		}
	}
	b.WriteString("\n## Null arguments, and operations in place\n\n| OpenSHMEM | here |\n|---|---|\n")
	for _, n := range special {
		fmt.Fprintf(&b, "| %s | %s |\n", n.names, n.text)
	}
	b.WriteString(checking)
	b.WriteString("\n## Left out on purpose\n\n| what | why |\n|---|---|\n")
	for _, n := range leftOut {
		fmt.Fprintf(&b, "| %s | %s |\n", n.names, n.text)
	}
	return b.String()
}

// checking says how to find collectives that do not match.
const checking = `
## Programs that hang in a collective

All PEs of a team must call the same collectives in the same order with the same arguments. The specification does not
say what happens otherwise. Usually PEs wait for each other, or get wrong results without an error. Start such a program
once with

    GOSHMEM_CHECK=collectives oshrun -n 4 ./program

The PEs of a team then compare their calls before each collective, including barriers and allocations. If the calls
differ, all PEs get an error that says which PEs call what:

    shmem.Reduce: Reduce(sum) of 8 elements of int64 on PE 0, 1, 3, but Reduce(max) of 8 elements of int64 on PE 2: want the same call on all PEs of the team
    shmem.Barrier: Barrier on PE 0-2, but Broadcast of 100 elements of float64, root 0 on PE 3: want the same call on all PEs of the team
    shmem.FCollect: FCollect of 5 elements of int32 on PE 0, but FCollect with bad arguments (destination has 8 elements, want at least 10 (source has 5, team 2 PEs)) on PE 1: want the same call on all PEs of the team

- Error: ` + "`ErrMismatch`" + `. No PE has entered the collective, and the team can still be used.
- Cost: each collective takes one more meeting of its team.
- Not found: PEs that are in collectives of different teams. ` + "`oshrun --timeout 60s --stacks`" + ` shows where they
  wait.
- Not found: different operators that are function literals in the program's generic code, or that differ only in the
  variables they capture. Predefined operators are always told apart.
- Package ` + "`mpi`" + `: its collectives are compared in the same way.
`

func (s *Source) goNames(routine string) string {
	var out []string
	for _, f := range s.Of(routine) {
		name := "`" + f.Name + "`"
		if operator(f.decl) {
			name = "`Reduce` with " + name
		}
		out = append(out, name)
	}
	if len(out) == 0 {
		return "missing"
	}
	return strings.Join(out, ", ")
}

func (s *Source) testLink(routine string) string {
	file := s.Tests[routine]
	if file == "" {
		return "missing"
	}
	return fmt.Sprintf("[%s](../shmem/%s)", file, file)
}
