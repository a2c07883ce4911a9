package launch

import (
	"bytes"
	"slices"

	"github.com/goshmem/goshmem/internal/daemon"
)

// holdBytes is how much of a line one PE may write while all others wait.
const holdBytes = 64 << 20

// source is an output of a PE.
type source struct {
	id     daemon.ID
	stream daemon.Stream
}

// openLine is the last line of a destination.
type openLine struct {
	open bool   // the line has not ended
	of   source // the source that wrote it
}

// hold lets one source write a line that comes in parts.
type hold struct {
	on    bool
	by    source
	bytes int // of the line so far
}

// chunk is text of a source as daemon.Hooks.Output takes it.
type chunk struct {
	from   source
	prefix []byte        // stands before each line
	raw    bool          // there are no lines
	text   []byte        // whole lines, unless raw or the line is slow or long
	to     daemon.Stream // where the text goes: Stdout, also from stderr, if both are merged
}

// pass takes text of a PE and returns when the text has found room, or is given up.
// Lines of different sources are not mixed: text that would stand in the middle of
// another source's line begins a new line.
func (k *sink) pass(c *chunk) {
	c.to = k.dest[c.to]
	k.mu.Lock()
	defer k.mu.Unlock()
	long := !c.raw && len(c.text) >= daemon.LongLine && c.text[len(c.text)-1] != '\n'
	for text := c.text; len(text) > 0; {
		for !k.mayWrite(c.from) {
			k.room.Wait()
		}
		if k.cut {
			return
		}
		if c.raw {
			k.put(c.to, false, text)
			break
		}
		text = k.fill(c, text)
	}
	k.setHold(c, long)
	if len(k.next.text) < roomBytes {
		k.wake()
	}
}

func (k *sink) mayWrite(from source) bool {
	return k.cut || len(k.next.text) < roomBytes && (!k.hold.on || k.hold.by == from)
}

// fill takes lines while there is room and returns the rest.
func (k *sink) fill(c *chunk, text []byte) []byte {
	k.breakLine(c.to, &c.from)
	line := &k.lines[c.to]
	if len(c.prefix) == 0 {
		k.put(c.to, false, text)
		line.open, line.of = text[len(text)-1] != '\n', c.from
		return nil
	}
	begin, open := len(k.next.text), line.open
	out := slices.Grow(k.next.text, expected(k.next.text, c.prefix, text))
	for len(text) > 0 && len(out) < roomBytes {
		n := bytes.IndexByte(text, '\n') + 1
		if !open {
			out = append(out, c.prefix...)
		}
		if open = n == 0; open {
			n = len(text)
		}
		out = append(out, text[:n]...)
		text = text[n:]
	}
	k.next.text = out
	k.took(c.to, false, len(out)-begin)
	line.open, line.of = open, c.from
	return text
}

// expected returns by how many bytes fill grows a batch, unless the line that fills it is long. To grow the batch by
// steps would leave a megabyte to the garbage collector.
func expected(batch, prefix, text []byte) int {
	const line = 4 << 10
	all := len(text) + (bytes.Count(text, []byte{'\n'})+1)*len(prefix)
	return min(all, max(roomBytes-len(batch), 0)+line)
}

// breakLine ends the open line of a destination unless it is from's.
func (k *sink) breakLine(to daemon.Stream, from *source) {
	line := &k.lines[to]
	if line.open && (from == nil || line.of != *from) {
		k.put(to, from == nil, []byte{'\n'})
		line.open = false
	}
}

// setHold lets a source that is in the middle of a long line keep the
// destination until the line ends, and for no more of it than holdBytes.
func (k *sink) setHold(c *chunk, long bool) {
	mine := k.hold.on && k.hold.by == c.from
	switch {
	case long && !mine:
		k.hold = hold{true, c.from, len(c.text)}
	case long && k.hold.bytes+len(c.text) <= holdBytes:
		k.hold.bytes += len(c.text)
	case mine:
		k.hold.on = false
		k.room.Broadcast()
	}
}
