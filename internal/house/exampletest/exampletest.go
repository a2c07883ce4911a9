// Package exampletest tests the programs in examples. It starts them with the commands in README.md, and with other
// numbers of PEs.
//
// The test binary of an example plays all roles: it is the example if it is started as a PE, oshrun if the
// environment says so, and the test otherwise. With -programs, PEs are another build of the example:
//
//	GOARCH=arm64 go build -o DIR/ ./examples/...
//	go test ./examples/... -programs 'qemu-aarch64-static DIR/'
package exampletest

import (
	"bytes"
	"flag"
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

// programs is what takes the place of .bin/ in the commands.
var programs = flag.String("programs", "", "run the examples of this folder, which ends with a slash; an emulator with a blank may stand before it")

// asOshrun makes the test binary behave as oshrun.
const asOshrun = "GOSHMEM_TEST_AS_OSHRUN"

// Main is the body of an example's TestMain. example is the example's main.
func Main(m *testing.M, example func()) {
	if _, isPE := os.LookupEnv("PMIX_RANK"); isPE {
		example()
		return
	}
	if isAgent := len(os.Args) == 2 && os.Args[1] == "agent"; isAgent || os.Getenv(asOshrun) != "" { // agents have no environment
		os.Exit(cli.Execute(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) //nolint:forbidigo // the process is oshrun here
	}
	os.Exit(m.Run()) //nolint:forbidigo // as the testing package does
}

// maxLines is the largest number of lines of an example.
const maxLines = 100

// Row is the line of an example in README.md's table.
type Row struct {
	Name    string
	Command string // the command that starts the example
	npes    string // the number of PEs in Command
}

var rowLine = regexp.MustCompile("(?m)^\\| \\[([0-9]{2}-[a-z]+)\\]\\(examples/([^/]+)/main.go\\) \\| `(oshrun -n ([0-9]+) [^`]+)` \\| .+ \\|$")

// Rows returns the lines of the table in a README.md.
func Rows(t *testing.T, file string) (all []Row) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range rowLine.FindAllStringSubmatch(string(text), -1) {
		if m[1] != m[2] {
			t.Errorf("%s: the line of %s links to %s", file, m[1], m[2])
		}
		all = append(all, Row{Name: m[1], Command: m[3], npes: m[4]})
	}
	return all
}

// Run tests the example in the current folder on one node and on several: it is RunOnOneNode and RunOnNodes.
func Run(t *testing.T, want func(n int) (pattern string, status int)) {
	t.Helper()
	RunOnOneNode(t, want)
	RunOnNodes(t, "", want)
}

// RunOnNodes starts the example in the current folder with the command in README.md on 2 emulated nodes and, without
// -short, on 4. want is that of RunOnOneNode. A part of the standard error must match the pattern says.
func RunOnNodes(t *testing.T, says string, want func(n int) (pattern string, status int)) {
	t.Helper()
	r := here(t)
	folder := install(t, r)
	n, err := strconv.Atoi(r.npes)
	if err != nil {
		t.Fatal(err)
	}
	for _, nodes := range []string{"2", "4"} {
		if nodes != "2" && testing.Short() {
			break
		}
		t.Run(nodes+" nodes", func(t *testing.T) {
			pattern, status := want(n)
			said := start(t, folder, strings.Replace(r.Command, "oshrun ", "oshrun --emulate "+nodes+" ", 1), pattern, status)
			if is, err := regexp.MatchString(says, said); err != nil || !is {
				t.Errorf("standard error %q, want a part like %q (%v)", said, says, err)
			}
		})
	}
}

// RunOnOneNode tests the example in the current folder. It starts the example with the command in README.md and, without
// -short, with 1, 2, 3, 5 and 8 PEs. want returns the exit status and a pattern for n PEs; the pattern must match
// the whole output, whose lines are sorted.
func RunOnOneNode(t *testing.T, want func(n int) (pattern string, status int)) {
	t.Helper()
	r := here(t)
	checkSource(t, r)
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

// RunBuilt starts the example in the current folder with the command in README.md and, without -short, on 2 emulated nodes.
// The PEs run a build of the example in the folder dir, with other tags than the test has. want is that of RunOnOneNode.
func RunBuilt(t *testing.T, dir string, want func(n int) (pattern string, status int)) {
	t.Helper()
	r := here(t)
	checkSource(t, r)
	folder := install(t, r)
	n, err := strconv.Atoi(r.npes)
	if err != nil {
		t.Fatal(err)
	}
	command := strings.Replace(r.Command, ".bin/", dir+"/", 1)
	pattern, status := want(n)
	start(t, folder, command, pattern, status)
	if !testing.Short() {
		start(t, folder, strings.Replace(command, "oshrun ", "oshrun --emulate 2 ", 1), pattern, status)
	}
}

// Refuse starts the example in the current folder with a number of PEs that it does not support. The example must
// end with status 1 and print no result.
func Refuse(t *testing.T, n int) {
	t.Helper()
	r := here(t)
	start(t, install(t, r), strings.Replace(r.Command, "-n "+r.npes, fmt.Sprintf("-n %d", n), 1), "", 1)
}

var killed = regexp.MustCompile("--kill [0-9]+")

// Survive tests the example in the current folder with the command in README.md, once for each PE as the victim in
// --kill; with -short, only PE 0 is the victim. The example must end with status 3. want returns the pattern of the
// output, as for Run.
func Survive(t *testing.T, want func(n, victim int) (pattern string)) {
	t.Helper()
	r := here(t)
	n, err := strconv.Atoi(r.npes)
	if err != nil || !killed.MatchString(r.Command) {
		t.Fatalf("%s has no --kill flag: %v", r.Command, err)
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

// here returns the line of the example in the current folder.
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

// install makes a folder in which .bin/oshrun and the example are links to this binary.
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

// start runs a command in a folder made by install, and checks its output and exit status. It returns the standard error.
func start(t *testing.T, dir, command, pattern string, status int) (stderr string) {
	t.Helper()
	_, stderr = startAmid(t, dir, command, pattern, status, func(int) {})
	return stderr
}

// startAmid is start with a call in the midst of the run, which gets the process of oshrun. It also returns the output, its lines sorted.
func startAmid(t *testing.T, dir, command, pattern string, status int, amid func(oshrun int)) (output, stderr string) {
	t.Helper()
	if *programs != "" {
		command = strings.Replace(command, ".bin/", *programs, 1)
	}
	words := strings.Fields(command)
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, ".bin", words[0]), append([]string{"--timeout", "60s"}, words[1:]...)...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.Env = dir, &out, &said, append(os.Environ(), asOshrun+"=1")
	err := cmd.Start()
	if err == nil {
		amid(cmd.Process.Pid)
		err = cmd.Wait()
	}
	if got := cmd.ProcessState.ExitCode(); got != status {
		t.Fatalf("%s: status %d (%v), want %d; %s%s", command, got, err, status, &out, &said)
	}
	lines := slices.Sorted(strings.Lines(out.String()))
	output = strings.Join(lines, "")
	is, err := regexp.MatchString("^(?:"+pattern+")$", output)
	if err != nil || !is {
		t.Errorf("%s: output %q, want %q (%v); %s", command, lines, pattern, err, &said)
	}
	return output, said.String()
}

// checkSource checks that the example has at most maxLines lines, and that its comment ends with its command.
func checkSource(t *testing.T, r Row) {
	t.Helper()
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte("\n")); n > maxLines {
		t.Errorf("main.go has %d lines, want at most %d", n, maxLines)
	}
	if !strings.Contains(string(text), "\n//\t"+r.Command+"\npackage main\n") {
		t.Errorf("the comment of main.go does not end with %q", r.Command)
	}
}

// Program starts the program in the current folder, which has no line in README.md's table, by a command as those have. pattern and status are those of Run.
// Program returns the output.
func Program(t *testing.T, command, pattern string, status int) (output string) {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	output, _ = startAmid(t, install(t, Row{Name: filepath.Base(dir)}), command, pattern, status, func(int) {})
	return output
}
