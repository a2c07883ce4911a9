package nodes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/goshmem/goshmem/internal/control"
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/xunix"
)

// The network of emulated nodes, in which only they are:
//
//	front end --- holder: bridge, 10.0.0.254 (the front end's listening socket)
//	                |  port0     |  port1
//	              eth0         eth0
//	              daemon 0     daemon 1      each with a network and a host name of its own
//	              10.0.0.1     10.0.0.2
//
// The holder is a process of oshrun with a network namespace of its own. It makes the listening socket there and passes
// it to the front end, gets the handover, starts the daemons and connects them to its bridge. It ends when all daemons
// have ended. The kernel kills the daemons if the holder is killed. Namespaces, bridge and interfaces last as long as
// a process is in them, so nothing is left behind however a process ends.

// networkPrefix has the addresses of the front end and of nodes.
var networkPrefix = netip.MustParsePrefix("10.0.0.254/24")

const (
	bridgeName = "bridge"
	holderFD   = 3       // the holder's connection with the front end, its first extra file
	listening  = "ready" // what the holder sends with the listening socket and one for datagrams

	mostSaid = 4 << 10 // bytes of an error
)

// What the holder tells the front end: a letter, and a text behind it.
const (
	holderAdded   = 'a' // it has started one more daemon
	holderRefused = 'r' // it has not: why
	holderEnded   = 'e' // a daemon has ended: the node, a blank, and how
)

// MostEmulated is the largest number of nodes with networks of their own.
const MostEmulated = 253

// PortOf returns the interface of the bridge behind which a node is.
func PortOf(node int) string { return fmt.Sprintf("port%d", node) }

// AddressOf returns the address of a node.
func AddressOf(node int) netip.Addr { return nodeAddress(node).Addr() }

// FrontEndAddress returns the address of the front end.
func FrontEndAddress() netip.Addr { return networkPrefix.Addr() }

// nodeAddress returns the address of a node, with the length of the network's prefix.
func nodeAddress(node int) netip.Prefix {
	a := networkPrefix.Addr().As4()
	a[3] = byte(1 + node)
	return netip.PrefixFrom(netip.AddrFrom4(a), networkPrefix.Bits())
}

// holderWords start the holder.
var holderWords = []string{daemonWords[0], "--network"}

// NetworkAgent starts the daemons on this machine, each in a network and with a host name of its own.
func NetworkAgent(oshrun string) Agent {
	return Agent{Command: append([]string{oshrun}, holderWords...), All: true, network: &network{}}
}

// network is the front end's side of the holder.
type network struct {
	holder *agentProcess
	conn   *os.File
	probes *net.UDPConn // at the bridge; nil: somebody has taken it
	adding sync.Mutex   // held while the holder starts one more daemon
	silent bool         // it has not answered in time; guarded by adding
	// answers has the answers of the holder when it is to start one more daemon; closed when it says nothing any more.
	answers chan []byte
}

// errSilent is the error of a holder that is there, and does not answer.
var errSilent = errors.New("the holder of the network of emulated nodes does not answer")

// listen listens where daemons find the front end.
func (a Agent) listen(ctx context.Context, cfg control.ListenConfig) (*control.Listener, error) {
	if a.network == nil {
		return control.Listen(cfg)
	}
	socket, err := a.network.start(ctx, a.Command)
	if err != nil {
		return nil, err
	}
	return control.NewListener(cfg, []net.Listener{socket})
}

// start starts the holder and returns its listening socket.
func (n *network) start(ctx context.Context, argv []string) (net.Listener, error) {
	here, there, err := xunix.PacketPair()
	if err != nil {
		return nil, err
	}
	defer there.Close() //nolint:errcheck // the holder has it
	n.conn = here
	user := os.Geteuid() != 0
	for {
		n.holder = newAgentProcess("this machine, with the network of emulated nodes", argv)
		cmd := exec.Command(argv[0], argv[1:]...)
		cmd.ExtraFiles = []*os.File{there}
		cmd.SysProcAttr = xunix.NetworkAttr(user)
		err = n.holder.run(cmd)
		if user || !errors.Is(err, syscall.EPERM) {
			break
		}
		user = true // root without the right to make namespaces
	}
	if err != nil {
		n.conn.Close() //nolint:errcheck // the error below says more
		return nil, noNetwork(err)
	}
	stop := context.AfterFunc(ctx, n.holder.kill)
	defer stop()
	socket, err := n.receiveSocket()
	if err != nil {
		n.conn.Close() //nolint:errcheck // the error below says more
		n.holder.kill()
		<-n.holder.ended
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return socket, nil
}

// addHost has the holder start one more daemon, and returns when it has.
func (n *network) addHost(handover []byte, within time.Duration) (*agentProcess, error) {
	n.adding.Lock()
	defer n.adding.Unlock()
	if n.silent {
		return nil, errSilent
	}
	late := time.NewTimer(within)
	defer late.Stop()
	err := n.conn.SetWriteDeadline(time.Now().Add(within))
	if err == nil {
		err = xunix.SendFDs(n.conn, handover, nil)
	}
	var said []byte
	if err == nil {
		select {
		case said = <-n.answers:
		case <-late.C:
			err = os.ErrDeadlineExceeded
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		n.silent = true // an answer that comes later would be taken for that of the next host
		return nil, fmt.Errorf("%w within %v (--launch-timeout)", errSilent, within)
	}
	if err != nil || len(said) == 0 {
		return nil, errors.Join(errors.New("the holder of the network of emulated nodes has ended"), err)
	}
	if said[0] != holderAdded {
		return nil, errors.New(string(said[1:]))
	}
	return n.holder, nil
}

// hear takes what the holder says, until it has ended.
func (n *network) hear() {
	defer close(n.answers)
	for {
		said, _, err := xunix.RecvFDs(n.conn, mostSaid, 0)
		if err != nil || len(said) == 0 {
			return
		}
		if said[0] != holderEnded {
			n.answers <- said
			continue
		}
		number, how, _ := strings.Cut(string(said[1:]), " ")
		if node, err := strconv.Atoi(number); err == nil {
			n.holder.ends.note(node, errors.New(how))
		}
	}
}

// close ends a holder that has got no handover.
func (n *network) close() {
	if n == nil {
		return
	}
	if n.conn != nil {
		n.conn.Close() //nolint:errcheck // nothing is sent any more
	}
	if n.probes != nil {
		n.probes.Close() //nolint:errcheck // nothing is sent any more
	}
}

// takeProbes returns a socket from which datagrams reach the nodes, once.
func (n *network) takeProbes() (*net.UDPConn, error) {
	c := n.probes
	if n.probes = nil; c == nil {
		return nil, errors.New("the network of emulated nodes has no socket for datagrams left")
	}
	return c, nil
}

// noNetwork returns an error with what helps where namespaces are not allowed.
func noNetwork(err error) error {
	return &daemon.HintError{Err: err, Hint: "--emulate N without netns needs no namespaces; oshrun doctor says what this machine can do"}
}

// receiveSocket returns the holder's listening socket, and keeps the one for datagrams.
func (n *network) receiveSocket() (net.Listener, error) {
	packet, fds, err := xunix.RecvFDs(n.conn, len(listening), 2)
	if err != nil || len(packet) == 0 {
		<-n.holder.ended
		return nil, noNetwork(n.holder.failure())
	}
	if string(packet) != listening || len(fds) != 2 {
		xunix.CloseFDs(fds)
		return nil, fmt.Errorf("holder of the network says %q with %d descriptors, want %q with 2", packet, len(fds), listening)
	}
	f, d := os.NewFile(uintptr(fds[0]), "listener"), os.NewFile(uintptr(fds[1]), "datagrams")
	defer f.Close() //nolint:errcheck // the listener has a copy
	defer d.Close() //nolint:errcheck // the connection has a copy
	conn, err := net.FilePacketConn(d)
	if err != nil {
		return nil, err
	}
	n.probes, _ = conn.(*net.UDPConn) // takeProbes says if it is none
	return net.FileListener(f)
}

// handOver has the holder start the daemons.
func (n *network) handOver(handover []byte) (*agentProcess, error) {
	if err := xunix.SendFDs(n.conn, handover, nil); err != nil {
		n.holder.kill()
		<-n.holder.ended
		return nil, errors.Join(err, n.holder.failure())
	}
	n.answers = make(chan []byte, 1) // one is under way at most, for which nobody may wait any more
	go n.hear()
	return n.holder, nil
}

// HoldNetwork is the work of "oshrun daemon --network": it makes a network, starts the daemons of nodes in it, and returns
// when all of them have ended.
func HoldNetwork() error {
	conn, err := xunix.PacketConn(holderFD)
	if err != nil {
		return err
	}
	defer conn.Close() //nolint:errcheck // nothing is sent any more
	if err := xunix.AddBridge(bridgeName, networkPrefix); err != nil {
		return err
	}
	if err := sendSocket(conn); err != nil {
		return err
	}
	packet, _, err := xunix.RecvFDs(conn, handoverBytes, 0)
	if err != nil || len(packet) == 0 {
		return errors.New("the front end has gone")
	}
	h, err := ReadHandover(bytes.NewReader(packet))
	if err != nil {
		return err
	}
	return runHosts(h, conn)
}

// sendSocket sends the front end a socket that listens at the bridge, and one for datagrams.
func sendSocket(conn *os.File) error {
	l, err := net.ListenTCP("tcp4", &net.TCPAddr{IP: networkPrefix.Addr().AsSlice()})
	if err != nil {
		return err
	}
	defer l.Close() //nolint:errcheck // the front end has a copy
	f, err := l.File()
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // the front end has a copy
	c, err := net.ListenUDP("udp4", &net.UDPAddr{IP: networkPrefix.Addr().AsSlice()})
	if err != nil {
		return err
	}
	defer c.Close() //nolint:errcheck // the front end has a copy
	d, err := c.File()
	if err != nil {
		return err
	}
	defer d.Close() //nolint:errcheck // the front end has a copy
	return xunix.SendFDs(conn, []byte(listening), []int{int(f.Fd()), int(d.Fd())})
}

// runHosts starts the daemons of a handover's hosts, or none of them, and those that are wanted later. It returns when
// all have ended.
func runHosts(h Handover, conn *os.File) error {
	runtime.LockOSThread() // until the end of the process: the kernel kills the daemons when this thread ends
	if err := xunix.DropAmbientRights(); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("path of oshrun: %w", err)
	}
	var daemons []hostDaemon
	for node, host := range h.Hosts {
		var d hostDaemon
		if d, err = startHost(self, host, node, h); err != nil {
			err = fmt.Errorf("%s: %w", host, err)
			break
		}
		daemons = append(daemons, d)
	}
	if err != nil {
		for _, d := range daemons {
			_ = d.Process.Kill() // it may have ended
		}
	}
	more := make(chan []byte)
	if err == nil {
		go receiveHosts(conn, more)
	}
	n := &holder{oshrun: self, conn: conn}
	return errors.Join(err, n.waitForAll(daemons, more))
}

// hostDaemon is the daemon of a host.
type hostDaemon struct {
	*exec.Cmd
	node int
}

// holder is the process that has the network, while its daemons run.
type holder struct {
	oshrun string
	conn   *os.File // to the front end
}

// say tells the front end something, if it is still there.
func (n *holder) say(what byte, text string) {
	_ = xunix.SendFDs(n.conn, append([]byte{what}, text[:min(len(text), mostSaid-1)]...), nil)
}

// receiveHosts passes on handovers of further hosts, until the front end has gone or this process ends.
func receiveHosts(conn *os.File, to chan<- []byte) {
	for {
		packet, _, err := xunix.RecvFDs(conn, handoverBytes, 0)
		if err != nil || len(packet) == 0 {
			return
		}
		to <- packet
	}
}

// startMore starts the daemon of one more host.
func (n *holder) startMore(packet []byte) (d hostDaemon, err error) {
	h, err := ReadHandover(bytes.NewReader(packet))
	if err == nil && len(h.Hosts) != 1 {
		err = fmt.Errorf("handover with %d hosts, want one", len(h.Hosts))
	}
	if err == nil {
		err = checkAddress(h.Node)
	}
	if err != nil {
		return d, err
	}
	if d, err = startHost(n.oshrun, h.Hosts[0], h.Node, h); err != nil {
		err = fmt.Errorf("%s: %w", h.Hosts[0], err)
	}
	return d, err
}

// waitForAll waits for daemons, and starts those that are wanted meanwhile. Each is reaped when it ends: the front end
// removes the files of a killed daemon only if that does not run any more. The front end learns of each end, for a daemon
// may end before it has connected. From the error it learns that there may be files.
func (n *holder) waitForAll(daemons []hostDaemon, more <-chan []byte) error {
	type end struct {
		node int
		err  error
	}
	var errs []error
	ends := make(chan end)
	wait := func(d hostDaemon) { go func() { ends <- end{d.node, d.Wait()} }() }
	for _, d := range daemons {
		wait(d)
	}
	for running := len(daemons); running > 0; {
		select {
		case e := <-ends:
			running--
			errs = append(errs, e.err)
			how := "exit status 0"
			if e.err != nil {
				how = e.err.Error()
			}
			n.say(holderEnded, fmt.Sprintf("%d %s", e.node, how))
		case packet := <-more:
			d, err := n.startMore(packet)
			if err != nil {
				n.say(holderRefused, err.Error())
				continue
			}
			n.say(holderAdded, "")
			running++
			wait(d)
		}
	}
	return errors.Join(errs...)
}

// startHost starts the daemon of a node, which waits for its handover until its host is connected.
func startHost(oshrun, host string, node int, h Handover) (hostDaemon, error) {
	stdin, handover, err := os.Pipe()
	if err != nil {
		return hostDaemon{}, err
	}
	defer handover.Close() //nolint:errcheck // an error of the write says more
	d := exec.Command(oshrun, daemonWords...)
	d.Stdin, d.Stdout, d.Stderr = stdin, os.Stdout, os.Stderr
	d.SysProcAttr = xunix.HostAttr()
	err = d.Start()
	stdin.Close() //nolint:errcheck // the daemon has it
	if err != nil {
		return hostDaemon{}, err
	}
	err = xunix.ConnectHost(d.Process.Pid, host, nodeAddress(node), bridgeName, PortOf(node))
	if err == nil {
		h.Node, h.Hosts = node, nil
		_, err = handover.Write(h.Append(nil))
	}
	if err != nil {
		_ = d.Process.Kill() // it may have ended
		if ended := d.Wait(); errors.Is(err, syscall.ESRCH) || errors.Is(err, syscall.EPIPE) {
			err = fmt.Errorf("its daemon has ended: %w", ended)
		}
		return hostDaemon{}, err
	}
	return hostDaemon{d, node}, nil
}
