package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Output says how the PEs' output is presented.
type Output struct {
	Tag       bool   // each line begins with [PE]<stream>:
	Timestamp bool   // each line begins with the time
	Dir       string // output is copied to Dir/rank.N/stdout and stderr
	ByJob     bool   // the copies are where Open MPI's --output-filename has them: see folder.place
	FilesOnly bool   // output that is copied into files is not printed
	Merge     bool   // what PEs write to stderr goes to stdout, in the order in which they write
	Raw       bool   // output is printed as it comes: there are no lines, and so neither tags nor times
}

// Check refuses words that exclude each other.
func (o *Output) Check() error {
	if o.Raw && (o.Tag || o.Timestamp) {
		return errors.New("raw excludes tag and timestamp: its bytes are no lines that those could stand before")
	}
	return nil
}

// PTY says when PEs write their standard output to pseudo terminals.
type PTY uint8

// The values of PTY.
const (
	PTYOnTerminal PTY = iota // where Options.Stdout is a terminal
	PTYAlways
	PTYNever
)

// screen returns the terminal that shows the PEs' standard output, nil if that is something else.
func (o *Options) screen() *os.File {
	if f, ok := o.Stdout.(*os.File); ok && f != nil && xunix.IsTerminal(f.Fd()) {
		return f
	}
	return nil
}

// pty returns what the nodes need to know of pseudo terminals.
func (o *Options) pty() (p daemon.PTY) {
	screen := o.screen()
	p.Asked = o.PTY == PTYAlways
	p.On = p.Asked || o.PTY == PTYOnTerminal && screen != nil
	if screen != nil {
		p.Window, _ = xunix.WindowOf(screen) // without it the pseudo terminals have none
	}
	return p
}

// printer writes the output of all PEs, line by line.
type printer struct {
	o      Output
	sinks  [2]*sink         // by stream; one for both if text could get mixed up otherwise
	folder *folder          // nil: no copies
	heard  tally            // bytes that were taken of each output
	failed chan error       // gets the first error of a write
	cutoff chan struct{}    // closed by cut
	once   sync.Once        // of cut
	later  sync.WaitGroup   // messages that wait for output that stands before
	now    func() time.Time // the clock of timestamps

	mu  sync.Mutex
	err error // the first error of a write
}

func newPrinter(o *Options) (*printer, error) {
	p := &printer{o: o.Output, failed: make(chan error, 1), cutoff: make(chan struct{}), now: time.Now}
	if same(o.Stdout, o.Stderr) && !p.o.Tag && p.o.Dir == "" {
		p.o.Merge = true // nothing tells the streams apart
	}
	p.sinks[daemon.Stdout] = newSink(o.Stdout, o.Stderr, p.note)
	p.sinks[daemon.Stderr] = p.sinks[daemon.Stdout]
	if apart(o.Stdout, o.Stderr) {
		p.sinks[daemon.Stderr] = newSink(o.Stdout, o.Stderr, p.note)
	}
	if p.o.Dir == "" {
		return p, nil
	}
	p.folder = newFolder(&p.o, o.NPEs())
	for pe := range o.NPEs() {
		if err := p.folder.open(daemon.ID{PE: pe}); err != nil {
			return nil, errors.Join(err, p.close())
		}
	}
	return p, nil
}

var streamNames = [2]string{daemon.Stdout: "stdout", daemon.Stderr: "stderr"}

// write takes output of a PE, see daemon.Hooks.Output, and returns when it has
// been taken over, or cut.
func (p *printer) write(id daemon.ID, s daemon.Stream, text []byte) {
	p.pass(id, s, text)
	p.heard.of(source{id, s}).Add(len(text))
}

// pass does that without counting.
func (p *printer) pass(id daemon.ID, s daemon.Stream, text []byte) {
	c := chunk{from: source{id, s}, raw: p.o.Raw, text: text}
	if p.o.Merge {
		s = daemon.Stdout // the source stays apart: lines of two pipes do not mix
	}
	c.to = s
	if p.folder != nil {
		p.note(p.folder.write(source{id, s}, text))
		if p.o.FilesOnly {
			return
		}
	}
	var buf [96]byte
	c.prefix = p.prefix(buf[:0], source{id, s})
	p.sinks[s].pass(&c)
}

// prefix appends what stands before each line.
func (p *printer) prefix(b []byte, from source) []byte {
	if p.o.Timestamp {
		b = p.now().AppendFormat(b, "2006-01-02T15:04:05.000000Z07:00 ")
	}
	if p.o.Tag {
		b = fmt.Appendf(b, "[%v]<%s>: ", from.id, streamNames[from.stream])
	}
	return b
}

// cut gives up what has not been written: no PE waits for a reader from now on.
func (p *printer) cut() {
	p.once.Do(func() {
		close(p.cutoff)
		for _, k := range p.sinks {
			k.giveUp()
		}
	})
}

func (p *printer) isCut() bool {
	select {
	case <-p.cutoff:
		return true
	default:
		return false
	}
}

// flush waits until everything is written, or cut.
func (p *printer) flush() {
	p.later.Wait()
	for _, k := range p.sinks {
		select {
		case <-k.flushed():
		case <-p.cutoff:
		}
	}
}

// written returns a number that grows with what is written, and whether
// anything waits for that.
func (p *printer) written() (n uint64, waits bool) {
	for _, k := range p.sinks {
		n += k.writes.Load()
		waits = waits || k.waits()
	}
	return n, waits
}

// note reports the first failed write.
func (p *printer) note(err error) {
	if err == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err == nil {
		p.err = err
		p.failed <- err
	}
}

// Printable returns text in which control characters other than the ends of lines
// and tabs are escaped as in Go: names of programs and words of PEs must not command
// a terminal.
func Printable(text string) string {
	command := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }
	if !strings.ContainsFunc(text, command) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if command(r) {
			b.WriteString(strings.Trim(strconv.QuoteRune(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// message prints a line of oshrun's own. It never waits.
func (p *printer) message(format string, args ...any) {
	text := Printable(fmt.Sprintf("oshrun: "+format+"\n", args...))
	p.sinks[daemon.Stderr].say(daemon.Stderr, []byte(text), ownBytes)
}

// end notes that no more output of a PE's stream will come.
func (p *printer) end(id daemon.ID, s daemon.Stream) { p.heard.of(source{id, s}).End() }

// said returns what is closed when all has been taken that the PE of an event had
// written before the event; nil if it had written nothing.
func (p *printer) said(e daemon.Event) (all []<-chan struct{}) {
	for _, s := range []daemon.Stream{daemon.Stdout, daemon.Stderr} {
		if n := e.Written.Of(s); n > 0 {
			all = append(all, p.heard.of(source{e.ID, s}).Reached(n))
		}
	}
	return all
}

// tally counts the bytes of each output that have been taken.
type tally struct {
	mu     sync.Mutex
	gauges map[source]*daemon.Gauge
}

// of returns the count of one output.
func (t *tally) of(from source) *daemon.Gauge {
	t.mu.Lock()
	defer t.mu.Unlock()
	g := t.gauges[from]
	if g == nil {
		if t.gauges == nil {
			t.gauges = map[source]*daemon.Gauge{}
		}
		g = new(daemon.Gauge)
		t.gauges[from] = g
	}
	return g
}

// after writes a message as soon as the output before it has been taken, see said.
func (p *printer) after(said []<-chan struct{}, format string, args ...any) {
	p.later.Go(func() {
		for _, c := range said {
			select {
			case <-c:
			case <-p.cutoff:
			}
		}
		p.message(format, args...)
	})
}

// Write takes a line of the log. It never waits: see sink.
func (p *printer) Write(line []byte) (int, error) {
	p.log(daemon.Stderr, line)
	return len(line), nil
}

// log takes a line, or lines, for which there may be no room: see sink.
func (p *printer) log(s daemon.Stream, text []byte) {
	if len(text) > 0 && text[len(text)-1] != '\n' {
		text = append(slices.Clip(text), '\n')
	}
	p.sinks[s].log(s, text)
}

// incomplete returns the files that miss output.
func (p *printer) incomplete() []string {
	if p.folder == nil {
		return nil
	}
	return p.folder.incomplete()
}

// close closes the files and returns the first error that writing had.
func (p *printer) close() error {
	if p.folder != nil {
		p.note(p.folder.close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
