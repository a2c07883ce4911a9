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

// gate is a reader who does not read until he is let.
type gate struct {
	open chan struct{}
	mu   sync.Mutex
	text bytes.Buffer
	max  int // bytes in one write
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

// What stands in the middle of somebody else's line begins a line of its own,
// oshrun's words too, and nothing is added elsewhere.
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
		t.Errorf("%q, want %q", got, want)
	}
}

// Lines that come in parts keep the destination until they end, or pause, or
// have taken too much.
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
		t.Error("in the middle of a long line, want nobody but its author to write")
	}
	k.mu.Unlock()
	go func() { pass(k, 1, "one\n"); close(done) }()
	pass(k, 0, part)
	pass(k, 0, "end\n")
	<-done
	<-k.flushed()
	if got := g.String(); got != part+part+"end\none\n" {
		t.Errorf("%d bytes, want the long line and then %q", len(got), "one")
	}
	pass(k, 0, part)
	pass(k, 0, "") // it pauses
	pass(k, 1, "two\n")
	for range holdBytes / len(part) {
		pass(k, 0, part)
	}
	done = make(chan struct{})
	go func() { pass(k, 1, "three\n"); close(done) }()
	pass(k, 0, part)
	<-done // and not only when the line ends
	<-k.flushed()
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.max > pieceBytes {
		t.Errorf("%d bytes were written at once, want at most %d", g.max, pieceBytes)
	}
}

// Many who write at once: each one's text is complete and in order, and no line
// has two authors; what waits does not grow with what is written.
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
			t.Fatalf("line %.60q: %v, or out of order", line, err)
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

// smallBuffers checks that the buffers have not grown beyond what is to wait.
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

// A reader who does not read stops PEs, and neither messages nor the log; what
// of the log finds no room is counted.
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
	// What there is room for, what the writer may have taken away before it met the reader, and
	// as much again.
	for range 3 * logBytes / 100 {
		k.log(daemon.Stderr, bytes.Repeat([]byte("l"), 99))
	}
	if !k.say(daemon.Stderr, []byte("oshrun: important\n"), ownBytes) {
		t.Error("no room for a message because of the log")
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
		t.Errorf("%d lines of the PE, want %d", n, 100*pieceBytes/2)
	}
}

// After cut nobody waits; after an error, text of PEs is given up and the error
// is told, and messages are still tried.
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

// A message waits for what stands before it, but not for longer than the
// output.
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
		t.Errorf("%q", got)
	}
	if said := p.said(daemon.Event{}); said != nil {
		t.Error("there is something to wait for of a PE that has written nothing")
	}
	p.after(p.said(daemon.Event{Written: daemon.Written{Stderr: 1 << 20}}), "cut")
	p.cut()
	p.flush()
	<-p.sinks[daemon.Stderr].flushed()
	if got := g.String(); !strings.HasSuffix(got, "oshrun: cut\n") {
		t.Errorf("%q, want a message at the end", got)
	}
}

// What an output has not brought when it ends is not waited for.
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
			t.Errorf("output %d is taken for complete", i)
		default:
		}
	}
	p.end(daemon.ID{}, daemon.Stdout)
	p.end(daemon.ID{}, daemon.Stderr)
	<-said[0]
	<-said[1]
}

// Passing text on allocates nothing, tagged or not.
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
	// What is written meanwhile starts a goroutine now and then.
	if n := testing.AllocsPerRun(1000, func() { p.write(daemon.ID{}, daemon.Stdout, text) }); n > 3 {
		t.Errorf("%v allocations for 1000 lines", n)
	}
}

// Text that somebody sends to be printed begins and ends its line.
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
		t.Errorf("%q", got)
	}
}
