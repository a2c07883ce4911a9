package daemon

import (
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/internal/xunix"
)

// PEs write to terminals that have the size of the user's and follow its changes. What a PE writes to standard error
// comes after what it wrote to standard output before.
func TestTerminalOutput(t *testing.T) {
	needProgram(t, "stty")
	screen, other, err := xunix.OpenPTY()
	if err != nil {
		t.Skipf("no pseudo terminal: %v", err)
	}
	defer screen.Close()
	defer other.Close()
	const script = `test -t 1 && echo terminal; test -t 2 || echo pipe; stty size <&1
		for i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done
		trap 'stty size <&1; exit' USR1; echo ready; while :; do sleep 0.01; done`
	s := startTest(t, []App{shell(1, script)}, func(c *settings) {
		c.PTY, c.Merge = PTY{On: true, Window: xunix.Window{Rows: 31, Columns: 77}}, true
	})
	want := []string{"terminal", "pipe", "31 77"}
	for _, i := range []string{"1", "2", "3", "4", "5"} {
		want = append(want, "out "+i, "err "+i)
	}
	var got []string
	for !slices.Contains(got, "ready") || !slices.Contains(got, "err 5") {
		_, line, _ := strings.Cut(s.line(), ": ")
		got = append(got, line)
	}
	for i, n := 0, 0; i < len(got); i++ { // "out n" must precede "err n"
		switch {
		case strings.HasPrefix(got[i], "out "):
			n++
		case strings.HasPrefix(got[i], "err ") && got[i] > "err "+string(rune('0'+n)):
			t.Errorf("%q comes before the line of standard output that precedes it: %q", got[i], got)
		}
	}
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("no %q in %q", line, got)
		}
	}
	s.Resize(xunix.Window{Rows: 40, Columns: 100})
	s.Signal(syscall.SIGUSR1)
	line := s.line()
	for line == "0: User defined signal 1" { // the shell reports its child, which gets the signal, too
		line = s.line()
	}
	if line != "0: 40 100" {
		t.Errorf("line %q, want the new size", line)
	}
}

// Raw output is passed on as it comes. Merged outputs share one pipe.
func TestRawMergedOutput(t *testing.T) {
	text := make(chan string, 100)
	s := startTest(t, []App{shell(1, `printf "no line"; exec sleep 1000`)}, func(c *settings) {
		c.Raw, c.Merge = true, true
		c.Output = func(_ ID, stream Stream, b []byte) {
			if stream != Stdout {
				t.Error("merged output comes as standard error")
			}
			text <- string(b)
		}
	})
	if got := receive(t, "output", text); got != "no line" {
		t.Errorf("output %q", got)
	}
	if n := len(s.pe(0).outlets); n != 1 {
		t.Errorf("%d outputs, want one", n)
	}
}

// Without pseudo terminals, only users who asked for them are told.
func TestNoTerminal(t *testing.T) {
	var said []string
	r := &reporter{tellUser: func(text string) { said = append(said, text) }}
	for _, asked := range []bool{false, true} {
		out := &outputs{cfg: &settings{Config: Config{PTY: PTY{On: true, Asked: asked}}}, reporter: r}
		out.reportNoPTY(errEnding)
	}
	if len(said) != 1 || !strings.Contains(said[0], "--pty") {
		t.Errorf("told %q, want one line about --pty", said)
	}
}
