// Package exampletest tests the programs in examples: it starts them just as their
// lines in README.md say, and with other numbers of PEs.
//
// The test binary of an example is all programs that this takes: the example when it
// is started as a PE, oshrun when the environment says so, and the test otherwise.
package exampletest

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/cli"
)

// asOshrun makes the test binary behave as oshrun.
const asOshrun = "GOSHMEM_TEST_AS_OSHRUN"

// Main is the example's TestMain, with its main.
func Main(m *testing.M, example func()) {
	if _, isPE := os.LookupEnv("PMIX_RANK"); isPE {
		example()
		return
	}
	if os.Getenv(asOshrun) != "" {
		os.Exit(cli.Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) //nolint:forbidigo // it is oshrun then
	}
	os.Exit(m.Run()) //nolint:forbidigo // as the testing package would
}

// most is how many lines an example may have.
const most = 100

// Row is the line of an example in README.md's table.
type Row struct {
	Name    string
	Command string // that starts it
	npes    string
}

var rowLine = regexp.MustCompile("(?m)^\\| \\[([0-9]{2}-[a-z]+)\\]\\(examples/([^/]+)/main.go\\) \\| `(oshrun -n ([0-9]+) [^`]+)` \\| .+ \\|$")

// Rows returns the lines of a README.md.
func Rows(t *testing.T, file string) (all []Row) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range rowLine.FindAllStringSubmatch(string(text), -1) {
		if m[1] != m[2] {
			t.Errorf("%s: the line of %s leads to %s", file, m[1], m[2])
		}
		all = append(all, Row{Name: m[1], Command: m[3], npes: m[4]})
	}
	return all
}

// Run starts the example of the present folder as README.md says and then, unless
// tests are to be short, with 1, 2, 3, 5 and 8 PEs. It has to end with the status, and
// to print what matches the pattern from begin to end, that want returns for n PEs;
// printed lines are sorted.
func Run(t *testing.T, want func(n int) (pattern string, status int)) {
	t.Helper()
	r := here(t)
	short(t, r)
	counts := []string{r.npes}
	if !testing.Short() {
		counts = append(counts, slices.DeleteFunc([]string{"1", "2", "3", "5", "8"}, func(n string) bool { return n == r.npes })...)
	}
	folder := install(t, r)
	for _, npes := range counts {
		command := strings.Replace(r.Command, "-n "+r.npes, "-n "+npes, 1)
		t.Run(npes, func(t *testing.T) {
			n, err := strconv.Atoi(npes)
			if err != nil {
				t.Fatal(err)
			}
			pattern, status := want(n)
			start(t, folder, command, pattern, status)
		})
	}
}

// Refuse starts the example of the present folder with a number of PEs that it cannot do
// with: it has to end with status 1 and print no result.
func Refuse(t *testing.T, n int) {
	t.Helper()
	r := here(t)
	start(t, install(t, r), strings.Replace(r.Command, "-n "+r.npes, fmt.Sprintf("-n %d", n), 1), "", 1)
}

var killed = regexp.MustCompile("--kill [0-9]+")

// Survive starts the example of the present folder as README.md says, but that each of
// the n PEs in turn, or PE 0 alone if tests are to be short, is the one that --kill names. It
// has to end with status 3 and to print what want returns for that victim, as for Run.
func Survive(t *testing.T, want func(n, victim int) (pattern string)) {
	t.Helper()
	r := here(t)
	n, err := strconv.Atoi(r.npes)
	if err != nil || !killed.MatchString(r.Command) {
		t.Fatalf("%s kills no PE: %v", r.Command, err)
	}
	folder := install(t, r)
	for victim := range n {
		if victim > 0 && testing.Short() {
			break
		}
		t.Run(strconv.Itoa(victim), func(t *testing.T) {
			command := killed.ReplaceAllString(r.Command, fmt.Sprintf("--kill %d", victim))
			start(t, folder, command, want(n, victim), 3)
		})
	}
}

// here returns the line of the example in the present folder.
func here(t *testing.T) Row {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	rows := Rows(t, "../../README.md")
	i := slices.IndexFunc(rows, func(r Row) bool { return r.Name == filepath.Base(dir) })
	if i < 0 {
		t.Fatalf("README.md has no line for %s", filepath.Base(dir))
	}
	return rows[i]
}

// install makes a folder in which this binary is .bin/oshrun and the example.
func install(t *testing.T, r Row) string {
	t.Helper()
	self, err := os.Executable()
	dir := t.TempDir()
	if err == nil {
		err = os.Mkdir(filepath.Join(dir, ".bin"), 0o700)
	}
	for _, name := range []string{"oshrun", r.Name} {
		if err == nil {
			err = os.Symlink(self, filepath.Join(dir, ".bin", name))
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// start runs a command in a folder where .bin is.
func start(t *testing.T, dir, command, pattern string, status int) {
	t.Helper()
	words := strings.Fields(command)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, ".bin", words[0]), append([]string{"--timeout", "60s"}, words[1:]...)...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, &out, &said, append(os.Environ(), asOshrun+"=1")
	err := cmd.Run()
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Fatalf("%s: status %d (%v), want %d; %s%s", command, got, err, status, &out, &said)
	}
	lines := slices.Sorted(strings.Lines(out.String()))
	is, err := regexp.MatchString("^(?:"+pattern+")$", strings.Join(lines, ""))
	if err != nil || !is {
		t.Errorf("%s: output %q, want %q (%v); %s", command, lines, pattern, err, &said)
	}
}

// short checks that the example is short, and says in its comment how it is started.
func short(t *testing.T, r Row) {
	t.Helper()
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > most {
		t.Errorf("main.go has %d lines, want at most %d", n, most)
	}
	if !strings.Contains(string(text), "\n//\t"+r.Command+"\npackage main\n") {
		t.Errorf("the comment of main.go does not end with %q", r.Command)
	}
}
