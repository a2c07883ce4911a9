package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
)

// Output says how the PEs' output is presented.
type Output struct {
	Tag       bool   // each line begins with [PE]<stream>:
	Timestamp bool   // each line begins with the time
	Dir       string // a copy in Dir/rank.N/stdout and stderr
}

// printer writes the output of all PEs, line by line.
type printer struct {
	o      Output
	to     [2]io.Writer  // by stream
	sinks  [2]*sink      // by stream; one for both if text could get mixed up otherwise
	files  [][2]*os.File // of the first job's PEs
	failed chan error
	cutoff chan struct{} // closed by cut
	once   sync.Once
	now    func() time.Time

	mu     sync.Mutex
	err    error                  // the first that a write had
	within map[daemon.ID]*[2]bool // the last text of that PE and stream did not end its line
}

func newPrinter(o *Options) (*printer, error) {
	p := &printer{
		o: o.Output, to: [2]io.Writer{o.Stdout, o.Stderr}, failed: make(chan error, 1), cutoff: make(chan struct{}),
		within: map[daemon.ID]*[2]bool{}, now: time.Now,
	}
	p.sinks = [2]*sink{{note: p.note}, {note: p.note}}
	if !distinct(o.Stdout, o.Stderr) {
		p.sinks[daemon.Stderr] = p.sinks[daemon.Stdout]
	}
	if o.Output.Dir == "" {
		return p, nil
	}
	for pe := range o.NPEs() {
		var files [2]*os.File
		dir := filepath.Join(o.Output.Dir, "rank."+strconv.Itoa(pe))
		err := os.MkdirAll(dir, 0o755)
		for s, name := range streamNames {
			if err == nil {
				files[s], err = os.Create(filepath.Join(dir, name))
			}
		}
		p.files = append(p.files, files)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("output of PE %d: %w", pe, err), p.close())
		}
	}
	return p, nil
}

var streamNames = [2]string{daemon.Stdout: "stdout", daemon.Stderr: "stderr"}

// write takes whole lines, or a part of a very long or slow one, and returns
// when they are written, or cut.
func (p *printer) write(id daemon.ID, s daemon.Stream, text []byte) {
	if p.files != nil && id.Job == 0 {
		_, err := p.files[id.PE][s].Write(text)
		p.note(err)
	}
	if p.isCut() {
		return
	}
	if p.o.Tag || p.o.Timestamp {
		text = p.prefixed(id, s, text)
	} else {
		text = bytes.Clone(text) // the caller's may change before a cut write has ended
	}
	select {
	case <-p.put(s, text):
	case <-p.cutoff:
	}
}

func (p *printer) put(s daemon.Stream, text []byte) <-chan struct{} {
	return p.sinks[s].put(p.to[s], text)
}

// cut gives up what has not been written: no write blocks from now on.
func (p *printer) cut() { p.once.Do(func() { close(p.cutoff) }) }

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
	for s := range p.to {
		select {
		case <-p.put(daemon.Stream(s), nil):
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

// prefixed puts a prefix before each line that begins in text.
func (p *printer) prefixed(id daemon.ID, s daemon.Stream, text []byte) []byte {
	prefix := ""
	if p.o.Timestamp {
		prefix = p.now().Format("2006-01-02T15:04:05.000000Z07:00 ")
	}
	if p.o.Tag {
		prefix += fmt.Sprintf("[%v]<%s>: ", id, streamNames[s])
	}
	var out []byte
	open := p.openLines(id)
	within := open[s]
	for line := range bytes.Lines(text) {
		if !within {
			out = append(out, prefix...)
		}
		out = append(out, line...)
		within = line[len(line)-1] != '\n'
	}
	open[s] = within
	return out
}

// openLines returns for each stream of a PE whether its last text did not end
// its line. A stream is written by one goroutine.
func (p *printer) openLines(id daemon.ID) *[2]bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.within[id] == nil {
		p.within[id] = new([2]bool)
	}
	return p.within[id]
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

// message is a line of oshrun's own. It does not wait for anybody: the channel
// that it returns is closed when the line is written.
func (p *printer) message(format string, args ...any) <-chan struct{} {
	return p.put(daemon.Stderr, fmt.Appendf(nil, "oshrun: "+format+"\n", args...))
}

// close closes the files and returns the first error that writing had.
func (p *printer) close() error {
	for _, files := range p.files {
		for _, f := range files {
			if f != nil {
				p.note(f.Close())
			}
		}
	}
	p.files = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}
