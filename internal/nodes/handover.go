package nodes

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/goshmem/goshmem/internal/control"
)

// Handover is what a daemon reads from its standard input before anything else. It is the only
// place where the job's secret leaves a process: neither an argument nor an environment has it.
//
// It is text, a word and its value in each line, and ends with an empty line. Launch agents may
// give one input to several daemons. So it does not say which node a daemon is, unless the
// agent starts one daemon at a time.
type Handover struct {
	Secret control.Secret
	Node   int              // index of the node; -1: the index of this host's name in Hosts
	Hosts  []string         // if Node is -1
	Root   []netip.AddrPort // where the front end listens
	Stdio  bool             // it does not: standard input and output are the connection with it
	Dial   time.Duration    // for how long the daemon tries to reach the front end
	Lease  time.Duration    // how long the front end may be out of reach
}

// handoverBytes bounds a handover: ten thousand hosts and addresses are less.
const handoverBytes = 1 << 20

// Append appends the handover to b.
func (h *Handover) Append(b []byte) []byte {
	b = fmt.Appendf(b, "%s 1\nsecret %s\nnode %d\n", handoverMagic, strings.TrimSpace(h.Secret.Line()), h.Node)
	for _, host := range h.Hosts {
		b = fmt.Appendf(b, "host %s\n", host)
	}
	for _, a := range h.Root {
		b = fmt.Appendf(b, "root %s\n", a)
	}
	if h.Stdio {
		b = append(b, "control stdio\n"...)
	}
	return fmt.Appendf(b, "dial %s\nlease %s\n\n", h.Dial, h.Lease)
}

const handoverMagic = "goshmem-daemon"

// ReadHandover reads a handover. Errors do not quote what they complain of: it may be the secret.
func ReadHandover(r io.Reader) (h Handover, err error) {
	lines := bufio.NewScanner(io.LimitReader(r, handoverBytes))
	h.Node = -1
	for n := 1; lines.Scan(); n++ {
		word, value, _ := strings.Cut(lines.Text(), " ")
		switch {
		case n == 1:
			if word != handoverMagic || value != "1" {
				return h, fmt.Errorf("line 1 of standard input is not %q: oshrun starts its daemons itself, from the same version", handoverMagic+" 1")
			}
			continue
		case word == "":
			return h, h.check()
		case word == "secret":
			h.Secret, err = control.ParseSecret(value)
		case word == "node":
			if h.Node, err = strconv.Atoi(value); err != nil {
				err = errors.New("want the number of a node")
			}
		case word == "host":
			h.Hosts = append(h.Hosts, value)
		case word == "dial":
			if h.Dial, err = time.ParseDuration(value); err != nil {
				err = errors.New("want a duration")
			}
		case word == "lease":
			if h.Lease, err = time.ParseDuration(value); err != nil {
				err = errors.New("want a duration")
			}
		case word == "control":
			if h.Stdio = value == "stdio"; !h.Stdio {
				err = errors.New("want stdio")
			}
		case word == "root":
			var a netip.AddrPort
			if a, err = netip.ParseAddrPort(value); err != nil {
				err = errors.New("want an address and a port")
			}
			h.Root = append(h.Root, a)
		default:
			err = errors.New("it begins with no word that is known")
		}
		if err != nil {
			return Handover{}, fmt.Errorf("line %d of standard input: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return Handover{}, fmt.Errorf("standard input: %w", err)
	}
	return Handover{}, errors.New("standard input ends before the empty line: oshrun starts its daemons itself")
}

// check says what is missing.
func (h *Handover) check() error {
	switch {
	case h.Secret == control.Secret{}:
		return errors.New("standard input has no secret")
	case len(h.Root) == 0 && !h.Stdio:
		return errors.New("standard input has no address of the front end")
	case h.Dial <= 0:
		return errors.New("standard input does not say for how long to dial the front end")
	case h.Lease <= 0:
		return errors.New("standard input has no lease")
	}
	return nil
}
