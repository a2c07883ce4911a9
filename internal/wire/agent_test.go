package wire

import (
	"reflect"
	"testing"
)

// Each message of a daemon and its agent comes out as it went in. No other message is taken for it, nor a part of it.
func TestAgentMessages(t *testing.T) {
	type message interface {
		Append(b []byte) []byte
		Parse(b []byte) error
	}
	setup := &AgentSetup{Node: 1, Nodes: 2, NPEs: 6, First: 3, Near: 3, SegmentSize: 1 << 40, Incarnation: 7, Patience: 3, Listen: "127.0.0.1:4000", LastPort: 4999, CollRadix: 9}
	setup.Job[3], setup.Key[31] = 200, 255
	for _, m := range []struct{ in, out message }{
		{setup, &AgentSetup{}},
		{&AgentSegments{First: 250, Count: 3}, &AgentSegments{}},
		{&AgentReady{Addr: "[::1]:80"}, &AgentReady{}},
		{&AgentReady{Err: "no port"}, &AgentReady{}},
		{&AgentPeers{Addrs: []string{"", "10.0.0.1:1"}}, &AgentPeers{}},
		{&AgentFault{PE: 1, Text: "fill"}, &AgentFault{}},
		{&AgentDropped{Number: 1 << 40}, &AgentDropped{}},
		{&AgentDropped{Number: 1, Err: "no memory"}, &AgentDropped{}},
		{&AgentLine{PE: 3}, &AgentLine{}},
		{&AgentBroken{Node: 3}, &AgentBroken{}},
		{&AgentGuest{Number: 3, Last: true, Job: [16]byte{1, 2}, PE: 5, Index: 9, SegmentSize: 1 << 33}, &AgentGuest{}},
		{&ExpressAsk{Node: 3}, &ExpressAsk{}},
		{&ExpressAnswer{Node: 3, Last: 1 << 50}, &ExpressAnswer{}},
		{&ExpressAnswer{Err: "the node is lost"}, &ExpressAnswer{}},
		{&AgentDrop{Number: 3, Node: -1, PE: 5, Incarnation: 2, Ended: true}, &AgentDrop{}},
	} {
		packet := m.in.Append(nil)
		if err := m.out.Parse(packet); err != nil || !reflect.DeepEqual(m.in, m.out) {
			t.Errorf("%+v comes out as %+v, %v", m.in, m.out, err)
		}
		for n := range packet {
			if err := m.out.Parse(packet[:n]); err == nil {
				t.Errorf("%T: the first %d bytes of %d are taken", m.in, n, len(packet))
			}
		}
		packet[0]++
		if err := m.out.Parse(packet); err == nil {
			t.Errorf("%T: packet %d is taken", m.in, packet[0])
		}
	}
}

// A setup that speaks of PEs or nodes that do not exist is refused.
func TestAgentSetupIsChecked(t *testing.T) {
	good := AgentSetup{Node: 0, Nodes: 2, NPEs: 4, First: 2, Near: 2}
	for name, spoil := range map[string]func(m *AgentSetup){
		"node":     func(m *AgentSetup) { m.Node = 2 },
		"negative": func(m *AgentSetup) { m.Node = -1 },
		"no PEs":   func(m *AgentSetup) { m.Near = 0 },
		"PEs":      func(m *AgentSetup) { m.First = 3 },
	} {
		bad := good
		spoil(&bad)
		if err := new(AgentSetup).Parse(bad.Append(nil)); err == nil {
			t.Errorf("%s: %+v is taken", name, bad)
		}
	}
}
