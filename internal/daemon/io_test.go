package daemon

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// Output is passed on in whole lines, complete and unchanged, however it arrives.
func TestLines(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var text bytes.Buffer
	for range 2000 {
		line := make([]byte, rng.IntN(300))
		for i := range line {
			line[i] = byte(' ' + rng.IntN(90))
		}
		text.Write(line)
		text.WriteByte('\n')
	}
	text.WriteString("no end")
	for name, r := range map[string]io.Reader{
		"at once":     bytes.NewReader(text.Bytes()),
		"by the byte": iotest.OneByteReader(bytes.NewReader(text.Bytes())),
		"by halves":   iotest.HalfReader(bytes.NewReader(text.Bytes())),
		"with error":  io.MultiReader(bytes.NewReader(text.Bytes()), iotest.ErrReader(errors.New("gone"))),
	} {
		var got bytes.Buffer
		lines(r, func(b []byte) {
			if last := b[len(b)-1]; last != '\n' && got.Len()+len(b) != text.Len() {
				t.Errorf("%s: a piece ends with %q in the middle", name, last)
			}
			got.Write(b)
		})
		if !bytes.Equal(got.Bytes(), text.Bytes()) {
			t.Errorf("%s: %d bytes arrived, want %d with the same content", name, got.Len(), text.Len())
		}
	}
}

// A line without an end is passed on in parts, so that it takes bounded memory. Readers learn where the parts end.
// Carriage returns end lines, too, unless a newline follows.
func TestLongLine(t *testing.T) {
	text := strings.Repeat("x", 5*LongLine)
	pieces, total := 0, 0
	lines(strings.NewReader(text), func(b []byte) {
		pieces++
		total += len(b)
		if len(b) > LongLine {
			t.Errorf("piece of %d bytes, want at most %d", len(b), LongLine)
		}
	})
	if total != len(text) || pieces != 6 {
		t.Errorf("%d bytes in %d pieces, want %d in 5 and an empty one", total, pieces, len(text))
	}
	var got []string
	lines(iotest.OneByteReader(strings.NewReader("10%\r20%\rdone\r\n\r\nrest\r")), func(b []byte) { got = append(got, string(b)) })
	if strings.Join(got, "|") != "10%\r|20%\r|done\r\n|\r\n|rest\r" {
		t.Errorf("pieces %q", got)
	}
}

// A line without an end is passed on after a while. What follows it is passed on once it has an end, and nothing is lost.
func TestSlowLine(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := make(chan string)
	go func() {
		defer close(got)
		lines(r, func(b []byte) { got <- string(b) })
	}()
	for _, x := range []struct{ write, want string }{
		{"first\nname? ", "first\n"}, {"", "name? "}, {"me\n", "me\n"}, {"again? ", "again? "}, {"yes\nend", "yes\n"},
	} {
		if _, err := w.WriteString(x.write); err != nil {
			t.Fatal(err)
		}
		if text := <-got; text != x.want {
			t.Errorf("after %q: got %q, want %q", x.write, text, x.want)
		}
	}
	_ = w.Close()
	if rest := <-got; rest != "end" {
		t.Errorf("rest %q, want \"end\"", rest)
	}
	if _, more := <-got; more {
		t.Error("output after the end")
	}
}

// stalled is an output whose reader, like the whole machine, stood still for longer than a line may take: its next read
// fails by its deadline although the rest of the line is there.
type stalled struct{ reads []string }

func (s *stalled) SetReadDeadline(time.Time) error { return nil }

func (s *stalled) Read(p []byte) (int, error) {
	if len(s.reads) == 0 {
		return 0, io.EOF
	}
	text := s.reads[0]
	s.reads = s.reads[1:]
	if text == "" {
		return 0, os.ErrDeadlineExceeded
	}
	return copy(p, text), nil
}

// A stall ends no line early, short or long. A line without an end is shown after as many expired waits as a limit has
// steps.
func TestLinesOutliveStalls(t *testing.T) {
	long := strings.Repeat("x", 2*blockBytes+1)
	for name, test := range map[string]struct{ reads, want []string }{
		"short":  {[]string{"begin", "", " and end\n"}, []string{"begin and end\n"}},
		"long":   {[]string{long, "", "", "", "end\n"}, []string{long + "end\n"}},
		"prompt": {[]string{"name? ", "", "", "", "", "answer\n"}, []string{"name? ", "answer\n"}},
		"each":   {[]string{"a", "", "", "b\nc", "", "", "d\n"}, []string{"ab\n", "cd\n"}},
	} {
		var got []string
		lines(&stalled{test.reads}, func(b []byte) { got = append(got, string(b)) })
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: %.60q, want %.60q", name, got, test.want)
		}
	}
}
