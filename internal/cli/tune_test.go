package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/coll/tree"
)

// treesOf runs a job of 4 nodes whose PEs meet in fences and a barrier. It returns how oshrun has chosen the radix, and how
// many nodes have which.
func treesOf(t *testing.T, config string, env []string, args ...string) (by string, radix map[string]int, said string) {
	t.Helper()
	j := prepare(t, append(append([]string{"--emulate", "4", "-n", "4"}, args...), "t-pe", "barrier-ok")...)
	j.cmd.Env = append(append(j.cmd.Env, "GOSHMEM_LOG=debug", "XDG_CONFIG_HOME="+config), env...)
	j.begin()
	status, said := j.ended(testPatience)
	if status != 0 {
		t.Errorf("%q: status %d, want 0:\n%s", args, status, said)
	}
	radix = map[string]int{}
	for _, m := range regexp.MustCompile(`tree of nodes host=node\d radix=(\d+)`).FindAllStringSubmatch(said, -1) {
		radix[m[1]]++
	}
	if m := regexp.MustCompile(`collectives between nodes.* by=(\w+)`).FindStringSubmatch(said); m != nil {
		by = m[1]
	}
	return by, radix, said
}

// All nodes of a job use the radix of --coll-radix, or that of the variable.
func TestCollRadix(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env, args []string
		want      string
	}{
		{nil, []string{"--coll-radix", "2"}, "2"},
		{nil, []string{"--coll-radix", "3"}, "3"},
		{[]string{"GOSHMEM_COLL_RADIX=5"}, nil, "5"},
		{[]string{"GOSHMEM_COLL_RADIX=5"}, []string{"--coll-radix", "3"}, "3"},
	} {
		by, radix, said := treesOf(t, t.TempDir(), c.env, c.args...)
		if by != "option" || len(radix) != 1 || radix[c.want] != 4 {
			t.Errorf("%q %q: by %s, nodes by radix %v, want all 4 with %s:\n%s", c.env, c.args, by, radix, c.want, said)
		}
	}
}

// tuneOf runs oshrun tune with --json.
func tuneOf(t *testing.T, config string, args ...string) (r tuneReport) {
	t.Helper()
	j := prepare(t, append([]string{"tune", "--json"}, args...)...)
	j.cmd.Env = append(j.cmd.Env, "XDG_CONFIG_HOME="+config)
	j.begin()
	j.expect(0)
	dec := json.NewDecoder(strings.NewReader(j.stdout.String()))
	dec.DisallowUnknownFields()
	check(t, dec.Decode(&r))
	return r
}

// What tune measures is stored, and jobs on the same network use it, but not those on another one.
func TestTune(t *testing.T) {
	t.Parallel()
	config := t.TempDir()
	r := tuneOf(t, config, "--emulate", "4")
	if r.Network != "emulated" || r.File != filepath.Join(config, "goshmem", "tune.json") || r.Nodes != 4 || r.Cycles < 1 || r.Overhead < 1 {
		t.Errorf("report %+v", r)
	}
	p := tree.LogP{Latency: r.Latency, Overhead: r.Overhead}
	if trip := 2*p.Latency + 4*p.Overhead; int64(trip) > r.RoundTrip+4 || r.RoundTrip > r.All {
		t.Errorf("L and o make a round trip of %d ns; %d ns were measured to one, %d to all", trip, r.RoundTrip, r.All)
	}
	if len(r.Rows) != 10 || r.Rows[0].Nodes != 2 || r.Rows[9].Nodes != 1024 {
		t.Errorf("rows %+v, want those of 2, 4 to 1024 nodes", r.Rows)
	}
	for _, row := range r.Rows {
		if k, ns, err := p.BestKnomial(row.Nodes, tree.MostRadix); err != nil || k != row.Radix || ns != row.Broadcast || ns > row.Default {
			t.Errorf("row %+v, want k = %d with %d ns, %v", row, k, ns, err)
		}
	}
	want, _, err := p.BestKnomial(4, tree.MostRadix)
	check(t, err)
	by, radix, said := treesOf(t, config, nil)
	if by != "tune" || radix[fmt.Sprint(want)] != 4 || !strings.Contains(said, fmt.Sprintf("latency_ns=%d overhead_ns=%d", r.Latency, r.Overhead)) {
		t.Errorf("by %s, nodes by radix %v, want all 4 with %d by what is stored:\n%s", by, radix, want, said)
	}
	if by, _, said := treesOf(t, config, nil, "--control", "stdio"); by == "tune" {
		t.Errorf("another network uses what is stored:\n%s", said)
	}
	// Another network gets an entry of its own.
	if other := tuneOf(t, config, "--emulate", "2", "--control", "stdio"); other.Network != "emulated stdio" {
		t.Errorf("network %q, want emulated stdio", other.Network)
	}
	f, err := readTunedFile(r.File)
	if err != nil || len(f.Networks) != 2 || f.Networks["emulated"].Latency != r.Latency || f.Networks["emulated"].Overhead != r.Overhead {
		t.Errorf("file %+v, %v, want 2 networks", f, err)
	}
	if left, err := os.ReadDir(filepath.Dir(r.File)); err != nil || len(left) != 1 {
		t.Errorf("files %v, %v, want tune.json alone", left, err)
	}
}

// With --dry-run nothing is stored. The table has the figures.
func TestTuneDry(t *testing.T) {
	t.Parallel()
	config := t.TempDir()
	j := prepare(t, "tune", "--emulate", "2", "--dry-run")
	j.cmd.Env = append(j.cmd.Env, "XDG_CONFIG_HOME="+config)
	j.begin()
	j.expect(0)
	table := j.stdout.String()
	if !regexp.MustCompile(`(?m)^emulated: 2 nodes, each asked \d+ times; .*\nL = [\d.]+ µs, o = [\d.]+ µs\n\nNODES +BEST K +BROADCAST, µs +WITH K = 4, µs\n2 +2 `).MatchString(table) || strings.Contains(table, "stored") {
		t.Errorf("table:\n%s", table)
	}
	if left, err := os.ReadDir(config); err != nil || len(left) > 0 {
		t.Errorf("%v is stored, %v", left, err)
	}
}

// A file that nobody can use fails no job, and tune does not write over it.
func TestTunedFileIsSpoiled(t *testing.T) {
	t.Parallel()
	config := t.TempDir()
	name := filepath.Join(config, "goshmem", "tune.json")
	check(t, os.Mkdir(filepath.Dir(name), 0o700))
	check(t, os.WriteFile(name, []byte("{"), 0o600))
	if by, _, said := treesOf(t, config, nil); by == "tune" || !strings.Contains(said, "what oshrun tune has stored cannot be used") || !strings.Contains(said, name) {
		t.Errorf("by %s, want a notice that names the file:\n%s", by, said)
	}
	j := prepare(t, "tune", "--emulate", "2")
	j.cmd.Env = append(j.cmd.Env, "XDG_CONFIG_HOME="+config)
	j.begin()
	j.expect(1, "tune: L and o are not stored", name)
	if text, err := os.ReadFile(name); err != nil || string(text) != "{" {
		t.Errorf("the file is %q, %v, want it as it was", text, err)
	}
}

// Each network of nodes has a name of its own.
func TestNetworkName(t *testing.T) {
	for want, f := range map[string]nodeFlags{
		"hosts":          {control: controlTCP},
		"hosts ib0":      {network: "ib0", control: controlTCP},
		"hosts stdio":    {control: controlStdio},
		"emulated":       {emulate: "4"},
		"emulated:netns": {emulate: "4:netns"},
		"emulated eth0":  {launch: launchLocal, network: "eth0"},
	} {
		if got := f.networkName(); got != want {
			t.Errorf("%+v: network %q, want %q", f, got, want)
		}
	}
}

// Only what tune can have written is read.
func TestReadTunedFile(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "tune.json")
	if f, err := readTunedFile(name); err != nil || len(f.Networks) > 0 {
		t.Errorf("without a file: %+v, %v", f, err)
	}
	for text, words := range map[string]string{
		`{"networks":{"hosts":{"latency_ns":5,"overhead_ns":1}}}`: "",
		`{}`: "",
		`{"networks":{"hosts":{"latency_ns":-1,"overhead_ns":1}}}`:           `"hosts": latency_ns -1`,
		`{"networks":{"hosts":{"latency_ns":5,"overhead_ns":0}}}`:            "overhead_ns 0",
		`{"networks":{"hosts":{"latency_ns":5,"overhead_ns":999999999999}}}`: "want 0 and 1 to 60000000000",
		`{"networks":7}`:                    "want what oshrun tune has written",
		``:                                  "want what oshrun tune has written",
		strings.Repeat(" ", maxTunedFile+1): "is longer than 1048576 bytes",
	} {
		check(t, os.WriteFile(name, []byte(text), 0o600))
		f, err := readTunedFile(name)
		if words == "" && err != nil || words != "" && (err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), name)) {
			t.Errorf("%.60q: %+v, %v, want an error with %q", text, f, err, words)
		}
	}
}

// A start of daemons that fails says which and why. A signal ends tune.
func TestTuneFails(t *testing.T) {
	t.Parallel()
	config := t.TempDir()
	j := prepare(t, "tune", "--host", "a,b", "--interface", "127.0.0.0/8", "--launch", "exec:sh -c 'exit 9'")
	j.cmd.Env = append(j.cmd.Env, "XDG_CONFIG_HOME="+config)
	j.begin()
	j.expect(4, "tune: daemon on ", "exit status 9")
	fifo := filepath.Join(t.TempDir(), "started")
	check(t, syscall.Mkfifo(fifo, 0o600))
	started, err := os.OpenFile(fifo, os.O_RDWR, 0)
	check(t, err)
	defer started.Close()
	check(t, started.SetReadDeadline(time.Now().Add(testPatience)))
	j = prepare(t, "tune", "--host", "a,b", "--interface", "127.0.0.0/8", "--launch", "exec:sh -c 'echo >"+fifo+"; exec sleep 1000'")
	j.cmd.Env = append(j.cmd.Env, "XDG_CONFIG_HOME="+config)
	j.begin()
	if _, err := started.Read(make([]byte, 1)); err != nil {
		t.Fatalf("no daemon is started: %v", err)
	}
	check(t, j.cmd.Process.Signal(os.Interrupt))
	j.expect(130, "interrupted by signal 2")
	if left, err := os.ReadDir(config); err != nil || len(left) > 0 {
		t.Errorf("%v is stored, %v", left, err)
	}
}
