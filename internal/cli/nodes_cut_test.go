package cli

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
)

// frontEnd stands for the front end among the places of a network of emulated nodes. The others are nodes, by index.
const frontEnd = -1

// cutLease is the lease of jobs in which a node ends by itself, and usualLease that of others. cutMargin is how much longer than the
// lease the end of a node may take.
const (
	cutLease   = 4 * time.Second
	usualLease = 10 * time.Second
	cutMargin  = 5 * time.Second // a machine with other work has its processes wait
)

// cutJob is a job of testCut on emulated nodes with networks of their own.
type cutJob struct {
	*losses
	count           int       // nodes
	networks        []string  // before the job
	networkOfBridge string    // how nsenter names it
	began           time.Time // the last cut, or its end
	away            []int     // the nodes of the other part
}

// startCut starts a job, and returns when its PEs have results of collectives. Jobs of two or three nodes have two PEs on
// each.
func startCut(t *testing.T, nodes int, flags ...string) *cutJob {
	t.Helper()
	n := nodes
	if nodes < 4 {
		n *= 2
	}
	c := &cutJob{count: nodes, networks: networksHere(t)}
	c.losses = startWatched(t, "t-cut", n, slices.Concat([]string{"--recover"}, flags, []string{"--emulate", fmt.Sprintf("%d:netns", nodes)})...)
	c.networkOfBridge = c.bridge()
	c.await("all PEs have results", func() bool {
		for pe := range n {
			if !slices.Contains(c.lines(pe), "valid []") {
				return false
			}
		}
		return true
	})
	return c
}

// lines returns what a PE has written.
func (c *cutJob) lines(pe int) []string {
	text, err := os.ReadFile(cutFile(c.file, pe))
	if err != nil {
		return nil // it has not begun
	}
	whole := text[:strings.LastIndex(string(text), "\n")+1] // the PE may have been killed while it wrote
	return strings.Split(strings.TrimSpace(string(whole)), "\n")
}

// pesOf returns the PEs of nodes.
func (c *cutJob) pesOf(nodes []int) (pes []int) {
	for _, node := range nodes {
		pes = append(pes, c.on(nodeName(node))...)
	}
	slices.Sort(pes)
	return pes
}

// allNodes returns all nodes.
func (c *cutJob) allNodes() (nodes []int) {
	for node := range c.count {
		nodes = append(nodes, node)
	}
	return nodes
}

func nodeName(node int) string { return fmt.Sprintf("node%d", node) }

// part moves the last nodes to a network of their own: they reach each other, but no other node and not the front end. That is a
// step for each node, between which the front end stands still: it must not judge a network that is cut half.
func (c *cutJob) part(away int) {
	c.t.Helper()
	check(c.t, c.cmd.Process.Signal(syscall.SIGSTOP))
	inState(c.t, "T", c.cmd.Process.Pid)
	c.movePorts(away)
	check(c.t, c.cmd.Process.Signal(syscall.SIGCONT))
}

func (c *cutJob) movePorts(away int) {
	c.t.Helper()
	lines := "link add apart type bridge\nlink set apart up\n"
	for node := c.count - away; node < c.count; node++ {
		c.away = append(c.away, node)
		lines += fmt.Sprintf("link set port%d master apart\n", node)
	}
	c.began = time.Now()
	c.batch(frontEnd, lines)
}

// leaveAlone loses all that nodes and the front end send each other: at once what comes to the front end, so that it is as if all nodes
// were silent from then on, and then what it sends. Nodes reach each other.
func (c *cutJob) leaveAlone() {
	c.t.Helper()
	c.away = c.allNodes()
	lines := "rule add pref 100 table local\nrule add pref 10 iif bridge blackhole\nrule del pref 0\n"
	for _, node := range c.away {
		lines += fmt.Sprintf("neigh replace %s lladdr 02:00:00:00:00:99 dev bridge nud permanent\n", placeAddress(node))
	}
	c.began = time.Now()
	c.batch(frontEnd, lines)
}

// rejoin ends part.
func (c *cutJob) rejoin() {
	c.t.Helper()
	c.began = time.Now()
	check(c.t, c.tryRejoin())
}

func (c *cutJob) tryRejoin() error {
	lines := ""
	for _, node := range c.away {
		lines += fmt.Sprintf("link set port%d master bridge\n", node)
	}
	return c.tryBatch(frontEnd, lines)
}

// endAlone ends leaveAlone.
func (c *cutJob) endAlone() error {
	lines := "rule del pref 10\n"
	for _, node := range c.away {
		lines += fmt.Sprintf("neigh del %s dev bridge\n", placeAddress(node))
	}
	return c.tryBatch(frontEnd, lines)
}

// loseWay loses what one place sends to another one, silently. The sender has a hardware address of nobody, and the receiver drops
// what the responder in the sender's kernel answers, which takes the address that the question came from.
func (c *cutJob) loseWay(from, to int) {
	c.t.Helper()
	c.began = time.Now()
	c.batch(from, fmt.Sprintf("neigh replace %s lladdr 02:00:00:00:00:99 dev %s nud permanent\n", placeAddress(to), placeDevice(from)))
	err := c.tryBatch(to, fmt.Sprintf("rule add pref 100 table local\nrule del pref 0\nrule add pref 10 from %s blackhole\n", placeAddress(from)))
	if err != nil && (to == frontEnd || !isDead(c.daemons[nodeName(to)])) { // what was lost before may have been enough
		c.t.Fatal(err)
	}
}

// separate loses what two nodes send to each other: the bridge passes nothing between their ports.
func (c *cutJob) separate(a, b int) {
	c.t.Helper()
	c.began = time.Now()
	c.batch(frontEnd, fmt.Sprintf("link set port%d type bridge_slave isolated on\nlink set port%d type bridge_slave isolated on\n", a, b))
}

func placeAddress(place int) string {
	if place == frontEnd {
		return "10.0.0.254"
	}
	return addressOf(nodeName(place))
}

func placeDevice(place int) string {
	if place == frontEnd {
		return "bridge"
	}
	return "eth0"
}

// batch runs lines of ip in the network of a place.
func (c *cutJob) batch(where int, lines string) {
	c.t.Helper()
	check(c.t, c.tryBatch(where, lines))
}

func (c *cutJob) tryBatch(where int, lines string) error {
	network := c.networkOfBridge
	if where != frontEnd {
		network = fmt.Sprintf("--net=/proc/%d/ns/net", c.daemons[nodeName(where)])
	}
	cmd := exec.Command("nsenter", network, "ip", "-batch", "-")
	cmd.Stdin = strings.NewReader(lines)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s%w: %s", lines, err, text)
	}
	return nil
}

// awaitWords waits until oshrun has said something.
func (c *cutJob) awaitWords(words string) {
	c.t.Helper()
	select {
	case <-c.stderr.says(words):
	case <-time.After(testPatience):
		c.t.Fatalf("oshrun does not say %q; stderr:\n%s\n%s", words, &c.stderr, c.results())
	}
}

// awaitLosses waits until oshrun has said that nodes are lost, and the PEs of all others have results without them.
func (c *cutJob) awaitLosses(nodes []int) {
	c.t.Helper()
	for _, node := range nodes {
		c.awaitWords(nodeName(node) + " is lost with ")
	}
	if len(nodes) == 0 {
		return
	}
	dead := c.pesOf(nodes)
	c.await(fmt.Sprint("results without the PEs ", dead), func() bool {
		for pe := range c.n {
			if lines := c.lines(pe); !slices.Contains(dead, pe) && !slices.Contains(lines, c.shrunk(dead)) {
				return false
			}
		}
		return true
	})
}

// sum, valid and shrunk are lines of a PE that is right if these PEs are dead.
func (c *cutJob) sum(dead []int) string {
	return fmt.Sprintf("sum %d without %v", c.n-len(dead), dead)
}
func (c *cutJob) valid(dead []int) string { return fmt.Sprintf("valid %v", dead) }
func (c *cutJob) shrunk(dead []int) string {
	return fmt.Sprintf("shrunk %d sum %[1]d", c.n-len(dead))
}

// untilEnded waits until all processes of nodes have ended, and checks how long that has taken since the cut or its end.
func (c *cutJob) untilEnded(nodes []int, within time.Duration) {
	c.t.Helper()
	var pids []int
	for _, node := range nodes {
		pids = append(pids, c.daemons[nodeName(node)])
	}
	for _, pe := range c.pesOf(nodes) {
		pids = append(pids, c.pids[pe])
	}
	untilDead(c.t, pids)
	took := time.Since(c.began).Round(time.Millisecond)
	c.t.Logf("nodes %v have ended after %v", nodes, took)
	if took > within {
		c.t.Errorf("nodes %v have ended after %v, want %v at most; stderr:\n%s", nodes, took, within, &c.stderr)
	}
}

// expectLosses lets the PEs end, and checks that the job has gone on without some nodes: oshrun names these and no others,
// and the PEs of the other nodes, and only they, have got the results of survivors. beside are PEs that have died on
// nodes that live.
func (c *cutJob) expectLosses(nodes []int, beside ...int) {
	c.t.Helper()
	dead := append(c.pesOf(nodes), beside...)
	slices.Sort(dead)
	status := 0
	if len(dead) > 0 {
		status = 3
	}
	c.finish(status)
	var names []string
	for _, node := range nodes {
		names = append(names, nodeName(node))
	}
	if got := lostIn(c.stderr.String()); !slices.Equal(got, names) {
		c.t.Errorf("oshrun says that %v are lost, want %v; stderr:\n%s", got, names, &c.stderr)
	}
	for pe := range c.n {
		if slices.Contains(dead, pe) {
			c.expectNoResult(pe, dead)
		} else {
			c.expectResult(pe, dead)
		}
	}
	c.showFailure()
}

// expectEnd checks that the job has ended, and that no PE has got a result of survivors. A PE may know what has died of its
// own part, which has all nodes but those away, or just those.
func (c *cutJob) expectEnd(status int, words ...string) {
	c.t.Helper()
	c.finish(status, words...)
	for pe := range c.n {
		c.expectNoResult(pe, c.partOf(pe))
	}
	c.showFailure()
}

// partOf returns the PEs of the part of a PE.
func (c *cutJob) partOf(pe int) (pes []int) {
	away := c.pesOf(c.away)
	for other := range c.n {
		if slices.Contains(away, pe) == slices.Contains(away, other) {
			pes = append(pes, other)
		}
	}
	return pes
}

// finish lets the PEs end, and checks the status of the job, what oshrun says, and that nothing of the job is left.
func (c *cutJob) finish(status int, words ...string) {
	c.t.Helper()
	check(c.t, os.WriteFile(c.file, nil, 0o600))
	got, said := c.endedAfter(testPatience, func() { <-c.taken })
	c.check(got, said, status, words)
	c.expectNothingLeft(c.t, false, nil)
	if after := networksHere(c.t); !slices.Equal(after, c.networks) {
		c.t.Errorf("interfaces and named networks are %v, and were %v", after, c.networks)
	}
}

// expectLastWords checks that the log says why the daemons of the other part have ended: the front end has refused their links, or
// they have been fenced, which leaves them no time for words of their own.
func (c *cutJob) expectLastWords() {
	c.t.Helper()
	_, words, _ := strings.Cut(c.stderr.String(), "the launch agent has ended, its last words: ")
	if !strings.Contains(words, "refuses the link: the link has ended") && !strings.Contains(words, "signal: killed") && !strings.Contains(words, errFencedWords) {
		c.t.Errorf("the log does not say why nodes %v have ended:\n%s", c.away, &c.stderr)
	}
}

// errFencedWords are the last words of a daemon that hears by datagrams that others hold its node for dead.
const errFencedWords = "have not heard from it, and hold it for dead"

// showFailure says what the PEs of a job have got that has failed.
func (c *cutJob) showFailure() {
	if c.t.Failed() {
		c.t.Logf("stderr:\n%s\n%s", &c.stderr, c.results())
	}
}

func (c *cutJob) results() (text string) {
	for pe := range c.n {
		text += fmt.Sprintf("PE %d on %s: %s\n", pe, c.nodes[pe], strings.Join(c.lines(pe), "; "))
	}
	return text
}

// lostIn returns the nodes that oshrun calls lost, in order.
func lostIn(said string) (nodes []string) {
	for line := range strings.Lines(said) {
		before, _, isLoss := strings.Cut(line, " is lost with ")
		if isLoss {
			nodes = append(nodes, before[strings.LastIndex(before, " ")+1:])
		}
	}
	slices.Sort(nodes)
	return nodes
}

// expectResult checks that a PE that has gone on has got right results: at last without all dead, and never without others.
func (c *cutJob) expectResult(pe int, dead []int) {
	c.t.Helper()
	lines := c.lines(pe)
	want := []string{c.valid(dead), "over"}
	if len(dead) > 0 { // it may have ended before the next sum over all
		want = append(want, c.shrunk(dead), fmt.Sprintf("heard %v", dead))
	}
	for _, line := range want {
		if !slices.Contains(lines, line) {
			c.t.Errorf("PE %d has got %q, want %q in it", pe, lines, line)
		}
	}
	for _, line := range lines {
		if strings.HasPrefix(line, "error ") || !areAmong(deadIn(line), dead) {
			c.t.Errorf("PE %d, which goes on, has got %q", pe, line)
		}
	}
}

// expectNoResult checks that a PE that has ended has got no result of survivors, and has held none for dead but some.
func (c *cutJob) expectNoResult(pe int, mayKnow []int) {
	c.t.Helper()
	for _, line := range c.lines(pe) {
		kind, _, _ := strings.Cut(line, " ")
		switch {
		case kind == "error", line == c.sum([]int{}), line == c.valid([]int{}):
		case areAmong(deadIn(line), mayKnow) && kind == "heard":
		default:
			c.t.Errorf("PE %d on %s, which has ended, has got %q", pe, c.nodes[pe], line)
		}
	}
}

// deadIn returns the list of a line.
func deadIn(line string) (pes []int) {
	_, list, ok := strings.Cut(line, "[")
	if !ok {
		return nil
	}
	for word := range strings.FieldsSeq(strings.TrimSuffix(list, "]")) {
		pes = append(pes, number(word))
	}
	return pes
}

func areAmong(some, all []int) bool {
	return !slices.ContainsFunc(some, func(x int) bool { return !slices.Contains(all, x) })
}

// needParts skips the test unless networks of emulated nodes can be cut in parts. The processes of such a test keep all
// processors busy, so nothing runs beside it.
func needParts(t *testing.T) {
	t.Helper()
	testenv.Need(t, testenv.Root, testenv.Namespaces, testenv.SSH) // for ip
	if !canCut() {
		t.Skip("nsenter, ip or ss is missing")
	}
}

func lease(d time.Duration) string { return "--lease=" + d.String() }

// A network falls into two parts. The part with the front end goes on if it has a majority. The other one ends by its lease,
// or when it reaches the front end again.
func TestCutInParts(t *testing.T) {
	needParts(t)
	for _, x := range []struct {
		nodes, away int
		heal        bool // as soon as the others have lost the part
		flags       []string
	}{
		{2, 1, false, []string{lease(cutLease)}},
		{2, 1, true, []string{"-v"}},
		{3, 1, false, []string{lease(cutLease)}},
		{3, 1, true, []string{"-v"}},
		{4, 2, false, []string{lease(cutLease)}},
		{4, 2, true, []string{"-v"}},
		{5, 2, false, []string{lease(cutLease)}},
		{5, 2, true, []string{"-v"}},
		{3, 2, true, []string{"-v", "--partition", "continue"}},
		{5, 3, false, []string{lease(cutLease), "--partition", "continue"}},
	} {
		t.Run(fmt.Sprint(x.nodes, " without ", x.away, " heal ", x.heal), func(t *testing.T) {
			t.Parallel()
			c := startCut(t, x.nodes, x.flags...)
			c.part(x.away)
			c.awaitLosses(c.away)
			if x.heal {
				c.rejoin()
				c.untilEnded(c.away, usualLease+cutMargin)
				defer c.expectLastWords()
			} else {
				c.untilEnded(c.away, cutLease+cutMargin)
			}
			c.expectLosses(c.away)
		})
	}
}

// A front end that is left without a majority ends its job, also if it is alone. Neither part has results of survivors.
func TestCutWithoutMajority(t *testing.T) {
	needParts(t)
	for _, x := range []struct {
		nodes, away int
		heal        bool // as soon as oshrun has said why it ends the job
		flags       []string
		status      int
		words       string
	}{
		{2, 2, false, nil, 1, "node0 and node1 do not answer; the front end and 0 other nodes are 1 of 3 votes, which is no majority"},
		{3, 2, false, nil, 1, "node1 and node2 do not answer; the front end and 1 other node are 2 of 4 votes, which is no majority"},
		{3, 3, true, nil, 1, "node0, node1 and node2 do not answer; the front end and 0 other nodes are 1 of 4 votes, which is no majority"},
		{4, 4, false, nil, 1, "the front end and 0 other nodes are 1 of 5 votes, which is no majority"},
		{4, 4, false, []string{"--partition", "continue"}, 1, "it does not answer the front end; no PE goes on"},
		{5, 3, true, nil, 1, "node2, node3 and node4 do not answer; the front end and 2 other nodes are 3 of 6 votes, which is no majority"},
		{5, 5, false, nil, 1, "the front end and 0 other nodes are 1 of 6 votes, which is no majority"},
	} {
		t.Run(fmt.Sprint(x.nodes, " without ", x.away, x.flags), func(t *testing.T) {
			t.Parallel()
			c := startCut(t, x.nodes, append(x.flags, lease(cutLease))...)
			heal := c.tryRejoin
			if x.away == x.nodes {
				c.leaveAlone()
				heal = c.endAlone
			} else {
				c.part(x.away)
			}
			c.awaitWords(x.words)
			if x.heal {
				_ = heal() // the job may have ended
			}
			c.untilEnded(c.allNodes(), cutLease+cutMargin)
			c.expectEnd(x.status, x.words)
		})
	}
}

// Of two nodes one of which does not reach the other one, one goes, and is ended at once.
func TestCutOfWay(t *testing.T) {
	needParts(t)
	for _, x := range []struct {
		nodes, from, to int // in a ring of so many nodes, one of these watches the other one
		both            bool
	}{
		{2, 0, 1, false},
		{2, 1, 0, false},
		{2, 0, 1, true},
		{3, 0, 1, false},
		{3, 1, 0, false},
		{3, 1, 0, true},
		{4, 1, 2, false},
		{4, 2, 1, true},
		{5, 0, 2, false},
		{5, 2, 0, false},
		{5, 2, 0, true},
	} {
		t.Run(fmt.Sprint(x.nodes, " from ", x.from, " to ", x.to, " both ", x.both), func(t *testing.T) {
			t.Parallel()
			c := startCut(t, x.nodes)
			if x.both {
				c.separate(x.from, x.to)
			} else {
				c.loseWay(x.from, x.to)
			}
			c.awaitWords(" is lost with ")
			lost, stays := x.from, x.to
			if slices.Contains(lostIn(c.stderr.String()), nodeName(stays)) {
				lost, stays = stays, lost
			}
			c.untilEnded([]int{lost}, usualLease+cutMargin)
			c.awaitLosses([]int{lost})
			c.expectLosses([]int{lost})
			if words := "the network between it and " + nodeName(stays) + " is broken: it is the one that goes"; !strings.Contains(c.stderr.String(), words) {
				t.Errorf("oshrun does not say %q:\n%s", words, &c.stderr)
			}
		})
	}
}

// A node is lost after the lease that does not reach the front end, or which the front end does not reach, although others
// reach it.
func TestCutOfWayToFrontEnd(t *testing.T) {
	needParts(t)
	for _, x := range []struct{ nodes, from, to int }{
		{2, 1, frontEnd}, {2, frontEnd, 1}, {3, frontEnd, 0}, {4, 3, frontEnd}, {4, frontEnd, 2}, {5, 0, frontEnd},
	} {
		t.Run(fmt.Sprint(x.nodes, " from ", x.from, " to ", x.to), func(t *testing.T) {
			t.Parallel()
			c := startCut(t, x.nodes, lease(cutLease))
			c.loseWay(x.from, x.to)
			lost := []int{max(x.from, x.to)}
			c.untilEnded(lost, 2*cutLease+cutMargin)
			c.awaitLosses(lost)
			c.expectLosses(lost)
		})
	}
}

// outage is shorter than the time for which a node may be silent if daemons answer by themselves: 500 ms until it is suspected,
// and questions until 375 ms later. longOutage is less than that, and shows that this machine was busy.
const (
	outage     = 200 * time.Millisecond
	longOutage = 600 * time.Millisecond
)

// A part that is cut off for a moment is not lost.
func TestCutForMoment(t *testing.T) {
	needParts(t)
	for _, x := range []struct{ nodes, away int }{{2, 1}, {2, 2}, {3, 1}, {4, 2}, {5, 2}, {5, 3}} {
		t.Run(fmt.Sprint(x.nodes, " without ", x.away), func(t *testing.T) {
			t.Parallel()
			c := startCut(t, x.nodes, "--heartbeat-tier", "user")
			c.part(x.away)
			began := c.began
			<-time.After(outage)
			c.rejoin()
			if took := time.Since(began); took > longOutage {
				t.Skipf("this machine is so busy that an outage of %v has lasted %v", outage, took)
			}
			<-time.After(2 * time.Second) // what is tested is that nobody is lost meanwhile
			c.expectLosses(nil)
		})
	}
}
