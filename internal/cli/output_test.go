package cli

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Lines of several PEs are whole, complete and in order, at any length, on a pipe and in a file, tagged or not.
func TestLinesDoNotMix(t *testing.T) {
	const npes, lines = 5, 3000
	for name, flags := range map[string][]string{"plain": nil, "tagged": {"--output", "tag"}, "merged": {"--output", "merge"}} {
		t.Run(name, func(t *testing.T) {
			prefix := ""
			if name == "tagged" {
				prefix = "%d]<stdout>: "
			}
			j := prepare(t, append(flags, "-n", fmt.Sprint(npes), "t-say", "lines", fmt.Sprint(lines))...)
			file, err := os.Create(t.TempDir() + "/out")
			check(t, err)
			defer file.Close()
			if name == "merged" {
				j.cmd.Stdout = file
			}
			j.begin()
			status, said := j.endedAfter(testPatience, func() {
				if name == "merged" {
					check(t, j.cmd.Wait())
					_, err = file.Seek(0, 0)
					check(t, err)
					all(t, checkLines(t, file, prefix, npes), lines)
					return
				}
				all(t, checkLines(t, j.out, prefix, npes), lines)
			})
			j.check(status, said, 0, nil)
		})
	}
}

func all(t *testing.T, got []int, want int) {
	t.Helper()
	for pe, n := range got {
		if n != want {
			t.Errorf("%d lines of PE %d, want %d", n, pe, want)
		}
	}
}

// The output of a killed PE is complete up to its death, in the middle of a flood. The message follows it, even if
// nothing had been read until then.
func TestKilledInFlood(t *testing.T) {
	const npes, victim, lines = 16, 5, 500 // fewer than a pipe holds
	gate := t.TempDir() + "/gate"
	j := prepare(t, "-n", fmt.Sprint(npes), "t-say", "die", fmt.Sprint(lines), fmt.Sprint(victim), gate)
	j.cmd.Stderr = j.cmd.Stdout
	j.begin()
	_, err := j.out.Peek(1) // the PEs have started
	check(t, err)
	full := 0 // how often in a row no PE could write
	until(t, "a standstill", func() bool {
		full++
		for _, pid := range pesBelow(t, j.cmd.Process.Pid) {
			if stat(fmt.Sprint(pid))[0] != "S" {
				full = 0
			}
		}
		return full == 10
	})
	check(t, os.WriteFile(gate, nil, 0o600))
	until(t, "the end of all PEs", func() bool { return len(pesBelow(t, j.cmd.Process.Pid)) == 0 })
	status, _ := j.ended(testPatience)
	text := j.stdout.Bytes()
	before, after, ok := bytes.Cut(text, []byte(fmt.Sprintf("oshrun: PE %d (pid ", victim)))
	if status != 137 || !ok || !bytes.Contains(after, []byte("was killed by signal 9")) {
		t.Fatalf("status %d, message %v", status, ok)
	}
	if before[len(before)-1] != '\n' {
		t.Error("the message is in the middle of a line")
	}
	var theirs bytes.Buffer
	for line := range bytes.Lines(before) {
		if bytes.HasPrefix(line, []byte(fmt.Sprintf("%d ", victim))) {
			theirs.Write(line)
		}
	}
	if n := checkLines(t, &theirs, "", npes)[victim]; n != lines {
		t.Errorf("%d lines of the victim before the message, want %d", n, lines)
	}
}

// PEs flood a reader that does not read, and ignore the signal to end. The job is over within two seconds, plus one for
// a slow machine.
func TestEndOfUnreadFlood(t *testing.T) {
	for name, program := range map[string]string{"willing": "exec yes", "unwilling": `trap "" TERM; yes`} {
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
			t.Run(name+" "+sig.String(), func(t *testing.T) {
				j := start(t, "-n", "4", "sh", "-c", program)
				_, err := j.out.Peek(100)
				check(t, err)
				begin := time.Now()
				check(t, j.cmd.Process.Signal(sig))
				j.expectUnread(128+int(sig), "ending 4 PEs")
				if took := time.Since(begin); took > 3*time.Second {
					t.Errorf("over after %v", took)
				}
			})
		}
	}
}

// Logging does not wait for a reader, and neither does anything else in oshrun.
func TestUnreadLog(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	check(t, err)
	defer r.Close()
	fill(t, w)
	j := prepare(t, "-v", "-n", "8", "--timeout", "1", "t-pe", "wait")
	j.cmd.Env = append(j.cmd.Env, "GOSHMEM_LOG=trace")
	j.cmd.Stderr = w
	j.begin()
	_ = w.Close()
	status, _ := j.ended(testPatience)
	if status != 124 {
		t.Errorf("status %d, want 124", status)
	}
}

// fill writes to a pipe until it is full.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	for b := bytes.Repeat([]byte("x"), 4096); len(b) > 0; b = b[:len(b)/2] {
		for {
			check(t, w.SetWriteDeadline(time.Now().Add(50*time.Millisecond)))
			if _, err := w.Write(b); err != nil {
				break
			}
		}
	}
	_ = w.Fd() // back to blocking mode for the next user
}

// Raw output passes bytes of any value.
func TestRaw(t *testing.T) {
	const size = 3 << 20
	for _, npes := range []int{1, 2} {
		dir := t.TempDir()
		j := start(t, "-n", fmt.Sprint(npes), "--output", "raw,dir="+dir, "t-say", "bytes", fmt.Sprint(size))
		j.expect(0)
		for pe := range npes {
			var got []byte
			for _, c := range j.stdout.Bytes() {
				if int(c>>7) == pe {
					got = append(got, c)
				}
			}
			if want := bytesOf(pe, size); !bytes.Equal(got, want) {
				t.Errorf("%d PEs: got %d bytes of PE %d, want %d with the same content", npes, len(got), pe, size)
			}
			if file, err := os.ReadFile(fmt.Sprintf("%s/rank.%d/stdout", dir, pe)); err != nil || !bytes.Equal(file, bytesOf(pe, size)) {
				t.Errorf("file of PE %d: %d bytes, %v, want %d with the same content", pe, len(file), err, size)
			}
		}
	}
	// A single byte is passed on without more to follow.
	j := start(t, "-n", "1", "--output", "raw", "sh", "-c", `printf x; read line; exit 1`)
	if c, err := j.out.ReadByte(); err != nil || c != 'x' {
		t.Errorf("read %q, %v, want the byte", c, err)
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	_, _ = j.ended(testPatience)
}

// The outputs of a PE stay in order if they are one: by a flag, or because both go to the same place.
func TestMerge(t *testing.T) {
	const turns = 3000
	var want strings.Builder
	for i := range turns {
		fmt.Fprintf(&want, "out %d\nerr %d\n", i, i)
	}
	for name, flags := range map[string][]string{"flag": {"--output", "merge"}, "2>&1": nil} {
		j := prepare(t, append(flags, "-n", "1", "t-say", "turns", fmt.Sprint(turns))...)
		if flags == nil {
			j.cmd.Stderr = j.cmd.Stdout
		}
		j.begin()
		j.expect(0)
		if got := j.stdout.String(); got != want.String() {
			t.Errorf("%s: %d bytes, want %d in order", name, len(got), want.Len())
		}
	}
}

// Words of --output that are unknown or exclude each other are errors.
func TestOutputWords(t *testing.T) {
	for _, words := range []string{"raw,tag", "timestamp,raw", "raw,merge,tag"} {
		status, _, said := execute(t, "--output", words, "true")
		if status != 2 || !strings.Contains(said, "raw excludes tag and timestamp") || !strings.Contains(said, "hint: --output raw,dir=logs") {
			t.Errorf("--output %s: status %d, %q", words, status, said)
		}
	}
	if status, _, said := execute(t, "--output", "rwa", "true"); status != 2 || !strings.Contains(said, `"rwa", want tag, timestamp, merge, raw or dir=D`) {
		t.Errorf("status %d, %q", status, said)
	}
}

// A signal that does not end the job does not cut unread output.
func TestSignalWhileReaderIsLate(t *testing.T) {
	j := start(t, "-v", "-n", "1", "sh", "-c", `head -c 200000 /dev/zero | tr "\0" "\n"`)
	<-j.stderr.says("finished after")
	for _, sig := range []syscall.Signal{syscall.SIGWINCH, syscall.SIGUSR1, syscall.SIGCONT} {
		check(t, j.cmd.Process.Signal(sig))
	}
	j.expect(0)
	if n := j.stdout.Len(); n != 200000 {
		t.Errorf("got %d bytes, want 200000", n)
	}
}
