package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/goshmem/goshmem/internal/daemon"
)

// eater is a node whose readers take what they are fed when the test lets them.
type eater struct {
	*fake
	credit func(daemon.Credit) // returns credit

	mu    sync.Mutex
	eaten map[int]string // by stream
	ends  map[int]int
}

// eat makes a fake node an eater.
func eat(f *fake, credit func(daemon.Credit)) *eater {
	e := &eater{fake: f, credit: credit, eaten: map[int]string{}, ends: map[int]int{}}
	f.fed = func(c daemon.Chunk) {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.eaten[c.To] += string(c.Data)
		if c.End {
			e.ends[c.To]++
		}
	}
	return e
}

// inputFile returns a file with some text whose first bytes have been read.
func inputFile(t *testing.T, read int, text string) *os.File {
	t.Helper()
	path := t.TempDir() + "/in"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if _, err := io.CopyN(io.Discard, f, int64(read)); err != nil {
		t.Fatal(err)
	}
	return f
}

// If several PEs read a file, each has its own stream from the file's current offset. Any other input is one stream.
func TestStreamsOfInput(t *testing.T) {
	file := inputFile(t, 2, "skip me")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	for name, x := range map[string]struct {
		stdin *os.File
		to    daemon.Readers
		want  string
		pes   daemon.Readers
	}{
		"none":            {nil, daemon.Readers{All: true}, "[]", daemon.Readers{}},
		"file, default":   {file, daemon.Readers{}, "[-1 standard input of PE 0]", daemon.Readers{PEs: []int{0}}},
		"file, one":       {file, daemon.Readers{PEs: []int{2}}, "[-1 standard input of PE 2]", daemon.Readers{PEs: []int{2}}},
		"file, all":       {file, daemon.Readers{All: true}, "[0 standard input of PE 0 1 standard input of PE 1 2 standard input of PE 2]", daemon.Readers{All: true}},
		"file, two":       {file, daemon.Readers{PEs: []int{2, 0}}, "[2 standard input of PE 2 0 standard input of PE 0]", daemon.Readers{PEs: []int{2, 0}}},
		"pipe, all":       {r, daemon.Readers{All: true}, "[-1 standard input]", daemon.Readers{All: true}},
		"pipe, one of it": {r, daemon.Readers{PEs: []int{1}}, "[-1 standard input of PE 1]", daemon.Readers{PEs: []int{1}}},
	} {
		o := &Options{Apps: []App{{NPEs: 3}}, Stdin: x.stdin, StdinTo: x.to}
		var got []string
		for _, f := range o.feeders(1) {
			got = append(got, fmt.Sprint(f.to), f.name)
			if x.stdin == file && f.to != daemon.AllReaders {
				if text, err := io.ReadAll(f.from); err != nil || string(text) != "ip me" {
					t.Errorf("%s: stream %d has %q, %v, want the unread rest", name, f.to, text, err)
				}
			}
		}
		if fmt.Sprint(got) != x.want {
			t.Errorf("%s: streams %v, want %s", name, got, x.want)
		}
		if pes := o.readers(); fmt.Sprint(pes) != fmt.Sprint(x.pes) {
			t.Errorf("%s: readers %+v, want %+v", name, pes, x.pes)
		}
	}
}

// Nothing is read until all nodes have returned their credit. All nodes get all text.
func TestFeederWaitsForCredit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		text := bytes.Repeat([]byte("0123456789"), daemon.ChunkBytes/4) // two chunks and a half
		in := feeders{newFeeder(daemon.AllReaders, 2, "input", bytes.NewReader(text))}
		a := eat(newFake(0, 1), func(c daemon.Credit) { in.credit(0, c) })
		b := eat(newFake(1, 1), func(c daemon.Credit) { in.credit(1, c) })
		cluster := NewCluster([]Node{a, b}, []int{0, 1})
		in.begin(cluster, func(text string) { t.Error(text) })
		for _, want := range []int{1, 2} {
			synctest.Wait()
			if n := len(a.eaten[daemon.AllReaders]); n != want*daemon.ChunkBytes {
				t.Errorf("%d bytes are fed, want %d chunks", n, want)
			}
			a.credit(daemon.Credit{To: daemon.AllReaders, Bytes: daemon.ChunkBytes})
			synctest.Wait()
			if n := len(a.eaten[daemon.AllReaders]); n != want*daemon.ChunkBytes {
				t.Errorf("%d bytes are fed before the second node has taken the previous ones", n)
			}
			b.credit(daemon.Credit{To: daemon.AllReaders, Bytes: daemon.ChunkBytes})
		}
		synctest.Wait()
		for _, e := range []*eater{a, b} {
			if e.eaten[daemon.AllReaders] != string(text[:len(e.eaten[daemon.AllReaders])]) || e.ends[daemon.AllReaders] != 0 {
				t.Error("the text fed differs from the text read, or the end comes early")
			}
			e.credit(daemon.Credit{To: daemon.AllReaders, Bytes: len(text) - 2*daemon.ChunkBytes})
		}
		synctest.Wait()
		for _, e := range []*eater{a, b} {
			if e.eaten[daemon.AllReaders] != string(text) || e.ends[daemon.AllReaders] != 1 {
				t.Errorf("%d bytes and %d ends are fed, want %d and one", len(e.eaten[daemon.AllReaders]), e.ends[daemon.AllReaders], len(text))
			}
		}
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A node without readers does not block the others. Without readers at all, and at the end of the job, nothing is read.
func TestFeederStops(t *testing.T) {
	for name, stop := range map[string]func(in feeders, one, other *eater){
		"nobody reads": func(_ feeders, one, other *eater) {
			one.credit(daemon.Credit{To: daemon.AllReaders, Gone: true, Bytes: daemon.ChunkBytes})
			other.credit(daemon.Credit{To: daemon.AllReaders, Gone: true, Bytes: daemon.ChunkBytes})
		},
		"the job is over": func(in feeders, _, _ *eater) { in.end() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				in := feeders{newFeeder(daemon.AllReaders, 2, "input", zeros{})}
				a := eat(newFake(0, 1), func(c daemon.Credit) { in.credit(0, c) })
				b := eat(newFake(1, 1), func(c daemon.Credit) { in.credit(1, c) })
				cluster := NewCluster([]Node{a, b}, []int{0, 1})
				in.begin(cluster, func(text string) { t.Error(text) })
				synctest.Wait()
				b.credit(daemon.Credit{To: daemon.AllReaders, Gone: true, Bytes: daemon.ChunkBytes})
				a.credit(daemon.Credit{To: daemon.AllReaders, Bytes: daemon.ChunkBytes})
				synctest.Wait()
				if n := len(a.eaten[daemon.AllReaders]); n != 2*daemon.ChunkBytes {
					t.Errorf("%d bytes are fed, want two chunks, as the second node has no readers", n)
				}
				stop(in, a, b)
				synctest.Wait()
				if n := len(a.eaten[daemon.AllReaders]); n != 2*daemon.ChunkBytes || a.ends[daemon.AllReaders] > 0 {
					t.Errorf("%d bytes are fed, want no more than before", n)
				}
				if err := cluster.Close(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// zeros is an endless input.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) { return len(b), nil }

// An input that fails does not look like one that ends: the user is told.
func TestInputBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		from := io.MultiReader(strings.NewReader("text"), iotest.ErrReader(errors.New("broken")))
		in := feeders{newFeeder(2, 1, "standard input of PE 2", from)}
		a, b := newFake(0, 2), newFake(2, 1)
		eat(a, nil)
		e := eat(b, func(c daemon.Credit) { in.credit(1, c) })
		cluster := NewCluster([]Node{a, e}, []int{0, 0, 1})
		var said []string
		in.begin(cluster, func(text string) { said = append(said, text) })
		synctest.Wait()
		e.credit(daemon.Credit{To: 2, Bytes: 4})
		e.credit(daemon.Credit{To: 1, Bytes: 4}) // for another stream
		synctest.Wait()
		if want := "[standard input of PE 2 is cut: broken]"; fmt.Sprint(said) != want {
			t.Errorf("told %v, want %s", said, want)
		}
		if e.eaten[2] != "text" || e.ends[2] != 1 || len(a.noted()) > 0 {
			t.Errorf("%q and %d ends are fed, want all that was read and the end, and nothing for the other node", e.eaten[2], e.ends[2])
		}
		if err := cluster.Close(); err != nil {
			t.Error(err)
		}
	})
}
