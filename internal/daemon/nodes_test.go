package daemon

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/server"
)

// meeting connects the servers of the steps of a test: it adds up the parts of fences, and passes gets on.
type meeting struct {
	homes []int // by PE

	mu     sync.Mutex
	nodes  []NodeServer
	fences map[server.FenceID]map[int]server.FencePart // by node
}

// seat is the place of one step.
type seat struct {
	*meeting
	node int
}

// participants returns the nodes of some processes, in order.
func (m *meeting) participants(procs []pmix.Proc) []int {
	nodes := map[int]bool{}
	for _, p := range procs {
		nodes[m.homes[p.Rank]] = true
	}
	return slices.Sorted(maps.Keys(nodes))
}

// Fence takes a part. The last one ends the fence, any other calls the nodes that are missing.
func (s seat) Fence(part server.FencePart) {
	s.mu.Lock()
	defer s.mu.Unlock()
	parts := s.fences[part.ID]
	if parts == nil {
		parts = map[int]server.FencePart{}
		s.fences[part.ID] = parts
	}
	if _, twice := parts[s.node]; twice {
		panic(fmt.Sprintf("node %d hands in its part of fence %v twice", s.node, part.ID))
	}
	parts[s.node] = part
	nodes := s.participants(part.Procs)
	if len(parts) < len(nodes) {
		for _, node := range nodes {
			if _, in := parts[node]; !in {
				s.nodes[node].FenceCalled(part.FenceCall)
			}
		}
		return
	}
	status, data := pmix.StatusSuccess, []byte(nil)
	for _, node := range nodes {
		data = append(data, parts[node].Data...)
		if status == pmix.StatusSuccess {
			status = parts[node].Status
		}
	}
	if status != pmix.StatusSuccess {
		data = nil
	}
	for _, node := range nodes {
		s.nodes[node].FenceDone(part.ID, status, data)
	}
}

// Expire tells the other nodes of a deadline.
func (s seat) Expire(call server.FenceCall) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, node := range s.participants(call.Procs) {
		if node != s.node {
			s.nodes[node].FenceExpired(call)
		}
	}
}

// JobAdded and JobOver tell nothing: fences of the seat need no jobs.
func (s seat) JobAdded(string) {}

func (s seat) JobOver(string) {}

// Fetch asks the node of a process.
func (s seat) Fetch(p pmix.Proc, key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes[s.homes[p.Rank]].Serve(p, key, func(status pmix.Status, packed []byte) {
		s.nodes[s.node].Fetched(p, key, status, packed)
	})
}

// testCluster is the steps of a job of several nodes.
type testCluster struct {
	t     *testing.T
	homes []int
	steps []*Step
	lines chan string // "PE: text", of all PEs
	said  chan string // to the user
}

// testShare describes a job to one of its nodes.
func testShare(name string, homes []int, node int) Share {
	s := Share{Name: name, Key: [16]byte{1, 2, 3}, Homes: homes, Node: node, Emulated: true}
	for i := range slices.Max(homes) + 1 {
		s.Hosts = append(s.Hosts, "host"+strconv.Itoa(i))
	}
	return s
}

// clusters counts the clusters of this process, so that their jobs have different names.
var clusters int

// startCluster starts the steps of a job, but no PE. Homes has the node of each PE.
func startCluster(t *testing.T, apps []App, homes []int, change ...func(*settings)) *testCluster {
	t.Helper()
	c := &testCluster{t: t, homes: homes, lines: make(chan string, 1000), said: make(chan string, 1000)}
	m := &meeting{homes: homes, fences: map[server.FenceID]map[int]server.FencePart{}}
	clusters++
	name := fmt.Sprintf("goshmem-test%d", clusters)
	t.Cleanup(c.close)
	for node := range slices.Max(homes) + 1 {
		config := sleepers(t, 1, append([]func(*settings){func(s *settings) {
			s.Apps, s.MostPEs, s.Share, s.Remote = apps, 8, testShare(name, homes, node), seat{m, node}
			s.Output = func(id ID, _ Stream, text []byte) {
				for line := range strings.Lines(string(text)) {
					c.lines <- id.String() + ": " + strings.TrimRight(line, "\r\n")
				}
			}
			s.Notice = func(text string) { c.said <- text }
		}}, change...)...)
		s, err := config.start()
		if err != nil {
			t.Fatal(err)
		}
		c.steps = append(c.steps, s)
		m.nodes = append(m.nodes, s.NodeServer())
	}
	return c
}

// launch starts the PEs of all nodes.
func (c *testCluster) launch() {
	c.t.Helper()
	for _, s := range c.steps {
		if err := s.Launch(); err != nil {
			c.t.Fatal(err)
		}
	}
}

// close ends all PEs, then the steps. The steps of a test have one parent process, and so a step that closes finds PEs
// of the others among its children: they have to end first.
func (c *testCluster) close() {
	for _, s := range c.steps {
		s.Refuse(false)
		s.Signal(syscall.SIGKILL)
	}
	for _, s := range c.steps {
		for _, p := range s.table.allStarted() {
			if !within(time.Now().Add(deadline), func() { <-p.reaped }) {
				c.t.Errorf("PE %v does not end", p.id)
			}
		}
	}
	for _, s := range c.steps {
		if err := s.Close(); err != nil {
			c.t.Error(err)
		}
	}
}

// awaitEnds waits for the end of all PEs, and returns their last events by PE.
func (c *testCluster) awaitEnds() map[int]Event {
	c.t.Helper()
	ends := map[int]Event{}
	for node, s := range c.steps {
		for range len(s.table.job(0).near) {
			e := nextOf(c.t, s, Exited)
			if c.homes[e.PE] != node {
				c.t.Errorf("node %d reports the end of PE %d, want that of a near one", node, e.PE)
			}
			ends[e.PE] = e
		}
	}
	return ends
}

// sorted returns the next n lines of PEs, in order.
func (c *testCluster) sorted(n int) (lines []string) {
	c.t.Helper()
	for range n {
		lines = append(lines, receive(c.t, "line of a PE", c.lines))
	}
	slices.Sort(lines)
	return lines
}

// wantLines checks the next lines of PEs, in any order.
func (c *testCluster) wantLines(want ...string) {
	c.t.Helper()
	slices.Sort(want)
	if got := c.sorted(len(want)); !slices.Equal(got, want) {
		c.t.Errorf("lines %q, want %q", got, want)
	}
}

// wantWell checks that all PEs end well.
func (c *testCluster) wantWell() {
	c.t.Helper()
	for pe, e := range c.awaitEnds() {
		if e.End.Code != 0 || e.End.Signal != 0 || e.End.Unfinished {
			c.t.Errorf("PE %d has ended by %+v, want a good end", pe, e.End)
		}
	}
}
