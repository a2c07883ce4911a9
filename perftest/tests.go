package perftest

import "strings"

// test is one measurement.
type test struct {
	name  string
	title string // in the heading of its table
	about string // in the usage text
	pes   int    // the least number of PEs
	even  bool   // the number of PEs has to be even
	near  bool   // all PEs have to be on one node
	low   int    // smallest message in bytes; 0: no sizes
	high  int    // largest message, unless the user says otherwise
	cols  []column
	run   func(b *bench, t *test) error
}

// Largest messages of tests between PEs and of collectives.
const (
	most         = 4 << 20
	mostTogether = 1 << 20
)

// tests are all tests, in the order of "all".
var tests = []*test{
	{name: "put", title: "Put", about: "put + quiet: latency over sizes", pes: 2, low: 1, high: most, cols: sized(latency), run: (*bench).put},
	{name: "put_nbi", title: "Non-blocking Put", about: "put_nbi + quiet: latency over sizes", pes: 2, low: 1, high: most, cols: sized(latency), run: (*bench).putNBI},
	{name: "get", title: "Get", about: "get: latency over sizes", pes: 2, low: 1, high: most, cols: sized(latency), run: (*bench).get},
	{name: "get_nbi", title: "Non-blocking Get", about: "get_nbi + quiet: latency over sizes", pes: 2, low: 1, high: most, cols: sized(latency), run: (*bench).getNBI},
	{name: "put_bw", title: "Put Bandwidth", about: "windows of put_nbi, then quiet: bandwidth over sizes", pes: 2, low: 1, high: most, cols: sized(bandwidth), run: (*bench).putBW},
	{name: "get_bw", title: "Get Bandwidth", about: "windows of get_nbi, then quiet: bandwidth over sizes", pes: 2, low: 1, high: most, cols: sized(bandwidth), run: (*bench).getBW},
	{name: "mr", title: "Put Message Rate", about: "pairs of PEs, windows of put_nbi, then quiet: messages a second over sizes", pes: 2, even: true, low: 1, high: most, cols: sized(bandwidth, rate), run: (*bench).messageRate},
	{name: "atomics", title: "Atomic Operations", about: "each atomic operation on 8 bytes: latency and rate", pes: 2, cols: []column{operation, millions, latency}, run: (*bench).atomics},
	{name: "pingpong", title: "Ping-Pong", about: "put to a flag and wait_until, half the round trip over sizes", pes: 2, low: 8, high: most, cols: sized(latency), run: (*bench).pingPong},
	{name: "msg_pingpong", near: true, title: "Message Ping-Pong", about: "send and receive between two ranks of package mpi, half the round trip over sizes", pes: 2, low: 1, high: most, cols: sized(latency), run: (*bench).messagePingPong},
	{name: "msg_bw", near: true, title: "Message Bandwidth", about: "windows of sends that do not wait, then an answer: messages a second and bandwidth over sizes", pes: 2, low: 1, high: most, cols: sized(bandwidth, rate), run: (*bench).messageWindows},
	{name: "barrier", title: "Barrier", about: "barrier_all", pes: 1, cols: spread(), run: collective(collectives.barrier)},
	{name: "broadcast", title: "Broadcast", about: "broadcast from PE 0 over sizes", pes: 1, low: 1, high: mostTogether, cols: sized(spread()...), run: collective(collectives.broadcast)},
	{name: "reduce", title: "Reduce", about: "sum of 32-bit floats over sizes", pes: 1, low: 4, high: mostTogether, cols: sized(spread()...), run: collective(collectives.reduce)},
	{name: "fcollect", title: "FCollect", about: "fcollect, sizes of one PE's part", pes: 1, low: 1, high: mostTogether, cols: sized(spread()...), run: collective(collectives.fcollect)},
	{name: "alltoall", title: "Alltoall", about: "alltoall, sizes of one block", pes: 1, low: 1, high: mostTogether, cols: sized(spread()...), run: collective(collectives.alltoall)},
	{name: "collect", title: "Collect", about: "collect of equal parts, sizes of one PE's part", pes: 1, low: 1, high: mostTogether, cols: sized(spread()...), run: collective(collectives.collect)},
	{name: "alltoalls", title: "Alltoalls", about: "alltoalls of every second 32-bit float, sizes of what goes to one PE", pes: 1, low: 4, high: mostTogether, cols: sized(spread()...), run: collective(collectives.alltoallS)},
	{name: "inscan", title: "Inclusive Scan", about: "sum_inscan of 32-bit floats over sizes", pes: 1, low: 4, high: mostTogether, cols: sized(spread()...), run: collective(collectives.inScan)},
	{name: "exscan", title: "Exclusive Scan", about: "sum_exscan of 32-bit floats over sizes", pes: 1, low: 4, high: mostTogether, cols: sized(spread()...), run: collective(collectives.exScan)},
	{name: "agree", near: true, title: "Agreement", about: "agreement of the PEs that live on 64 flags", pes: 1, cols: spread(), run: collective(collectives.agreement)},
}

// findTest returns the test with a name, or nil.
func findTest(name string) *test {
	for _, t := range tests {
		if t.name == name {
			return t
		}
	}
	return nil
}

// testNames lists all names that the command line takes.
func testNames() string {
	var names []string
	for _, t := range tests {
		names = append(names, t.name)
	}
	return strings.Join(append(names, "all"), ", ")
}

// allows reports whether the test runs with a number of PEs.
func (t *test) allows(pes int) bool { return pes >= t.pes && (!t.even || pes%2 == 0) }
