package sim

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/transporttest"
)

// makeNodes returns the nodes of a network.
func makeNodes(t *testing.T, cfg Config) (all []transport.Transport) {
	t.Helper()
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for i := range cfg.Nodes {
		all = append(all, n.Node(i))
	}
	return all
}

func TestConformance(t *testing.T) {
	transporttest.Run(t, transporttest.Config{Bulk: 64 << 20, Buffered: 4 << 20, Make: func(t *testing.T, n int) []transport.Transport {
		return makeNodes(t, Config{Nodes: n, Seed: 7})
	}})
}

// trace runs some traffic in one goroutine and returns all that happened.
func trace(t *testing.T, cfg Config) string {
	t.Helper()
	var b strings.Builder
	nodes := makeNodes(t, cfg)
	for i := range 200 {
		for self, tr := range nodes {
			if err := tr.Post(1-self, transport.Out, uint64(i), make([]byte, i)); err != nil {
				t.Fatal(err)
			}
			events, err := tr.Poll(nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				fmt.Fprintln(&b, self, e.Kind, e.Lane, e.Generation, len(e.Data), e.Token, e.Err)
			}
		}
	}
	return b.String()
}

// A run depends on the seed and on nothing else.
func TestDeterministic(t *testing.T) {
	cfg := Config{Nodes: 2, Seed: 3, Cuts: 100}
	first := trace(t, cfg)
	if trace(t, cfg) != first {
		t.Error("two runs of one seed differ")
	}
	if !strings.Contains(first, "broken") {
		t.Error("no connection was cut")
	}
	cfg.Seed++
	if trace(t, cfg) == first {
		t.Error("runs of two seeds are the same")
	}
}

// Received data are overwritten in the next Poll.
func TestDataEnd(t *testing.T) {
	nodes := makeNodes(t, Config{Nodes: 2})
	if err := nodes[0].Post(1, transport.Out, 1, []byte("data")); err != nil {
		t.Fatal(err)
	}
	var got []byte
	for got == nil {
		for _, tr := range nodes {
			events, err := tr.Poll(nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				got = e.Data
			}
		}
	}
	was := string(got)
	if _, err := nodes[1].Poll(nil, 0); err != nil || string(got) == was {
		t.Errorf("data %q after the next Poll, error %v; want other bytes", got, err)
	}
}

// explore calls run with every list of choices that it asks for, and returns how many there are.
func explore(run func(choose func(n int) int)) (runs int) {
	type choice struct{ taken, of int }
	var path []choice
	for {
		at := 0
		run(func(n int) int {
			if at == len(path) {
				path = append(path, choice{0, n})
			}
			at++
			return path[at-1].taken
		})
		runs++
		for len(path) > 0 && path[len(path)-1].taken == path[len(path)-1].of-1 {
			path = path[:len(path)-1]
		}
		if len(path) == 0 {
			return runs
		}
		path[len(path)-1].taken++
	}
}

// All runs of two nodes that post to each other, and may lose a connection at each step.
func TestExplore(t *testing.T) {
	whole, broken := 0, 0
	runs := explore(func(choose func(n int) int) {
		nodes := makeNodes(t, Config{Nodes: 2, Choose: choose, Steps: 1, Piece: 1, Cuts: 2})
		posts := []string{"ab", "c"}
		for self, text := range posts {
			if err := nodes[self].Post(1-self, transport.Out, 1, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		var got [2]string // by sender
		sent, ends := 0, 0
		for range 9 {
			for self, tr := range nodes {
				events, err := tr.Poll(nil, 0)
				if err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					switch e.Kind {
					case transport.Received:
						got[1-self] += string(e.Data)
					case transport.Sent:
						sent++
					case transport.Broken, transport.Refused:
						ends++
					}
				}
			}
		}
		for self, text := range posts {
			if !strings.HasPrefix(text, got[self]) {
				t.Fatalf("received %q, want a beginning of %q", got[self], text)
			}
		}
		all := got == [2]string(posts)
		if all {
			whole++
		}
		if ends > 0 {
			broken++
		} else if !all || sent != 2 {
			t.Fatalf("received %q, %d posts sent, although no connection has ended", got, sent)
		}
	})
	if whole == 0 || broken == 0 || runs < 1000 {
		t.Errorf("%d runs, %d received all, %d lost a connection; want more than 1000, and some of each", runs, whole, broken)
	}
	t.Logf("%d runs", runs)
}
