package nodetest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/daemon"
)

// feed gives a stream data and its end, and waits for the credit of each chunk before the next. It
// returns false as soon as nobody reads any more.
func (n *node) feed(to int, data []byte) bool {
	n.t.Helper()
	for len(data) > 0 {
		c := daemon.Chunk{To: to, Data: data[:min(len(data), daemon.ChunkBytes)]}
		data = data[len(c.Data):]
		n.Feed(c)
		for back := 0; back < len(c.Data); {
			got := n.nextCredit(to)
			if back += got.Bytes; got.Gone {
				return false
			}
		}
	}
	n.Feed(daemon.Chunk{To: to, End: true})
	return true
}

// nextCredit returns the next credit, which is that of a stream.
func (n *node) nextCredit(to int) (c daemon.Credit) {
	n.t.Helper()
	select {
	case c = <-n.credits:
	case <-time.After(patience):
		n.t.Fatal("no credit comes back")
	}
	if c.To != to {
		n.t.Errorf("credit %+v, want some of stream %d", c, to)
	}
	return c
}

// lines returns a text of some bytes, none of them repeated at a distance of a chunk.
func lines(size int) string {
	var text strings.Builder
	for i := 0; text.Len() < size; i++ {
		fmt.Fprintf(&text, "line %d\n", i)
	}
	return text.String()
}

// testInput: one PE reads all input and its end; others read nothing.
func testInput(t *testing.T, start Start) {
	for name, to := range map[string]int{"all readers": daemon.AllReaders, "the PE": 1} {
		n := run(t, start, shell(2, "cat; echo end"), func(cfg *daemon.Config) { cfg.StdinTo = daemon.Readers{PEs: []int{1}} })
		text := lines(5*daemon.ChunkBytes + 77)
		if !n.feed(to, []byte(text)) {
			t.Errorf("%s: PE 1 does not read any more", name)
		}
		n.history(2)
		if c := n.nextCredit(to); c.Bytes != 0 || !c.Gone {
			t.Errorf("%s: credit %+v after the end, want that nobody reads", name, c)
		}
		n.close()
		if got, want := n.said(1, daemon.Stdout), text+"end\n"; got != want {
			t.Errorf("%s: %d bytes came through, want %d, or they differ", name, len(got), len(want))
		}
		if got := n.said(0, daemon.Stdout); got != "end\n" {
			t.Errorf("%s: PE 0, which reads nothing, says %q", name, got)
		}
	}
}

// testInputOfSeveral: each PE gets all, at its own pace: PE 0 does not read, PE 1 ends in the middle.
func testInputOfSeveral(t *testing.T, start Start) {
	n := run(t, start, shell(4, `case $PMIX_RANK in 0) exec sleep 1000;; 1) exec head -c 100000 | wc -c;; esac; cat`),
		func(cfg *daemon.Config) { cfg.StdinTo = daemon.Readers{All: true} })
	text := lines(7*daemon.ChunkBytes + 5)
	if !n.feed(daemon.AllReaders, []byte(text)) {
		t.Error("nobody reads any more")
	}
	n.history(3)
	n.await(1, "100000")
	n.close()
	for pe := 2; pe < 4; pe++ {
		if got := n.said(pe, daemon.Stdout); got != text {
			t.Errorf("PE %d: %d bytes came through, want %d, or they differ", pe, len(got), len(text))
		}
	}
}

// testUnreadInput: a reader that ends, or was never there, gives its credit back.
func testUnreadInput(t *testing.T, start Start) {
	n := run(t, start, shell(2, `exec true`), func(cfg *daemon.Config) { cfg.StdinTo = daemon.Readers{PEs: []int{0}} })
	n.history(2)
	if n.feed(0, []byte(lines(10*daemon.ChunkBytes))) {
		t.Error("PE 0 has ended, and takes its input")
	}
	for range 2 {
		n.Feed(daemon.Chunk{To: 1, Data: []byte("text")})
		if c := n.nextCredit(1); c.Bytes != 4 || !c.Gone {
			t.Errorf("credit %+v of a PE that reads nothing, want 4 bytes, and that nobody reads", c)
		}
	}
	n = run(t, start, shell(1, `exec sleep 1000`), func(cfg *daemon.Config) { cfg.StdinTo = daemon.Readers{All: true} })
	fed := make(chan bool)
	go func() { fed <- n.feed(daemon.AllReaders, []byte(lines(3*daemon.ChunkBytes))) }()
	n.close()
	if <-fed {
		t.Error("a PE that does not read takes more input than a pipe holds")
	}
}
