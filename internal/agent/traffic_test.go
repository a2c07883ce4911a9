package agent

import (
	"testing"
	"unsafe"

	"github.com/goshmem/goshmem/internal/agent/record"
	"github.com/goshmem/goshmem/internal/far"
	"github.com/goshmem/goshmem/symheap/layout"
)

// traffic returns the counts of the node's agent and of its PE 0, both with what went by express sockets of the node's PEs, as the
// daemon adds them.
func (n *testNode) traffic() (agent layout.AgentTraffic, pe layout.Traffic) {
	n.do(func(*Agent) { agent, pe = n.page.Carried, n.page.Traffic[0] })
	for i := range nearPEs {
		past := n.page.Traffic[i].Express
		agent.Sent += past.Sent
		agent.Received += past.Received
	}
	pe.Sent += pe.Express.Sent
	pe.Received += pe.Express.Received
	return agent, pe
}

// Counts are those of the operations that were asked for, and of their bytes. After a quiet an agent has received what the
// other one has sent.
func TestTraffic(t *testing.T) {
	nodes := startNodes(t, 2)
	ctx, port := patient(t), nodes[0].ports[0]
	const times, long = 200, 3 * layout.WireBody
	data := make([]byte, long)
	from, off := unsafe.Pointer(&data[0]), uint64(layout.HeapOffset)
	var touched far.Touched
	quiet := func() (agent, other layout.AgentTraffic, pe layout.Traffic) {
		check(t, port.Quiet(ctx, &touched))
		agent, pe = nodes[0].traffic()
		other, _ = nodes[1].traffic()
		if agent.Sent != other.Received || agent.Received > other.Sent {
			t.Errorf("agents have counted %+v and %+v, want all that was sent to be received", agent, other)
		}
		return agent, other, pe
	}
	check(t, port.Signal(ctx, &touched, 2, off, 1, false)) // after the greetings
	before, _, peBefore := quiet()
	if peBefore.Operations != 1 || peBefore.Batches != 1 {
		t.Errorf("after a signal: %+v, want 1 operation in 1 batch", peBefore)
	}
	for range times {
		check(t, port.Put(ctx, &touched, 2, off, from, long)) // several records each
		check(t, port.Update(ctx, &touched, 2, off, record.AtomicAdd, 8, 1, 0))
	}
	after, _, pe := quiet()
	if got := pe.Operations - peBefore.Operations; got != 2*times {
		t.Errorf("%d operations, want %d", got, 2*times)
	}
	least := uint64(times * (long + record.SizeAtomic))
	if got := pe.Sent - peBefore.Sent; got < least || got > least+least/20 {
		t.Errorf("%d bytes sent, want %d and at most a twentieth more", got, least)
	} else if carried := after.Sent - before.Sent; carried != got {
		t.Errorf("the agent has sent %d bytes, want the %d of the PE", carried, got)
	}
	for range times {
		check(t, port.Get(ctx, &touched, 2, off, from, long))
		_, err := port.Fetch(ctx, &touched, 2, off, record.AtomicAdd, 8, 1, 0)
		check(t, err)
		g, err := port.StartGet(ctx, &touched, 2, off, from, 8)
		check(t, err)
		f, err := port.StartFetch(ctx, &touched, 2, off, record.AtomicLoad, 8, 0, 0)
		check(t, err)
		_, err = g.Wait(ctx)
		check(t, err)
		_, err = f.Wait(ctx)
		check(t, err)
	}
	last, _, got := quiet()
	if n := got.Operations - pe.Operations; n != 4*times {
		t.Errorf("%d operations with results, want %d", n, 4*times)
	}
	least = times * long
	if n := got.Received - pe.Received; n < least || n > least+least/20 {
		t.Errorf("%d bytes of answers, want %d and at most a twentieth more", n, least)
	} else if carried := last.Received - after.Received; carried != n {
		t.Errorf("the agent has received %d bytes, want the %d of the PE", carried, n)
	}
	if _, other := nodes[1].traffic(); other != (layout.Traffic{}) {
		t.Errorf("a PE that does nothing has counted %+v", other)
	}
}
