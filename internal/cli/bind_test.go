package cli

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// node returns this machine's processors.
func node(t *testing.T) plan.Topology {
	t.Helper()
	top, err := xunix.Topology()
	check(t, err)
	return top
}

// threadLists returns the processors that the kernel allows each thread of a process.
func threadLists(t *testing.T, pid int) (lists []string) {
	t.Helper()
	files, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", pid))
	check(t, err)
	for _, f := range files {
		status, err := os.ReadFile(f)
		if os.IsNotExist(err) {
			continue // the thread has just ended
		}
		check(t, err)
		_, list, _ := strings.Cut(string(status), "Cpus_allowed_list:\t")
		list, _, _ = strings.Cut(list, "\n")
		lists = append(lists, list)
	}
	return lists
}

var bindingLine = regexp.MustCompile(`(?m)^\[[^:\]]+:(\d+)\] (PE (\d+) .*)$`)

// Every thread of a PE may run on the processors of its binding only, and --report-bindings lists them.
func TestBinding(t *testing.T) {
	top := node(t)
	most := min(top.Cores(), 4)
	for _, x := range []struct {
		flags string
		r     plan.Request
	}{
		{"", plan.Request{PEs: most}},
		{"", plan.Request{PEs: top.Cores() + 1}},
		{"--bind-to none", plan.Request{PEs: most, Bind: plan.BindNone}},
		{"--bind-to core", plan.Request{PEs: most, Bind: plan.BindCore}},
		{"--bind-to numa", plan.Request{PEs: most, Bind: plan.BindNUMA}},
		{"--map-by core", plan.Request{PEs: 1, Map: plan.MapCore}},
		{"--bind-to numa --map-by slot", plan.Request{PEs: most, Bind: plan.BindNUMA, Map: plan.MapSlot}},
		{"--bind-to core:overload-allowed", plan.Request{PEs: top.Cores() + 1, Bind: plan.BindCore, Overload: true}},
	} {
		t.Run(fmt.Sprint(x.r.PEs, x.flags), func(t *testing.T) { checkBinding(t, top, x.flags, x.r) })
	}
}

func checkBinding(t *testing.T, top plan.Topology, flags string, r plan.Request) {
	places, err := top.Assign(r)
	check(t, err)
	args := append(strings.Fields(flags), "-n", strconv.Itoa(r.PEs), "--report-bindings", "t-pe", "wait")
	j := start(t, args...)
	j.ready(r.PEs)
	<-j.stderr.says(fmt.Sprintf("PE %d ", r.PEs-1))
	lines := bindingLine.FindAllStringSubmatch(j.stderr.String(), -1)
	if len(lines) != r.PEs {
		t.Errorf("%d lines about bindings, want %d:\n%s", len(lines), r.PEs, &j.stderr)
	}
	for _, l := range lines {
		pid, pe := number(l[1]), number(l[3])
		if want := top.Report(pe, &places[pe]); l[2] != want {
			t.Errorf("reported %q, want %q", l[2], want)
		}
		want := plan.FormatList(places[pe].CPUs)
		if places[pe].CPUs == nil {
			want = plan.FormatList(top.Allowed())
		}
		lists := threadLists(t, pid)
		if len(lists) < 3 {
			t.Errorf("PE %d: %d threads, want the several threads of a Go program", pe, len(lists))
		}
		for _, got := range lists {
			if got != want {
				t.Errorf("PE %d: a thread may run on %s, want %s", pe, got, want)
			}
		}
	}
	check(t, j.cmd.Process.Signal(os.Interrupt))
	j.expect(130)
}

// Bindings use only the processors that an outer launcher or taskset allows.
func TestBindingWithinSet(t *testing.T) {
	all, err := xunix.Affinity()
	check(t, err)
	last := all[len(all)-1:]
	check(t, onForkThread(func() error { return xunix.SetAffinity(last) }))
	defer func() { check(t, onForkThread(func() error { return xunix.SetAffinity(all) })) }()
	j := start(t, "-n", "1", "--bind-to", "core", "t-pe", "wait")
	pid := j.ready(1)[0]
	for _, got := range threadLists(t, pid) {
		if got != plan.FormatList(last) {
			t.Errorf("a thread may run on %s, want %s", got, plan.FormatList(last))
		}
	}
	check(t, j.cmd.Process.Signal(os.Interrupt))
	j.expect(130)
	start(t, "-n", "2", "--bind-to", "core", "t-pe", "ok").expect(4, "--bind-to core: 2 PEs, want at most 1", "hint: --bind-to core:overload-allowed")
	start(t, "-n", "2", "--bind-to", "core:overload-allowed", "t-pe", "ok").expect(0)
	start(t, "-n", "2", "t-pe", "ok").expect(0)
}

// GOMAXPROCS is the number of a PE's processors, divided among the PEs that share them. A value that is set is kept.
func TestProcsFollowBinding(t *testing.T) {
	top := node(t)
	n := top.Cores()
	for flags, r := range map[string]plan.Request{
		"":                                {PEs: n},
		"--bind-to numa":                  {PEs: n, Bind: plan.BindNUMA},
		"--bind-to core:overload-allowed": {PEs: 2 * n, Bind: plan.BindCore, Overload: true},
		"-x GOMAXPROCS=7":                 {PEs: 1},
	} {
		places, err := top.Assign(r)
		check(t, err)
		want := map[string]int{}
		for pe := range places {
			procs := min(places[pe].Procs(runtime.GOMAXPROCS(0)), runtime.GOMAXPROCS(0))
			if strings.Contains(flags, "=7") {
				procs = 7
			}
			want[fmt.Sprintf("%d has %d", pe, procs)]++
		}
		var out, said bytes.Buffer
		args := append(strings.Fields(flags), "-n", strconv.Itoa(r.PEs), "sh", "-c", `echo "$PMIX_RANK has $GOMAXPROCS"`)
		status := Execute(args, nil, &out, &said)
		for line := range strings.Lines(out.String()) {
			want[strings.TrimSpace(line)]--
		}
		for line, n := range want {
			if n != 0 {
				t.Errorf("%q: line %q is missing %d times; status %d, output:\n%s%s", flags, line, n, status, &out, &said)
			}
		}
	}
}

// Emulated nodes bind their PEs: all share one machine. The report is in the order of PEs, with the names of nodes.
func TestEmulatedBinding(t *testing.T) {
	t.Parallel()
	top := node(t)
	n := max(2, min(top.Cores(), 4))
	for _, x := range []struct {
		flags string
		r     plan.Request
	}{
		{"", plan.Request{PEs: n}},
		{"--bind-to core:overload-allowed", plan.Request{PEs: 2 * n, Bind: plan.BindCore, Overload: true}},
		{"--map-by core --rank-by core --bind-to core:overload-allowed", plan.Request{PEs: n, Bind: plan.BindCore, Map: plan.MapCore, Rank: plan.BindCore, Overload: true}},
		{"--map-by socket --bind-to socket:overload-allowed", plan.Request{PEs: n, Bind: plan.BindSocket, Map: plan.MapSocket, Overload: true}},
	} {
		t.Run(x.flags, func(t *testing.T) {
			places, err := top.Assign(x.r)
			check(t, err)
			j := start(t, append(strings.Fields(x.flags), "--emulate", "2", "-n", strconv.Itoa(x.r.PEs), "--report-bindings", "sh", "-c", `echo "$PMIX_RANK $$ $(grep Cpus_allowed_list /proc/$$/status)"`)...)
			j.expect(0)
			var reported, ran []string
			for _, l := range regexp.MustCompile(`(?m)^\[node(\d):(\d+)\] (.*)$`).FindAllStringSubmatch(j.stderr.String(), -1) {
				pe := len(reported)
				reported = append(reported, l[3])
				if want := pe * 2 / x.r.PEs; number(l[1]) != want {
					t.Errorf("PE %d: line %q, want node%d", pe, l[0], want)
				}
				ran = append(ran, fmt.Sprintf("%d %s", pe, l[2]))
			}
			for pe := range places {
				if want := top.Report(pe, &places[pe]); pe >= len(reported) || reported[pe] != want {
					t.Fatalf("reported %q, want %q for PE %d", reported, want, pe)
				}
				list := plan.FormatList(places[pe].CPUs)
				if places[pe].CPUs == nil {
					list = plan.FormatList(top.Allowed())
				}
				if line := ran[pe] + " Cpus_allowed_list:\t" + list + "\n"; !strings.Contains(j.stdout.String(), line) {
					t.Errorf("PE %d: output lacks %q:\n%s", pe, line, &j.stdout)
				}
			}
		})
	}
	few := fmt.Sprintf("node0: --bind-to core: %d PEs, want at most %d", top.Cores()+2, top.Cores())
	start(t, "--emulate", "2", "-n", strconv.Itoa(top.Cores()+2), "--bind-to", "core", "true").expect(4, few, "hint: --bind-to core:overload-allowed, or --bind-to none")
	start(t, "--emulate", "2", "-n", "2", "--cpu-set", "8000", "true").expect(4, "node0: --cpu-set 8000: processor 8000, want one of ", "hint: ")
}

// Hosts that are no emulated nodes have processors of their own: each binds its PEs from its first core on.
func TestBindingElsewhere(t *testing.T) {
	t.Parallel()
	top := node(t)
	places, err := top.Assign(plan.Request{PEs: 1, Bind: plan.BindCore})
	check(t, err)
	j := onHosts(t, "--bind-to", "core", "--report-bindings", "sh", "-c", "grep Cpus_allowed_list /proc/$$/status")
	j.begin()
	j.expect(0)
	for pe, host := range []string{"a.invalid", "b.invalid"} {
		want := regexp.MustCompile(fmt.Sprintf(`(?m)^\[%s:\d+\] %s$`, regexp.QuoteMeta(host), regexp.QuoteMeta(top.Report(pe, &places[0]))))
		if !want.MatchString(j.stderr.String()) {
			t.Errorf("said %q, want a line like %s", &j.stderr, want)
		}
	}
	if got, want := j.stdout.String(), strings.Repeat("Cpus_allowed_list:\t"+plan.FormatList(places[0].CPUs)+"\n", 2); got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}
