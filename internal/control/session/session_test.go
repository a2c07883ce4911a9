package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/goshmem/goshmem/internal/wire"
)

// item is what a connection carries: a frame, an acknowledgment or a welcome, each with a number.
type item struct {
	kind byte // 'f', 'a' or 'w'
	n    uint64
}

// world is two ends and the connection between them. End 0 dials. Everything may stop at any point: a connection that
// breaks loses what it carried, end 0 notices first, and end 1 goes on reading the old one until the next hello.
type world struct {
	ends   [2]Session
	pushed [2]uint64
	took   [2]uint64 // the true number of the last frame that the end has taken
	to     [2][]item // what is on the way to an end
	hello  []uint64  // the number of a hello on the way, or none
	waits  bool      // end 0 waits for a welcome
	breaks int
}

func newWorld() *world {
	w := &world{}
	w.breaks--
	w.act('x')
	w.act('h')
	w.act('0')
	return w
}

func (w *world) clone() *world {
	c := *w
	for i := range c.ends {
		c.ends[i].kept = slices.Clone(c.ends[i].kept)
		c.to[i] = slices.Clone(c.to[i])
	}
	c.hello = slices.Clone(c.hello)
	return &c
}

// key is the same for worlds that behave the same.
func (w *world) key() string {
	var b strings.Builder
	for i := range w.ends {
		s := &w.ends[i]
		fmt.Fprint(&b, s.base, len(s.kept), s.next, s.received, s.told, s.connected, w.to[i], ";")
	}
	fmt.Fprint(&b, w.hello, w.waits, w.breaks)
	return b.String()
}

// act does a thing that may happen and says whether it could.
//
//	p, q   end 0, end 1 pushes a frame
//	w, v   end 0, end 1 writes its next frame
//	a, b   end 0, end 1 writes an acknowledgment
//	1, 0   end 1, end 0 reads
//	x      the connection breaks for end 0, which says hello on a new one
//	h      end 1 reads the hello and welcomes
func (w *world) act(what byte) (bool, error) {
	switch what {
	case 'p', 'q':
		e := strings.IndexByte("pq", what)
		w.pushed[e]++
		w.ends[e].Push(wire.Frame{Stream: uint32(w.pushed[e]), Body: make([]byte, 10)})
	case 'w', 'v':
		e := strings.IndexByte("wv", what)
		f, ok := w.ends[e].Next()
		if !ok {
			return false, nil
		}
		w.carry(1-e, item{'f', uint64(f.Stream)})
	case 'a', 'b':
		e := strings.IndexByte("ab", what)
		s := &w.ends[e]
		if !s.connected || s.told == s.received {
			return false, nil
		}
		w.carry(1-e, item{'a', s.Received()})
		s.Told()
	case '1', '0':
		return w.read(int(what - '0'))
	case 'x':
		w.breaks++
		w.to[0] = nil
		w.ends[0].Break()
		w.hello, w.waits = []uint64{w.ends[0].Received()}, true
	case 'h':
		if w.hello == nil {
			return false, nil
		}
		w.to[1] = nil
		w.ends[1].Break()
		err := w.ends[1].Resume(w.hello[0])
		w.hello = nil
		w.carry(0, item{'w', w.ends[1].Received()})
		return true, err
	}
	return true, nil
}

// carry puts an item on the way, unless the connection has broken for the other end.
func (w *world) carry(to int, i item) {
	if to == 1 || w.hello == nil {
		w.to[to] = append(w.to[to], i)
	}
}

func (w *world) read(e int) (bool, error) {
	if len(w.to[e]) == 0 {
		return false, nil
	}
	i := w.to[e][0]
	w.to[e] = w.to[e][1:]
	s := &w.ends[e]
	switch i.kind {
	case 'w':
		w.waits = false
		return true, s.Resume(i.n)
	case 'a':
		return true, s.Acknowledge(i.n)
	}
	if i.n != w.took[e]+1 {
		return true, fmt.Errorf("end %d takes frame %d after frame %d", e, i.n, w.took[e])
	}
	w.took[e] = i.n
	s.Took(wire.Frame{Body: make([]byte, 10)})
	return true, nil
}

// drain lets everything arrive, and says what is missing then.
func (w *world) drain() error {
	for moved := true; moved; {
		moved = false
		for _, what := range []byte("h01wvab") {
			ok, err := w.act(what)
			if err != nil {
				return err
			}
			moved = moved || ok
		}
	}
	for e := range w.ends {
		if n, bytes := w.ends[e].Kept(); n != 0 || bytes != 0 || w.took[1-e] != w.pushed[e] {
			return fmt.Errorf("end %d keeps %d frames of %d bytes, and the other end has taken %d of %d", e, n, bytes, w.took[1-e], w.pushed[e])
		}
	}
	return nil
}

// Every order of events with few frames and two breaks, at every point, delivers each frame once and in order.
func TestEveryLoss(t *testing.T) {
	const pushes0, pushes1, breaks = 3, 2, 2
	type step struct {
		w    *world
		path string
	}
	seen := map[string]bool{}
	todo := []step{{newWorld(), ""}}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if err := at.w.clone().drain(); err != nil {
			t.Fatalf("after %q: %v", at.path, err)
		}
		for _, what := range []byte("pqwvab10xh") {
			if what == 'p' && at.w.pushed[0] == pushes0 || what == 'q' && at.w.pushed[1] == pushes1 || what == 'x' && at.w.breaks == breaks {
				continue
			}
			next := step{at.w.clone(), at.path + string(what)}
			ok, err := next.w.act(what)
			if err != nil {
				t.Fatalf("after %q: %v", next.path, err)
			}
			if key := next.w.key(); ok && !seen[key] {
				seen[key] = true
				todo = append(todo, next)
			}
		}
	}
	t.Logf("%d states", len(seen))
	if len(seen) < 10000 {
		t.Errorf("only %d states were seen", len(seen))
	}
}

// The same with many frames and breaks.
func TestLosses(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			if _, err := w.act(rapid.SampledFrom([]byte("ppqwwwwvvab11100xhhh")).Draw(t, "act")); err != nil {
				t.Fatal(err)
			}
			for e := range w.ends {
				n, bytes := w.ends[e].Kept()
				if want := n * (wire.FrameHeader + 10); bytes != want {
					t.Fatalf("%d frames have %d bytes, want %d", n, bytes, want)
				}
				if uint64(n) > w.pushed[e] || uint64(n) < w.pushed[e]-w.took[1-e] {
					t.Fatalf("end %d keeps %d frames of %d, of which %d were taken", e, n, w.pushed[e], w.took[1-e])
				}
			}
		}
		if err := w.drain(); err != nil {
			t.Fatal(err)
		}
	})
}

// Numbers that the peer cannot mean are refused, and change nothing.
func TestRefused(t *testing.T) {
	var s Session
	for range 5 {
		s.Push(wire.Frame{})
	}
	if _, ok := s.Next(); ok {
		t.Error("a frame before the first connection")
	}
	if err := s.Resume(6); err == nil || !strings.Contains(err.Error(), "up to 6, want 0 to 5") {
		t.Errorf("more than was sent: %v", err)
	}
	if _, ok := s.Next(); ok {
		t.Error("a frame after a refused connection")
	}
	if err := s.Resume(2); err != nil {
		t.Fatal(err)
	}
	s.Next()
	if err := s.Acknowledge(4); err == nil || !strings.Contains(err.Error(), "acknowledges frame 4, but the last one written is 3") {
		t.Errorf("a frame that was not written: %v", err)
	}
	if n, _ := s.Kept(); n != 3 {
		t.Errorf("%d frames are kept, want 3", n)
	}
	if err := s.Acknowledge(3); err != nil {
		t.Error(err)
	}
	if err := s.Acknowledge(1); err != nil {
		t.Errorf("an old acknowledgment: %v", err)
	}
	if n, _ := s.Kept(); n != 2 {
		t.Errorf("%d frames are kept, want 2", n)
	}
	if err := s.Resume(2); err == nil {
		t.Error("a number below an acknowledgment is taken")
	}
}

// Acknowledgments are due after 32 frames or 64 KiB, so that a sender keeps no more than that for long.
func TestAckDue(t *testing.T) {
	for _, c := range []struct{ body, frames int }{{0, 32}, {16 << 10, 4}, {1 << 20, 1}} {
		var s Session
		f := wire.Frame{Body: make([]byte, c.body)}
		for i := 1; i <= c.frames; i++ {
			s.Took(f)
			if s.AckDue() != (i == c.frames) {
				t.Errorf("bodies of %d bytes: due is %v after %d frames", c.body, s.AckDue(), i)
			}
		}
		if s.Told(); s.AckDue() {
			t.Errorf("bodies of %d bytes: due after it was told", c.body)
		}
	}
}
