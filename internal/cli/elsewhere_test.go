package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/pmix/client"
	"github.com/goshmem/goshmem/pmix/codec"
)

// onHosts makes an oshrun whose hosts are this machine by other names: their daemons begin in another directory, as with
// ssh.
func onHosts(t *testing.T, args ...string) *job {
	t.Helper()
	return prepare(t, append([]string{"--launch", "exec:env -C /", "--interface", "127.0.0.0/8", "--host", "a.invalid,b.invalid"}, args...)...)
}

// script writes a shell script to an empty directory.
func script(t *testing.T, name, text string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	return dir
}

// With --launch local this machine stands for all hosts, also if it has no network: loopback is enough, and tools reach
// the job.
func TestLaunchLocal(t *testing.T) {
	t.Parallel()
	testenv.Need(t, testenv.Namespaces)
	j := prepare(t, "--launch", "local", "--host", "a,b:2", "-n", "3", "--report-uri", filepath.Join(t.TempDir(), "uri"), "sh", "-c", "echo $PMIX_RANK on $PMIX_HOSTNAME")
	j.inNamespaces("--net", "ip link set lo up")
	j.begin()
	j.expect(0)
	if got, want := lines(j.stdout.String()), []string{"0 on a", "1 on b", "2 on b"}; !slices.Equal(got, want) {
		t.Errorf("output %q, want %q", got, want)
	}
}

// A launch command that waits for something else than the daemon is ended with all that it has started, when the job
// ends without it. What the script starts holds a pipe open.
func TestLaunchLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]string{"started by oshrun": "a.invalid", "started by another daemon": "c.invalid"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pipe := filepath.Join(t.TempDir(), "pipe")
			check(t, syscall.Mkfifo(pipe, 0o600))
			held, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			check(t, err)
			defer held.Close()
			agent := agentScript(t, fmt.Sprintf(`[ $host = %s ] || exec "$@"; exec 3>%s; echo here >&3; sleep 1000; exec "$@"`, late, pipe))
			j := start(t, "--launch", agent, "--launch-timeout", "2", "--launch-radix", "1", "--interface", "127.0.0.0/8",
				"--host", "a.invalid,b.invalid,c.invalid", "true")
			j.expect(4, "daemon on "+late, "it has not reported itself within 2s")
			check(t, held.SetReadDeadline(time.Now().Add(testPatience)))
			said, err := io.ReadAll(held) // to the end, which comes when nobody has the pipe
			if err != nil || !strings.HasPrefix(string(said), "here\n") {
				t.Errorf("the script has said %q, then %v, want %q and its end", said, err, "here")
			}
		})
	}
}

// The command of --launch exec: has words as in a shell. A wrong one is an error before anything is started.
func TestLaunchQuotes(t *testing.T) {
	t.Parallel()
	noted := filepath.Join(t.TempDir(), "the hosts")
	j := start(t, "--launch", `exec:sh -c 'echo "$1" >>"$0"; shift; exec "$@"' "`+noted+`" {host}`, "--interface", "127.0.0.0/8",
		"--host", "a.invalid,b.invalid", "sh", "-c", "echo $PMIX_RANK")
	j.expect(0)
	text, err := os.ReadFile(noted)
	check(t, err)
	if got, want := lines(string(text)), []string{"a.invalid", "b.invalid"}; !slices.Equal(got, want) {
		t.Errorf("the command has noted %q, want %q", got, want)
	}
	for launch, want := range map[string]string{
		"exec:sh -c 'exec":   `--launch: "exec:sh -c 'exec": no quote closes 'exec, want exec: and a command`,
		`exec:sh -c "exec\"`: `no quote closes "exec\", want exec: and a command`,
		"exec: ":             `--launch: "exec: ": no command, want exec: and a command`,
		"exec:":              `no command, want exec: and a command`,
		"exec":               `--launch: "exec", want ssh, srun, local or exec:COMMAND`,
		"local:x":            `--launch: "local:x", want ssh, srun, local or exec:COMMAND`,
	} {
		if status, _, said := execute(t, "--launch", launch, "--host", "a.invalid,b.invalid", "true"); status != 2 || !strings.Contains(said, want) || !strings.Contains(said, "\nhint: --launch ") {
			t.Errorf("%s: status %d, %s, want 2 and %q", launch, status, said, want)
		}
	}
	if status, _, said := execute(t, "-launcher-exec", "'ssh", "--host", "a.invalid,b.invalid", "true"); status != 2 || !strings.Contains(said, "no quote closes 'ssh") {
		t.Errorf("-launcher-exec: status %d, %s", status, said)
	}
}

// Without a list of its nodes there is no job of Slurm, neither for the hosts nor for the way to them.
func TestHalfOfSlurm(t *testing.T) {
	noSlurm(t)
	t.Setenv("SLURM_JOB_ID", "7")
	t.Setenv("PATH", script(t, "ssh", "echo this is ssh; exit 3")+":"+os.Getenv("PATH"))
	if status, _, said := execute(t, "--interface", "127.0.0.0/8", "--host", "a.invalid,b.invalid", "true"); status != 4 || !strings.Contains(said, "exit status 3: this is ssh") {
		t.Errorf("status %d, %s, want 4: the daemons are started by ssh", status, said)
	}
}

// PEs on other hosts start in the directory of oshrun, by the name that the user has for it.
func TestDirectoryElsewhere(t *testing.T) {
	t.Parallel()
	dir := script(t, "program", `echo "$PMIX_RANK in $(pwd)"`)
	link := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(dir, link))
	for _, x := range []struct{ pwd, want string }{{link, link}, {"/", dir}} {
		j := onHosts(t, "./program")
		j.cmd.Dir = dir
		j.cmd.Env = append(j.cmd.Env, "PWD="+x.pwd)
		j.begin()
		j.expect(0)
		if got, want := lines(j.stdout.String()), []string{"0 in " + x.want, "1 in " + x.want}; !slices.Equal(got, want) {
			t.Errorf("PWD=%s: output %q, want %q", x.pwd, got, want)
		}
	}
}

// PEs on other hosts do not get what describes this machine, unless the user sets it for them.
func TestVariablesElsewhere(t *testing.T) {
	t.Parallel()
	const printAll = `echo "$DISPLAY,$HOSTNAME,$SSH_AUTH_SOCK,$XDG_DATA_HOME,$SLURM_PROCID"`
	for _, x := range []struct{ args, want string }{
		{"", ",,,,"},
		{"-x DISPLAY -x HOSTNAME=other -genv SSH_AUTH_SOCK /mine -env XDG_DATA_HOME /data", ":1,other,/mine,/data,"},
		{"-x DISPLAY -x DISPLAY=:2 -x SLURM_PROCID", ":2,,,,5"},
	} {
		j := onHosts(t, slices.Concat(strings.Fields(x.args), []string{"sh", "-c", printAll})...)
		j.cmd.Env = append(j.cmd.Env, "DISPLAY=:1", "HOSTNAME=here", "SSH_AUTH_SOCK=/sock", "XDG_DATA_HOME=/xdg", "SLURM_PROCID=5")
		j.begin()
		j.expect(0)
		if got, want := lines(j.stdout.String()), []string{x.want, x.want}; !slices.Equal(got, want) {
			t.Errorf("%s: output %q, want %q", x.args, got, want)
		}
	}
}

// Of several hosts, this machine takes no login.
func TestNoLoginHere(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	check(t, err)
	const fake = `while [ "$1" = -o ]; do shift 2; done
		echo "$1" >>"$LOGINS"; shift; exec "$@"`
	for _, x := range []struct{ hosts, want string }{
		{host + ",b.invalid", "b.invalid\n"},
		{"b.invalid," + host, "b.invalid\n"},
		{ownUser() + "@" + host + ",b.invalid", "b.invalid\n"},
	} {
		bin, logins := script(t, "ssh", fake), filepath.Join(t.TempDir(), "logins")
		j := prepare(t, "--launch", "ssh", "--interface", "127.0.0.0/8", "--host", x.hosts, "true")
		j.cmd.Env = append(j.cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "LOGINS="+logins)
		j.begin()
		j.expect(0)
		text, err := os.ReadFile(logins)
		if err != nil || string(text) != x.want {
			t.Errorf("hosts %s: logins at %q, %v, want %q", x.hosts, text, err, x.want)
		}
	}
}

// A PE on one node may leave its input unread until a PE on another node has read all of it.
func TestInputToAllNodes(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	check(t, syscall.Mkfifo(fifo, 0o600))
	const size = 2 << 20 // more than pipes and windows have room for
	j := prepare(t, "--emulate", "2", "-n", "2", "--stdin", "all", "sh", "-c",
		`if [ $PMIX_RANK = 0 ]; then wc -c; echo go >"$0"; else read go <"$0"; wc -c; fi`, fifo)
	j.cmd.Stdin = strings.NewReader(strings.Repeat("x", size)) // by a pipe
	j.begin()
	j.expect(0)
	if got, want := lines(j.stdout.String()), []string{fmt.Sprint(size), fmt.Sprint(size)}; !slices.Equal(got, want) {
		t.Errorf("PEs have read %q bytes, want %q", got, want)
	}
}

// learnOfDeath kills PE 1 once PE 0 is registered for news of ends. PE 0 prints what these are about.
func learnOfDeath(ctx context.Context, c *client.Client, stdout io.Writer) error {
	news := make(chan []codec.Proc, 1) // the first is enough
	codes := []codec.Status{codec.StatusErrProcAbortedBySig, codec.StatusErrExitNonzeroTerm, codec.StatusErrProcTermWoSync}
	_, err := c.Events.Register(ctx, codes, client.HandlerOptions{}, func(ev *client.Event) client.Result {
		select {
		case news <- ev.Affected:
		default:
		}
		return client.Result{}
	})
	if err != nil {
		return err
	}
	if err := c.Fence(ctx, false); err != nil {
		return err
	}
	if c.Rank() == 1 {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	select {
	case about := <-news:
		for _, p := range about {
			fmt.Fprintf(stdout, "PE %v is dead\n", p.Rank)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("no news: %w", ctx.Err())
	}
}

// PEs of other nodes learn of the end of a program although the shell that has started it goes on. Here it goes on until
// they have learnt of it.
func TestFarProgramOfShellDies(t *testing.T) {
	t.Parallel()
	fifo := filepath.Join(t.TempDir(), "fifo")
	check(t, syscall.Mkfifo(fifo, 0o600))
	j := start(t, "--emulate", "2", "-n", "2", "--recover", "sh", "-c",
		`"$0" pe t-pmix news; if [ $PMIX_RANK = 0 ]; then echo go >"$1"; else read go <"$1"; fi`, self(t), fifo)
	j.expect(3, "PE 1 (pid ", "1 of 2 PEs failed:")
	if got, want := j.stdout.String(), "PE 1 is dead\n"; got != want {
		t.Errorf("output %q, want %q", got, want)
	}
}

// SIGTSTP stops PEs of other nodes that ignore it, too.
func TestStopOnNodes(t *testing.T) {
	t.Parallel()
	j := start(t, "--emulate", "2", "-n", "2", "sh", "-c", `trap "" TSTP; echo "ready $$"; while :; do :; done`)
	pids := j.ready(2)
	for range 3 {
		check(t, j.cmd.Process.Signal(syscall.SIGTSTP))
		inState(t, "T", j.cmd.Process.Pid)
		inState(t, "T", pids...)
		check(t, j.cmd.Process.Signal(syscall.SIGCONT))
		inState(t, "RSD", append(pids, j.cmd.Process.Pid)...)
	}
	check(t, j.cmd.Process.Signal(syscall.SIGTERM))
	j.expect(143)
}

// Tools attach by loopback, so --report-uri takes the first PE on this machine.
func TestReportURIElsewhere(t *testing.T) {
	t.Parallel()
	status, _, said := execute(t, "--host", "a.invalid,b.invalid", "--report-uri", "-", "true")
	if want := "which is a.invalid, want PE 0 on this machine"; status != 2 || !strings.Contains(said, want) || !strings.Contains(said, "hint: ") {
		t.Errorf("status %d, %q, want 2 and %q", status, said, want)
	}
	status, _, said = execute(t, "--emulate", "2:netns", "-n", "2", "--report-uri", "-", "true")
	if want := "each node of --emulate 2:netns has one of its own"; status != 2 || !strings.Contains(said, want) {
		t.Errorf("status %d, %q, want 2 and %q", status, said, want)
	}
	j := start(t, "--emulate", "2", "-n", "2", "--report-uri", "-", "true")
	j.expect(0)
	if out := j.stdout.String(); !strings.Contains(out, "127.0.0.1:") {
		t.Errorf("output %q, want an address", out)
	}
}

// Profiles are on the host of their PEs, which makes the directory. Oshrun says where that is. The PEs write them in
// Finalize: those that are asked at the end of a job have a deadline, which they may miss on a busy machine.
func TestPprofElsewhere(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "profiles")
	host := []string{"--launch", "exec:env -C /", "--interface", "127.0.0.0/8", "--host", "a.invalid:2"}
	start(t, append(host, "-n", "2", "--pprof", dir, "t-pe", "ok")...).expect(0, "--pprof: profiles of PEs 0-1 are in "+dir+" on a.invalid")
	if names, _ := profiles(t, dir); !slices.Equal(names, pprofNames(0, 1)) {
		t.Errorf("files %q, want those of both PEs", names)
	}
	j := onHosts(t, "--pprof", "/proc/none", "t-pe", "ok")
	j.begin()
	j.expect(4, "oshrun: a.invalid: --pprof /proc/none: mkdir /proc/none: ", "hint: choose another directory")
}

// PEs on other hosts have the mask and the limit of open files of oshrun, not those of the process that starts daemons, and
// the kernel takes them for lack of memory before their daemons.
func TestSurroundingsElsewhere(t *testing.T) {
	t.Parallel()
	agent := filepath.Join(script(t, "agent", `umask 0; ulimit -Sn 400; exec "$@"`), "agent")
	const show = `umask; ulimit -Sn; echo "$(cat /proc/$$/oom_score_adj) and $(cat /proc/$PPID/oom_score_adj)"`
	own, err := os.ReadFile("/proc/self/oom_score_adj")
	check(t, err)
	daemon := strings.TrimSpace(string(own))
	for _, hosts := range []string{"a.invalid,b.invalid", "a.invalid"} {
		j := prepare(t, "--launch", "exec:"+agent, "--interface", "127.0.0.0/8", "--host", hosts, "--output", "tag", "sh", "-c", show)
		j.cmd.Args = append([]string{"sh", "-c", `umask 027 && ulimit -Sn 500 && exec "$0" "$@"`, j.cmd.Path}, j.cmd.Args[1:]...)
		j.cmd.Path = "/bin/sh"
		j.begin()
		j.expect(0)
		n := 1 + strings.Count(hosts, ",")
		score := daemon
		if n > 1 {
			score = strconv.Itoa(max(500, number(daemon)))
		}
		for pe := range n {
			for _, want := range []string{"0027", "500", score + " and " + daemon} {
				if line := fmt.Sprintf("[%d]<stdout>: %s\n", pe, want); !strings.Contains(j.stdout.String(), line) {
					t.Errorf("%s: output lacks %q:\n%s", hosts, line, &j.stdout)
				}
			}
		}
	}
}

// Hosts are taken to be like this machine and like each other. Where they are not, the user is told.
func TestHostsThatDiffer(t *testing.T) {
	t.Parallel()
	dir := script(t, "program", "exit 0") // in which the PEs start
	for host, text := range map[string]string{"a.invalid": "exit 0", "b.invalid": "exit 0 # newer"} {
		check(t, os.Mkdir(filepath.Join(dir, host), 0o700))
		check(t, os.WriteFile(filepath.Join(dir, host, "program"), []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	}
	hosts := filepath.Join(dir, "hosts")
	check(t, os.WriteFile(hosts, []byte("a.invalid\nb.invalid\n"), 0o600))
	most := runtime.NumCPU()
	// The file that a daemon finds is that in its own directory: /proc/self is another process for each.
	run := func(program string, words ...string) string {
		j := prepare(t, slices.Concat([]string{"--launch", "exec:env -C " + dir + "/{host}", "--interface", "127.0.0.0/8"}, words, []string{program})...)
		j.cmd.Dir = dir
		j.begin()
		j.expectUnread(0)
		return j.stderr.String()
	}
	const differ = "oshrun: program /proc/self/cwd/program differs between hosts: on b.invalid it is another file than on a.invalid; copy one build to all of them\n"
	if said := run("/proc/self/cwd/program", "--host", "a.invalid,b.invalid"); said != differ {
		t.Errorf("said %q, want %q", said, differ)
	}
	if said := run("./program", "--hostfile", hosts, "-n", strconv.Itoa(2*most)); said != "" {
		t.Errorf("said %q of hosts like this machine, want nothing", said)
	}
	if most < 2 {
		t.Skip("one processor: no host can have fewer")
	}
	agent := filepath.Join(script(t, "agent", `case $1 in b.invalid) shift; exec taskset -c 0 "$@"; esac; shift; exec "$@"`), "agent")
	want := fmt.Sprintf("oshrun: host b.invalid: oshrun took it to have %d processors, as this machine has, but it has 1 for the job; to use these: --host b.invalid:1\n", most)
	launch := []string{"--launch", "exec:" + agent + " {host}", "-n", strconv.Itoa(2 * most)}
	for said, words := range map[string][]string{want: {"--hostfile", hosts}, "": {"--hostfile", hosts, "-N", strconv.Itoa(most)}} {
		if got := run("./program", append(launch, words...)...); got != said {
			t.Errorf("%v: said %q, want %q", words, got, said)
		}
	}
}
