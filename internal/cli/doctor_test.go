package cli

import (
	"bytes"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/internal/netif"
)

// The machine on which the tests run has all that goshmem needs, for any user.
func TestDoctor(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("requires Linux")
	}
	findings := sayJSON[[]finding](t, "doctor", "--json")
	if len(findings) != len(probes) {
		t.Fatalf("%d findings, want %d", len(findings), len(probes))
	}
	for i, f := range findings {
		t.Logf("%+v", f)
		p := probes[i]
		switch {
		case f.Name != p.name || f.Value == "":
			t.Errorf("finding %+v, want one for %s with a value", f, p.name)
		case f.Status == healthOK && f.Hint != "", f.Status != healthOK && f.Hint == "":
			t.Errorf("finding %+v: want a hint if and only if the status is not ok", f)
		case f.Status != healthOK && f.Status != healthNote && f.Status != healthMissing:
			t.Errorf("finding %+v: unknown status", f)
		case p.need && f.Status != healthOK:
			t.Errorf("finding %+v, want ok", f)
		}
	}
}

func TestDoctorTable(t *testing.T) {
	text, err := say(t, "doctor")
	if runtime.GOOS == "linux" && err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if runtime.GOOS != "linux" {
		lines = append(lines, make([]string, len(probes)-1)...)
	}
	for i, p := range probes[:len(lines)] {
		if f := strings.Fields(lines[i]); len(f) > 0 && f[0] != p.name {
			t.Errorf("line %d is %q, want one of %s", i, lines[i], p.name)
		}
	}
}

// The findings on what is needed determine the exit status. Without the right system, doctor tries nothing else.
func TestDiagnose(t *testing.T) {
	yes := func() finding { return fine("1") }
	no := func() finding { return missing(errors.New("cause"), "hint") }
	for _, c := range []struct {
		probes []probe
		tried  int
		names  string
	}{
		{[]probe{{"a", true, yes}, {"b", true, yes}}, 2, ""},
		{[]probe{{"a", true, yes}, {"b", false, no}}, 2, ""},
		{[]probe{{"a", true, yes}, {"b", true, no}, {"c", false, yes}, {"d", true, no}}, 4, "missing b, d"},
		{[]probe{{"a", true, no}, {"b", true, no}}, 1, "missing a"},
	} {
		findings, err := diagnose(c.probes)
		if len(findings) != c.tried {
			t.Errorf("%d findings, want %d", len(findings), c.tried)
		}
		if c.names == "" && err == nil {
			continue
		}
		status, ok := errors.AsType[*statusError](err)
		if !ok || status.status != launch.StatusSetUp || !strings.HasSuffix(err.Error(), c.names) {
			t.Errorf("error is %v, want status %d and %q", err, launch.StatusSetUp, c.names)
		}
	}
}

// On another system doctor prints one line.
func TestOtherSystem(t *testing.T) {
	findings, err := diagnose([]probe{{"system", true, func() finding { return trySystem("plan9") }}, {"memfd", true, tryMemfd}})
	var b bytes.Buffer
	cmd := newDoctor()
	cmd.SetOut(&b)
	if emitErr := emitFindings(cmd, findings); emitErr != nil {
		t.Fatal(emitErr)
	}
	if err == nil || strings.Count(b.String(), "\n") != 1 || !strings.Contains(b.String(), "requires Linux") {
		t.Errorf("doctor says %v and\n%s", err, &b)
	}
}

func TestReadKernelFiles(t *testing.T) {
	const info = "MemTotal:       24651652 kB\nMemFree:        1 kB\nMemAvailable:   100 kB\nHugePages_Total:       7\n"
	for name, want := range map[string]uint64{"MemTotal": 24651652 << 10, "MemAvailable": 100 << 10, "Mem": 0, "Cached": 0} {
		if got := meminfo([]byte(info), name); got != want {
			t.Errorf("%s is %d bytes, want %d", name, got, want)
		}
	}
	for setting, want := range map[string]string{"always [madvise] never\n": "madvise", "[never]": "never", "": "unknown", "[x": "unknown"} {
		if got := chosen([]byte(setting)); got != want {
			t.Errorf("%q means %q, want %q", setting, got, want)
		}
	}
	for status, want := range map[string]string{
		"CapPrm:\t000001ffffffffff\nCapEff:\t0000000000000000\n": "none of the capabilities for it",
		"CapEff:\t000000c000000000\n":                            "CAP_BPF, CAP_PERFMON",
		"CapEff:\t0000000000201000\n":                            "CAP_SYS_ADMIN, CAP_NET_ADMIN",
		"":                                                       "none of the capabilities for it",
	} {
		if got := heldCapabilities([]byte(status)); got != want {
			t.Errorf("%q: %q, want %q", status, got, want)
		}
	}
}

func TestJudgeOpenFiles(t *testing.T) {
	need := openFiles(128)
	if f := checkOpenFiles(need); f.Status != healthOK {
		t.Errorf("with enough files: %+v", f)
	}
	if f := checkOpenFiles(need - 1); f.Status != healthNote || !strings.Contains(f.Hint, "ulimit -n 1088") {
		t.Errorf("with one file too few: %+v", f)
	}
}

func TestProgram(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if f := program("sh", "hint")(); f.Status != healthMissing || f.Hint != "hint" {
		t.Errorf("program that is not in PATH: %+v", f)
	}
}

// The finding says which oshrun a shell runs: this one, Open MPI's, another one, or none.
func TestTryPath(t *testing.T) {
	self, err := os.Executable()
	check(t, err)
	dir := func(name, target string) string {
		d := t.TempDir()
		if target == "" {
			check(t, os.WriteFile(filepath.Join(d, name), []byte("#!/bin/sh\n"), 0o755))
			target = name
		}
		if name != "oshrun" || target != name {
			check(t, os.Symlink(target, filepath.Join(d, "oshrun")))
		}
		return d
	}
	ours, theirs, other, none := dir("x", self), dir("orterun", ""), dir("oshrun", ""), t.TempDir()
	for path, want := range map[string]finding{
		none + ":" + ours + ":" + theirs: {Status: healthOK, Value: "is this one"},
		theirs + ":" + ours:              {Status: healthNote, Value: theirs + "/oshrun of Open MPI comes first"},
		other + ":" + ours:               {Status: healthNote, Value: "another " + other + "/oshrun"},
		none:                             {Status: healthNote, Value: "not in PATH"},
	} {
		got := tryPath(path)
		if got.Status != want.Status || !strings.Contains(got.Value, want.Value) || (got.Hint == "") != (got.Status == healthOK) {
			t.Errorf("PATH=%s: %+v, want %+v", path, got, want)
		}
	}
}

// Without /dev/null most jobs cannot be started, and a regular file in its place keeps what is written.
func TestDoctorNull(t *testing.T) {
	dir := t.TempDir()
	check(t, os.WriteFile(dir+"/file", nil, 0o600))
	for path, want := range map[string]health{os.DevNull: healthOK, dir + "/none": healthMissing, dir + "/file": healthNote} {
		if f := tryNull(path); f.Status != want || (f.Hint == "") != (want == healthOK) {
			t.Errorf("%s: %+v, want %s", path, f, want)
		}
	}
	testenv.Need(t, testenv.Namespaces)
	j := prepare(t, "doctor")
	j.inNamespaces("--mount", "mount -t tmpfs none /dev")
	j.begin()
	j.expect(4, "missing dev_null")
	if said := j.stdout.String(); !strings.Contains(said, "open /dev/null: no such file") {
		t.Errorf("unexpected output:\n%s", said)
	}
}

// Interfaces are described by what is known of them, in the order of their addresses.
func TestLinks(t *testing.T) {
	sys := t.TempDir()
	for name, text := range map[string]string{"eth0/mtu": "1500\n", "eth0/speed": "10000\n", "eth1/mtu": "9000\n", "eth1/speed": "-1\n"} {
		check(t, os.MkdirAll(filepath.Dir(filepath.Join(sys, name)), 0o755))
		check(t, os.WriteFile(filepath.Join(sys, name), []byte(text), 0o600))
	}
	a, b, c := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.1.0.1"), netip.MustParseAddr("fd00::1")
	all := []netif.Interface{{Name: "eth0", Addrs: []netip.Addr{a}}, {Name: "eth1", Addrs: []netip.Addr{b}}, {Name: "eth2", Addrs: []netip.Addr{c}}}
	got := links(all, []netip.Addr{b, a, c, netip.MustParseAddr("10.2.0.1")}, sys)
	if want := []string{"eth1 (10.1.0.1, MTU 9000)", "eth0 (10.0.0.1, MTU 1500, 10000 Mbit/s)", "eth2 (fd00::1)"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A round trip takes some time, and an address that cannot be is an error.
func TestRoundTrip(t *testing.T) {
	if least, err := roundTrip("127.0.0.1:0", 3); err != nil || least <= 0 {
		t.Errorf("%v, error %v", least, err)
	}
	if _, err := roundTrip("127.0.0.1:99999", 1); err == nil {
		t.Error("port 99999 can be listened at")
	}
}
