package nodes

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Agent says by which command daemons are started. The command passes its standard input on to
// each daemon that it starts.
type Agent struct {
	// Command starts the daemon of a node, or of all nodes. {host} stands for the host's name and {node} for the node's
	// index; {hosts} and {nodes} for the names of all hosts, with commas between, and their number.
	Command []string
	All     bool // one command starts all daemons
	Logins  bool // the command is ssh: options for a host's user and port stand before the host

	network *network // the daemons are in a network that the command makes; nil: they are not
}

// What oshrun's daemon is called with.
var daemonWords = []string{"daemon", "--stdin"}

// LocalAgent starts daemons on this machine. Oshrun is the path of oshrun, there and for the other agents.
func LocalAgent(oshrun string) Agent { return Agent{Command: append([]string{oshrun}, daemonWords...)} }

// SSHAgent starts daemons by ssh, which must not ask for anything. It says something on a silent connection, which a
// firewall would forget otherwise.
func SSHAgent(oshrun string) Agent {
	return Agent{Logins: true, Command: append([]string{"ssh", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=15", "{host}", quote(oshrun)}, daemonWords...)}
}

// SrunAgent starts all daemons by one srun, in a job of Slurm. Without any one of these options the end of one daemon
// would end the others, or the daemons would have a part of their nodes only.
func SrunAgent(oshrun string) Agent {
	return Agent{All: true, Command: append([]string{
		"srun", "--nodes={nodes}", "--ntasks={nodes}", "--ntasks-per-node=1", "--nodelist={hosts}", "--input=all", "--kill-on-bad-exit=0", "--overlap",
		"--mpi=none", "--cpu-bind=none", "--mem=0", "--export=ALL", "--unbuffered", oshrun,
	}, daemonWords...)}
}

// ExecAgent starts daemons by a command of the user, to which that of the daemon is appended.
func ExecAgent(words []string, oshrun string) Agent {
	return Agent{Command: slices.Concat(words, []string{oshrun}, daemonWords)}
}

// quote quotes a word for a shell, if that is needed.
func quote(word string) string {
	plain := func(r rune) bool {
		return r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || strings.ContainsRune("/._-+=:@,%", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// argv returns the command for one node of those with these hosts.
func (a Agent) argv(node int, hosts []plan.Host) (argv []string, err error) {
	for i := range hosts {
		if err := a.checkLogin(&hosts[i]); err != nil {
			return nil, err
		}
	}
	return a.fillIn(&hosts[node], node, hosts), nil
}

// fillIn returns the command that starts the daemon of one of some hosts.
func (a Agent) fillIn(host *plan.Host, node int, hosts []plan.Host) (argv []string) {
	fill := strings.NewReplacer(
		"{host}", host.Name, "{node}", strconv.Itoa(node), "{hosts}", strings.Join(namesOf(hosts), ","), "{nodes}", strconv.Itoa(len(hosts)),
	)
	for _, word := range a.Command {
		if word == "{host}" && host.User != "" {
			argv = append(argv, "-l", host.User)
		}
		if word == "{host}" && host.Port != 0 {
			argv = append(argv, "-p", strconv.Itoa(host.Port))
		}
		argv = append(argv, fill.Replace(word))
	}
	return argv
}

// checkLogin refuses a user and a port where the command takes none.
func (a Agent) checkLogin(host *plan.Host) error {
	if !a.Logins && (host.User != "" || host.Port != 0) {
		return fmt.Errorf("host %s: a user and a port are for --launch ssh, want the name alone", host.Name)
	}
	return nil
}

// tailBytes is how much of the last that an agent has written is kept.
const tailBytes = 4 << 10

// tail keeps the end of what is written to it.
type tail struct {
	mu   sync.Mutex
	text []byte
}

// Write keeps text.
func (t *tail) Write(text []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, text...)
	t.text = slices.Clone(t.text[max(0, len(t.text)-tailBytes):])
	return len(text), nil
}

// String returns what is kept, without space around it.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.TrimSpace(t.text))
}

// agentProcess is a launch agent, a process here or on the node of another daemon.
type agentProcess struct {
	where string // the host, or how many there are
	argv  []string
	stdio bool   // its standard input and output are the connection with the daemon
	login string // the host that the agent logs in to by ssh; empty: it is no ssh
	said  *tail
	pid   int           // 0: it runs elsewhere, or was not started
	kill  func()        // ends the agent's own process, which may have ended; its daemon ends when it finds that the front end does not answer any more
	clear func()        // ends the agent with all that it has started in its process group; nothing if it has ended
	ended chan struct{} // closed when it has ended and is reaped
	err   error         // how it ended; set before ended is closed
	once  sync.Once     // of finish
	hear  func()        // returns when the last words of an agent that has ended are read; nil: run does that
	ends  earlyEnds     // of single daemons, if the agent tells
}

// earlyEnds are the ends of daemons of which the agent of all tells. It ends itself after the last one.
type earlyEnds struct {
	mu     sync.Mutex
	of     map[int]error
	change chan struct{} // closed, and made anew, at each end
}

// note notes the end of a node's daemon.
func (e *earlyEnds) note(node int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.of == nil {
		e.of = map[int]error{}
	}
	e.of[node] = err
	if e.change != nil {
		close(e.change)
		e.change = nil
	}
}

// look returns how a node's daemon has ended; nil: no end of it is known. Change is closed at the next end of any.
func (e *earlyEnds) look(node int) (change <-chan struct{}, ended error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.change == nil {
		e.change = make(chan struct{})
	}
	return e.change, e.of[node]
}

// start starts the launch agent of a node, or of all nodes, as a process of this machine. Adopt, if it is not nil, gets the
// connection with the daemon, see stream.
func (a Agent) start(node int, hosts []plan.Host, handover []byte, adopt func(net.Conn)) (*agentProcess, error) {
	if a.network != nil {
		return a.network.handOver(handover)
	}
	p, err := a.processFor(node, hosts)
	if err == nil {
		err = p.startBy(handover, adopt)
	}
	return p, err
}

// startBy starts the agent as a process of this machine. Adopt, if it is not nil, gets the connection with the daemon.
func (p *agentProcess) startBy(handover []byte, adopt func(net.Conn)) error {
	if adopt != nil {
		return p.startStream(handover, adopt)
	}
	return p.start(handover)
}

// processFor returns the launch agent of a node, or of all nodes, which is not started.
func (a Agent) processFor(node int, hosts []plan.Host) (*agentProcess, error) {
	argv, err := a.argv(node, hosts)
	if err != nil {
		return nil, err
	}
	where := hosts[node].Name
	if a.All {
		where = fmt.Sprintf("%d hosts", len(hosts))
	}
	p := newAgentProcess(where, argv)
	if a.Logins {
		p.login = hosts[node].Name
	}
	return p, nil
}

// newAgentProcess returns the agent with a command, which is not started.
func newAgentProcess(where string, argv []string) *agentProcess {
	return &agentProcess{where: where, argv: argv, said: &tail{}, ended: make(chan struct{})}
}

// start starts the agent as a process of this machine.
func (p *agentProcess) start(handover []byte) error {
	cmd := exec.Command(p.argv[0], p.argv[1:]...)
	cmd.Stdin = bytes.NewReader(handover)
	cmd.SysProcAttr = xunix.LastingAttr() // signals of the user's terminal go to the front end alone
	return p.run(cmd)
}

// leftBehind is for how long the output of an agent that has ended is read: what it leaves behind may hold that open.
const leftBehind = time.Second

// run starts the agent by its command. What the command writes is kept, unless its standard output goes elsewhere.
func (p *agentProcess) run(cmd *exec.Cmd) error {
	words, out, err := os.Pipe()
	if err != nil {
		return p.explain(err)
	}
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = out
	err = xunix.AtOwnPriority(cmd.Start)
	out.Close() //nolint:errcheck // the agent has it
	if err != nil {
		words.Close() //nolint:errcheck // the error before says more
		return &daemon.HintError{Err: p.explain(err), Hint: "another command: --launch ssh, srun or exec:COMMAND"}
	}
	p.pid = cmd.Process.Pid
	p.kill = func() { _ = cmd.Process.Kill() }
	var mu sync.Mutex
	lasts := true // its number is that of its group
	p.clear = func() {
		mu.Lock()
		defer mu.Unlock()
		if lasts {
			_ = xunix.KillGroup(p.pid, syscall.SIGKILL)
		}
	}
	read := make(chan struct{})
	go func() {
		_, _ = io.Copy(p.said, words) // the end, or the deadline below
		close(read)
	}()
	go func() {
		_ = xunix.WaitExited(p.pid) // the error of a child that is not there
		mu.Lock()
		lasts = false
		mu.Unlock()
		err := cmd.Wait()
		words.SetReadDeadline(time.Now().Add(leftBehind)) //nolint:errcheck // a pipe takes it
		<-read
		_, _ = p.said.Write(xunix.ReadNow(words, tailBytes)) // last words that a busy machine has not come to read
		words.Close()                                        //nolint:errcheck // nothing is read any more
		if p.hear != nil {
			p.hear()
		}
		p.finish(err)
	}()
	return nil
}

// finish notes that the agent has ended. The first call counts.
func (p *agentProcess) finish(err error) {
	p.once.Do(func() {
		p.err = err
		close(p.ended)
	})
}

// runsAs says whether the agent runs as a process of this machine with that number. After its end the number may be that
// of another process.
func (p *agentProcess) runsAs(pid int) bool {
	select {
	case <-p.ended:
		return false
	default:
		return p.pid == pid
	}
}

// failure returns what is to be said of an agent that has ended before its time.
func (p *agentProcess) failure() error {
	err := p.err
	if err == nil {
		err = errors.New("exit status 0 before the job was over")
	}
	return &daemon.HintError{Err: p.explain(err), Hint: p.hint()}
}

// failureOf returns what is to be said of a daemon that has ended before its time, while the agent of all goes on.
func (p *agentProcess) failureOf(host string, err error) error {
	return &AgentError{Where: host, Argv: p.argv, Err: err, Said: p.said.String()}
}

// hint returns what helps where the agent has failed.
func (p *agentProcess) hint() string {
	status := -1
	if exit, ok := errors.AsType[*exec.ExitError](p.err); ok {
		status = exit.ExitCode()
	}
	missing := status == 126 || status == 127 // as shells say it
	switch {
	case missing && p.login != "":
		return "--prefix DIR, if oshrun is DIR/bin/oshrun on the hosts: the same path as here is the default"
	case missing:
		return "another COMMAND of --launch exec:COMMAND; --prefix DIR, if oshrun is DIR/bin/oshrun on the hosts"
	case status == 255 && p.login != "":
		return "ssh must ask nothing, and know the host: this has to work by hand: ssh -o BatchMode=yes " + p.login + " true"
	}
	if p.stdio {
		return "the same command by hand: it must pass on standard input and output as they are (--control stdio); --prefix, where oshrun is elsewhere there"
	}
	return "the same command by hand; --prefix, where oshrun is elsewhere there; --interface and --port-range, if the daemon does not reach this machine"
}

// explain returns the error of a daemon that does not report itself.
func (p *agentProcess) explain(err error) error {
	return &AgentError{Where: p.where, Argv: p.argv, Err: err, Said: p.said.String()}
}

// end returns when the agent has ended. An agent that has not ended by itself after that time is killed, with all that it
// has started in its group: a shell of --launch exec may wait for something else than the daemon.
func (p *agentProcess) end(after time.Duration) {
	late := time.NewTimer(after)
	defer late.Stop()
	select {
	case <-p.ended:
		return
	case <-late.C:
	}
	p.clear()
	<-p.ended
}

// logWords logs what the daemons of an agent that has ended have said: a node that was lost says there why it has ended.
func (p *agentProcess) logWords(logger zerolog.Logger) {
	if said := p.said.String(); said != "" {
		logger.Info().Str("where", p.where).Msgf("the launch agent has ended, its last words: %s", said)
	}
}

// AgentError reports a daemon that could not be started.
type AgentError struct {
	Where string // the host, or how many
	Argv  []string
	Err   error
	Said  string // the last that the agent wrote
}

// Error names the host, the command and what the command said.
func (e *AgentError) Error() string {
	var words []string // as a shell takes them
	for _, word := range e.Argv {
		words = append(words, quote(word))
	}
	text := fmt.Sprintf("daemon on %s, started by %q: %v", e.Where, strings.Join(words, " "), e.Err)
	if e.Said != "" {
		text += ": " + e.Said
	}
	return text
}

// Unwrap returns how the command ended.
func (e *AgentError) Unwrap() error { return e.Err }
