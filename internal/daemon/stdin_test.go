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

// noise returns n bytes that are not alike.
func noise(n int) []byte {
	rng, b := rand.NewChaCha8([32]byte{1}), make([]byte, n)
	_, _ = rng.Read(b) // never fails
	return b
}

func feedAll(t *testing.T, src io.Reader, readers int) (ends []*os.File, in *input) {
	t.Helper()
	in = newInput(t.Errorf)
	for pe := range readers {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Close() })
		ends = append(ends, r)
		in.addReader(ID{PE: pe}, w)
	}
	in.distribute(src)
	return ends, in
}

// Everybody gets everything and the end, from a file, a pipe or anything, while
// one does not read, one has gone and one goes in the middle.
func TestInputToAll(t *testing.T) {
	const size = 6 << 20
	text := noise(size)
	for name, src := range map[string]func(t *testing.T) io.Reader{
		"file": func(t *testing.T) io.Reader {
			t.Helper()
			f, err := os.Create(t.TempDir() + "/in")
			if err == nil {
				_, err = f.Write(append([]byte("skipped"), text...))
			}
			if err == nil {
				_, err = f.Seek(int64(len("skipped")), io.SeekStart)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = f.Close() })
			return f
		},
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
			_ = ends[0].Close() // does not want any
			go func() { _, _ = io.CopyN(io.Discard, ends[1], size/2); _ = ends[1].Close() }()
			for _, r := range ends[3:] { // and 2 does not read
				if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text) {
					t.Errorf("%d bytes came, want %d, or they differ; %v", len(got), size, err)
				}
			}
			if got, err := io.ReadAll(ends[2]); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%d bytes came late, want %d, or they differ; %v", len(got), size, err)
			}
			in.close()
			if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
				t.Errorf("files are left: %v, %v", left, err)
			}
		})
	}
}

// An input that breaks off is not taken for one that ends.
func TestInputBreaksOff(t *testing.T) {
	for _, readers := range []int{1, 2} {
		ends, in := feedAll(t, strings.NewReader(""), 0)
		_ = ends
		said := make(chan string, 10)
		in.notice = func(format string, _ ...any) { said <- format }
		var rs []*os.File
		for pe := range readers {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			in.addReader(ID{PE: pe}, w)
			rs = append(rs, r)
		}
		in.distribute(io.MultiReader(strings.NewReader("text"), iotest.ErrReader(errors.New("broken"))))
		for _, r := range rs {
			if got, err := io.ReadAll(r); err != nil || string(got) != "text" {
				t.Errorf("%q, %v", got, err)
			}
			_ = r.Close()
		}
		if s := <-said; !strings.Contains(s, "is cut") {
			t.Errorf("%q is said", s)
		}
	}
}

// A spool holds no more than what is between the fastest and the slowest reader,
// and makes the fastest wait where that becomes too much.
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
		t.Errorf("fill: %v; or text differs", err)
	}
	_, _ = fast.Close(), slow.Close()
	if _, err := sp.file.Stat(); err == nil {
		t.Error("the file is open when nobody needs it")
	}
}

// Nobody is left: the filler ends.
func TestSpoolWithoutReaders(t *testing.T) {
	sp := newSpool()
	r := sp.reader()
	_ = r.Close()
	if err := sp.fill(strings.NewReader("text")); !errors.Is(err, errNoReader) {
		t.Errorf("fill: %v, want %v", err, errNoReader)
	}
}
