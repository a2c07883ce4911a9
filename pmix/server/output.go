package server

import (
	"bytes"
	"sync/atomic"

	"github.com/goshmem/goshmem/pmix/codec"
)

const (
	maxIOFText = 256 << 10 // of one message; libpmix clients refuse frames above 16 MiB
	maxCaught  = 4096      // texts that wait for the loop; beyond that nobody gets them
)

// outlet is a listener with its connection.
type outlet struct {
	*listener
	conn *conn
	lost atomic.Bool // some output was dropped, which the log says once
}

// listen makes the core's table of listeners the one in use.
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

// Output passes what a process wrote to those who asked for it. It never waits: a tool that does not read is dropped,
// and output to any other client that does not read is.
//
//   - Cost: next to nothing while nobody asks.
//   - Concurrent calls: text of one process and stream keeps its order if the calls do.
func (s *Server) Output(p codec.Proc, stderr bool, text []byte) {
	if n := s.catching.Load(); n > 0 {
		if n < maxCaught {
			s.catching.Add(1)
			s.post(event{kind: evOutput, proc: p, stderr: stderr, payload: bytes.Clone(text)})
		}
		return
	}
	s.spread(p, stderr, text)
}

// spread is Output when all that matters to it has been seen by the loop. A spawned job that has not might have a
// parent that wants what it writes: until then texts follow it to the loop, and all others in order not to overtake
// them.
func (s *Server) spread(p codec.Proc, stderr bool, text []byte) {
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
		return // a message without infos can always be packed
	}
	if o.conn.offer(outFrame{tag: codec.TagIOF, body: body}, s.limits.outputBytes) {
		return
	}
	if o.tool {
		o.conn.close()
	}
	if !o.lost.Swap(true) {
		s.log.Warn().Str("nspace", o.owner.Nspace).Uint32("pe", uint32(o.owner.Rank)).Bool("tool", o.tool).
			Msg("client does not read the output that it asked for: it is dropped")
	}
}
