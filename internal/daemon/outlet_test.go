package daemon

import (
	"os"
	"strings"
	"testing"
	"time"
)

// A gauge tells everybody whose number is reached, and at the end all.
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

// A mark is reached when what was in the pipe has been passed on, not before,
// and whatever comes later.
func TestMark(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	o, err := newOutlet(r)
	if err != nil {
		t.Fatal(err)
	}
	send := func(text string) {
		if _, err := w.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	got, took := make(chan string), make(chan struct{})
	s := &Step{cfg: Config{Output: func(_ ID, _ Stream, text []byte) { got <- string(text); <-took }}}
	p := &proc{outlets: []*outlet{o}}
	send("one\n")
	one := p.said()[0]
	s.read(p, o, Stdout)
	if text := <-got; text != "one\n" || isClosed(one) {
		t.Errorf("%q is passed on; the mark is reached: %v, want not yet", text, isClosed(one))
	}
	send("two\n")
	two := p.said()[0]
	took <- struct{}{}
	<-one
	if <-got; isClosed(two) {
		t.Error("the second mark is reached before its text is taken")
	}
	took <- struct{}{}
	<-two
	<-p.said()[0] // nothing is to come
	send("rest")
	_ = w.Close()
	rest := p.said()[0]
	<-got
	took <- struct{}{}
	<-rest
	p.outputs.Wait()
	<-p.said()[0] // nor after the end
}

// What is cut is not waited for.
func TestMarkOfCutOutput(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	o, err := newOutlet(r)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan struct{})
	s := &Step{cfg: Config{Raw: true, Output: func(ID, Stream, []byte) { got <- struct{}{}; <-got }}}
	p := &proc{outlets: []*outlet{o}}
	text := make([]byte, readBytes+1)
	go func() { _, _ = w.Write(text) }()
	s.read(p, o, Stdout)
	<-got // and there is more, or will be
	mark := o.passed.Reached(uint64(len(text)))
	_ = o.Close()
	got <- struct{}{}
	<-mark
}

// A deadline that is over is not reported while there is something to read.
func TestOutletDeadline(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	defer r.Close()
	o, err := newOutlet(r)
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

// A line that stops at the end of a program's buffer is not taken for a prompt.
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
		<-time.After(2 * slowLine) // what a prompt would wait
	}
	_ = w.Close()
	if rest := <-got; rest != block[end:] {
		t.Errorf("%q, want the rest of the second block, %q", rest, block[end:])
	}
}
