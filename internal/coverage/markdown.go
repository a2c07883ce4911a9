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

%d of the %d generic routines of OpenSHMEM 1.5 and 1.6 have a Go function, %d a test. Each test runs with 1, 2, 3, 5 and 8 PEs
("go test -run TestRoutines ./shmem") and fails when the function does nothing, or does it at another place or PE ("make mutants").
What the functions mean is in their comments: "go doc github.com/goshmem/goshmem/shmem.Put".
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
	b.WriteString("\n## Left out on purpose\n\n| what | why |\n|---|---|\n")
	for _, n := range leftOut {
		fmt.Fprintf(&b, "| %s | %s |\n", n.names, n.text)
	}
	return b.String()
}

func (s *Source) goNames(routine string) string {
	var out []string
	for _, f := range s.Of(routine) {
		name := "`" + f.Name + "`"
		if operator(f.decl) != "" {
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
