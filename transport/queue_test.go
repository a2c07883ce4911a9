package transport

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// A queue gives the bytes and the tokens of the posts in order, from the very memory of the parts.
func TestQueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Queue
		var bytesLeft []byte
		type post struct {
			token uint64
			end   int // bytes of all posts up to it
		}
		var posts []post
		posted, taken, token := 0, 0, uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			if rapid.Bool().Draw(t, "push") {
				var parts [][]byte
				for range rapid.IntRange(0, 4).Draw(t, "parts") {
					p := rapid.SliceOfN(rapid.Byte(), 0, 5).Draw(t, "part")
					parts = append(parts, p)
					bytesLeft = append(bytesLeft, p...)
					posted += len(p)
				}
				token += uint64(rapid.IntRange(0, 1).Draw(t, "same")) // a token may come twice
				posts = append(posts, post{token, posted})
				q.Push(token, parts)
				clear(parts)
				continue
			}
			var have []byte
			for i := range q.Len() {
				have = append(have, q.Piece(i)...)
			}
			if !bytes.Equal(have, bytesLeft) {
				t.Fatalf("the queue has %v, want %v", have, bytesLeft)
			}
			n := rapid.IntRange(0, len(bytesLeft)).Draw(t, "take")
			bytesLeft, taken = bytesLeft[n:], taken+n
			for _, e := range q.Take(n, nil, Event{Node: 3, Lane: In, Generation: 4}) {
				if e.Kind != Sent || e.Node != 3 || e.Lane != In || e.Generation != 4 {
					t.Fatalf("event %+v", e)
				}
				if len(posts) == 0 || posts[0].token != e.Token || posts[0].end > taken {
					t.Fatalf("token %d is sent after %d bytes, want one of %v", e.Token, taken, posts)
				}
				posts = posts[1:]
			}
			if len(posts) > 0 && posts[0].end <= taken {
				t.Fatalf("%d bytes are taken, but post %v is not sent", taken, posts[0])
			}
		}
		q.Clear()
		if q.Len() != 0 {
			t.Fatalf("%d pieces after Clear", q.Len())
		}
	})
}

// A queue that never gets empty neither grows nor copies bytes.
func TestQueueSteady(t *testing.T) {
	var q Queue
	parts := [][]byte{make([]byte, 32), make([]byte, 1000)}
	events := make([]Event, 0, 8)
	for range 10 {
		q.Push(1, parts)
	}
	if &q.Piece(1)[0] != &parts[1][0] {
		t.Error("the queue has copied a part")
	}
	n := testing.AllocsPerRun(10_000, func() {
		q.Push(1, parts)
		events = q.Take(1032, events[:0], Event{})
	})
	if n > 0 || len(events) != 1 || cap(q.pieces) > 128 {
		t.Errorf("%v allocations, %d events, room for %d pieces; want 0, 1 and at most 128", n, len(events), cap(q.pieces))
	}
	q.Take(10*1032, nil, Event{})
	for i, p := range q.pieces[:cap(q.pieces)] {
		if p.data != nil {
			t.Errorf("place %d of an empty queue still holds a part", i)
		}
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Out.String(), "out"},
		{In.String(), "in"},
		{Lane(7).String(), "lane 7"},
		{Opened.String(), "opened"},
		{Refused.String(), "refused"},
		{Kind(0).String(), "kind 0"},
	} {
		if c.got != c.want {
			t.Errorf("name %q, want %q", c.got, c.want)
		}
	}
}

func TestCheckLane(t *testing.T) {
	for _, c := range []struct {
		node int
		lane Lane
		ok   bool
	}{{0, Out, true}, {2, In, true}, {1, Out, false}, {3, Out, false}, {-1, In, false}, {0, 2, false}} {
		if err := CheckLane(c.node, 1, 3, c.lane); (err == nil) != c.ok {
			t.Errorf("node %d, lane %s of node 1 of 3: error %v, want one: %v", c.node, c.lane, err, !c.ok)
		}
	}
}
