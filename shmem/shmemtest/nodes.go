package shmemtest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/agent"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/nodes"
	"github.com/goshmem/goshmem/internal/plan"
)

// mostNodes bounds the nodes that one machine stands for, as that of oshrun --emulate does.
const mostNodes = 64

// What daemons of emulated nodes are started with. A tree of few nodes has daemons that start others.
const (
	daemonRadix  = 2
	daemonWithin = 30 * time.Second
	daemonLease  = 10 * time.Second
)

// The race detector lets a process linger for a second at its end unless its options say otherwise.
const (
	raceVar     = "GORACE"
	raceOptions = "atexit_sleep_ms=0"
)

// played is set in processes whose TestMain is Main. There the test program can play oshrun's daemons and agents.
var played bool

// nodeList is the value of the flag -nodes.
type nodeList []int

// cyclic is the value of the flag -cyclic, and apart that of -netns.
var cyclic, apart bool

// command is the value of the flag -pes.
var command string

// defaultNodes is on how many nodes jobs run without the option Nodes.
var defaultNodes = nodeList{1}

// Main is the TestMain of a package whose jobs may run on several nodes:
//
//	func TestMain(m *testing.M) { shmemtest.Main(m) }
//
// It adds the flag -nodes to those of the test program. "go test -nodes 1,2,4" runs each job on one node, then on two,
// then on four, unless the test says by the option Nodes where its job runs. With "-cyclic", PEs go round the nodes, so those of a
// node do not have consecutive numbers. With "-netns", each node has a network of its own, which takes namespaces.
//
// With "-pes", PEs are another build of the test program. So jobs run on another processor than the launcher, by an emulator:
//
//	GOARCH=arm64 go test -c -o arm64.test
//	go test -pes 'qemu-aarch64-static arm64.test'
func Main(m *testing.M) {
	args := os.Args[1:]
	switch {
	case nodes.IsDaemonCommand(args):
		endPlay(nodes.RunDaemon(context.Background(), os.Stdin, zerolog.Nop()))
	case nodes.IsHolderCommand(args):
		endPlay(nodes.HoldNetwork())
	case nodes.IsAgentCommand(args):
		endPlay(agent.RunProcess())
	case nodes.IsHeartbeatCommand(args):
		endPlay(nodes.KeepHeartbeat())
	}
	played = true
	if os.Getenv(raceVar) == "" {
		_ = os.Setenv(raceVar, raceOptions) // for daemons; an error would make their ends slower
	}
	flag.Var(&defaultNodes, "nodes", "run jobs on these `numbers` of emulated nodes, one after the other: 1,2,4")
	flag.StringVar(&command, "pes", "", "start PEs by this `command`, words with blanks between, in place of the test program")
	flag.BoolVar(&cyclic, "cyclic", false, "have PEs go round the nodes, as with oshrun --map-by node")
	flag.BoolVar(&apart, "netns", false, "give each node a network of its own, as with oshrun --emulate N:netns")
	os.Exit(m.Run()) //nolint:forbidigo // as TestMain does
}

// endPlay ends a process that has played a daemon or an agent.
func endPlay(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1) //nolint:forbidigo // the end of the process
	}
	os.Exit(0) //nolint:forbidigo // likewise
}

// Nodes has Run divide the PEs among so many emulated nodes, at most one for each PE: this machine stands for all of them,
// each with a daemon and, if there are several, an agent. With several numbers, Run runs one job after the other. Numbers
// other than 1 are for packages whose TestMain is Main.
func Nodes(counts ...int) Option { return func(o *options) { o.nodes = counts } }

// String returns the numbers with commas between.
func (l *nodeList) String() string {
	var words []string
	for _, n := range *l {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

// Set reads numbers with commas between.
func (l *nodeList) Set(text string) error {
	var read nodeList
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil {
			return fmt.Errorf("%q, want numbers of nodes such as 1,2,4", word)
		}
		read = append(read, n)
	}
	if err := checkNodes(read); err != nil {
		return err
	}
	*l = read
	return nil
}

// checkNodes checks numbers of nodes.
func checkNodes(counts []int) error {
	for _, n := range counts {
		if n < 1 || n > mostNodes {
			return fmt.Errorf("%d nodes, want from 1 to %d", n, mostNodes)
		}
	}
	return nil
}

// layouts returns on how many nodes the job of some PEs runs, one time after the other. No node is without a PE.
func (o *options) layouts(npes int) ([]int, error) {
	counts := o.nodes
	if len(counts) == 0 {
		counts = defaultNodes
	}
	if err := checkNodes(counts); err != nil {
		return nil, fmt.Errorf("option Nodes: %w", err)
	}
	var all []int
	for _, n := range counts {
		if n = min(n, max(npes, 1)); !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	if slices.Max(all) > 1 && !played {
		return nil, errors.New("jobs on several nodes need func TestMain(m *testing.M) { shmemtest.Main(m) }: the test program is started as their daemons")
	}
	return all, nil
}

// emulate has a job of some PEs run on emulated nodes. self is the path of this program.
func emulate(o *launch.Options, count, npes int, self string) error {
	if count == 1 {
		return nil
	}
	hosts, err := plan.Emulated(count, npes)
	if err != nil {
		return err
	}
	job := plan.Job{Given: hosts, Apps: []plan.App{{PEs: npes}}}
	if cyclic {
		job.By = plan.ByNode
	}
	if o.Layout, err = job.Lay(); err != nil {
		return err
	}
	cfg := nodes.Config{
		Agent: nodes.LocalAgent(self), Emulated: true, Radix: daemonRadix, Within: daemonWithin, Lease: daemonLease,
		Addrs: []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})},
	}
	if apart { // the front end listens in the network of the nodes
		cfg.Agent, cfg.Addrs = nodes.NetworkAgent(self), nil
	}
	o.Starter = nodes.Starter{Config: cfg}
	return nil
}
