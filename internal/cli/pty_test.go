package cli

import (
	"bytes"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/xunix"
)

// sayTerminals is a shell program that prints which of its first three files are terminals.
const sayTerminals = `t=; for fd in 0 1 2; do [ -t $fd ] && t="$t $fd"; done; echo "terminals:$t."`

// A PE's standard output is a terminal if oshrun's is one, or if --pty says so. Standard input and standard error never
// are, whichever PE reads the terminal.
func TestPTYOrPipe(t *testing.T) {
	for _, x := range []struct {
		screen bool // oshrun is on a terminal
		flags  string
		want   string
	}{
		{true, "", " 1"},
		{true, "--stdin all", " 1"},
		{true, "--stdin none", " 1"},
		{true, "--output merge", " 1"},
		{true, "--output tag", " 1"},
		{true, "--no-pty", ""},
		{true, "--no-pty --output tag", ""},
		{false, "", ""},
		{false, "--no-pty", ""},
		{false, "--pty", " 1"},
		{false, "--pty --output merge", " 1"},
	} {
		args := append(strings.Fields(x.flags), "-n", "1", "sh", "-c", sayTerminals)
		want := "terminals:" + x.want + "."
		var text string
		if x.screen {
			j := prepare(t, args...)
			s := onTerminal(t, j)
			if status := s.ended(j); status != 0 {
				t.Errorf("status %d", status)
			}
			text = s.String()
		} else {
			j := start(t, args...)
			j.expect(0)
			text = j.stdout.String()
		}
		if !strings.Contains(text, want) {
			t.Errorf("on a terminal: %v, flags %q: %q, want %q", x.screen, x.flags, text, want)
		}
	}
	if status, _, said := execute(t, "--pty", "--no-pty", "true"); status != 2 || !strings.Contains(said, "--pty and --no-pty") {
		t.Errorf("status %d, %q", status, said)
	}
}

// Bytes of every value pass unchanged through a pseudo terminal, up to the last one that a PE writes before it ends.
func TestPTYUnchanged(t *testing.T) {
	const npes = 2 // one for each half of the values
	for _, size := range []int{1, 5000, 1 << 20, 6<<20 + 4321} {
		j := start(t, "-n", fmt.Sprint(npes), "--pty", "--output", "raw", "t-say", "bytes", fmt.Sprint(size))
		j.expect(0)
		for pe := range npes {
			var got []byte
			for _, c := range j.stdout.Bytes() {
				if int(c>>7) == pe {
					got = append(got, c)
				}
			}
			if want := bytesOf(pe, size); !bytes.Equal(got, want) {
				t.Errorf("got %d bytes of PE %d, want %d with the same content", len(got), pe, size)
			}
		}
	}
}

// With pseudo terminals, merged outputs of a PE are complete and in whole lines. A line of standard error comes after
// what the PE wrote to standard output before it.
func TestPTYMerge(t *testing.T) {
	const turns = 1000
	for _, screen := range []bool{true, false} {
		j := prepare(t, "-n", "1", "--pty", "--output", "merge", "t-say", "turns", fmt.Sprint(turns))
		var text string
		if screen {
			s := onTerminal(t, j)
			if status := s.ended(j); status != 0 {
				t.Errorf("status %d", status)
			}
			text = strings.ReplaceAll(s.String(), "\r\n", "\n")
		} else {
			j.begin()
			j.expect(0)
			text = j.stdout.String()
		}
		n := map[string]int{}
		for line := range strings.Lines(text) {
			word, _, _ := strings.Cut(line, " ")
			if want := fmt.Sprintf("%s %d\n", word, n[word]); line != want {
				t.Fatalf("on a terminal: %v: %q, want %q", screen, line, want)
			}
			if n[word]++; n["err"] > n["out"] {
				t.Fatalf("on a terminal: %v: %q comes before output that was written earlier", screen, line)
			}
		}
		if n["out"] != turns || n["err"] != turns {
			t.Errorf("on a terminal: %v: lines %v, want %d each", screen, n, turns)
		}
	}
}

// What a PE writes before it kills itself comes through a pseudo terminal, before oshrun's message on its end.
func TestPTYLastWords(t *testing.T) {
	const lines = 2000
	for range 5 {
		j := prepare(t, "-n", "1", "--pty", "sh", "-c",
			fmt.Sprintf(`i=0; while [ $i -lt %d ]; do echo "line $i"; i=$((i+1)); done; printf "last words"; kill -9 $$`, lines))
		s := &speech{}
		j.cmd.Stdout, j.cmd.Stderr = s, s
		j.begin()
		if status, _ := j.endedAfter(testPatience, func() {}); status != 137 {
			t.Errorf("status %d, want 137", status)
		}
		text := s.String()
		words, told := strings.Index(text, "last words"), strings.Index(text, "oshrun: PE 0")
		if n := strings.Count(text, "line "); n != lines || words < 0 || told < words {
			t.Errorf("got %d of %d lines, the last words at %d, the message at %d", n, lines, words, told)
		}
	}
}

// A line of a C program is shown at once.
func TestPTYAtOnce(t *testing.T) {
	program := testenv.CompileC(t, testenv.CC, "testdata/buffered.c")
	j := start(t, "-n", "1", "--pty", program)
	if line, err := j.out.ReadString('\n'); err != nil || line != "a line\n" {
		t.Fatalf("%q, %v; stderr:\n%s", line, err, &j.stderr)
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM)) // it would not end by itself
	j.expect(143)
}

// The PEs' pseudo terminals have the window size of oshrun's terminal, and follow its changes.
func TestPTYWindow(t *testing.T) {
	j := prepare(t, "-n", "1", "sh", "-c",
		`trap 'stty size <&1; echo changed' WINCH; stty size <&1; echo "ready $$"; while :; do sleep 0.02; done`)
	s := openScreen(t)
	check(t, xunix.SetWindow(s.person, xunix.Window{Rows: 33, Columns: 77}))
	s.show(j)
	s.wait("33 77\r\n")
	s.wait("ready ")
	check(t, xunix.SetWindow(s.person, xunix.Window{Rows: 44, Columns: 99}))
	s.wait("44 99\r\n")
	s.wait("changed\r\n")
	s.write("\x03")
	if status := s.ended(j); status != 130 {
		t.Errorf("status %d, want 130", status)
	}
}

// A PE that leads a session has no controlling terminal, even after it opens its standard output by name.
func TestPTYControlsNothing(t *testing.T) {
	j := start(t, "-n", "1", "--pty", "sh", "-c",
		`echo by name >/dev/stdout; if (: </dev/tty) 2>/dev/null; then echo controlled; else echo free; fi`)
	j.expect(0)
	if got := j.stdout.String(); got != "by name\nfree\n" {
		t.Errorf("%q, want a PE without a controlling terminal", got)
	}
}

// Without pseudo terminals PEs get pipes. A message says so if terminals were asked for.
func TestPTYMissing(t *testing.T) {
	testenv.Need(t, testenv.Namespaces)
	for flag, words := range map[string]string{"--pty": "oshrun: --pty: ", "--no-pty": ""} {
		j := prepare(t, flag, "-n", "2", "sh", "-c", sayTerminals)
		j.inNamespaces("--mount", "mount --bind /dev/null /dev/ptmx")
		j.begin()
		j.expect(0)
		if got := j.stdout.String(); strings.Count(got, "terminals:.\n") != 2 {
			t.Errorf("%s: %q, want pipes", flag, got)
		}
		if said := j.stderr.String(); strings.Count(said, "oshrun: ") != min(len(words), 1) || !strings.Contains(said, words) {
			t.Errorf("%s: stderr %q, want %q once", flag, said, words)
		}
	}
}
