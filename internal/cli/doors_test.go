package cli

import (
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// door is a socket at which somebody listens.
type door struct {
	network, address string // as net.Dial calls them
	inode            string // by which the kernel tells it from others
}

// doorsOf returns the sockets of TCP and the local ones at which a process listens.
func doorsOf(t *testing.T, pid int) []door {
	t.Helper()
	mine := map[string]bool{}
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	check(t, err)
	for _, file := range files {
		link, _ := os.Readlink(file) // it may be closed
		if inode, ok := strings.CutPrefix(link, "socket:["); ok {
			mine[strings.TrimSuffix(inode, "]")] = true
		}
	}
	return slices.DeleteFunc(doorsNear(t, strconv.Itoa(pid)), func(d door) bool { return !mine[d.inode] })
}

// doorsNear returns all such sockets in the network of a process, which is a number or "self".
func doorsNear(t *testing.T, pid string) (all []door) {
	t.Helper()
	for _, table := range []string{"tcp", "tcp6"} {
		for _, words := range socketTable(t, pid, table, 10) {
			const listens = "0A"
			if words[3] == listens {
				all = append(all, door{"tcp", tcpAddress(t, words[1]), words[9]})
			}
		}
	}
	for _, words := range socketTable(t, pid, "unix", 8) {
		const listens, packets = "00010000", "0005"
		network := "unix"
		if words[4] == packets {
			network = "unixpacket"
		}
		if words[3] == listens {
			all = append(all, door{network, words[7], words[6]})
		}
	}
	return all
}

// socketTable returns the lines of a table of sockets in the network of a process that have some number of words or more.
func socketTable(t *testing.T, pid, name string, atLeast int) (all [][]string) {
	t.Helper()
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%s/net/%s", pid, name)) // empty: the process has ended
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) >= atLeast {
			all = append(all, words)
		}
	}
	return all
}

// tcpAddress returns an address of /proc/net/tcp, in words of four bytes with the lowest first.
func tcpAddress(t *testing.T, text string) string {
	t.Helper()
	host, port, _ := strings.Cut(text, ":")
	ip, err := hex.DecodeString(host)
	check(t, err)
	for word := range slices.Chunk(ip, 4) {
		slices.Reverse(word)
	}
	n, err := strconv.ParseUint(port, 16, 16)
	check(t, err)
	return net.JoinHostPort(net.IP(ip).String(), strconv.FormatUint(n, 10))
}
