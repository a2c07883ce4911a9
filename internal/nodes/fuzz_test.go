package nodes

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/courier"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/remote"
	"github.com/goshmem/goshmem/internal/wire"
)

// FuzzRelay: what is relayed is what was sent.
func FuzzRelay(f *testing.F) {
	inner := relayFrame(1, wire.Frame{Kind: wire.KindFence, Stream: 7, Body: []byte("body")})
	f.Add(inner.Stream, inner.Body)
	f.Fuzz(func(t *testing.T, stream uint32, body []byte) {
		frame := wire.Frame{Kind: wire.KindRelay, Stream: stream, Body: body}
		node, inner, err := parseRelay(frame)
		if err != nil {
			return
		}
		if again := relayFrame(node, inner); !reflect.DeepEqual(again, frame) {
			t.Errorf("%+v is relayed as %+v", frame, again)
		}
	})
}

// FuzzAgent: an order for an agent, and the report of its end, is an error or what was sent.
func FuzzAgent(f *testing.F) {
	order := agentOrder{Where: "host", Argv: []string{"ssh", "host"}, Handover: []byte("secret")}
	end := agentEnd{How: "exit status 255", Said: "no way"}
	f.Add(wire.Encode(order.code))
	f.Add(wire.Encode(end.code))
	f.Fuzz(func(t *testing.T, body []byte) {
		var order agentOrder
		if wire.Decode(body, "order", order.code) == nil {
			if len(order.Argv) == 0 {
				t.Error("an order without a command")
			}
			if again := wire.Encode(order.code); !bytes.Equal(again, body) {
				t.Errorf("%x is read as %+v, which is %x", body, order, again)
			}
		}
		var end agentEnd
		if wire.Decode(body, "end", end.code) == nil {
			if again := wire.Encode(end.code); !bytes.Equal(again, body) {
				t.Errorf("%x is read as %+v, which is %x", body, end, again)
			}
			_ = end.err() // may be nil
		}
	})
}

// hole is a peer that takes everything.
type hole struct{}

// Send drops a frame.
func (hole) Send(wire.Frame) {}

// framesOf calls take for the frames that bytes are.
func framesOf(b []byte, take func(f wire.Frame)) {
	for r := bytes.NewReader(b); ; {
		frame, err := wire.ReadFrame(r, wire.MaxBody)
		if err != nil {
			return
		}
		take(frame)
	}
}

// seedFrames adds what nodes send each other, and what is about agents.
func seedFrames(f *testing.F) {
	f.Helper()
	order := agentOrder{Where: "host", Argv: []string{"true"}}
	end := agentEnd{Said: "no way"}
	accusation := wire.Accusation{Inc: 1, Proven: true}
	var all []byte
	for _, frame := range []wire.Frame{
		{Kind: wire.KindStartAgent, Stream: 2, Body: wire.Encode(order.code)},
		{Kind: wire.KindAgentEnded, Stream: 2, Body: wire.Encode(end.code)},
		{Kind: wire.KindKillAgent, Stream: 2},
		{Kind: wire.KindFallen, Body: []byte("the agent has failed")},
		relayFrame(1, wire.Frame{Kind: wire.KindFence, Body: wire.Split([]byte("fence"))[0]}),
		relayFrame(2, wire.Frame{Kind: wire.KindFetch, Body: wire.Split([]byte("fetch"))[0]}),
		relayFrame(courier.ToRoot, wire.Frame{Kind: wire.KindTell, Body: wire.Split([]byte("news"))[0]}),
		relayFrame(courier.ToRoot, wire.Frame{Kind: wire.KindQuestion, Body: wire.Split([]byte("12345678question"))[0]}),
		relayFrame(courier.ToEveryone, wire.Frame{Kind: wire.KindTell, Body: wire.Split([]byte("news"))[0]}),
		{Kind: wire.KindNodeDead, Stream: 2},
		{Kind: wire.KindEndNode, Body: []byte("others have not heard from it")},
		{Kind: wire.KindLinkBack, Stream: 1},
		{Kind: wire.KindGoesOn, Stream: 1},
		{Kind: wire.KindAccuse, Stream: 2, Body: accusation.Append(nil)},
		{Kind: wire.KindProbe, Stream: 3},
		{Kind: wire.KindProbed, Stream: 3},
		{Kind: wire.KindLaunch, Stream: 1},
	} {
		f.Add(byte(0), frame.Append(nil))
		f.Add(byte(1), frame.Append(nil))
		all = frame.Append(all)
	}
	f.Add(byte(1), all)
}

// FuzzMember: no frame of a daemon makes the front end panic. The first byte says which nodes are lost.
func FuzzMember(f *testing.F) {
	seedFrames(f)
	f.Fuzz(func(_ *testing.T, lost byte, b []byte) {
		ctx, cancel := context.WithCancelCause(context.Background())
		defer cancel(nil)
		r := &root{cancel: cancel, logger: zerolog.Nop(), hosts: make([]plan.Host, 3), over: make(chan struct{})}
		r.board = courier.NewRoot(len(r.hosts), func(int, wire.Frame) {})
		defer r.board.Close()
		for i := range r.hosts {
			agents := map[int]*agentProcess{2: newAgentProcess("host", []string{"true"})}
			r.members = append(r.members, &member{root: r, index: i, Client: remote.NewClient(hole{}), started: agents})
		}
		for i, m := range r.members {
			if lost>>i&1 != 0 {
				m.lose(errors.New("lost before"))
			}
		}
		framesOf(b, func(frame wire.Frame) {
			if err := r.members[0].hear(frame); err != nil {
				r.members[0].lose(err)
			}
		})
		for _, m := range r.members {
			m.lose(errors.New("lost"))
			_ = m.Client.Close() // the node is lost
		}
		_ = ctx.Err() // whether the start was ended is not looked at
	})
}

// FuzzDaemon: no frame of the front end makes a daemon panic, before it has a step and with the ways to other nodes open. The
// daemon starts no agent.
func FuzzDaemon(f *testing.F) {
	seedFrames(f)
	f.Fuzz(func(t *testing.T, open byte, b []byte) {
		d := &nodeDaemon{logger: zerolog.Nop(), over: make(chan struct{}), leave: func() {}}
		send := func(wire.Frame) {}
		d.send, d.branch, d.junction.send = send, branch{send: send, over: true}, send
		d.server = remote.NewServer(hole{}, func(daemon.Config, daemon.Hooks) (daemon.Node, error) { return nil, errors.New("no step") })
		share := daemon.Share{Name: "job", Hosts: []string{"a", "b", "c"}, Homes: []int{0, 1, 2}}
		if open&1 != 0 {
			if _, err := d.junction.openWays(share); err != nil {
				t.Fatal(err)
			}
		}
		framesOf(b, d.take)
		if open&1 == 0 {
			if _, err := d.junction.openWays(share); err != nil {
				t.Fatal(err)
			}
		}
		d.server.Lost(errors.New("the front end has gone"))
		<-d.server.Done()
	})
}
