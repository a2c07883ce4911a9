package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/goshmem/goshmem/internal/xunix"
)

// The configurations of memberlist. docs/detection.md describes them.
const (
	configLAN   = "lan"
	configTuned = "tuned"
	configAggr  = "aggr"
)

var configs = []string{configLAN, configTuned, configAggr}

// lanPeriod is the probe interval of memberlist's LAN configuration.
const lanPeriod = time.Second

// The kinds of a member's events.
const (
	eventReady  = "ready"  // the member listens at Addr
	eventJoined = "joined" // Member is alive, as far as this member knows
	eventLeft   = "left"   // Member is dead, as far as this member knows
	eventSent   = "sent"   // the answer to a line "count" on standard input: Datagrams have been sent
)

// event is a line that a member prints.
type event struct {
	Event     string `json:"event"`
	Member    string `json:"member"`
	At        int64  `json:"at_ns"` // CLOCK_MONOTONIC of the machine
	Addr      string `json:"addr,omitempty"`
	Datagrams uint64 `json:"datagrams,omitempty"`
}

// countLine is the line on standard input that a member answers by eventSent.
const countLine = "count"

// memberOptions are the flags of a member.
type memberOptions struct {
	name    string
	bind    netip.AddrPort
	join    []string
	config  string
	period  time.Duration
	seconds float64
	log     bool
}

func parseMember(args []string, stderr io.Writer) (o memberOptions, err error) {
	set := flag.NewFlagSet("swimbench member", flag.ContinueOnError)
	set.SetOutput(stderr)
	set.StringVar(&o.name, "name", "", "`name` of the member, which no other member has")
	bind := set.String("bind", "127.0.0.1:0", "loopback `ADDRESS:PORT` to listen at, by UDP and TCP; port 0: any")
	join := set.String("join", "", "`addresses` of members to join, with commas between them; none: a new group")
	set.StringVar(&o.config, "config", configTuned, "configuration of memberlist: "+strings.Join(configs, ", "))
	set.DurationVar(&o.period, "period", 0, "probe interval of tuned and aggr (default 100ms); lan has 1s")
	set.Float64Var(&o.seconds, "seconds", 0, "end after this time; 0: with the standard input only")
	set.BoolVar(&o.log, "log", false, "write memberlist's log to standard error")
	if err := parseFlags(set, args); err != nil {
		return o, err
	}
	if *join != "" {
		o.join = strings.Split(*join, ",")
	}
	if o.bind, err = netip.ParseAddrPort(*bind); err != nil || !o.bind.Addr().IsLoopback() {
		return o, wrong("--bind %q, want a loopback address and a port such as 127.0.0.1:0: members have no secret", *bind)
	}
	if o.name == "" {
		return o, wrong("--name is empty, want a name that no other member has")
	}
	if o.seconds < 0 {
		return o, wrong("--seconds %v, want 0 or more", o.seconds)
	}
	o.period, err = periodOf(o.config, o.period)
	return o, err
}

// periodOf returns the probe interval of a configuration. A period of 0 is the default.
func periodOf(config string, period time.Duration) (time.Duration, error) {
	switch {
	case !slices.Contains(configs, config):
		return 0, wrong("--config %q, want one of %s", config, strings.Join(configs, ", "))
	case config == configLAN && period != 0 && period != lanPeriod:
		return 0, wrong("--period %v, want none with --config lan, which probes every second", period)
	case config == configLAN:
		return lanPeriod, nil
	case period == 0:
		return 100 * time.Millisecond, nil
	case period < time.Millisecond || period > time.Minute:
		return 0, wrong("--period %v, want 1ms to 1m", period)
	}
	return period, nil
}

// memberlist returns memberlist's configuration.
func (o *memberOptions) memberlist() *memberlist.Config {
	c := memberlist.DefaultLANConfig()
	switch d := o.period; o.config {
	case configTuned:
		c.ProbeInterval, c.ProbeTimeout, c.GossipInterval = d, d/2, d/5
	case configAggr:
		c.ProbeInterval, c.ProbeTimeout, c.GossipInterval = d, d/4, d/10
		c.SuspicionMult, c.SuspicionMaxTimeoutMult = 1, 1
	}
	c.Name = o.name
	return c
}

// transport is memberlist's own transport. It counts the datagrams.
type transport struct {
	*memberlist.NetTransport
	sent atomic.Uint64
}

// WriteToAddress implements memberlist.NodeAwareTransport.
func (t *transport) WriteToAddress(b []byte, to memberlist.Address) (time.Time, error) {
	t.sent.Add(1)
	return t.NetTransport.WriteToAddress(b, to)
}

// listen opens the sockets. memberlist takes a free port for TCP and then needs the same one for UDP, so it may have to be
// tried again.
func listen(at netip.AddrPort, logger *log.Logger) (*transport, error) {
	var failed error
	for range 20 {
		t, err := memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{at.Addr().String()}, BindPort: int(at.Port()), Logger: logger,
		})
		if err == nil {
			return &transport{NetTransport: t}, nil
		}
		if failed = err; at.Port() != 0 {
			break
		}
	}
	return nil, fmt.Errorf("listen at %v: %w", at, failed)
}

// printer prints events. A goroutine of its own writes, so that memberlist, which calls with its lock held, does not wait
// for the reader of the output.
type printer struct {
	name   string
	events chan event
	ended  chan struct{}
}

func newPrinter(name string, w io.Writer) *printer {
	p := &printer{name: name, events: make(chan event, 1<<14), ended: make(chan struct{})}
	go p.write(w)
	return p
}

// write writes events until the zero event. Each is written at once if no other one waits.
func (p *printer) write(w io.Writer) {
	defer close(p.ended)
	out := bufio.NewWriter(w)
	enc := json.NewEncoder(out)
	for e := <-p.events; e != (event{}); e = <-p.events {
		_ = enc.Encode(e) // a reader that is gone has closed the standard input as well
		if len(p.events) == 0 {
			_ = out.Flush()
		}
	}
	_ = out.Flush()
}

// print prints an event that happens now.
func (p *printer) print(e event) {
	e.At = int64(xunix.Monotonic())
	p.events <- e
}

// end waits until all events so far are written, or until nobody seems to read them. memberlist may still call the
// printer afterwards, so the channel stays open.
func (p *printer) end() {
	timeout := time.After(time.Second)
	select {
	case p.events <- event{}:
	case <-timeout:
		return
	}
	select {
	case <-p.ended:
	case <-timeout:
	}
}

// NotifyJoin implements memberlist.EventDelegate.
func (p *printer) NotifyJoin(n *memberlist.Node) {
	if n.Name != p.name {
		p.print(event{Event: eventJoined, Member: n.Name})
	}
}

// NotifyLeave implements memberlist.EventDelegate.
func (p *printer) NotifyLeave(n *memberlist.Node) { p.print(event{Event: eventLeft, Member: n.Name}) }

// NotifyUpdate implements memberlist.EventDelegate.
func (p *printer) NotifyUpdate(*memberlist.Node) {}

// runMember runs a member until its standard input or its time ends.
func runMember(args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := parseMember(args, stderr)
	if err != nil {
		return err
	}
	logger := log.New(io.Discard, "", 0)
	if o.log {
		logger = log.New(stderr, o.name+": ", log.LstdFlags|log.Lmicroseconds)
	}
	t, err := listen(o.bind, logger)
	if err != nil {
		return err
	}
	p := newPrinter(o.name, stdout)
	c := o.memberlist()
	c.Logger, c.Transport, c.Events = logger, t, p
	c.BindAddr, c.BindPort = o.bind.Addr().String(), t.GetAutoBindPort()
	c.AdvertiseAddr, c.AdvertisePort = c.BindAddr, c.BindPort
	group, err := memberlist.Create(c)
	if err != nil {
		return errors.Join(err, t.Shutdown())
	}
	p.print(event{Event: eventReady, Member: o.name, Addr: netip.AddrPortFrom(o.bind.Addr(), uint16(c.BindPort)).String()})

	ended := make(chan struct{})
	go func() {
		defer close(ended)
		answer(stdin, p, t)
	}()
	var timeout <-chan time.Time
	if o.seconds > 0 {
		timeout = time.After(time.Duration(o.seconds * float64(time.Second)))
	}
	if err = join(group, o.join, ended); err == nil {
		select {
		case <-ended:
		case <-timeout:
		}
	}
	err = errors.Join(err, group.Shutdown())
	p.end()
	return err
}

// answer answers the lines of standard input until its end.
func answer(stdin io.Reader, p *printer, t *transport) {
	for lines := bufio.NewScanner(stdin); lines.Scan(); {
		if lines.Text() == countLine {
			p.print(event{Event: eventSent, Member: p.name, Datagrams: t.sent.Load()})
		}
	}
}

// join joins a group. A member that does not accept a connection at once may be busy, so it is tried again for some
// seconds.
func join(group *memberlist.Memberlist, addrs []string, ended <-chan struct{}) error {
	if len(addrs) == 0 {
		return nil
	}
	for try := 1; ; try++ {
		n, err := group.Join(addrs)
		if n > 0 {
			return nil
		}
		if try == 20 {
			return fmt.Errorf("join %s: %w", strings.Join(addrs, ", "), err)
		}
		select {
		case <-ended:
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}
