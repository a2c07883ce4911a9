package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain makes this test binary the program that the benchmark starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case modeMember, modeBusy, modeNice, "--members":
			main()
			os.Exit(0)
		}
	}
	os.Exit(m.Run())
}

// measured runs the benchmark and returns its report.
func measured(t *testing.T, args string) report {
	t.Helper()
	var out, said bytes.Buffer
	if err := run(t.Context(), append(strings.Fields(args), "--json"), &out, &said); err != nil {
		t.Fatalf("%s: %v\n%s", args, err, &said)
	}
	var r report
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&r); err != nil {
		t.Fatal(err)
	}
	if left := children(t, "self"); len(left) > 0 {
		t.Errorf("%s: left behind: %v", args, left)
	}
	return r
}

// children returns the processes that a process has started and not collected.
func children(t *testing.T, pid string) (all []string) {
	t.Helper()
	tasks, err := os.ReadDir("/proc/" + pid + "/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		pids, _ := os.ReadFile("/proc/" + pid + "/task/" + task.Name() + "/children") // the thread may have ended
		all = append(all, strings.Fields(string(pids))...)
	}
	return all
}

// A group of three learns of a death: not before the timeout that memberlist computes, and each survivor does. How soon
// depends on the machine.
func TestKill(t *testing.T) {
	r := measured(t, "--members 3 --config tuned,aggr --period 50ms --samples 2 --seed 1")
	if len(r.Rows) != 2 || r.Program != "swimbench" || r.Seed != 1 || !strings.HasPrefix(r.Memberlist, "v") {
		t.Fatalf("report %+v", r)
	}
	for _, x := range r.Rows {
		if x.Detector != "swim" || x.Members != 3 || x.PeriodMS != 50 || x.Samples != 2 || x.NotStarted != 0 || x.IdleS != 0 {
			t.Errorf("row %+v", x)
		}
		if x.Missed > 0 || x.First == nil || x.Last == nil || x.First.Min > x.Last.Min || x.Rate == nil || x.Rate.Min <= 0 {
			t.Errorf("%s: first %+v, last %+v, %d missed, rate %+v", x.Config, x.First, x.Last, x.Missed, x.Rate)
			continue
		}
		// A suspicion lasts SuspicionMult intervals; nobody confirms it among three.
		if least := map[string]float64{configTuned: 200, configAggr: 50}[x.Config]; x.False == 0 && x.First.Min < least {
			t.Errorf("%s: first report after %v ms, want at least %v", x.Config, x.First.Min, least)
		}
	}
}

// Without a kill there are no times. The members have another nice value, beside a busy loop.
func TestIdle(t *testing.T) {
	x := measured(t, "--members 3 --period 500ms --samples 1 --idle 1 --busy 1 --nice 5").Rows[0]
	if x.First != nil || x.Last != nil || x.Missed != 0 || x.IdleS != 1 || x.Busy != 1 || x.Nice != 5 || x.Samples != 1 || x.NotStarted != 0 {
		t.Errorf("row %+v", x)
	}
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), strings.Fields("--members 2 --config aggr --period 50ms --samples 1 --seed 3"), &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"memberlist v", "seed 3", "CONFIG", "DATAGRAMS/S", "aggr    2"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("table lacks %q:\n%s", want, &out)
		}
	}
}

func TestRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--members 1":                      "--members: 1, want 2 to",
		"--members x":                      "members",
		"--config fast":                    `--config: "fast", want some of lan`,
		"--period 0s":                      "--period 0s",
		"--period 2m":                      "--period 2m0s, want 1ms to 1m",
		"--config lan --period 1s":         "--config lan alone",
		"--samples 0":                      "--samples: 0",
		"--nice 20":                        "--nice: 20",
		"--busy -1":                        "--busy: -1",
		"--idle -1":                        "--idle: -1",
		"--patience -1s":                   "--patience",
		"more":                             `arguments ["more"]`,
		"member":                           "--name is empty",
		"member --name a --bind :1":        "want a loopback address",
		"member --name a --bind 1.1.1.1:0": "want a loopback address",
		"member --name a --config x":       "--config",
		"member --name a --seconds -1":     "--seconds",
		"member --name a --config lan --period 2s": "--config lan",
		"nice":          "want a nice value",
		"nice x member": "want a number",
	} {
		var err error
		switch args := strings.Fields(args); args[0] {
		case modeMember:
			err = runMember(args[1:], strings.NewReader(""), io.Discard, io.Discard)
		case modeNice:
			err = runNice(args[1:])
		default:
			_, err = parse(args, io.Discard)
		}
		if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// member starts a member and returns its process and its events.
func startMember(t *testing.T, args ...string) (*process, *bufio.Scanner) {
	t.Helper()
	p, err := startProcess(0, append([]string{modeMember}, args...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.kill()
		_ = p.cmd.Wait()
	})
	return p, bufio.NewScanner(p.stdout)
}

// next returns the next event.
func next(t *testing.T, lines *bufio.Scanner) (e event) {
	t.Helper()
	if !lines.Scan() {
		t.Fatalf("the events have ended: %v", lines.Err())
	}
	if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
		t.Fatalf("event %q: %v", lines.Text(), err)
	}
	return e
}

// A member says where it listens, who joins and leaves, and what it has sent. It ends with its standard input, or when
// its time is over, and writes nothing to standard error.
func TestMember(t *testing.T) {
	a, events := startMember(t, "--name", "a", "--period", "50ms")
	ready := next(t, events)
	if ready.Event != eventReady || ready.Member != "a" || !strings.HasPrefix(ready.Addr, "127.0.0.1:") || ready.At <= 0 {
		t.Fatalf("first event %+v", ready)
	}
	b, _ := startMember(t, "--name", "b", "--join", ready.Addr, "--period", "50ms", "--seconds", "1000")
	if joined := next(t, events); joined.Event != eventJoined || joined.Member != "b" || joined.At < ready.At {
		t.Errorf("event %+v, want b to join", joined)
	}
	fmt.Fprintln(a.stdin, countLine)
	if sent := next(t, events); sent.Event != eventSent || sent.Member != "a" {
		t.Errorf("event %+v, want a count", sent)
	}
	b.kill()
	for e := next(t, events); e.Event != eventLeft || e.Member != "b"; e = next(t, events) {
	}
	if err := a.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	for events.Scan() {
	}
	if err := a.cmd.Wait(); err != nil || a.said.String() != "" {
		t.Errorf("the member ended with %v and said %q", err, &a.said)
	}
	c, events := startMember(t, "--name", "c", "--seconds", "0.000001")
	if ready := next(t, events); ready.Event != eventReady || ready.Member != "c" {
		t.Errorf("first event %+v of a member that ends at once", ready)
	}
	for events.Scan() {
	}
	if err := c.cmd.Wait(); err != nil {
		t.Errorf("a member whose time is over: %v", err)
	}
}

// A member that tries to join ends with its standard input.
func TestMemberAlone(t *testing.T) {
	p, events := startMember(t, "--name", "a", "--join", "127.0.0.1:1")
	next(t, events) // it listens, and tries to join
	if err := p.stdin.Close(); err != nil {
		t.Fatal(err)
	}
	for events.Scan() {
	}
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("the end of standard input while it joins: %v", err)
	}
}

// A member that ends by itself is an error, and the other members end.
func TestFailures(t *testing.T) {
	o, err := parse(strings.Fields("--members 3 --period 50ms"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	g, err := startGroup(t.Context(), &o, &o.settings()[0])
	if err != nil {
		t.Fatal(err)
	}
	g.members[1].kill()
	if _, err := g.wait(t.Context(), startTimeout, func() bool { return false }); err == nil || !strings.Contains(err.Error(), "member 1 has ended by itself") {
		t.Errorf("a member that was killed by another: %v", err)
	}
	g.end()
	if left := children(t, "self"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// An interrupt ends the measurement with an error, and all processes.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, strings.Fields("--members 3 --idle 1000 --busy 1"), io.Discard, io.Discard) }()
	for end := time.Now().Add(startTimeout); len(children(t, "self")) < 4 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "after 0 of 5 groups") {
		t.Errorf("interrupted: %v", err)
	}
	if left := children(t, "self"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestNice: all threads of a program that is started with a nice value have it.
func TestNice(t *testing.T) {
	const nice = 19 // every user may have it
	p, err := startProcess(nice, modeMember, "--name", "a")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		p.kill()
		_ = p.cmd.Wait()
	}()
	next(t, bufio.NewScanner(p.stdout))
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", p.cmd.Process.Pid))
	if err != nil || len(tasks) == 0 {
		t.Fatal(tasks, err)
	}
	for _, task := range tasks {
		var tid int
		if _, err := fmt.Sscan(task.Name(), &tid); err != nil {
			t.Fatal(err)
		}
		n, err := unix.Getpriority(unix.PRIO_PROCESS, tid) // 20 - the nice value
		if err == nil && n != 20-nice {
			t.Errorf("thread %d has the nice value %d, want %d", tid, 20-n, nice)
		}
	}
}

// TestNothingIsLeft: all processes of a benchmark that is killed end.
func TestNothingIsLeft(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, "--members", "3", "--idle", "1000", "--busy", "1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := fmt.Sprint(cmd.Process.Pid)
	var started []string
	for end := time.Now().Add(startTimeout); len(started) < 4; { // members and a busy loop
		if time.Now().After(end) {
			t.Errorf("the benchmark has started %d processes, want 4", len(started))
			break
		}
		time.Sleep(10 * time.Millisecond)
		started = children(t, pid)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for _, child := range started {
		for end := time.Now().Add(30 * time.Second); isRunning(child); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("process %s goes on without the benchmark", child)
			}
		}
	}
}

// isRunning reports whether a process has not ended. One that nobody has collected yet has.
func isRunning(pid string) bool {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z") && !strings.HasPrefix(state, "X")
}

// known returns the group in which each survivor has reported the others as listed: in ms, at which a kill was at 100.
func known(alive bool, reports ...[]departure) *group {
	g := &group{}
	for _, left := range reports {
		g.members = append(g.members, &member{left: left, alive: []bool{alive, true, true}})
	}
	return g
}

// TestKnows: times count from the kill. Reports before it are false, and so are those of other members.
func TestKnows(t *testing.T) {
	at := func(who int, ms time.Duration) departure { return departure{who, ms * time.Millisecond} }
	const killed = 100 * time.Millisecond
	for name, c := range map[string]struct {
		g     *group
		want  knowledge
		false int
	}{
		"all":                {known(false, nil, []departure{at(0, 150)}, []departure{at(0, 130)}), knowledge{30 * time.Millisecond, 50 * time.Millisecond, 0}, 0},
		"one missed":         {known(true, nil, []departure{at(0, 150)}, nil), knowledge{50 * time.Millisecond, 0, 1}, 0},
		"the wrong one":      {known(true, nil, []departure{at(2, 150)}, nil), knowledge{0, 0, 2}, 1},
		"before and after":   {known(false, nil, []departure{at(0, 90), at(0, 120)}, []departure{at(0, 110)}), knowledge{10 * time.Millisecond, 20 * time.Millisecond, 0}, 1},
		"before only":        {known(false, nil, []departure{at(0, 90)}, []departure{at(0, 110)}), knowledge{10 * time.Millisecond, 10 * time.Millisecond, 0}, 1},
		"before, taken back": {known(true, nil, []departure{at(0, 90)}, []departure{at(0, 110)}), knowledge{10 * time.Millisecond, 0, 1}, 1},
		"long ago":           {known(false, nil, []departure{at(0, 10), at(0, 110)}, []departure{at(0, 110)}), knowledge{10 * time.Millisecond, 10 * time.Millisecond, 0}, 0},
		"by the victim":      {known(false, []departure{at(1, 90)}, []departure{at(0, 110)}, []departure{at(0, 110)}), knowledge{10 * time.Millisecond, 10 * time.Millisecond, 0}, 1},
	} {
		if got := c.g.knows(0, killed); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
		if n := c.g.falseReports(50*time.Millisecond, 0, killed); n != c.false {
			t.Errorf("%s: %d false reports, want %d", name, n, c.false)
		}
	}
}

// TestSettings: lan has one interval.
func TestSettings(t *testing.T) {
	o, err := parse(strings.Fields("--config lan,tuned --members 8,16 --period 100ms,500ms"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, c := range o.settings() {
		got = append(got, fmt.Sprint(c.config, c.members, c.period))
	}
	if want := "lan8 1s, lan16 1s, tuned8 100ms, tuned8 500ms, tuned16 100ms, tuned16 500ms"; strings.Join(got, ", ") != want {
		t.Errorf("settings %s, want %s", strings.Join(got, ", "), want)
	}
	for config, want := range map[string][5]any{
		configLAN:   {time.Second, 500 * time.Millisecond, 200 * time.Millisecond, 4, 6},
		configTuned: {100 * time.Millisecond, 50 * time.Millisecond, 20 * time.Millisecond, 4, 6},
		configAggr:  {100 * time.Millisecond, 25 * time.Millisecond, 10 * time.Millisecond, 1, 1},
	} {
		m := memberOptions{config: config, period: 100 * time.Millisecond}
		c := m.memberlist()
		if got := [5]any{c.ProbeInterval, c.ProbeTimeout, c.GossipInterval, c.SuspicionMult, c.SuspicionMaxTimeoutMult}; got != want {
			t.Errorf("%s: %v, want %v", config, got, want)
		}
	}
}
