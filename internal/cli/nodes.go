package cli

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/goshmem/goshmem/coll/tree"
	"github.com/goshmem/goshmem/detector/responder"
	"github.com/goshmem/goshmem/internal/agent"
	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/envvar"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/netif"
	"github.com/goshmem/goshmem/internal/nodes"
	"github.com/goshmem/goshmem/internal/plan"
)

// mostEmulated bounds the nodes that one machine can stand for: each is a process of its own, with
// some 15 MB of memory.
const mostEmulated = 64

// launchLocal is the value of --launch that starts all daemons on this machine.
const launchLocal = "local"

// launchWants says what --launch takes.
const launchWants = `ssh, srun, local or exec:COMMAND, such as "exec:ip netns exec {host}"`

// networks, after the number of emulated nodes, gives each a network of its own.
const networks = "netns"

// nodeFlags are the flags of jobs of several nodes.
type nodeFlags struct {
	emulate       string
	launch        string
	launchTimeout string
	launchRadix   int
	launchFlat    bool
	prefix        string
	network       string
	data          string
	portRange     string
	lease         string
	control       string
	collRadix     string
	heartbeat     heartbeatFlags
}

// What --control takes.
const (
	controlTCP   = "tcp"
	controlStdio = "stdio"
)

func (f *nodeFlags) registerNodes(fs *pflag.FlagSet) {
	fs.StringVar(&f.emulate, "emulate", "", "let this machine stand for `N` nodes, node0 and so on: a daemon for each, as on a cluster;\nN:netns: each with a network and a host name of its own")
	fs.StringVar(&f.launch, "launch", "", "how daemons are started on other hosts: `ssh`; srun, the default in a job of Slurm;\nlocal: on this machine, which stands for all hosts; exec:COMMAND, to which the daemon's\ncommand is appended, and in which {host} is the host; quotes are as in a shell")
	fs.StringVar(&f.launchTimeout, "launch-timeout", "30", "how long a daemon may take to report itself: seconds, or 90s, 5m")
	fs.IntVar(&f.launchRadix, "launch-radix", defaultRadix, "how many daemons oshrun starts by itself, and each daemon of others: `N`; not with srun, which starts all")
	fs.BoolVar(&f.launchFlat, "launch-flat", false, "let oshrun start all daemons by itself: where nodes have no ssh to each other")
	fs.StringVar(&f.prefix, "prefix", "", "where oshrun is on other hosts: `DIR`/bin/oshrun; by default where it is here")
	fs.StringVar(&f.network, "interface", "", "let daemons use this `network` alone: eth0, or 10.0.0.0/8")
	fs.StringVar(&f.data, "data-interface", "", "let PEs reach PEs on other hosts by this `network` alone: ib0, or 10.0.0.0/8;\nsets variables of Open MPI, UCX and libfabric that are not set")
	fs.StringVar(&f.portRange, "port-range", "", "have oshrun and the agents of the nodes listen at ports of `LOW-HIGH` alone")
	fs.StringVar(&f.control, "control", controlTCP, "how daemons talk to oshrun: `tcp`; stdio: by standard input and output of the command that starts them,\nfor hosts that cannot reach this machine; not with srun or --emulate N:netns")
	fs.StringVar(&f.lease, "lease", "10", "how long a node may be out of reach before it is lost: seconds, or 30s, 1m")
}

func (f *nodeFlags) registerRadix(fs *pflag.FlagSet) {
	fs.StringVar(&f.collRadix, "coll-radix", "", "let fences and collectives between nodes go along trees of nodes of this radix: `K` from 2 to 64.\nOtherwise GOSHMEM_COLL_RADIX, or the best by oshrun tune, or by what the start measures")
}

// radixGiven returns the radix that the user wants; 0: none is given.
func (f *nodeFlags) radixGiven() (int, error) {
	if f.collRadix == "" {
		k, err := envvar.Radix(os.LookupEnv)
		if err != nil {
			return 0, usagef("oshrun help environment", "%w", err)
		}
		return k, nil
	}
	k, err := envvar.ParseRadix(f.collRadix)
	if err != nil {
		return 0, usagef("--coll-radix 4; oshrun tune shows which is the best", "--coll-radix: %w", err)
	}
	return k, nil
}

// defaultRadix is the default of --launch-radix: two levels have a thousand nodes. Tests have more levels of fewer.
var defaultRadix = 32

// emulation returns the nodes that this machine stands for, with slots for all PEs. Count returns
// how many PEs there are on a number of nodes.
func (f *nodeFlags) emulation(count func(nodes int) int) (*plan.Allocation, error) {
	number, how, apart := strings.Cut(f.emulate, ":")
	nodes, err := strconv.Atoi(number)
	if err != nil || nodes < 1 || nodes > mostEmulated || apart && how != networks {
		return nil, usagef("--emulate 4, or --emulate 4:netns", "--emulate: %q, want a number of nodes from 1 to %d, perhaps with :%s", f.emulate, mostEmulated, networks)
	}
	n := count(nodes)
	a, err := plan.Emulated(nodes, n)
	if err != nil {
		return nil, usagef("fewer PEs", "--emulate: %w", err)
	}
	return a, nil
}

// setStarter says how the daemons of the job's nodes are started.
func (f *nodeFlags) setStarter(o *launch.Options) (err error) {
	emulated := f.isEmulated()
	cfg := nodes.Config{Emulated: emulated, Tuned: func() (tree.LogP, bool, error) { return readTuned(f.networkName()) }}
	cfg.Within, err = duration("--launch-timeout", f.launchTimeout)
	if err == nil {
		cfg.Lease, err = f.leaseTime()
	}
	if err == nil {
		cfg.Ports, err = f.ports()
	}
	if err == nil {
		cfg.Agent, err = f.agent()
	}
	if err == nil {
		cfg.CollRadix, err = f.radixGiven()
	}
	if err == nil {
		err = f.heartbeat.set(&cfg)
	}
	if err == nil && cfg.Agent.Logins {
		cfg.Here, err = agentHere()
	}
	if err == nil {
		cfg.Radix, err = f.radix()
	}
	if err == nil {
		cfg.Stdio, err = f.isStdio(&cfg.Agent)
	}
	if err != nil {
		return err
	}
	if cfg.Stdio { // there are no addresses, and only oshrun has the standard input and output of all agents
		cfg.Radix = 0
		o.Starter = nodes.Starter{Config: cfg}
		return nil
	}
	if f.isApart() { // the network has one address of the front end
		o.Starter = nodes.Starter{Config: cfg}
		return nil
	}
	if cfg.Addrs, err = control.LocalAddresses(f.network, emulated && f.network == ""); err != nil {
		if f.network == "" {
			return usagef("--emulate 2 takes this machine alone", "addresses at which daemons find this machine: %w", err)
		}
		return usagef("--interface eth0, or 10.0.0.0/8", "--interface: %w", err)
	}
	if emulated && f.network == "" {
		cfg.Addrs = cfg.Addrs[:1] // daemons that are busy would try both, which makes them busier
	}
	o.Starter = nodes.Starter{Config: cfg}
	return nil
}

// isStdio says whether daemons talk to oshrun by the standard input and output of their launch agents.
func (f *nodeFlags) isStdio(agent *nodes.Agent) (bool, error) {
	switch f.control {
	case controlTCP:
		return false, nil
	case controlStdio:
	default:
		return false, usagef("--control stdio", "--control: %q, want %s or %s", f.control, controlTCP, controlStdio)
	}
	if agent.All {
		what, instead := "srun", "--launch ssh, if hosts take it; otherwise their nodes have to reach this machine by TCP"
		if f.isApart() {
			what, instead = "--emulate "+f.emulate, "--emulate 2 --control stdio"
		}
		return false, usagef(instead, "--control stdio: %s starts all daemons by one process, want one for each", what)
	}
	if f.network != "" {
		return false, usagef("leave out --interface", "--interface: %q, want nothing with --control stdio, which listens nowhere", f.network)
	}
	return true, nil
}

// setData says by which network PEs reach those of other hosts, and at which ports agents listen. Each host looks for its
// interface itself.
func (f *nodeFlags) setData(o *launch.Options) error {
	ports, err := f.ports()
	if err != nil {
		return err
	}
	o.DataPorts = [2]uint16{ports.Low, ports.High}
	if f.data == "" {
		return nil
	}
	if _, err := netif.ParseFilter(f.data); err != nil {
		return usagef("--data-interface ib0, or 10.0.0.0/8", "--data-interface: %w", err)
	}
	o.DataNetwork = f.data
	return nil
}

// setSpare lets a job whose PEs are all on this machine spawn on hosts without PEs. A wrong option is an error. If this
// machine cannot start daemons there, the job spawns on this machine alone: most jobs spawn nothing, and are not to fail
// for that.
func (f *nodeFlags) setSpare(o *launch.Options) error {
	err := f.setStarter(o)
	if _, wrong := errors.AsType[*usageError](err); wrong {
		return err
	}
	if err != nil {
		o.Starter = nil
	}
	o.Exported = nodes.Exported
	return nil
}

// radix returns how many daemons each daemon starts; 0: none.
func (f *nodeFlags) radix() (int, error) {
	switch {
	case f.launchRadix < 1:
		return 0, usagef("--launch-flat", "--launch-radix: %d, want 1 or more", f.launchRadix)
	case f.launchFlat:
		return 0, nil
	}
	return f.launchRadix, nil
}

// leastLease bounds --lease: a daemon that is busy for a moment must not be taken for lost.
const leastLease = time.Second

// leaseTime returns how long a node may be out of reach.
func (f *nodeFlags) leaseTime() (time.Duration, error) {
	d, err := duration("--lease", f.lease)
	if err == nil && d < leastLease {
		err = usagef("--lease 10", "--lease: %v, want at least %v: a node that is busy for a moment must not be lost", d, leastLease)
	}
	return d, err
}

// isEmulated says whether this machine stands for all hosts.
func (f *nodeFlags) isEmulated() bool { return f.emulate != "" || f.launch == launchLocal }

// isApart says whether emulated nodes have networks of their own.
func (f *nodeFlags) isApart() bool { return strings.HasSuffix(f.emulate, ":"+networks) }

// apart returns what starts daemons in networks of their own.
func (f *nodeFlags) apart(oshrun string) (a nodes.Agent, err error) {
	for _, x := range []struct{ flag, value string }{{"launch", f.launch}, {"prefix", f.prefix}, {"interface", f.network}, {"port-range", f.portRange}} {
		if x.value != "" {
			return a, usagef("leave out --"+x.flag, "--%s: %q, want nothing with --emulate %s, which starts daemons itself, in a network of its own", x.flag, x.value, f.emulate)
		}
	}
	return nodes.NetworkAgent(oshrun), nil
}

// ports returns the ports that may be listened at.
func (f *nodeFlags) ports() (p control.PortRange, err error) {
	if f.portRange == "" {
		return p, nil
	}
	if p, err = control.ParsePortRange(f.portRange); err != nil {
		return p, usagef("--port-range 20000-20999", "--port-range: %w", err)
	}
	return p, nil
}

// agent returns what starts daemons.
func (f *nodeFlags) agent() (a nodes.Agent, err error) {
	oshrun, err := f.oshrunElsewhere()
	if err != nil {
		return a, err
	}
	if f.isApart() {
		return f.apart(oshrun)
	}
	if command, isExec := strings.CutPrefix(f.launch, "exec:"); isExec {
		words, err := splitWords(command)
		if err == nil && len(words) == 0 {
			err = errors.New("no command")
		}
		if err != nil {
			return a, usagef(`--launch "exec:ip netns exec {host}"`, "--launch: %q: %w, want exec: and a command, with quotes in pairs", f.launch, err)
		}
		return nodes.ExecAgent(words, oshrun), nil
	}
	how := f.launch
	if how == "" {
		switch {
		case f.emulate != "":
			how = launchLocal
		case plan.InSlurm(os.LookupEnv):
			how = "srun"
		default:
			how = "ssh"
		}
	}
	switch how {
	case launchLocal:
		return nodes.LocalAgent(oshrun), nil
	case "ssh":
		return nodes.SSHAgent(oshrun), nil
	case "srun":
		return nodes.SrunAgent(oshrun), nil
	}
	return a, usagef("--launch ssh", "--launch: %q, want %s", f.launch, launchWants)
}

// agentHere returns what starts the daemon of this machine where those of other hosts take a login: this machine alone
// then needs no sshd.
func agentHere() (a nodes.Agent, err error) {
	self, err := os.Executable()
	if err != nil {
		return a, fmt.Errorf("path of oshrun: %w", err)
	}
	return nodes.LocalAgent(self), nil
}

// oshrunElsewhere returns the path of oshrun on the nodes.
func (f *nodeFlags) oshrunElsewhere() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("path of oshrun: %w", err)
	}
	if f.prefix == "" {
		return self, nil
	}
	if !strings.HasPrefix(f.prefix, "/") {
		return "", usagef("--prefix /opt/goshmem", "--prefix: %q, want an absolute path", f.prefix)
	}
	return strings.TrimSuffix(f.prefix, "/") + "/bin/oshrun", nil
}

// daemonFailed makes an error of a daemon one without a hint: who sees it is the front end, which has its own.
func daemonFailed(err error) error {
	if err == nil {
		return nil
	}
	return &statusError{status: launch.StatusSetUp, err: err}
}

// newAgent returns the command that carries one-sided operations between nodes for the daemon that starts it.
func newAgent() *cobra.Command {
	return &cobra.Command{
		Use:    "agent",
		Short:  "carry one-sided operations to other nodes for the daemon that starts this command",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			mortal := outlivePipes() // its messages go by the launch agent of the node, which may have ended
			defer mortal()
			return daemonFailed(agent.RunProcess())
		},
	}
}

// newHeartbeat returns the command that answers for a node when others ask whether it lives, and outlives its daemon.
func newHeartbeat() *cobra.Command {
	return &cobra.Command{
		Use:    heartbeat,
		Short:  "answer for the daemon that starts this command when other nodes ask whether it lives",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE:   func(*cobra.Command, []string) error { return daemonFailed(responder.RunKeeper()) },
	}
}

// heartbeat is the name of that command.
const heartbeat = "heartbeat"

// newDaemon returns the command that runs a node of a job for another oshrun, which starts it.
func newDaemon() *cobra.Command {
	var stdin, network bool
	cmd := &cobra.Command{
		Use:    "daemon --stdin",
		Short:  "run a node of a job for the oshrun that starts this command",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			mortal := outlivePipes() // the launch agent, which reads its messages, may end before it
			defer mortal()
			if network {
				return daemonFailed(nodes.HoldNetwork())
			}
			if !stdin {
				return usagef("oshrun --emulate 2 -n 4 ./program", "daemon: oshrun starts its daemons itself")
			}
			newLogger, err := logger(false, false)
			if err != nil {
				return err
			}
			log := zerolog.Nop()
			if newLogger != nil {
				log = newLogger(cmd.ErrOrStderr())
			}
			return daemonFailed(nodes.RunDaemon(cmd.Context(), cmd.InOrStdin(), log))
		},
	}
	cmd.Flags().BoolVar(&stdin, "stdin", false, "read from standard input where the front end is")
	cmd.Flags().BoolVar(&network, "network", false, "make a network for emulated nodes, and run their daemons in it")
	return cmd
}
