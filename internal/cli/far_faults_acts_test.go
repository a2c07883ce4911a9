package cli

import (
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

func (f *faultJob) killPE(*faultKind) { f.kill(f.somePE()) }

// kill kills a PE.
func (f *faultJob) kill(pe int) {
	f.note("kill PE %d", pe)
	f.die([]int{pe}, 128+int(syscall.SIGKILL), fmt.Sprintf("PE %d (pid %d) was killed by signal 9 (SIGKILL)", pe, f.pids[pe]))
	check(f.t, syscall.Kill(f.pids[pe], syscall.SIGKILL))
}

func (f *faultJob) killSomeNode(kind *faultKind) { f.killNode(f.someNode(), kind) }

// killNode kills the agent or the daemon of a node.
func (f *faultJob) killNode(node string, kind *faultKind) {
	pid, what := f.processOf(node, kind)
	f.note("kill %s of %s", what, node)
	f.lose(node)
	check(f.t, syscall.Kill(pid, syscall.SIGKILL))
}

// processOf returns the process of a node that a kind is about.
func (f *faultJob) processOf(node string, kind *faultKind) (pid int, what string) {
	if strings.HasSuffix(kind.name, "agent") {
		return f.agents[node], "agent"
	}
	return f.daemons[node], "daemon"
}

func (f *faultJob) stopPE(kind *faultKind) {
	pe := f.somePE()
	f.stop(fmt.Sprintf("PE %d", pe), f.pids[pe], f.lasting(kind))
}

func (f *faultJob) stopNode(kind *faultKind) {
	node := f.someNode()
	pid, what := f.processOf(node, kind)
	if kind.kills {
		f.lose(node)
	}
	f.stop(what+" of "+node, pid, f.lasting(kind))
}

// stop stops a process for some time. It may be killed meanwhile.
func (f *faultJob) stop(what string, pid int, d time.Duration) {
	f.note("stop %s for %v", what, d)
	check(f.t, syscall.Kill(pid, syscall.SIGSTOP))
	f.later(d, func() error {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !isDead(pid) {
			return err
		}
		return nil
	})
}

// later heals after some time.
func (f *faultJob) later(d time.Duration, heal func() error) {
	f.heals.Go(func() {
		<-time.After(d)
		if err := heal(); err != nil {
			f.t.Errorf("end of a fault: %v", err)
		}
	})
}

// cutNode takes the interface of a node down.
func (f *faultJob) cutNode(kind *faultKind) {
	node, d := f.someNode(), f.lasting(kind)
	f.note("cut %s for %v", node, d)
	if kind.kills {
		f.lose(node)
	}
	port := "port" + strings.TrimPrefix(node, "node")
	lost := f.lost[node]
	check(f.t, f.inNetwork(f.holder, "ip", "link", "set", port, "down"))
	f.later(d, func() error {
		if err := f.inNetwork(f.holder, "ip", "link", "set", port, "up"); err != nil && !lost && !isDead(f.daemons[node]) {
			return err
		}
		return nil
	})
}

func (f *faultJob) cutSomePair(kind *faultKind) {
	a := f.someNode()
	f.cutPair(a, f.nodeBeside(a), kind)
}

// cutPair makes two nodes send each other packets to an address that nobody has.
func (f *faultJob) cutPair(a, b string, kind *faultKind) {
	d := f.lasting(kind)
	f.note("cut %s from %s for %v", a, b, d)
	if a == b { // there is no other
		return
	}
	if kind.parts {
		f.maybe[a], f.maybe[b] = true, true
	}
	for _, way := range [][2]string{{a, b}, {b, a}} {
		check(f.t, f.cutWay(way, 1))
		f.later(d, func() error {
			if err := f.cutWay(way, -1); err != nil && !isDead(f.daemons[way[0]]) {
				return err
			}
			return nil
		})
	}
}

// cutWay begins a cut of the way from a node to another one, or ends one. The way is whole again when the last cut has ended.
func (f *faultJob) cutWay(way [2]string, more int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	from, to := f.networkOf(way[0]), addressOf(way[1])
	if f.cuts[way] += more; f.cuts[way] > 0 {
		return f.inNetwork(from, "ip", "neigh", "replace", to, "lladdr", "02:00:00:00:00:99", "dev", "eth0", "nud", "permanent")
	}
	return f.inNetwork(from, "ip", "neigh", "del", to, "dev", "eth0")
}

// reset breaks the connections of two agents some times, where the kernel can. Daemons have none with each other.
func (f *faultJob) reset(*faultKind) {
	a := f.someNode()
	b := f.nodeBeside(a)
	times := 1 + f.rng.IntN(5)
	f.note("reset connections of %s with %s %d times", a, b, times)
	for range times {
		check(f.t, f.inNetwork(f.networkOf(a), "ss", "--kill", "--tcp", "dst", addressOf(b)))
		<-time.After(time.Duration(f.rng.Int64N(int64(60 * time.Millisecond))))
	}
}

// networkOf says how nsenter names the network of a node.
func (f *faultJob) networkOf(node string) string {
	return fmt.Sprintf("--net=/proc/%d/ns/net", f.daemons[node])
}

// addressOf returns the address of a node.
func addressOf(node string) string {
	return fmt.Sprintf("10.0.0.%d", 1+number(strings.TrimPrefix(node, "node")))
}

// inNetwork runs a command in a network.
func (f *faultJob) inNetwork(network string, args ...string) error {
	if text, err := exec.Command("nsenter", slices.Concat([]string{network}, args)...).CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w: %s", args, err, text)
	}
	return nil
}
