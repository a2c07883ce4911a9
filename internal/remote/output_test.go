package remote

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

// reader is a front end that takes output as launch does: a source that is in the middle of a long
// line holds the reader until the line ends. While shut, it takes nothing.
type reader struct {
	mu     sync.Mutex
	change *sync.Cond
	shut   bool
	gaveUp bool // all output is dropped
	held   bool
	by     source
	text   map[source][]byte
	sizes  map[source][]int // of the texts
	ends   map[source]int
}

func newReader() *reader {
	r := &reader{text: map[source][]byte{}, sizes: map[source][]int{}, ends: map[source]int{}}
	r.change = sync.NewCond(&r.mu)
	return r
}

// hooks returns hooks whose output the reader takes.
func (r *reader) hooks() daemon.Hooks {
	return daemon.Hooks{Output: r.take, OutputEnd: r.end, Logger: zerolog.Nop()}
}

func (r *reader) take(id daemon.ID, s daemon.Stream, text []byte) {
	from := source{id, s}
	r.mu.Lock()
	defer r.mu.Unlock()
	for !r.gaveUp && (r.shut || r.held && r.by != from) {
		r.change.Wait()
	}
	r.text[from] = append(r.text[from], text...)
	r.sizes[from] = append(r.sizes[from], len(text))
	r.held, r.by = len(text) >= daemon.LongLine && text[len(text)-1] != '\n', from
	r.change.Broadcast()
}

func (r *reader) end(id daemon.ID, s daemon.Stream) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ends[source{id, s}]++
	r.held = r.held && r.by != source{id, s}
	r.change.Broadcast()
}

// giveUp lets nothing wait for the reader any more: a test that has failed is to end.
func (r *reader) giveUp() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.gaveUp = true
	r.change.Broadcast()
}

// setShut shuts or opens the reader.
func (r *reader) setShut(shut bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.shut = shut
	r.change.Broadcast()
}

// Texts come as they were passed, however long, in order and with their ends.
func TestOutput(t *testing.T) {
	long := bytes.Repeat([]byte{'x'}, daemon.LongLine)
	lines := bytes.Repeat([]byte("a line of twenty chr\n"), 20000) // 420,000 bytes
	oneLine := append(bytes.Repeat([]byte{'y'}, 3*streamShare), '\n')
	texts := [][]byte{[]byte("line\n"), []byte("prompt: "), lines, long, long, {}, long, []byte("end\n"), oneLine, slices.Concat(lines, oneLine, lines), {}}
	f, r := newFake(), newReader()
	defer r.giveUp()
	c, _ := begin(t, f, daemon.Config{}, r.hooks())
	for _, text := range texts {
		own := slices.Clone(text)
		f.hooks.Output(daemon.ID{PE: 3}, daemon.Stderr, own)
		clear(own) // the step uses its buffer again
	}
	f.hooks.OutputEnd(daemon.ID{PE: 3}, daemon.Stderr)
	f.hooks.OutputEnd(daemon.ID{PE: 4}, daemon.Stdout)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	from := source{daemon.ID{PE: 3}, daemon.Stderr}
	if want := slices.Concat(texts...); !bytes.Equal(r.text[from], want) {
		t.Errorf("%d bytes came, want %d, or they differ", len(r.text[from]), len(want))
	}
	sizes := r.sizes[from]
	part := streamShare - streamShare%21 // of lines
	each := slices.Concat(slices.Repeat([]int{part}, 6), []int{len(lines) - 6*part})
	want := slices.Concat([]int{5, 8}, each, []int{daemon.LongLine, daemon.LongLine, 0, daemon.LongLine, 4, len(oneLine)}, each, []int{len(oneLine)}, each, []int{0})
	if !slices.Equal(sizes, want) {
		t.Errorf("texts of %v bytes came, want %v", sizes, want)
	}
	if r.ends[from] != 1 || r.ends[source{daemon.ID{PE: 4}, daemon.Stdout}] != 1 || len(r.ends) != 2 {
		t.Errorf("ends %v, want one of each output", r.ends)
	}
}

// A reader that takes nothing holds up what writes, and nothing else; what is on the way is bounded.
func TestSlowReader(t *testing.T) {
	f, r := newFake(), newReader()
	defer r.giveUp()
	r.setShut(true)
	c, s := begin(t, f, daemon.Config{}, r.hooks())
	const writers, perWriter = 8, 2 << 20
	line := bytes.Repeat([]byte("0123456789abcde\n"), 1000)
	var writing sync.WaitGroup
	for pe := range writers {
		writing.Go(func() {
			for sent := 0; sent < perWriter; sent += len(line) {
				f.hooks.Output(daemon.ID{PE: pe}, daemon.Stdout, line)
			}
		})
	}
	writing.Go(func() {
		for range 2 {
			f.hooks.Output(daemon.ID{PE: writers}, daemon.Stdout, bytes.Repeat([]byte{'x'}, daemon.LongLine))
		}
		f.hooks.Output(daemon.ID{PE: writers}, daemon.Stdout, []byte("\n"))
	})
	within(t, "all writers wait", func() {
		for n := 0; n < writers; {
			s.output.mu.Lock()
			n = len(s.output.waits)
			s.output.mu.Unlock()
		}
	})
	for range 2 * eventWindow {
		f.events <- daemon.Event{Kind: daemon.Changed}
		if e := <-c.Events(); e.Kind != daemon.Changed {
			t.Errorf("event %+v", e)
		}
	}
	if pid := c.PID(daemon.ID{PE: 5}); pid != 1005 {
		t.Errorf("process %d, want 1005", pid)
	}
	c.output.mu.Lock()
	if n := c.output.waiting; n > mostOnTheWay || n < outputWindow-len(line) {
		t.Errorf("%d bytes are on the way, want up to %d", n, mostOnTheWay)
	}
	for from, o := range c.output.outputs {
		if from.ID.PE < writers && o.came > streamShare {
			t.Errorf("%d bytes of PE %v are on the way, want at most %d", o.came, from.ID, streamShare)
		}
	}
	c.output.mu.Unlock()
	r.setShut(false)
	within(t, "end of the output", writing.Wait)
	within(t, "close", func() { _ = c.Close() })
	for pe := range writers {
		if n, want := len(r.text[source{ID: daemon.ID{PE: pe}}]), (perWriter+len(line)-1)/len(line)*len(line); n != want {
			t.Errorf("%d bytes of PE %d came, want %d", n, pe, want)
		}
	}
	if n := len(r.text[source{ID: daemon.ID{PE: writers}}]); n != 2*daemon.LongLine+1 {
		t.Errorf("%d bytes of the long line came", n)
	}
}

// Long lines end although others have all the credit and may not write before that.
func TestLongLineHoldsReader(t *testing.T) {
	f, r := newFake(), newReader()
	defer r.giveUp()
	c, _ := begin(t, f, daemon.Config{}, r.hooks())
	long := bytes.Repeat([]byte{'x'}, daemon.LongLine)
	line := bytes.Repeat([]byte{'y'}, 10000)
	line[len(line)-1] = '\n'
	var writing sync.WaitGroup
	for pe := range 8 {
		writing.Go(func() {
			for range 100 {
				f.hooks.Output(daemon.ID{PE: pe}, daemon.Stdout, line)
			}
		})
	}
	for pe := 8; pe < 10; pe++ {
		writing.Go(func() {
			for range 3 {
				for range 4 {
					f.hooks.Output(daemon.ID{PE: pe}, daemon.Stdout, long)
				}
				f.hooks.Output(daemon.ID{PE: pe}, daemon.Stdout, []byte("end\n"))
			}
		})
	}
	within(t, "end of the output", writing.Wait)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat(strings.Repeat("x", 4*daemon.LongLine)+"end\n", 3)
	for pe := 8; pe < 10; pe++ {
		if got := r.text[source{ID: daemon.ID{PE: pe}}]; string(got) != want {
			t.Errorf("%d bytes of PE %d came, want %d, or they differ", len(got), pe, len(want))
		}
	}
}

// An output that ends in the middle of a long line lets the next long line come when its own is taken, and no sooner.
func TestLongLineWithoutEnd(t *testing.T) {
	f, r := newFake(), newReader()
	defer r.giveUp()
	r.setShut(true)
	c, s := begin(t, f, daemon.Config{}, r.hooks())
	line := append(bytes.Repeat([]byte{'x'}, daemon.LongLine-1), '\n')
	begun := make(chan struct{}, 2)
	var writing sync.WaitGroup
	f.hooks.Output(daemon.ID{}, daemon.Stdout, bytes.Repeat([]byte{'x'}, daemon.LongLine))
	f.hooks.OutputEnd(daemon.ID{}, daemon.Stdout)
	for pe := 1; pe < 3; pe++ {
		writing.Go(func() {
			begun <- struct{}{}
			f.hooks.Output(daemon.ID{PE: pe}, daemon.Stdout, line)
			f.hooks.OutputEnd(daemon.ID{PE: pe}, daemon.Stdout)
		})
	}
	<-begun
	<-begun
	r.setShut(false)
	within(t, "end of the output", writing.Wait)
	if err := c.Close(); err != nil || s.Wait() != nil {
		t.Errorf("close: %v; the server: %v", err, s.Wait())
	}
	for pe := 1; pe < 3; pe++ {
		if got := r.text[source{ID: daemon.ID{PE: pe}}]; !bytes.Equal(got, line) {
			t.Errorf("%d bytes of PE %d came, want %d", len(got), pe, len(line))
		}
	}
}

// With Merge, the outputs of a PE come in the order in which the step passes them on.
func TestMergedOrder(t *testing.T) {
	var came []string // by one goroutine, as there is one PE
	hooks := silent()
	hooks.Output = func(_ daemon.ID, s daemon.Stream, text []byte) { came = append(came, fmt.Sprintf("%d %s", s, text)) }
	f := newFake()
	c, _ := begin(t, f, daemon.Config{Merge: true}, hooks)
	var want []string
	for i := range 1000 {
		s, text := daemon.Stream(i%2), fmt.Appendf(nil, "text %d", i)
		f.hooks.Output(daemon.ID{}, s, text)
		want = append(want, fmt.Sprintf("%d %s", s, text))
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(came, want) {
		t.Errorf("%d texts came, want %d in order", len(came), len(want))
	}
}

// Raw text is cut anywhere.
func TestRawOutput(t *testing.T) {
	f, r := newFake(), newReader()
	defer r.giveUp()
	c, _ := begin(t, f, daemon.Config{Raw: true}, r.hooks())
	f.hooks.Output(daemon.ID{}, daemon.Stdout, bytes.Repeat([]byte("line\n"), streamShare/2))
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if got, want := r.sizes[source{}], []int{streamShare, streamShare, streamShare / 2}; !slices.Equal(got, want) {
		t.Errorf("texts of %v bytes came, want %v", got, want)
	}
}

// A node that sends more than its credit is not understood.
func TestTooMuchOutput(t *testing.T) {
	r := newReader()
	defer r.giveUp()
	r.setShut(true)
	c := NewClient(new(hole))
	c.use(r.hooks(), false)
	c.Take(wire.Frame{Kind: wire.KindOutputBegin, Stream: 1, Body: encode(codeSource, source{})})
	f := wire.Frame{Kind: wire.KindOutput, Stream: 1, Body: encode(codeText, text{Text: make([]byte, streamShare)})}
	for range mostOnTheWay / streamShare {
		if c.Take(f); c.life.Err() != nil {
			t.Fatal("the client does not take what a node may send")
		}
	}
	if c.Take(f); c.life.Err() == nil {
		t.Error("the client takes more than the credit")
	}
	r.setShut(false)
	_ = c.Close() // TestNotUnderstood looks at its error
}
