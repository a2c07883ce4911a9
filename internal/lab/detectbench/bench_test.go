package detectbench

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/lab/labtest"
	"github.com/goshmem/goshmem/internal/lab/rerun"
)

func options() Options {
	return Options{Samples: 3, PEs: 3, Watchdog: Best, Size: 1 << 20, Tiers: []string{"bpf", "pidfd", "sigchld"}, Cases: []string{"small", "exit"}}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	labtest.CheckRefuses(t, options, (*Options).Check, map[string]func(o *Options){
		"--samples: 0, want 1 to":             func(o *Options) { o.Samples = 0 },
		"-n: 1, want 2 to":                    func(o *Options) { o.PEs = 1 },
		"-n: 1025":                            func(o *Options) { o.PEs = 1025 },
		`--watchdog: "off", want best`:        func(o *Options) { o.Watchdog = "off" },
		"--size: 0":                           func(o *Options) { o.Size = 0 },
		`--cases: "fire", want some of small`: func(o *Options) { o.Cases = []string{"small", "fire"} },
	})
}

// machine is a machine that lacks some tiers.
type machine struct {
	lacks []string
	calls []string
	err   error
}

func (m *machine) runTrial(_ context.Context, c Case, tier string) (*trial, error) {
	m.calls = append(m.calls, c.Name+" "+tier)
	if slices.Contains(m.lacks, tier) {
		return nil, &rerun.FailedError{Command: "oshrun", Status: 4, Said: "oshrun: " + tier + " takes CAP_BPF\nhint: none\n"}
	}
	if m.err != nil && len(m.calls) > 2 {
		return nil, m.err
	}
	return &trial{victim: 2, injected: 1, seen: []*seen{saw(us, us, us), saw(us, us, us), nil}}, nil
}

func (m *machine) measure(t *testing.T, o Options) (*Report, error) {
	t.Helper()
	b := &bench{Options: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	return b.measure(t.Context(), m.runTrial)
}

// TestTiers: Measure takes the best tier that works, the tier that is asked for, or all that work.
func TestTiers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		watchdog string
		lacks    []string
		want     string // tiers with samples
		fails    string
	}{
		{Best, nil, "bpf", ""},
		{Best, []string{"bpf"}, "pidfd", ""},
		{Best, []string{"bpf", "pidfd", "sigchld"}, "", "no tier"},
		{"sigchld", []string{"bpf"}, "sigchld", ""},
		{"bpf", []string{"bpf"}, "", "takes CAP_BPF"},
		{All, []string{"bpf"}, "pidfd sigchld", ""},
		{All, nil, "bpf pidfd sigchld", ""},
	} {
		o := options()
		o.Watchdog = c.watchdog
		m := &machine{lacks: c.lacks}
		r, err := m.measure(t, o)
		if c.fails != "" {
			if err == nil || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s without %v: %v, want %q", c.watchdog, c.lacks, err, c.fails)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s without %v: %v", c.watchdog, c.lacks, err)
			continue
		}
		var found, notes []string
		for _, res := range r.Cases {
			switch {
			case res.NotHere != "":
				notes = append(notes, res.Tier+": "+res.NotHere)
			case res.Samples != 3 || res.Stored == nil:
				t.Errorf("%s, %s: %d samples, want 3", res.Case, res.Tier, res.Samples)
			case res.Case == "small":
				found = append(found, res.Tier)
			}
		}
		if got := strings.Join(found, " "); got != c.want {
			t.Errorf("%s without %v: %q, want %q", c.watchdog, c.lacks, got, c.want)
		}
		if c.watchdog == All && c.lacks != nil && strings.Join(notes, "") != "bpf: bpf takes CAP_BPF" {
			t.Errorf("all without %v: notes %q, want that bpf takes CAP_BPF", c.lacks, notes)
		}
	}
}

// TestOrder: cases and tiers are shuffled, in the same order for the same seed.
func TestOrder(t *testing.T) {
	t.Parallel()
	labtest.SeedOrders(t, func(seed uint64) []string {
		o := options()
		o.Seed, o.Samples, o.Watchdog = seed, 10, All
		m := &machine{}
		if _, err := m.measure(t, o); err != nil {
			t.Fatal(err)
		}
		return m.calls
	})
}

// TestMeasureFails: measure reports an error of a job, notes too little memory, and ends with its context.
func TestMeasureFails(t *testing.T) {
	t.Parallel()
	bad := errors.New("no such job")
	if _, err := (&machine{err: bad}).measure(t, options()); !errors.Is(err, bad) || !strings.Contains(err.Error(), "tier bpf") {
		t.Errorf("job that fails: %v, want that error and its tier", err)
	}
	o := options()
	o.Cases, o.Size, o.Available = []string{"heap", "small"}, 4<<30, 4<<30
	r, err := (&machine{}).measure(t, o)
	if err != nil || r.Cases[0].Samples != 0 || !strings.Contains(r.Cases[0].NotHere, "4096 MiB of memory are available") || r.Cases[1].Samples != 3 {
		t.Errorf("too little memory: %+v, %v", r, err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(bad)
	b := &bench{Options: options(), rng: rand.New(rand.NewPCG(1, 0))}
	if _, err := b.measure(ctx, (&machine{}).runTrial); !errors.Is(err, bad) {
		t.Errorf("interrupted: %v", err)
	}
}

func TestMainRefuses(t *testing.T) {
	t.Parallel()
	labtest.MainRefuses(t, Main, map[string][][]string{
		"part of oshrun detect-bench": {nil, {"small"}},
		`parsing "x"`:                 {{"small", "x"}},
	})
}

// TestWords: only messages after listen count, and only the first that has all words.
func TestWords(t *testing.T) {
	t.Parallel()
	w := &mentions{heard: make(chan struct{})}
	write := func(text string) {
		if n, err := w.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("Write returned %d, %v", n, err)
		}
	}
	write("PE 1 (pid 12) has begun\n")
	w.listen("(pid 12)")
	write("PE 1 (pid 123) is stopped\nPE 1 (pid ")
	if w.at() != 0 {
		t.Error("a message on another process counts")
	}
	write("12) is stopped\n")
	<-w.heard
	at := w.at()
	write("PE 1 (pid 12) runs\n")
	if at == 0 || w.at() != at {
		t.Errorf("heard at %v, then at %v, want one time", at, w.at())
	}
	if !w.contains("PE 1 (pid 12) runs") || w.contains("has begun") {
		t.Error("want the output since listen, and all of it")
	}
	w = &mentions{heard: make(chan struct{})}
	w.listen("node node1 is lost ", "node node3 is lost ")
	if write("node node3 is lost with PE 3\n"); w.at() != 0 {
		t.Error("one of two messages counts as both")
	}
	if write("node node1 is lost with PE 1\n"); w.at() == 0 {
		t.Error("both messages do not count")
	}
	w = &mentions{heard: make(chan struct{})}
	w.listen() // nothing fails: a message that a node is lost is false
	if write("node node2 is lost with PE 2\n"); !w.contains("node node2 is lost ") || w.at() != 0 {
		t.Errorf("%q heard at %v, want the output and no time", w.text.String(), w.at())
	}
}

// tree writes files below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o777), os.WriteFile(file, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestLimit: errors say what is missing, and no group is left behind.
func TestLimit(t *testing.T) {
	t.Parallel()
	const v2 = "30 23 0:26 / /cg rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"
	const v1 = "31 23 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	for _, c := range []struct {
		name, want string
		files      map[string]string
	}{
		{"none", "the controller memory is not mounted", map[string]string{"proc/self/mountinfo": "", "proc/self/cgroup": "0::/\n"}},
		{"version 1, no directory", "no such file", map[string]string{"proc/self/mountinfo": v1, "proc/self/cgroup": "4:memory:/a\n"}},
		{"version 1, no such files in the new group", "memory.limit_in_bytes", map[string]string{
			"proc/self/mountinfo": v2 + v1, "proc/self/cgroup": "4:cpu,memory:/a\n0::/\n", "sys/fs/cgroup/memory/a/tasks": "",
		}},
		{"no group", "in no control group", map[string]string{"proc/self/mountinfo": v1 + v2, "proc/self/cgroup": "4:cpu:/a\n"}},
		{"memory is not counted", "no group above", map[string]string{
			"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/a/b\n", "cg/a/b/cgroup.subtree_control": "cpu io\n", "cg/cgroup.subtree_control": "pids\n",
		}},
		{"no such files in the new group", "memory.max", map[string]string{
			"proc/self/mountinfo": v2, "proc/self/cgroup": "0::/a/b\n", "cg/a/cgroup.subtree_control": "cpu memory\n",
		}},
	} {
		root := tree(t, c.files)
		if _, err := newLimit(root); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		_ = filepath.WalkDir(root, func(name string, _ fs.DirEntry, err error) error {
			if strings.Contains(name, "goshmem") {
				t.Errorf("%s: %s still exists, %v", c.name, name, err)
			}
			return nil
		})
	}
	l := &limit{tree(t, map[string]string{"cgroup.procs": ""})}
	if err := l.addProcess(42); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(l.dir, "cgroup.procs")); err != nil || string(text) != "42" {
		t.Errorf("wrote %q, %v, want 42", text, err)
	}
}
