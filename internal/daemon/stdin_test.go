package daemon

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"testing/iotest"
)

// noise returns n random bytes.
func noise(n int) []byte {
	rng, b := rand.NewChaCha8([32]byte{1}), make([]byte, n)
	_, _ = rng.Read(b) // never fails
	return b
}

// feedAll feeds src to readers.
func feedAll(t *testing.T, src io.Reader, readers int) (ends []*os.File, in *input) {
	t.Helper()
	credits := make(chan Credit, 10)
	in = newInput(t.Errorf, func(c Credit) { credits <- c })
	for pe := range readers {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		ends = append(ends, r)
		in.addReader(ID{PE: pe}, w)
	}
	go func() {
		for {
			data := make([]byte, ChunkBytes)
			n, err := src.Read(data)
			in.take(Chunk{To: AllReaders, Data: data[:n], End: err != nil})
			if err != nil {
				return
			}
			for back := 0; back < n; {
				c := <-credits
				if back += c.Bytes; c.Gone {
					return
				}
			}
		}
	}()
	return ends, in
}

// Each reader gets all text and the end, from a pipe or another source, although one reader does not read, one has
// closed its end and one closes it in the middle.
func TestInputToAll(t *testing.T) {
	const size = 6 << 20
	text := noise(size)
	for name, src := range map[string]func(t *testing.T) io.Reader{
		"pipe": func(t *testing.T) io.Reader {
			t.Helper()
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = w.Write(text); _ = w.Close() }()
			t.Cleanup(func() { _ = r.Close() })
			return r
		},
		"by halves": func(*testing.T) io.Reader { return iotest.HalfReader(bytes.NewReader(text)) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("TMPDIR", t.TempDir())
			ends, in := feedAll(t, src(t), 5)
			_ = ends[0].Close() // reads nothing
			go func() { _, _ = io.CopyN(io.Discard, ends[1], size/2); _ = ends[1].Close() }()
			for _, r := range ends[3:] { // 2 does not read yet
				if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text) {
					t.Errorf("got %d bytes, want %d with the same content; %v", len(got), size, err)
				}
			}
			if got, err := io.ReadAll(ends[2]); err != nil || !bytes.Equal(got, text) {
				t.Errorf("got %d bytes late, want %d with the same content; %v", len(got), size, err)
			}
			in.close()
			if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
				t.Errorf("files are left: %v, %v", left, err)
			}
		})
	}
}

// The one reader of a node takes any amount without reading it if other nodes have readers of the same stream: they would
// wait for it otherwise.
func TestInputOfSeveralNodes(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	credits := make(chan Credit, 1)
	in := newInput(t.Errorf, func(c Credit) { credits <- c })
	share := &Share{Hosts: []string{"a", "b"}}
	in.shared = Readers{All: true}.span(share)
	if one := (Readers{PEs: []int{1}}); one.span(share) || !in.shared {
		t.Errorf("all PEs of two nodes: %t, one PE: %t, want true and false", in.shared, one.span(share))
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	in.addReader(ID{PE: 1}, w)
	text := noise(10 * ChunkBytes) // more than a pipe and a window have room for
	for at := 0; at < len(text); at += ChunkBytes {
		in.take(Chunk{To: AllReaders, Data: text[at : at+ChunkBytes], End: at+ChunkBytes == len(text)})
		for back := 0; back < ChunkBytes; {
			back += (<-credits).Bytes
		}
	}
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text) {
		t.Errorf("got %d bytes, want %d with the same content; %v", len(got), len(text), err)
	}
	in.close()
}

// A stream without readers returns all its credit, whether its reader has gone, there was none, or the step closes.
func TestStreamWithoutReaders(t *testing.T) {
	for name, x := range map[string]struct{ reader, closes bool }{"gone": {reader: true}, "none": {}, "closed": {reader: true, closes: true}} {
		t.Run(name, func(t *testing.T) {
			credits := make(chan Credit, 10)
			in := newInput(t.Errorf, func(c Credit) { credits <- c })
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer r.Close()
			if x.reader {
				in.addReader(ID{PE: 3}, w)
			}
			if !x.closes {
				_ = r.Close()
			}
			const chunks = 3 // more than the pipe holds
			for range chunks {
				in.take(Chunk{To: 3, Data: make([]byte, ChunkBytes)})
			}
			if x.closes {
				in.close()
			}
			back, gone := 0, false
			for back < chunks*ChunkBytes || !gone {
				c := <-credits
				back, gone = back+c.Bytes, gone || c.Gone
			}
			in.take(Chunk{To: 3, Data: make([]byte, 5), End: true})
			if c := <-credits; c != (Credit{To: 3, Bytes: 5, Gone: true}) || back != chunks*ChunkBytes {
				t.Errorf("%d bytes returned, want %d; then %+v, want 5 more", back, chunks*ChunkBytes, c)
			}
			if !x.reader {
				_ = w.Close()
			}
		})
	}
}

// A spool holds no more than the distance between the fastest and the slowest reader. It makes the fastest reader wait
// if that becomes too much.
func TestSpool(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	text := noise(64 << 20)
	sp := newSpool()
	sp.most = 1 << 20
	fast, slow := sp.reader(), sp.reader()
	filled := make(chan error)
	go func() { filled <- sp.fill(bytes.NewReader(text)) }()
	buf := make([]byte, len(text))
	if _, err := io.ReadFull(fast, buf[:sp.most]); err != nil {
		t.Fatal(err)
	}
	fastDone := make(chan []byte)
	go func() { rest, _ := io.ReadAll(fast); fastDone <- rest }()
	for at := 0; at < len(text); {
		n, err := slow.Read(buf[at:min(len(text), at+100_000)])
		if err != nil {
			t.Fatal(err)
		}
		at += n
		sp.mu.Lock()
		behind, held := sp.end-int64(at), sp.end-sp.freed
		sp.mu.Unlock()
		if behind > sp.most+readBytes || held > sp.most+punchBytes+readBytes {
			t.Fatalf("%d bytes ahead, %d held, want at most %d and %d more", behind, held, sp.most, punchBytes)
		}
	}
	rest := <-fastDone
	if err := <-filled; err != nil || !bytes.Equal(buf, text) || !bytes.Equal(rest, text[sp.most:]) {
		t.Errorf("fill: %v, or the text differs", err)
	}
	_, _ = fast.Close(), slow.Close()
	if _, err := sp.file.Stat(); err == nil {
		t.Error("the file is still open with nothing to hold")
	}
}

// A spool without readers ends its filler.
func TestSpoolWithoutReaders(t *testing.T) {
	sp := newSpool()
	r := sp.reader()
	_ = r.Close()
	if err := sp.fill(strings.NewReader("text")); !errors.Is(err, errNoReader) {
		t.Errorf("fill: %v, want %v", err, errNoReader)
	}
}
