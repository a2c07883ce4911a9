package launch

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/xunix"
)

// terminal reads a terminal while this process is in its foreground. In the
// background of a shell, what is typed is not for the job, and reading would
// stop it.
type terminal struct{ f *os.File }

// backgroundPause is how often a job in the background looks whether it has
// come to the foreground, once something has been typed.
const backgroundPause = 100 * time.Millisecond

// Read waits for the foreground and for a line.
func (t terminal) Read(b []byte) (int, error) {
	for {
		if err := xunix.WaitReadable(t.f.Fd()); err != nil {
			return 0, err
		}
		if xunix.Foreground(t.f.Fd()) {
			return t.f.Read(b)
		}
		<-time.After(backgroundPause)
	}
}

// readers returns which PEs read standard input: none where there is no input.
func (o *Options) readers() daemon.Readers {
	switch {
	case o.Stdin == nil:
		return daemon.Readers{}
	case !o.StdinTo.All && len(o.StdinTo.PEs) == 0:
		return daemon.Readers{PEs: []int{0}}
	}
	return o.StdinTo
}

// feeder reads standard input and feeds one stream of it to the nodes, as the credit of the nodes
// allows.
type feeder struct {
	to   int // the stream, see daemon.Chunk
	name string
	from io.Reader

	mu       sync.Mutex
	changed  *sync.Cond // what follows has
	underWay []int      // by node: bytes that were fed, and whose credit is not back
	gone     []bool     // by node: nobody reads the stream there any more
	over     bool       // nothing more is to be fed
}

// feeders are the streams of a job's standard input.
type feeders []*feeder

// feeders returns what feeds the readers of a job of several nodes. Each of several readers reads a
// regular file by its own offset, so that none waits for another one. Anything else is one stream for all.
func (o *Options) feeders(nodes int) (all feeders) {
	to := o.readers()
	pes := to.PEs
	if to.All {
		pes = nil
		for pe := range o.NPEs() {
			pes = append(pes, pe)
		}
	}
	switch {
	case len(pes) == 0:
		return nil
	case len(pes) == 1:
		return feeders{newFeeder(daemon.AllReaders, nodes, "standard input of PE "+daemon.ID{PE: pes[0]}.String(), readable(o.Stdin))}
	}
	at, regular := offsetOf(o.Stdin)
	if !regular {
		return feeders{newFeeder(daemon.AllReaders, nodes, "standard input", readable(o.Stdin))}
	}
	for _, pe := range pes {
		all = append(all, newFeeder(pe, 1, "standard input of PE "+daemon.ID{PE: pe}.String(), io.NewSectionReader(o.Stdin, at, math.MaxInt64-at)))
	}
	return all
}

// offsetOf returns where a regular file is read next; false: it is something else.
func offsetOf(f *os.File) (at int64, regular bool) {
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	at, err = f.Seek(0, io.SeekCurrent)
	return at, err == nil
}

// readable returns what reads a file as a job may: a terminal only in its foreground.
func readable(f *os.File) io.Reader {
	if xunix.IsTerminal(f.Fd()) {
		return terminal{f}
	}
	return f
}

func newFeeder(to, nodes int, name string, from io.Reader) *feeder {
	f := &feeder{to: to, name: name, from: from, underWay: make([]int, nodes), gone: make([]bool, nodes)}
	f.changed = sync.NewCond(&f.mu)
	return f
}

// begin starts feeding the PEs of a cluster, which are running. notice takes what the user should know.
func (all feeders) begin(cluster *Cluster, notice func(text string)) {
	for _, f := range all {
		go f.run(cluster, notice) // a read that waits for input ends when that comes, or with this process
	}
}

// credit notes what a node gives back of a stream.
func (all feeders) credit(node int, c daemon.Credit) {
	for _, f := range all {
		if f.to != c.To {
			continue
		}
		if f.to != daemon.AllReaders {
			node = 0 // the only one of this stream
		}
		if node >= len(f.gone) {
			continue // a node that was added has no reader
		}
		f.mu.Lock()
		f.underWay[node] -= c.Bytes
		f.gone[node] = f.gone[node] || c.Gone
		f.changed.Signal()
		f.mu.Unlock()
	}
}

// end lets nothing more be fed.
func (all feeders) end() {
	for _, f := range all {
		f.mu.Lock()
		f.over = true
		f.changed.Signal()
		f.mu.Unlock()
	}
}

// run feeds the input until its end, or until nobody reads it any more.
func (f *feeder) run(cluster *Cluster, notice func(text string)) {
	for f.mayFeed() {
		data := make([]byte, daemon.ChunkBytes)
		n, err := f.from.Read(data)
		if err != nil && !errors.Is(err, io.EOF) {
			notice(fmt.Sprintf("%s is cut: %v", f.name, err))
		}
		f.spend(n)
		cluster.Feed(daemon.Chunk{To: f.to, Data: data[:n], End: err != nil})
		if err != nil {
			return
		}
	}
}

// mayFeed waits until all nodes that have readers take one more chunk. It returns false if there are none.
func (f *feeder) mayFeed() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for {
		readers, full := 0, 0
		for node, gone := range f.gone {
			if !gone {
				readers++
				if f.underWay[node]+daemon.ChunkBytes > daemon.StreamWindow {
					full++
				}
			}
		}
		switch {
		case f.over || readers == 0:
			return false
		case full == 0:
			return true
		}
		f.changed.Wait()
	}
}

// spend notes that n bytes are fed to all nodes of the stream. A node where nobody reads gives them back as well.
func (f *feeder) spend(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for node := range f.underWay {
		f.underWay[node] += n
	}
}
