package server

import (
	"fmt"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Events of clients go to all nodes on which their range has processes: each node raises them, and keeps them for late
// handlers, as the node of the client does. Events about ends are not sent. Each node raises its own when it hears of an
// end, as it hears of a node's loss.

// packEvent packs an event for clients.
func packEvent(ev *codec.Event) ([]byte, error) {
	n := codec.Notification{Status: ev.Status, Source: ev.Source, Info: ev.Info, Range: ev.Range}
	return n.Append(nil)
}

// announce raises an event here and on other nodes.
func (es *events) announce(ev codec.Event) error {
	if err := es.raise(ev); err != nil || !es.peered {
		return err
	}
	body, err := packEvent(&ev)
	if err != nil {
		return err
	}
	m := &peerMessage{op: opEvent, body: body}
	switch ev.Range {
	case codec.RangeUndef, codec.RangeSession, codec.RangeGlobal, codec.RangeNamespace:
		es.errands.tell(Everyone, m) // tools on all nodes see the events of all jobs
	case codec.RangeCustom:
		m.procs = ev.Targets
		nodes, known := es.errands.nodesOf(ev.Targets)
		if !known {
			es.errands.tell(Everyone, m)
			return nil
		}
		for _, node := range nodes {
			es.errands.tell(node, m)
		}
	}
	return nil
}

// raiseFar raises an event of another node's client.
//
//   - Errors: an event that no server sends.
func (es *events) raiseFar(m *peerMessage) error {
	n, err := codec.DecodeNotification(m.body)
	if err != nil {
		return err
	}
	ev, err := codec.ParseEvent(n)
	if err != nil {
		return err
	}
	switch ev.Range {
	case codec.RangeUndef, codec.RangeSession, codec.RangeGlobal, codec.RangeNamespace:
	case codec.RangeCustom:
		ev.Targets = m.procs // the sender's server has replaced names of groups
	default:
		return fmt.Errorf("event %v of %v has range %d, want one that reaches other nodes", ev.Status, ev.Source, ev.Range)
	}
	from := es.find(ev.Source)
	if from != nil && from.local {
		return fmt.Errorf("event %v of %v, want one of a process of another node", ev.Status, ev.Source)
	}
	if from != nil {
		if _, err := es.invites.recordEvent(from, &ev); err != nil {
			return fmt.Errorf("event %v of %v: %w", ev.Status, ev.Source, err)
		}
	}
	return es.raise(ev)
}
