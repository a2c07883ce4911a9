package cli

import (
	"bytes"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Flags end at the program. Long flags may have one dash. Arguments after the program belong to the program.
func TestTranslateOwn(t *testing.T) {
	fs := newRoot(nil).Flags()
	for in, want := range map[string]string{
		"-np 4 prog -np 5":                       "--np 4 prog -np 5",
		"-np=4 prog":                             "--np=4 prog",
		"-n 4 -wdir / prog":                      "-n 4 --wdir / prog",
		"-n4 -oversubscribe prog -oversubscribe": "-n4 --oversubscribe prog -oversubscribe",
		"-vn 2 -timeout 3 prog -timeout":         "-vn 2 --timeout 3 prog -timeout",
		"-x A=1 -x -np prog -np":                 "-x A=1 -x -np prog -np",
		"--np 2 -- -np":                          "--np 2 -- -np",
		"prog -np 4":                             "prog -np 4",
		"-output tag -stdin all -heap-size 1M p": "--output tag --stdin all --heap-size 1M p",
	} {
		if got, err := translate(strings.Fields(in), fs); err != nil || !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("translate(%q) = %q, %v, want %q", in, got, err, want)
		}
	}
}

// A subcommand counts as one only as the first word.
func TestSubcommandOnlyFirst(t *testing.T) {
	status, _, said := execute(t, "-n", "1", "info")
	if status != 4 || !strings.Contains(said, `"info"`) {
		t.Errorf("oshrun -n 1 info: status %d, %q; want an error about a program that is not found", status, said)
	}
	status, out, _ := execute(t, "info")
	if status != 0 || !strings.Contains(out, "OpenSHMEM") {
		t.Errorf("oshrun info: status %d, %q", status, out)
	}
}

func execute(t *testing.T, args ...string) (status int, out, said string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	null, err := os.Open(os.DevNull)
	check(t, err)
	defer null.Close()
	status = Execute(args, null, &stdout, &stderr)
	return status, stdout.String(), stderr.String()
}

// refuses checks that a command with each of the arguments is refused before anything runs: with exit status 2, the text
// and a hint.
func refuses(t *testing.T, command string, texts map[string]string) {
	t.Helper()
	for args, want := range texts {
		args = command + " " + args
		status, out, said := execute(t, strings.Fields(args)...)
		if status != launch.StatusUsage || out != "" || !strings.Contains(said, want) || !strings.Contains(said, "hint: ") {
			t.Errorf("%s: status %d, want %d and %q:\n%s%s", args, status, launch.StatusUsage, want, said, out)
		}
	}
}

// Each mistake in the command line has its status, and an error with the value, what is wanted, and a hint.
func TestUsageErrors(t *testing.T) {
	for _, x := range []struct {
		args   string
		status int
		words  []string
	}{
		{"", 2, []string{"no program", "hint: oshrun -n 4 graph500"}},
		{"-n 0 true", 2, []string{"-n", "0", "want 1 or more"}},
		{"-n x true", 2, []string{`-n: number of PEs "x", want 1 or more, and at most 1024 on a node`, "hint: oshrun -n 4"}},
		{"-n 1e20 true", 2, []string{`-n: number of PEs "1e20", want 1 or more, and at most 1024 on a node`, "hint: oshrun -n 4"}},
		{"-n 5000000 true", 4, []string{"number of PEs: 5000000, want 1 or more, and at most 1024 on a node", "hint: a smaller -n"}},
		{"--verbose=perhaps true", 2, []string{`--verbose: "perhaps", want true`}},
		{"--wdir= true", 2, []string{`--wdir: "", want a directory`}},
		{"--output= true", 2, []string{`--output: "", want tag`}},
		{"--timeout= true", 2, []string{`--timeout: "", want`}},
		{"-n 8 --heap-size 30T true", 4, []string{"30T", "8 PEs", "want at most 128T together", "hint: "}},
		{"-n 1 --heap-size 200T true", 4, []string{"heap size 200T (--heap-size or SHMEM_SYMMETRIC_SIZE) of 1 PE:", "want at most 128T together, 64T each", "hint: --heap-size 64T\n"}},
		{"-n 2 --heap-size 100T true", 4, []string{"heap size 100T", "of 2 PEs", "want at most 128T together, 65535G each", "hint: --heap-size 65535G, or fewer PEs"}},
		{"-n 1025 true", 4, []string{"1025", "at most 1024"}},
		{"--timeout 1e30 true", 2, []string{`"1e30"`, "at most 2562047h"}},
		{"--no-such-flag true", 2, []string{"no-such-flag", "hint"}},
		{"-n 2 --stdin 2 true", 2, []string{`"2"`, "0 to 1", "all"}},
		{"--output tags true", 2, []string{`"tags"`, "want tag"}},
		{"--timeout never true", 2, []string{`"never"`, "seconds"}},
		{"--timeout -3 true", 2, []string{`"-3"`}},
		{"--heap-size 1X true", 2, []string{"1X"}},
		{"--heap-size 1000T true", 4, []string{"1000"}},
		{"-x NO_SUCH_VARIABLE true", 2, []string{"NO_SUCH_VARIABLE is not set"}},
		{"-x =1 true", 2, []string{"want VAR"}},
		{"--wdir /no/such/dir true", 2, []string{"/no/such/dir", "directory"}},
		{"--coll-radix 1 true", 2, []string{`--coll-radix: "1"`, "want an integer from 2 to 64", "too small", "hint: --coll-radix 4"}},
		{"-n 1 --coll-radix 65 true", 2, []string{`--coll-radix: "65"`, "too large"}},
		{"--emulate 2 -n 2 --coll-radix k true", 2, []string{`--coll-radix: "k"`, "not an integer"}},
		{"--coll-radix= true", 2, []string{`--coll-radix: ""`, "want a radix"}},
		{"tune", 2, []string{"tune: 1 host, want 2 or more", "hint: oshrun tune --host"}},
		{"tune --emulate 1", 2, []string{"tune: 1 host, want 2 or more"}},
		{"tune --emulate 4 --data-interface lo", 2, []string{"--data-interface", "hint: --interface lo"}},
		{"tune --emulate 4 more", 2, []string{`"more"`, "want none"}},
		{"tune --emulate 0", 2, []string{`--emulate: "0"`, "1 to 64"}},
		{"no-such-program", 4, []string{"no-such-program", "hint: "}},
		{"./no-such-program", 4, []string{"no-such-program", "built"}},
		{"--output dir=/proc/nothing true", 4, []string{"/proc/nothing"}},
		{"help no-such-topic", 2, []string{"no-such-topic", "exit-codes"}},
		{"pe no-such-program", 2, []string{"graph500"}},
		{"graph500 --scale 99", 2, []string{"99"}},
	} {
		var status int
		var said string
		if strings.HasPrefix(x.args, "graph500") { // PEs run this binary, which must act as oshrun
			status, said = start(t, strings.Fields("-n 2 "+x.args)...).ended(testPatience)
		} else {
			status, _, said = execute(t, strings.Fields(x.args)...)
		}
		if status != x.status {
			t.Errorf("oshrun %s: status %d, want %d", x.args, status, x.status)
		}
		for _, w := range x.words {
			if !strings.Contains(said, w) {
				t.Errorf("oshrun %s: message lacks %q:\n%s", x.args, w, said)
			}
		}
	}
}

// A variable's bad value has the same status as a flag's. A program must have a name.
func TestUsageErrorsElsewhere(t *testing.T) {
	if status, _, said := execute(t, "-n", "1", ""); status != 2 || !strings.Contains(said, `program: "", want`) {
		t.Errorf("program without a name: status %d, %q", status, said)
	}
	for name, value := range map[string]string{"SHMEM_SYMMETRIC_SIZE": "1X", "GOSHMEM_LOG": "loud", "GOSHMEM_COLL_RADIX": "1"} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(name, value)
			status, _, said := execute(t, "-n", "1", "true")
			if status != 2 || !strings.Contains(said, name) || !strings.Contains(said, "hint: oshrun help environment") {
				t.Errorf("status %d, want 2; %q", status, said)
			}
		})
	}
}

// Standard input goes to the PE that is asked for, to all PEs, or to none.
func TestStdin(t *testing.T) {
	for stdin, want := range map[string]string{
		"1": "[1]<stdout>: hello", "all": "[0]<stdout>: hello [1]<stdout>: hello", "none": "",
	} {
		text := t.TempDir() + "/in"
		check(t, os.WriteFile(text, []byte("hello\n"), 0o600))
		in, err := os.Open(text)
		check(t, err)
		var out, said bytes.Buffer
		status := Execute([]string{"-n", "2", "--stdin", stdin, "--output", "tag", "cat"}, in, &out, &said)
		_ = in.Close()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		slices.Sort(lines)
		if got := strings.Join(lines, " "); status != 0 || got != want {
			t.Errorf("--stdin %s: status %d, output %q, want %q; %s", stdin, status, got, want, &said)
		}
	}
}

// PEs get the environment: -x sets a variable, -x without a value passes one on, and GOMAXPROCS is divided.
func TestEnvironment(t *testing.T) {
	t.Setenv("GOMAXPROCS", "")
	os.Unsetenv("GOMAXPROCS")
	t.Setenv("PMIX_RANK", "77") // from an outer launcher
	var out, said bytes.Buffer
	status := Execute([]string{
		"-n", "1", "-x", "FOO=a=b c", "-x", "HOME", "--wdir", "/", "sh", "-c",
		`echo "$FOO|$PWD|$PMIX_RANK|$([ -n "$GOMAXPROCS" ] && echo divided)"`,
	}, nil, &out, &said)
	if want := "a=b c|/|0|divided\n"; status != 0 || out.String() != want {
		t.Errorf("status %d, output %q, want %q; %s", status, out.String(), want, &said)
	}
}

// The log has no escape sequences unless it goes to a terminal. It says what is started.
func TestLogIsPlain(t *testing.T) {
	status, _, said := execute(t, "-v", "-n", "2", "true")
	if status != 0 || strings.ContainsRune(said, 0x1b) {
		t.Errorf("status %d, %q", status, said)
	}
	host, err := os.Hostname()
	check(t, err)
	for _, pe := range []string{"0", "1"} {
		line := regexp.MustCompile(`(?m)^.* INF started .*$`)
		found := slices.ContainsFunc(line.FindAllString(said, -1), func(l string) bool {
			return strings.Contains(l, "pe="+pe+" ") && strings.Contains(l, "pid=") && strings.Contains(l, "node="+host) && strings.Contains(l, "/true")
		})
		if !found {
			t.Errorf("the start of PE %s is not logged:\n%s", pe, said)
		}
	}
}

// Only terminals get colors, and none if NO_COLOR is set.
func TestColors(t *testing.T) {
	_, terminal, err := xunix.OpenPTY()
	if err != nil {
		t.Skip(err)
	}
	null, err := os.Open(os.DevNull)
	check(t, err)
	for _, x := range []struct {
		to      io.Writer
		noColor string
		want    bool
	}{{terminal, "", true}, {terminal, "1", false}, {null, "", false}, {&bytes.Buffer{}, "", false}} {
		if got := hasColors(x.to, x.noColor); got != x.want {
			t.Errorf("colors for %T with NO_COLOR=%q: %t, want %t", x.to, x.noColor, got, x.want)
		}
	}
}

// A bad GOMAXPROCS is an error, and an empty one counts as unset.
func TestMaxProcsValue(t *testing.T) {
	for value, want := range map[string]int{"abc": 2, "0": 2, "2": 0, "": 0} {
		status, _, said := execute(t, "-n", "1", "-x", "GOMAXPROCS="+value, "true")
		if status != want || want > 0 && (!strings.Contains(said, `GOMAXPROCS="`+value+`", want an integer from 1`) || !strings.Contains(said, "hint: ")) {
			t.Errorf("GOMAXPROCS=%s: status %d, want %d; %s", value, status, want, said)
		}
	}
}

// Escape sequences in names of programs do not reach the terminal.
func TestEscapesInNames(t *testing.T) {
	dir := t.TempDir() + "/"
	name := dir + "\x1b[31mred"
	for _, args := range [][]string{{name}, {"--wdir", name, "true"}, {"--display", "map", "--do-not-launch", "-n", "1", dir + "\x1b[32mgreen"}} {
		check(t, os.WriteFile(dir+"\x1b[32mgreen", []byte("#!/bin/sh\n"), 0o755))
		_, _, said := execute(t, args...)
		if strings.ContainsRune(said, 0x1b) || !strings.Contains(said, `\x1b[3`) {
			t.Errorf("%q: %q", args, said)
		}
	}
}

// Times in the log have microseconds.
func TestLogTimes(t *testing.T) {
	j := start(t, "-v", "-n", "4", "true")
	status, said := j.ended(testPatience)
	times := regexp.MustCompile(`(?m)^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d\.(\d{6}) `).FindAllStringSubmatch(said, -1)
	if status != 0 || len(times) < 4 || !slices.ContainsFunc(times, func(m []string) bool { return m[1] != "000000" }) {
		t.Errorf("status %d, want 0 and lines with microseconds that are not all zero:\n%s", status, said)
	}
}

// Whole numbers have no decimals.
func TestDecimals(t *testing.T) {
	if got := decimals(25, 0.5, 1234567); !slices.Equal(got, []string{"25", "0.500", "1234567"}) {
		t.Errorf("decimals %q", got)
	}
}
