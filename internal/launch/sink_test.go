package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
)

// gate is a writer that blocks until the test opens it.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	text bytes.Buffer
	max  int // most bytes of one write
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) Write(b []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	g.max = max(g.max, len(b))
	return g.text.Write(b)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

func quiet(t *testing.T) func(error) {
	t.Helper()
	return func(err error) { t.Errorf("write: %v", err) }
}

func at(pe int) source { return source{id: daemon.ID{PE: pe}} }

func pass(k *sink, pe int, text string) { k.pass(&chunk{from: at(pe), text: []byte(text)}) }

// Text that interrupts another author's line begins its own line, which holds for oshrun's own messages, too. No
// newline is added elsewhere.
func TestLinesAreBroken(t *testing.T) {
	g := newGate()
	close(g.open)
	k := newSink(g, g, quiet(t))
	tagged := func(pe int, text string) {
		k.pass(&chunk{from: at(pe), prefix: fmt.Appendf(nil, "[%d] ", pe), text: []byte(text)})
	}
	pass(k, 0, "name? ")
	pass(k, 0, "me\n")
	pass(k, 0, "10%\r")
	pass(k, 1, "one\ntwo")
	pass(k, 0, "20%\n")
	tagged(0, "a\nb")
	tagged(0, "c\nd")
	tagged(1, "e\n")
	tagged(0, "f")
	k.say(daemon.Stderr, []byte("oshrun: words\n"), ownBytes)
	tagged(0, "g")
	<-k.flushed()
	want := "name? me\n10%\r\none\ntwo\n20%\n" + "[0] a\n[0] bc\n[0] d\n[1] e\n[0] f\noshrun: words\n[0] g"
	if got := g.String(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A line that comes in parts keeps the destination until it ends, pauses, or has taken too much.
func TestLongLinesStayWhole(t *testing.T) {
	g := newGate()
	close(g.open)
	k := newSink(g, g, quiet(t))
	part := strings.Repeat("x", daemon.LongLine)
	done := make(chan struct{})
	pass(k, 0, part)
	<-k.flushed()
	k.mu.Lock()
	if !k.mayWrite(at(0)) || k.mayWrite(at(1)) {
		t.Error("another author wrote in the middle of a long line")
	}
	k.mu.Unlock()
	go func() { pass(k, 1, "one\n"); close(done) }()
	pass(k, 0, part)
	pass(k, 0, "end\n")
	<-done
	<-k.flushed()
	if got := g.String(); got != part+part+"end\none\n" {
		t.Errorf("got %d bytes, want the long line and then %q", len(got), "one")
	}
	pass(k, 0, part)
	pass(k, 0, "") // the line pauses
	pass(k, 1, "two\n")
	for range holdBytes / len(part) {
		pass(k, 0, part)
	}
	done = make(chan struct{})
	go func() { pass(k, 1, "three\n"); close(done) }()
	pass(k, 0, part)
	<-done // before the line ends
	<-k.flushed()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.max > pieceBytes {
		t.Errorf("%d bytes were written at once, want at most %d", g.max, pieceBytes)
	}
}

// With many concurrent writers, each one's text is complete and in order, and no line has two authors. The buffers do
// not grow with the text.
func TestManyWriters(t *testing.T) {
	const writers, lines = 16, 2000
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	k := newSink(w, w, quiet(t))
	var all sync.WaitGroup
	for pe := range writers {
		all.Go(func() { chatter(k, pe, lines) })
	}
	text := make(chan []byte)
	go func() { b, _ := io.ReadAll(r); text <- b }()
	all.Wait()
	<-k.flushed()
	_ = w.Close()
	next := [writers]int{}
	for line := range strings.Lines(string(<-text)) {
		var pe, seq, n int
		if _, err := fmt.Sscanf(line, "[%d] %d %d ", &pe, &seq, &n); err != nil || seq != next[pe] {
			t.Fatalf("line %.60q is out of order, or does not parse: %v", line, err)
		}
		if want := fmt.Sprintf("[%d] %d %d %s\n", pe, seq, n, strings.Repeat(string(rune('a'+pe)), n)); line != want {
			t.Fatalf("line %.60q... is not the one that PE %d wrote", line, pe)
		}
		next[pe]++
	}
	for pe, n := range next {
		if n != lines {
			t.Errorf("%d lines of PE %d, want %d", n, pe, lines)
		}
	}
	smallBuffers(t, k)
}

// smallBuffers checks that the buffers have not grown beyond what may be queued.
func smallBuffers(t *testing.T, k *sink) {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if most := roomBytes + 4*pieceBytes; cap(k.next.text) > most || cap(k.spare.text) > most {
		t.Errorf("buffers of %d and %d bytes, want at most %d", cap(k.next.text), cap(k.spare.text), most)
	}
}

func chatter(k *sink, pe, lines int) {
	rng := rand.New(rand.NewPCG(1, uint64(pe)))
	prefix := fmt.Appendf(nil, "[%d] ", pe)
	var text []byte
	for i := range lines {
		n := rng.IntN(60)
		if rng.IntN(100) == 0 {
			n *= 500
		}
		text = fmt.Appendf(text, "%d %d %s\n", i, n, strings.Repeat(string(rune('a'+pe)), n))
		if cut := rng.IntN(len(text) + 1); rng.IntN(3) == 0 || i == lines-1 {
			if cut = bytes.LastIndexByte(text[:cut], '\n') + 1; i == lines-1 {
				cut = len(text)
			}
			k.pass(&chunk{from: source{id: daemon.ID{PE: pe}}, prefix: prefix, text: text[:cut]})
			text = append([]byte(nil), text[cut:]...)
		}
	}
}

// A reader that does not read blocks PEs, but neither messages nor the log. Lines of the log that find no room are
// counted.
func TestUnreadSink(t *testing.T) {
	g := newGate()
	k := newSink(g, g, quiet(t))
	stopped := make(chan struct{})
	go func() {
		for range 100 {
			pass(k, 0, strings.Repeat("y\n", pieceBytes/2))
		}
		close(stopped)
	}()
	// Enough for the room in the sink, for what the writer may have taken before it met the reader, and for as much again.
	for range 3 * logBytes / 100 {
		k.log(daemon.Stderr, bytes.Repeat([]byte("l"), 99))
	}
	if !k.say(daemon.Stderr, []byte("oshrun: important\n"), ownBytes) {
		t.Error("the log has taken the room for a message")
	}
	close(g.open)
	<-stopped
	<-k.flushed()
	k.log(daemon.Stderr, []byte("later\n"))
	<-k.flushed()
	got := g.String()
	for _, want := range []string{"oshrun: important\n", "lines of the log are missing", "later\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("output lacks %q", want)
		}
	}
	smallBuffers(t, k)
	if n := strings.Count(got, "y\n"); n != 100*pieceBytes/2 {
		t.Errorf("got %d lines of the PE, want %d", n, 100*pieceBytes/2)
	}
}

// After cut, no writer waits. After an error, the text of PEs is dropped, the error is reported, and messages are still
// tried.
func TestGivenUpSink(t *testing.T) {
	k := newSink(newGate(), newGate(), quiet(t))
	stopped := make(chan struct{})
	go func() {
		for range 100 {
			pass(k, 0, strings.Repeat("y\n", pieceBytes/2))
		}
		close(stopped)
	}()
	k.giveUp()
	<-stopped

	broken := errors.New("broken")
	var told []error
	errs := &failing{err: broken}
	k = newSink(errs, errs, func(err error) { told = append(told, err) })
	pass(k, 0, "text\n")
	<-k.flushed()
	pass(k, 0, "more\n")
	k.say(daemon.Stderr, []byte("oshrun: words\n"), ownBytes)
	<-k.flushed()
	if len(told) != 2 || !errors.Is(told[0], broken) || errs.tried != "text\noshrun: words\n" {
		t.Errorf("errors %v after trying %q", told, errs.tried)
	}
}

type failing struct {
	err   error
	tried string
}

func (f *failing) Write(b []byte) (int, error) {
	f.tried += string(b)
	return 0, f.err
}

// A message waits for the text before it, but not after the end of the output.
func TestMessageAfterOutput(t *testing.T) {
	g := newGate()
	close(g.open)
	p, err := newPrinter(&Options{Stdout: g, Stderr: g})
	if err != nil {
		t.Fatal(err)
	}
	const words = "last words\n"
	p.after(p.said(daemon.Event{Written: daemon.Written{Stdout: uint64(len(words))}}), "the end")
	p.write(daemon.ID{PE: 1}, daemon.Stdout, []byte("another one's\n"))
	p.write(daemon.ID{}, daemon.Stderr, []byte("another output\n"))
	p.write(daemon.ID{}, daemon.Stdout, []byte(words))
	p.flush()
	if got := g.String(); got != "another one's\nanother output\nlast words\noshrun: the end\n" {
		t.Errorf("got %q, want the message after the PE's words", got)
	}
	if said := p.said(daemon.Event{}); said != nil {
		t.Error("a PE that has written nothing has output to wait for")
	}
	p.after(p.said(daemon.Event{Written: daemon.Written{Stderr: 1 << 20}}), "cut")
	p.cut()
	p.flush()
	<-p.sinks[daemon.Stderr].flushed()
	if got := g.String(); !strings.HasSuffix(got, "oshrun: cut\n") {
		t.Errorf("got %q, want the message at the end", got)
	}
}

// A message does not wait for text that its output has not delivered when it ends.
func TestMessageAfterEndOfOutput(t *testing.T) {
	p, err := newPrinter(&Options{Stdout: io.Discard, Stderr: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	said := p.said(daemon.Event{Written: daemon.Written{Stdout: 5, Stderr: 5}})
	p.write(daemon.ID{}, daemon.Stdout, []byte("1234"))
	for i := range said {
		select {
		case <-said[i]:
			t.Errorf("output %d counts as complete", i)
		default:
		}
	}
	p.end(daemon.ID{}, daemon.Stdout)
	p.end(daemon.ID{}, daemon.Stderr)
	<-said[0]
	<-said[1]
}

// Passing text on does not allocate, tagged or not.
func TestPassAllocatesNothing(t *testing.T) {
	p, err := newPrinter(&Options{Stdout: io.Discard, Stderr: io.Discard, Output: Output{Tag: true, Timestamp: true}})
	if err != nil {
		t.Fatal(err)
	}
	p.now = func() time.Time { return time.Time{} }
	text := bytes.Repeat([]byte("1234567\n"), 1000)
	for range 100 {
		p.write(daemon.ID{}, daemon.Stdout, text)
	}
	// Concurrent writing starts a goroutine now and then.
	if n := testing.AllocsPerRun(1000, func() { p.write(daemon.ID{}, daemon.Stdout, text) }); n > 3 {
		t.Errorf("%v allocations for 1000 lines", n)
	}
}

// Text that a PE sends to be printed begins and ends its own line.
func TestSentText(t *testing.T) {
	g := newGate()
	close(g.open)
	p, err := newPrinter(&Options{Stdout: g, Stderr: g})
	if err != nil {
		t.Fatal(err)
	}
	p.write(daemon.ID{}, daemon.Stdout, []byte("open"))
	p.log(daemon.Stderr, []byte("no end"))
	p.log(daemon.Stdout, []byte("end\n"))
	p.flush()
	if got := g.String(); got != "open\nno end\nend\n" {
		t.Errorf("got %q, want each text on its own lines", got)
	}
}
