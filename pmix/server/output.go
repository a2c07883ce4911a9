package server

import (
	"bytes"
	"sync/atomic"

	"github.com/goshmem/goshmem/pmix/codec"
)

const (
	maxIOFText = 256 << 10 // of one message; libpmix clients refuse frames above 16 MiB
	maxCaught  = 4096      // texts that wait for the loop; further ones are dropped
)

// outlet is a listener with its connection.
type outlet struct {
	*listener
	conn *conn
	lost atomic.Bool // output was dropped; it is logged once
}

// listen installs the core's table of listeners.
func (d *driver) listen(all []*listener) {
	if len(all) == 0 {
		d.output.Store(nil)
		return
	}
	known := map[*listener]*outlet{}
	if old := d.output.Load(); old != nil {
		for _, o := range *old {
			known[o.listener] = o
		}
	}
	table := make([]*outlet, 0, len(all))
	for _, l := range all {
		o := known[l]
		if o == nil {
			o = &outlet{listener: l, conn: d.conns[l.conn]}
		}
		if o.conn != nil {
			table = append(table, o)
		}
	}
	d.output.Store(&table)
}

// Output sends what a process wrote to the clients that asked for it. It never waits: a tool that does not read is
// disconnected; for any other client that does not read, the output is dropped.
//
//   - Cost: two loads while no client asks.
//   - Concurrent calls: text of one process and stream keeps its order if the calls do.
func (s *Server) Output(p codec.Proc, stderr bool, text []byte) {
	if n := s.catching.Load(); n > 0 {
		if n < maxCaught {
			s.catching.Add(1)
			s.post(event{kind: evOutput, proc: p, stderr: stderr, payload: bytes.Clone(text)})
		}
		return
	}
	s.forwardOutput(p, stderr, text)
}

// forwardOutput sends a text to its listeners. It runs only when the loop has seen all spawned jobs. Before that, a
// job's parent may want its output without being a listener yet. So Output sends texts through the mailbox, behind the
// job; all texts go this way then, which keeps their order.
func (s *Server) forwardOutput(p codec.Proc, stderr bool, text []byte) {
	table := s.output.Load()
	if table == nil {
		return
	}
	channel := codec.IOFStdout
	if stderr {
		channel = codec.IOFStderr
	}
	for _, o := range *table {
		if !o.wants(p, channel) {
			continue
		}
		for rest := text; len(rest) > 0; {
			n := min(len(rest), maxIOFText)
			s.forward(o, &codec.IOFMessage{Source: p, Channel: channel, ID: o.ref, Data: rest[:n]})
			rest = rest[n:]
		}
	}
}

func (s *Server) forward(o *outlet, m *codec.IOFMessage) {
	body, err := m.Append(make([]byte, 0, len(m.Source.Nspace)+len(m.Data)+64))
	if err != nil {
		return // cannot happen: a message without infos can always be packed
	}
	if o.conn.offer(outFrame{tag: codec.TagIOF, body: body}, s.limits.outputBytes) {
		return
	}
	if o.tool {
		o.conn.close()
	}
	if !o.lost.Swap(true) {
		s.log.Warn().Str("nspace", o.owner.Nspace).Uint32("pe", uint32(o.owner.Rank)).Bool("tool", o.tool).
			Msg("client does not read the output that it asked for: output dropped")
	}
}
