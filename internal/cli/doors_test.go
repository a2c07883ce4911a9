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

// door is a socket at which a process listens, as net.Dial calls it.
type door struct{ network, address string }

// doorsOf returns the sockets of TCP and the local ones at which a process listens.
func doorsOf(t *testing.T, pid int) (all []door) {
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
	for _, table := range []string{"tcp", "tcp6"} {
		for _, words := range socketTable(t, pid, table, 10) {
			const listens = "0A"
			if words[3] == listens && mine[words[9]] {
				all = append(all, door{"tcp", tcpAddress(t, words[1])})
			}
		}
	}
	for _, words := range socketTable(t, pid, "unix", 8) {
		const listens, packets = "00010000", "0005"
		if words[3] != listens || !mine[words[6]] {
			continue
		}
		network := "unix"
		if words[4] == packets {
			network = "unixpacket"
		}
		all = append(all, door{network, words[7]})
	}
	return all
}

// socketTable returns the lines of a table of sockets in the network of a process that have some number of words or more.
func socketTable(t *testing.T, pid int, name string, atLeast int) (all [][]string) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/net/%s", pid, name))
	check(t, err)
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
