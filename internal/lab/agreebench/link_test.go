package agreebench

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/coll/agree"
	"github.com/goshmem/goshmem/transport"
	"github.com/goshmem/goshmem/transport/sim"
)

// TestLink: messages come whole and in order through connections that cut them anywhere.
func TestLink(t *testing.T) {
	t.Parallel()
	net, err := sim.New(sim.Config{Nodes: 2, Seed: 1, Piece: 5, Buffer: 64})
	if err != nil {
		t.Fatal(err)
	}
	const count = 200
	message := func(from, i int) []byte { return bytes.Repeat([]byte{byte(from), byte(i)}, i%40) }
	var links [2]*link
	var got [2]int
	for me := range links {
		links[me] = newLink(net.Node(me), 2, func(from int, variant byte, text []byte) error {
			if i := got[me]; from != 1-me || variant != byte(i%7) || !bytes.Equal(text, message(from, i)) {
				t.Fatalf("PE %d got variant %d and %q of PE %d, want message %d", me, variant, text, from, i)
			}
			got[me]++
			return nil
		})
	}
	poll := func() {
		for _, l := range links {
			if _, err := l.poll(0); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range count {
		for me, l := range links {
			text := message(me, i)
			if err := l.send(1-me, byte(i%7), text); err != nil {
				t.Fatal(err)
			}
			clear(text) // the link has a copy
		}
		poll()
	}
	if !links[0].underWay() {
		t.Error("nothing is under way, want that the network takes longer")
	}
	for got[0] < count || got[1] < count || links[0].underWay() || links[1].underWay() {
		poll()
	}
	if n := len(links[0].buffers); n >= count {
		t.Errorf("%d buffers for %d messages, want that they are used again", n, count)
	}
}

// TestLinkBreaks: a link names the broken connection, unless the PE at its other end is dead.
func TestLinkBreaks(t *testing.T) {
	t.Parallel()
	net, err := sim.New(sim.Config{Nodes: 2, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	l := newLink(net.Node(0), 2, func(int, byte, []byte) error { return nil })
	if err := l.send(1, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	cut := errors.New("cut")
	net.Node(0).Cut(1, transport.Out, cut)
	for l.underWay() {
		if _, err := l.poll(0); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.trouble(nil); !errors.Is(err, cut) || !strings.Contains(err.Error(), "PE 1") {
		t.Errorf("%v, want that the connection to PE 1 was cut", err)
	}
	if err := l.trouble([]int{1}); err != nil {
		t.Errorf("PE 1 is dead: %v, want no error", err)
	}
	if err := l.receive(1, []byte{0, 0, 1}); !errors.Is(err, agree.ErrMessage) {
		t.Errorf("empty frame: %v", err)
	}
	if err := l.receive(1, []byte{255, 255}); !errors.Is(err, agree.ErrMessage) {
		t.Errorf("long frame: %v", err)
	}
}
