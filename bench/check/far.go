package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// Bounds of far rows as multiples of C's time. tcpStream requires 0.8 times the speed of C's stream.
const (
	roundTrip = 2.3
	express   = 1.3
	tcpStream = 1 / 0.8
)

// The rows of wire.c.
const (
	tcpPingPong = "far/ping_pong/8"
	tcpBytes    = "far/stream/1048576"
	stores1M    = "far/store_1M/8"
	stores64M   = "far/store_64M/8"
)

// byExpress ends the names of rows of round trips that go by express sockets. The others go through both agents.
const byExpress = "/express"

// nearRow begins the names of rows of two PEs of one node, in a job of several nodes.
const nearRow = "far/near_"

// far is the group of operations between two emulated nodes. C is a process at each end of a connection over loopback, which
// reads and writes blocking, and stores of one process in its own memory. OSHMEM goes over TCP, too: far.c tells UCX.
func far() group {
	g := group{limits: []limit{
		{row: "far/get/8", peer: plainC, theirs: tcpPingPong, factor: roundTrip},
		{row: "far/fetch_add/8", peer: plainC, theirs: tcpPingPong, factor: roundTrip},
		{row: "far/compare_swap/8", peer: plainC, theirs: tcpPingPong, factor: roundTrip},
		{row: "far/put_quiet/8", peer: plainC, theirs: tcpPingPong, factor: roundTrip},
		{row: "far/get/8" + byExpress, peer: plainC, theirs: tcpPingPong, factor: express},
		{row: "far/fetch_add/8" + byExpress, peer: plainC, theirs: tcpPingPong, factor: express},
		{row: "far/compare_swap/8" + byExpress, peer: plainC, theirs: tcpPingPong, factor: express},
		{row: "far/put_1M/8", most: 33.3, peer: plainC, theirs: stores1M},
		{row: "far/put_64M/8", peer: plainC, theirs: stores64M},
		{row: "far/put/1048576", peer: plainC, theirs: tcpBytes, factor: tcpStream},
		{row: nearRow + "p/8", most: 5},
		{row: nearRow + "put/8", most: 5},
		{row: nearRow + "g/8", most: 5},
		{row: nearRow + "get/8", most: 5},
		{row: nearRow + "put_quiet/8", most: 9},
		{row: nearRow + "fetch_add/8"},
	}}
	for _, row := range []string{"get/8", "fetch_add/8", "compare_swap/8", "put_quiet/8", "put_1M/8", "put_64M/8", "put/1048576"} {
		g.limits = append(g.limits, limit{row: "far/" + row, peer: oshmem})
	}
	g.run = func(ctx context.Context, b *bed) error {
		if !b.hasFar() {
			return nil
		}
		isNear := func(l *limit) bool { return strings.HasPrefix(l.row, nearRow) }
		isExpress := func(l *limit) bool { return strings.HasSuffix(l.row, byExpress) }
		var errs []error
		if b.wanted(&g, func(l *limit) bool { return !isNear(l) && !isExpress(l) }) {
			errs = append(errs, b.records(ctx, goshmem, b.oursFar("2", "off", b.rows.String()), ""))
		}
		if b.wanted(&g, isExpress) {
			errs = append(errs, b.records(ctx, goshmem, b.oursFar("2", "on", "^far/(get|fetch_add|compare_swap)/8$"), byExpress))
		}
		if b.wanted(&g, isNear) {
			errs = append(errs, b.records(ctx, goshmem, b.oursFar("4", "on", b.rows.String()), ""))
		}
		return errors.Join(append(errs, b.theirs(ctx, &g, plainC, 1, "wire"), b.theirs(ctx, &g, oshmem, 2, "far"))...)
	}
	return g
}

// hasFar says whether the bed's version measures far rows: an earlier one, of --base, may not.
func (b *bed) hasFar() bool {
	_, err := os.Stat(filepath.Join(b.bench, "cmd", "pe", "far.go"))
	return err == nil
}

// oursFar returns the command that measures goshmem's rows with PEs on two nodes, with express sockets on or off. The kernel
// places the agents, too.
func (b *bed) oursFar(pes, express, rows string) []string {
	return append([]string{"env", "GOSHMEM_EXPRESS=" + express, b.oshrun, "--emulate", "2", "-n", pes}, b.program(rows, "far")...)
}
