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
	mu     sync.Mutex
	o      Output
	to     [2]io.Writer // by stream
	files  [][2]*os.File
	within [][2]bool // the last text of that PE and stream did not end its line
	err    error     // the first that a write had
	failed chan error
	now    func() time.Time
}

func newPrinter(o *Options) (*printer, error) {
	p := &printer{
		o: o.Output, to: [2]io.Writer{o.Stdout, o.Stderr}, failed: make(chan error, 1),
		within: make([][2]bool, o.NPEs), now: time.Now,
	}
	if o.Output.Dir == "" {
		return p, nil
	}
	for pe := range o.NPEs {
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

// write takes whole lines, or a part of a very long one.
func (p *printer) write(pe int, s daemon.Stream, text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.files != nil {
		_, err := p.files[pe][s].Write(text)
		p.note(err)
	}
	if p.o.Tag || p.o.Timestamp {
		text = p.prefixed(pe, s, text)
	}
	_, err := p.to[s].Write(text)
	p.note(err)
}

// prefixed puts a prefix before each line that begins in text.
func (p *printer) prefixed(pe int, s daemon.Stream, text []byte) []byte {
	prefix := ""
	if p.o.Timestamp {
		prefix = p.now().Format("2006-01-02T15:04:05.000000Z07:00 ")
	}
	if p.o.Tag {
		prefix += fmt.Sprintf("[%d]<%s>: ", pe, streamNames[s])
	}
	var out []byte
	within := p.within[pe][s]
	for line := range bytes.Lines(text) {
		if !within {
			out = append(out, prefix...)
		}
		out = append(out, line...)
		within = line[len(line)-1] != '\n'
	}
	p.within[pe][s] = within
	return out
}

// note reports the first failed write.
func (p *printer) note(err error) {
	if err != nil && p.err == nil {
		p.err = err
		p.failed <- err
	}
}

// message is a line of oshrun's own.
func (p *printer) message(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err := fmt.Fprintf(p.to[daemon.Stderr], "oshrun: "+format+"\n", args...)
	p.note(err)
}

// close closes the files and returns the first error that writing had.
func (p *printer) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, files := range p.files {
		for _, f := range files {
			if f != nil {
				p.note(f.Close())
			}
		}
	}
	p.files = nil
	return p.err
}
