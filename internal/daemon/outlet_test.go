package daemon

import (
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/xunix"
)

// isClosed says whether a channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// A gauge reports each number when it is reached, and all numbers at the end.
func TestGauge(t *testing.T) {
	var g Gauge
	none, five, six, all := g.Reached(0), g.Reached(5), g.Reached(6), g.Reached(1<<60)
	g.Add(3)
	if !isClosed(none) || isClosed(five) {
		t.Error("at 3: want 0 reached, 5 not")
	}
	g.Add(2)
	if !isClosed(five) || isClosed(six) || !isClosed(g.Reached(5)) {
		t.Error("at 5: want 5 reached, 6 not")
	}
	g.End()
	if !isClosed(six) || !isClosed(all) || !isClosed(g.Reached(9)) {
		t.Error("at the end: want all reached")
	}
}

// newOutputs returns outputs with this configuration and without servers.
func newOutputs(c settings) *outputs { return &outputs{cfg: &c, servers: &servers{}} }

// said returns a channel that is closed when all that was written so far has been passed on.
func (o *outlet) said() <-chan struct{} { return o.passed.Reached(o.mark()) }

// openOutput opens an output, as a pipe or a terminal, and returns the ends for reading and for writing.
func openOutput(t *testing.T, pty bool) (o *outlet, w *os.File) {
	t.Helper()
	open := os.Pipe
	if pty {
		open = xunix.OpenOutputPTY
	}
	r, w, err := open()
	if err != nil && pty {
		t.Skipf("no pseudo terminal: %v", err)
	}
	if err == nil {
		o, err = newOutlet(r, pty)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o, w
}

// A mark is reached as soon as what the pipe or the terminal held has been passed on, whatever is written later.
func TestMark(t *testing.T) {
	t.Run("pipe", func(t *testing.T) { testMark(t, false) })
	t.Run("terminal", func(t *testing.T) { testMark(t, true) })
}

func testMark(t *testing.T, pty bool) {
	o, w := openOutput(t, pty)
	send := func(text string) {
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	got, took := make(chan string), make(chan struct{})
	s := newOutputs(settings{Hooks: Hooks{Output: func(_ ID, _ Stream, text []byte) { got <- string(text); <-took }}})
	p := &localPE{outlets: []*outlet{o}}
	send("one\n")
	one := p.outlets[0].said()
	s.read(p, o, Stdout)
	if text := <-got; text != "one\n" || isClosed(one) {
		t.Errorf("%q is passed on, mark reached: %v, want the first line and no mark yet", text, isClosed(one))
	}
	send("two\n")
	two := p.outlets[0].said()
	took <- struct{}{}
	<-one
	if <-got; isClosed(two) {
		t.Error("the second mark is reached before its text is taken")
	}
	took <- struct{}{}
	<-two
	<-p.outlets[0].said() // nothing is pending
	send("rest")
	_ = w.Close()
	rest := p.outlets[0].said()
	<-got
	took <- struct{}{}
	<-rest
	p.outputs.Wait()
	<-p.outlets[0].said() // nothing is pending after the end either
}

// A mark of a terminal is reached when all that was written before it has been passed on, although nothing else is
// written. The test writes random amounts, below and above what the kernel buffers.
func TestMarkOfTerminal(t *testing.T) {
	o, w := openOutput(t, true)
	passed := 0
	var mu sync.Mutex
	s := newOutputs(settings{Config{Raw: true}, Hooks{Output: func(_ ID, _ Stream, text []byte) {
		mu.Lock()
		defer mu.Unlock()
		passed += len(text)
	}}})
	p := &localPE{outlets: []*outlet{o}}
	s.read(p, o, Stdout)
	rng := rand.New(rand.NewPCG(1, 2))
	written, text := 0, make([]byte, 40<<10)
	for range 3000 {
		n := 1 + rng.IntN(len(text))>>rng.IntN(16)
		if _, err := w.Write(text[:n]); err != nil {
			t.Fatal(err)
		}
		written += n
		<-p.outlets[0].said()
		mu.Lock()
		if passed != written {
			t.Fatalf("the mark is reached after %d of %d bytes", passed, written)
		}
		mu.Unlock()
	}
	_ = w.Close()
	p.outputs.Wait()
	<-p.outlets[0].said()
}

// A mark is reached although a program writes to its terminal without pause.
func TestMarkOfFlood(t *testing.T) {
	o, w := openOutput(t, true)
	s := newOutputs(settings{Config{Raw: true}, Hooks{Output: func(ID, Stream, []byte) {}}})
	p := &localPE{outlets: []*outlet{o}}
	s.read(p, o, Stdout)
	stop, over := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for text := make([]byte, 64<<10); !isClosed(stop); {
			_, _ = w.Write(text)
		}
	}()
	for range 50 {
		<-p.outlets[0].said()
	}
	close(stop)
	<-over
	_ = w.Close()
	p.outputs.Wait()
}

// The last text written to a terminal is read before its end.
func TestEndOfTerminal(t *testing.T) {
	for i := range 500 {
		o, w := openOutput(t, true)
		text := make([]byte, 1+i*7)
		var got []byte
		done := make(chan struct{})
		go func() {
			defer close(done)
			unchanged(o, func(b []byte) { got = append(got, b...) })
		}()
		if _, err := w.Write(text); err != nil {
			t.Fatal(err)
		}
		_ = w.Close()
		<-done
		_ = o.Close()
		if len(got) != len(text) {
			t.Fatalf("got %d of %d bytes", len(got), len(text))
		}
	}
}

// A mark does not wait for an output that was cut.
func TestMarkOfCutOutput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	o, err := newOutlet(r, false)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan struct{})
	s := newOutputs(settings{Config{Raw: true}, Hooks{Output: func(ID, Stream, []byte) { got <- struct{}{}; <-got }}})
	p := &localPE{outlets: []*outlet{o}}
	text := make([]byte, readBytes+1)
	go func() { _, _ = w.Write(text) }()
	s.read(p, o, Stdout)
	<-got // more follows, now or later
	mark := o.passed.Reached(uint64(len(text)))
	_ = o.Close()
	got <- struct{}{}
	<-mark
}

// An expired deadline is not reported while there is something to read.
func TestOutletDeadline(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	o, err := newOutlet(r, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	if err := o.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 10)
	if n, err := o.Read(b); n != 4 || err != nil {
		t.Errorf("%d bytes, %v, want 4", n, err)
	}
	if n, err := o.Read(b); n != 0 || !os.IsTimeout(err) {
		t.Errorf("%d bytes, %v, want a timeout", n, err)
	}
}

// A line that stops at the end of a program's buffer is not mistaken for a prompt.
func TestBlockIsNoPrompt(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := make(chan string, 10)
	go func() {
		defer close(got)
		lines(r, func(b []byte) { got <- string(b) })
	}()
	block := strings.Repeat("a line\n", blockBytes)[:blockBytes]
	end := strings.LastIndexByte(block, '\n') + 1
	for range 2 {
		if _, err := w.WriteString(block); err != nil {
			t.Fatal(err)
		}
		<-got
		<-time.After(2 * slowLine) // the time after which a prompt is passed on
	}
	_ = w.Close()
	if rest := <-got; rest != block[end:] {
		t.Errorf("%q, want the rest of the second block, %q", rest, block[end:])
	}
}
