package cli

import (
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/launch"
	"github.com/goshmem/goshmem/shmem"
)

func init() {
	if os.Getenv(asOshrun) != "" {
		builtins["t-idle"], builtins["t-crowd"], builtins["t-burn"] = idle, crowd, burn
	}
}

// idle is a Go program that has not joined its job.
func idle(_ []string, stdout, _ io.Writer) int {
	fmt.Fprintf(stdout, "ready %d\n", os.Getpid())
	select {}
}

const crowdSize = 3000

// crowd joins its job and has many goroutines.
func crowd(_ []string, stdout, stderr io.Writer) int {
	if _, err := shmem.Init(); err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	for range crowdSize {
		go bystander()
	}
	fmt.Fprintf(stdout, "ready %d\n", os.Getpid())
	select {}
}

func bystander() { select {} }

// burn joins its job and uses a third of a second of processor time.
func burn(_ []string, _, stderr io.Writer) int {
	w, err := shmem.Init()
	for used := (syscall.Rusage{}); err == nil && used.Utime.Nano() < 3e8; {
		for i := range 1 << 20 {
			sink += i
		}
		err = syscall.Getrusage(syscall.RUSAGE_SELF, &used)
	}
	if err == nil {
		err = w.Finalize()
	}
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}

var sink int

var stackHead = regexp.MustCompile(`(?m)^oshrun: stacks of PE (\d+) \(pid (\d+)\)(.*)\n`)

// stacksOf splits oshrun's messages into the text after each head.
func stacksOf(said string) map[string]string {
	of := map[string]string{}
	heads := stackHead.FindAllStringSubmatchIndex(said, -1)
	for i, h := range heads {
		end := len(said)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		of[said[h[2]:h[3]]] = said[h[6]:end]
	}
	return of
}

// quit sends SIGQUIT to a job of n PEs once they are ready, and returns oshrun's messages.
func (j *job) quit(n int) string {
	j.t.Helper()
	j.ready(n)
	check(j.t, j.cmd.Process.Signal(syscall.SIGQUIT))
	status, said := j.ended(testPatience)
	if status != 131 || !strings.Contains(said, "oshrun: SIGQUIT: ending") {
		j.t.Errorf("status %d, want 131; stderr:\n%.3000s", status, said)
	}
	return said
}

// On request each PE reports its stacks, in one piece, whatever it is doing. PEs do not get the signal itself.
func TestStacks(t *testing.T) {
	for _, mode := range []string{"wait", "spin", "ignore", "barrier"} {
		t.Run(mode, func(t *testing.T) {
			said := start(t, "-n", "3", "--stacks", "t-pe", mode).quit(3)
			of := stacksOf(said)
			for _, pe := range []string{"0", "1", "2"} {
				if n := strings.Count(of[pe], "goroutine 1 ["); n != 1 || !strings.Contains(of[pe], ".testPE(") {
					t.Errorf("PE %s: %d main goroutines, want 1, in testPE:\n%s", pe, n, of[pe])
				}
			}
			if len(of) != 3 || strings.Contains(said, "SIGQUIT: quit") {
				t.Errorf("stacks of %d PEs; stderr:\n%s", len(of), said)
			}
		})
	}
}

// Stacks are reported at a timeout, too.
func TestStacksAtTimeout(t *testing.T) {
	j := start(t, "-n", "2", "--timeout", "1", "--stacks", "t-pe", "wait")
	status, said := j.ended(testPatience)
	of := stacksOf(said)
	if status != 124 || !strings.Contains(of["0"], ".testPE(") || !strings.Contains(of["1"], ".testPE(") {
		t.Errorf("status %d, stderr:\n%s", status, said)
	}
	if over := strings.Index(said, "--timeout 1s is over"); over < 0 || over > strings.Index(said, "stacks of PE") {
		t.Errorf("the messages do not begin with the cause:\n%s", said)
	}
}

// With many goroutines, no stack is lost.
func TestStacksOfMany(t *testing.T) {
	of := stacksOf(start(t, "-n", "2", "--stacks", "t-crowd").quit(2))
	for _, pe := range []string{"0", "1"} {
		if n := strings.Count(of[pe], ".bystander()"); n < crowdSize || strings.Contains(of[pe], "not complete") {
			t.Errorf("PE %s: %d bystanders, want %d", pe, n, crowdSize)
		}
	}
}

// Stacks of a Go program outside the job come from its runtime. Other programs get no signal.
func TestStacksOfOthers(t *testing.T) {
	for name, args := range map[string][]string{
		"itself": {"t-idle"}, "in a shell": {"sh", "-c", `"$0" pe t-idle; :`, self(t)},
	} {
		of := stacksOf(start(t, append([]string{"-n", "2", "--stacks"}, args...)...).quit(2))
		for _, pe := range []string{"0", "1"} {
			text := of[pe]
			if !strings.HasPrefix(text, ", from its runtime:") || !strings.Contains(text, "\ngoroutine 1 ") || !strings.Contains(text, ".idle(") {
				t.Errorf("%s: PE %s:\n%s", name, pe, text)
			}
		}
	}
	of := stacksOf(start(t, "-n", "1", "--stacks", "sh", "-c", `echo "ready $$"; exec sleep 1000`).quit(1))
	if of["0"] != ": none, it is not a Go program\n" {
		t.Errorf("program that is not Go: %q", of["0"])
	}
}

// PEs that cannot answer do not delay the end. A second interrupt does not wait for them at all.
func TestStacksOfStopped(t *testing.T) {
	j := start(t, "-n", "2", "--stacks", "t-pe", "wait")
	check(t, syscall.Kill(j.ready(2)[1], syscall.SIGSTOP))
	begin := time.Now()
	of := stacksOf(j.quit(0))
	if took := time.Since(begin); took > 8*time.Second || of["0"] == "" || of["1"] == "" {
		t.Errorf("after %v: %q", took, of)
	}

	j = start(t, "-n", "2", "--stacks", "t-pe", "ignore")
	check(t, syscall.Kill(j.ready(2)[1], syscall.SIGSTOP))
	check(t, j.cmd.Process.Signal(os.Interrupt))
	<-j.stderr.says("SIGINT: ending 2 PEs")
	check(t, j.cmd.Process.Signal(os.Interrupt))
	j.expect(130, "interrupted twice")
}

// profiles returns the names in a directory, and checks that each file is a complete profile.
func profiles(t *testing.T, dir string) (names []string, text map[string]string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	check(t, err)
	text = map[string]string{}
	for _, e := range entries {
		f, err := os.Open(filepath.Join(dir, e.Name()))
		check(t, err)
		z, err := gzip.NewReader(f)
		check(t, err)
		raw, err := io.ReadAll(z)
		if err != nil {
			t.Errorf("%s is not complete: %v", e.Name(), err)
		}
		_ = f.Close()
		names, text[e.Name()] = append(names, e.Name()), string(raw)
	}
	return names, text
}

func pprofNames(pes ...int) (names []string) {
	for _, pe := range pes {
		names = append(names, fmt.Sprintf("pe.%d.cpu.pprof", pe), fmt.Sprintf("pe.%d.heap.pprof", pe))
	}
	slices.Sort(names)
	return names
}

// Profiles are written in whatever way a job ends, except by a PE that is killed.
func TestPprof(t *testing.T) {
	for _, x := range []struct {
		name   string
		args   []string
		status int
		pes    []int
	}{
		{"finalize", []string{"-n", "2", "t-pe", "ok"}, 0, []int{0, 1}},
		{"exit", []string{"-n", "2", "t-pe", "globalexit", "9"}, 9, []int{0, 1}},
		{"of something", []string{"-n", "2", "t-burn"}, 0, []int{0, 1}},
		{"signal", []string{"-n", "2", "t-pe", "wait"}, 143, []int{0, 1}},
		{"signal that is ignored", []string{"-n", "2", "t-pe", "ignore"}, 143, []int{0, 1}},
		{"two programs", []string{"-n", "1", "t-pe", "ok", ":", "-n", "1", "-wdir", "/", "t-pe", "ok"}, 0, []int{0, 1}},
		{"end without Finalize", []string{"-n", "2", "t-pe", "exit", "3"}, 3, []int{0}},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "profiles")
			j := start(t, append([]string{"--pprof", dir}, x.args...)...)
			if x.status == 143 {
				j.ready(2)
				check(t, j.cmd.Process.Signal(syscall.SIGTERM))
			}
			j.expect(x.status)
			names, text := profiles(t, dir)
			if want := pprofNames(x.pes...); !slices.Equal(names, want) {
				t.Errorf("files %q, want %q", names, want)
			}
			if said := j.stderr.String(); len(x.pes) == 1 != strings.Contains(said, "--pprof: no profile of PE 1: it exited with status 3 without Finalize") {
				t.Errorf("stderr: want a message if and only if a PE has no profile:\n%s", said)
			}
			if x.name == "of something" && !strings.Contains(text["pe.1.cpu.pprof"], "/cli.burn") {
				t.Error("the CPU profile lacks the PE's work")
			}
		})
	}
}

// The profiles of a spawned job are beside those of the job that spawned it.
func TestPprofOfSpawned(t *testing.T) {
	dir := t.TempDir()
	start(t, "-n", "1", "--pprof", dir, spawner(t), "2", self(t), "pe", "t-pe", "ok").expect(0, "--pprof: no profile of PE 0: it called neither")
	names, _ := profiles(t, dir)
	if want := []string{"job.1.pe.0.cpu.pprof", "job.1.pe.0.heap.pprof", "job.1.pe.1.cpu.pprof", "job.1.pe.1.heap.pprof"}; !slices.Equal(names, want) {
		t.Errorf("files %q, want %q", names, want)
	}
}

// Each PE leaves its profiles or is named with the reason: here the PE that was killed, and one that had no processor
// when it was asked.
func TestPprofOfKilled(t *testing.T) {
	dir := t.TempDir()
	j := start(t, "-n", "3", "--pprof", dir, "t-pe", "wait")
	check(t, syscall.Kill(j.ready(3)[0], syscall.SIGKILL))
	_, said := j.ended(testPatience)
	names, _ := profiles(t, dir)
	if len(names) > 4 || !strings.Contains(said, ": it was killed by signal 9 (SIGKILL)\n") {
		t.Errorf("files %q, want those of at most two PEs; stderr:\n%s", names, said)
	}
	told := 0
	for line := range strings.Lines(said) {
		if _, list, found := strings.Cut(line, "--pprof: no profile of PE"); found {
			list, _, _ = strings.Cut(list, ":")
			told += 1 + strings.Count(list, ",") + strings.Count(list, "-") // PEs in a list of up to three
			if strings.Contains(list, "0-2") {
				told++
			}
		}
	}
	if told+len(names)/2 != 3 {
		t.Errorf("files %q, want two from each of the three PEs, or a message; stderr:\n%s", names, said)
	}
}

// A PE that cannot answer leaves no profile. Profiles of an earlier job do not count.
func TestPprofOfSilent(t *testing.T) {
	dir := t.TempDir()
	j := start(t, "-n", "2", "--pprof", dir, "t-pe", "ignore")
	check(t, syscall.Kill(j.ready(2)[0], syscall.SIGSTOP))
	check(t, j.cmd.Process.Signal(os.Interrupt))
	for names := []string(nil); len(names) < 2; { // the other PE's
		var err error
		names, err = filepath.Glob(filepath.Join(dir, "*.pprof"))
		check(t, err)
		runtime.Gosched()
	}
	check(t, j.cmd.Process.Signal(os.Interrupt)) // kills the PEs at once
	_, said := j.ended(testPatience)
	killed := strings.Contains(said, ": it was killed by signal 9 (SIGKILL)\n")
	late := strings.Contains(said, ": it was asked for it at the end of the job and did not answer within 500ms\n")
	if killed == late || strings.Count(said, "no profile of PE ") != 1 { // late: the deadline passed before the second interrupt
		t.Errorf("stderr: want a message on the stopped PE, and on no other:\n%s", said)
	}
	start(t, "-n", "2", "--pprof", dir, "true").expect(0, "--pprof: no profile of PEs 0-1: it called neither shmem.Init nor mpi.Init")
}

// Statistics cover all PEs, in whatever way they end.
func TestStats(t *testing.T) {
	j := start(t, "-n", "2", "--stats", "t-pe", "ok")
	j.expect(0, "PE   PID", "MAX RSS", "\n0    ", "\n1    ", "\nall  ")

	name := filepath.Join(t.TempDir(), "stats.json")
	j = start(t, "-n", "3", "--stats=json:"+name, "t-pe", "spin") // a waiting PE could end by itself when it hears of the death
	pids := j.ready(3)
	check(t, syscall.Kill(pids[1], syscall.SIGKILL))
	j.expect(137)
	raw, err := os.ReadFile(name)
	check(t, err)
	var r statsReport
	check(t, json.Unmarshal(raw, &r))
	if r.Status != 137 || len(r.PEs) != 3 || r.Wall <= 0 || r.MaxRSS == nil || *r.MaxRSS < 1<<20 {
		t.Errorf("unexpected table:\n%s", raw)
	}
	user := 0.0
	for i, p := range r.PEs {
		want := 128 + int(syscall.SIGTERM)
		if p.PID == pids[1] {
			want = 137
		}
		if p.PE != fmt.Sprint(i) || !slices.Contains(pids, p.PID) || p.Status != want || p.Wall <= 0 || p.Wall > r.Wall || p.Voluntary == 0 {
			t.Errorf("PE %d, want status %d: %+v", i, want, p)
		}
		user += p.User
	}
	if user != r.User {
		t.Errorf("total user time %v, want %v", r.User, user)
	}
	start(t, "-n", "1", "--stats=json:/dev/full", "t-pe", "ok").expect(1, "--stats: write /dev/full: no space left")
}

// The memory in statistics is that of PEs, without that of oshrun, which starts them.
func TestStatsMemory(t *testing.T) {
	memory := func(status int, args ...string) (pes []*uint64) {
		name := filepath.Join(t.TempDir(), "stats.json")
		j := start(t, append([]string{"--stats=json:" + name}, args...)...)
		if status != 0 {
			j.ready(1)
			check(t, j.cmd.Process.Signal(syscall.SIGTERM))
		}
		j.expect(status)
		raw, err := os.ReadFile(name)
		check(t, err)
		var r statsReport
		check(t, json.Unmarshal(raw, &r))
		for _, p := range r.PEs {
			pes = append(pes, p.MaxRSS)
		}
		return pes
	}
	describe := func(m *uint64) string {
		if m == nil {
			return "not known"
		}
		return fmt.Sprint(*m)
	}
	const least, small = 300 << 10, 8 << 20 // of programs smaller than oshrun that do not talk to it
	if m := memory(0, "-n", "1", "true"); len(m) != 1 || m[0] != nil && *m[0] > small {
		t.Errorf("a program that ends at once: %v, want its memory, or an unknown value", m)
	}
	for _, m := range memory(0, "-n", "2", "sh", "-c", "sleep 0.3") { // oshrun may have measured it at its start
		if m != nil && *m > small {
			t.Errorf("a shell that ends: %v, want its memory, or what was measured", describe(m))
		}
	}
	for _, m := range memory(143, "-n", "1", "sh", "-c", `echo "ready $$"; while sleep 1; do :; done`) {
		if m == nil || *m < least || *m > small {
			t.Errorf("a shell that oshrun ends: %v, want its memory", describe(m))
		}
	}
	for _, m := range memory(0, "-n", "2", "t-pe", "ok") {
		if m == nil || *m < 1<<20 || *m > 1<<30 {
			t.Errorf("a PE that finalizes: %v, want its memory", describe(m))
		}
	}
	for _, m := range memory(143, "-n", "1", "t-pe", "spin") {
		if m == nil || *m < 1<<20 || *m > 1<<30 {
			t.Errorf("a PE that oshrun ends: %v, want its memory", describe(m))
		}
	}
	const large = 200 << 20
	for _, m := range memory(143, "-n", "1", "--heap-size", "1G", "t-pe", "touch", fmt.Sprint(large)) {
		if m == nil || *m < large {
			t.Errorf("a PE that has touched %d bytes: %v, want at least that", large, describe(m))
		}
	}
}

// A column without a number shows a dash.
func TestStatsUnknownMemory(t *testing.T) {
	table, err := statsTable(&launch.Stats{PEs: []launch.PEStats{{ID: "0"}}})
	check(t, err)
	if !strings.Contains(string(table), "  -        ") {
		t.Errorf("unexpected table:\n%s", table)
	}
}

// Wrong values of these flags are errors.
func TestProcessFlagErrors(t *testing.T) {
	for args, want := range map[string]string{
		"--bind-to cores true":                 `2 --bind-to: "cores", want none, core, numa, socket, hwthread or l3cache`,
		"--bind-to= true":                      `2 --bind-to: "", want none, core, numa, socket, hwthread`,
		"--bind-to none:overload-allowed true": `2 --bind-to: "none:overload-allowed"`,
		"--map-by sockets true":                `2 --map-by: "sockets", want core, slot, numa`,
		"--stats=xml true":                     `2 --stats: "xml", want table or json:FILE`,
		"--stats json:x true":                  `2 --stats: its value stands after =: use --stats=json:x`,
		"--stats table true":                   `2 --stats: its value stands after =: use --stats=table`,
		"--stats=json: true":                   `2 --stats: "json:"`,
		"--stats=json:/no/such/file true":      `4 --stats: open /no/such/file`,
		"--pprof= true":                        `2 --pprof: "", want a directory`,
		"--pprof /dev/null/x true":             `4 --pprof /dev/null/x: mkdir`,
		"-n 100000 --bind-to core true":        `4 number of PEs: 100000`,
		"-n 1000 --bind-to core true":          `4 --bind-to core: 1000 PEs, want at most`,
		"-n 1 true : -n 1 --stacks true":       `2 program 2 of the job: --stacks is for the whole job`,
	} {
		status, _, said := execute(t, strings.Fields(args)...)
		if code, words, _ := strings.Cut(want, " "); fmt.Sprint(status) != code || !strings.Contains(said, words) {
			t.Errorf("oshrun %s: status %d, want %s; %s", args, status, want, said)
		}
	}
}
