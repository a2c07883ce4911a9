package daemon

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/goshmem/goshmem/failure"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/plan"
	pmix "github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/pmi1"
	"github.com/goshmem/goshmem/pmix/server"
	"github.com/goshmem/goshmem/symheap"
	"github.com/goshmem/goshmem/symheap/layout"
)

// A share that cannot be is refused before anything is made.
func TestShareCheck(t *testing.T) {
	for want, change := range map[string]func(s *settings){
		`step "job"`:                              func(s *settings) { s.Share.Name = "job" },
		`step "goshmem-1-2"`:                      func(s *settings) { s.Share.Name = "goshmem-1-2" },
		`step "goshmem-"`:                         func(s *settings) { s.Share.Name = "goshmem-" },
		"no job key":                              func(s *settings) { s.Share.Key = [16]byte{} },
		"node 2, want a number below 2":           func(s *settings) { s.Share.Node = 2 },
		"node 0, want a number below 0":           func(s *settings) { s.Share.Hosts = nil },
		"nodes of 3 PEs are given, want those of": func(s *settings) { s.Share.Homes = []int{0, 1, 1} },
		"PE 1 is on node 5":                       func(s *settings) { s.Share.Homes = []int{0, 5} },
		`has the host name ""`:                    func(s *settings) { s.Share.Hosts = []string{"a", ""} },
		"nodes 0 and 1 have the host name a":      func(s *settings) { s.Share.Hosts = []string{"a", "a"} },
		"without Hooks.Remote":                    func(s *settings) { s.Remote = nil },
	} {
		s, err := sleepers(t, 2, func(s *settings) {
			s.Share, s.Remote = testShare("goshmem-test", []int{0, 1}, 0), seat{}
			change(s)
		}).start()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		if s != nil {
			_ = s.Close()
		}
	}
}

// A share of one node gives a job its name and its key, and nothing else changes.
func TestShareOfOneNode(t *testing.T) {
	share := testShare("goshmem-0123", []int{0, 0}, 0)
	s := startSleepers(t, 2, func(s *settings) { s.Share = share })
	j := s.table.job(0)
	if j.nspace != share.Name || j.key != share.Key || s.servers.host != "host0" || s.NodeServer() != nil || j.nodes() != 1 {
		t.Errorf("job %s with key %x on %s, %d nodes: want %s with %x on host0, one node", j.nspace, j.key, s.servers.host, j.nodes(), share.Name, share.Key)
	}
}

// PMIx clients exchange data between nodes, by a fence and without one, and know their nodes.
func TestPMIxOnNodes(t *testing.T) {
	for name, homes := range map[string][]int{"blocks": {0, 0, 1}, "cyclic": {0, 1, 0}, "three nodes": {2, 0, 1}} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, []App{player(3, "exchange", "")}, homes)
			c.launch()
			var want []string
			for pe, node := range homes {
				var peers []int
				for other, at := range homes {
					if at == node {
						peers = append(peers, other)
					}
				}
				want = append(want, fmt.Sprintf("%d: sum 6 late %d node %d local rank %d peers %v", pe, (pe+1)%3*10, node, slices.Index(peers, pe), peers))
			}
			c.wantLines(want...)
			c.wantWell()
		})
	}
}

// Only near PEs have segments and processes here; numbers are those of the job.
func TestNearPEs(t *testing.T) {
	script := `echo $PMIX_RANK $PMI_RANK $MPI_LOCALRANKID of $MPI_LOCALNRANKS on $PMIX_HOSTNAME, $GOMAXPROCS processors; if read line; then echo $line; fi`
	app := shell(5, script)
	app.Procs = 1
	procs := runtime.GOMAXPROCS(12)
	t.Cleanup(func() { runtime.GOMAXPROCS(procs) })
	c := startCluster(t, []App{app}, []int{0, 0, 0, 1, 1}, func(s *settings) {
		s.StdinTo.PEs, s.Share.Emulated, s.Binding.Bind = []int{4}, false, plan.BindNone
	})
	for node, s := range c.steps {
		j := s.table.job(0)
		if want := [][]int{{0, 1, 2}, {3, 4}}[node]; !slices.Equal(j.near, want) || j.npes() != 5 || j.left != len(want) || len(j.memory.heaps) != len(want) {
			t.Fatalf("node %d: PEs %v of %d, %d segments, %d to end; want PEs %v of 5", node, j.near, j.npes(), len(j.memory.heaps), j.left, want)
		}
		info, err := j.memory.heaps[0].Stat()
		if err != nil {
			t.Fatal(err)
		}
		m, err := symheap.NewMap(j.key, len(j.near), uint64(info.Size()))
		if err != nil {
			t.Fatal(err)
		}
		for i, f := range j.memory.heaps {
			if err := m.Attach(layout.Local(i), layout.PE(j.near[i]), int(f.Fd())); err != nil {
				t.Errorf("node %d: segment %d: %v", node, i, err)
			}
		}
	}
	c.launch()
	for _, s := range c.steps {
		s.Feed(Chunk{To: 4, Data: []byte("for PE 4\n"), End: true})
	}
	var want []string
	for pe := range 5 {
		node, local, near := pe/3, pe%3, 3-pe/3
		want = append(want, fmt.Sprintf("%d: %d %d %d of %d on host%d, %d processors", pe, pe, pe, local, near, node, 12/near))
	}
	c.wantLines(append(want, "4: for PE 4")...)
	if pid := c.steps[0].PID(ID{PE: 4}); pid != 0 {
		t.Errorf("node 0 has process %d for PE 4 of node 1", pid)
	}
	c.awaitEnds()
}

// Emulated nodes share the processors of one machine, and real ones have their own.
func TestProcessorsOfNodes(t *testing.T) {
	const nodes = 4
	cpus := runtime.NumCPU()
	var homes []int // as many PEs on each node as there are processors
	for pe := range nodes * cpus {
		homes = append(homes, pe/cpus)
	}
	for _, emulated := range []bool{false, true} {
		s := assemble(settings{}, "goshmem-test")
		share := testShare("goshmem-test", homes, 1)
		share.Emulated = emulated
		j := newLocalJob([]App{{NPEs: len(homes)}}, &share)
		s.table.enlistFirst(j)
		want := cpus
		if emulated {
			want = max(1, cpus/nodes)
		}
		if got := s.cfg.processors(j); got != want || j.crowded != emulated {
			t.Errorf("emulated %t: %d processors, crowded %t, want %d and %t", emulated, got, j.crowded, want, emulated)
		}
		if at := s.cfg.place(j, j.near[0]); at.Sharers != j.sharers() {
			t.Errorf("emulated %t: %d sharers of the processors, want %d", emulated, at.Sharers, j.sharers())
		}
	}
}

// Go programs that need the segments of other PEs are told what they cannot have.
func TestShmemOnNodes(t *testing.T) {
	for name, x := range map[string]struct {
		homes []int
		want  []string
	}{
		"blocks": {[]int{0, 0, 1, 1}, []string{"the job has 2 nodes, and this node has no agent: oshrun starts none", "the job has 2 nodes, and this node has no agent: oshrun starts none"}},
		"cyclic": {[]int{0, 1, 0, 1}, []string{"host0 has 2 PEs from PE 0 to PE 2 with gaps: ", "host1 has 2 PEs from PE 1 to PE 3 with gaps: "}},
	} {
		t.Run(name, func(t *testing.T) {
			c := startCluster(t, []App{player(4, "shmem", "")}, x.homes)
			c.launch()
			lines := c.sorted(4)
			for pe, line := range lines {
				if want := x.want[x.homes[pe]]; !strings.Contains(line, want) {
					t.Errorf("PE %d says %q, want it to contain %q", pe, line, want)
				}
			}
		})
	}
}

// viewOf returns the failure page of a step as its PEs see it.
func viewOf(t *testing.T, s *Step) *failure.View {
	t.Helper()
	j := s.table.job(0)
	view, err := failure.Attach(int(j.memory.page.File().Fd()), j.key, j.npes())
	if err != nil {
		t.Fatal(err)
	}
	return view
}

// A failure of another node is known here when the root has passed it on: once, to everybody who learns of failures.
func TestFarFailed(t *testing.T) {
	c := startCluster(t, []App{player(1, "attach", ""), player(1, "watch", ""), shell(2, "exec sleep 1000")}, []int{0, 0, 1, 1})
	c.launch()
	c.wantLines("0: 4 PEs, 2 segments, 3 descriptors, page true ", "1: watches")
	here, there := viewOf(t, c.steps[0]), viewOf(t, c.steps[1])
	if err := syscall.Kill(c.steps[1].PID(ID{PE: 2}), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	e := nextOf(t, c.steps[1], Failed)
	if !there.Dead(2, incarnation) || here.Epoch() != 0 {
		t.Errorf("PE 2 is dead on its node: %t, epoch %d on the other one, want true and 0", there.Dead(2, incarnation), here.Epoch())
	}
	fail := func(f FarFailure) {
		t.Helper()
		if err := c.steps[0].FarFailed(f); err != nil {
			t.Error(err)
		}
	}
	fail(FarFailure{PEs: []int{e.PE}, End: e.End})
	c.wantLines("0: alert", "1: event PMIX_ERR_PROC_ABORTED_BY_SIG about [2]", "1: fence: true")
	if f, ok := here.Failure(2); !ok || f.Cause != failure.BySignal(syscall.SIGKILL, false, false) || f.At != 0 || f.Epoch != 1 {
		t.Errorf("the page has %+v, want PE 2 killed at an unknown time in epoch 1", f)
	}
	fail(FarFailure{PEs: []int{2}, End: ending.End{Code: 3}})
	fail(FarFailure{PEs: []int{2, 3}, NodeLost: true})
	c.wantLines("0: alert", "1: event PMIX_EVENT_NODE_DOWN about [3]")
	if f, ok := here.Failure(3); !ok || f.Cause != failure.Of(failure.NodeLost) || here.Epoch() != 2 {
		t.Errorf("the page has %+v in epoch %d, want PE 3 lost in epoch 2", f, here.Epoch())
	}
	for _, pe := range []int{-1, 0, 1, 4} {
		if err := c.steps[0].FarFailed(FarFailure{PEs: []int{3, pe}}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("PE %d ", pe)) {
			t.Errorf("failure of PE %d: error %v, want one that names it", pe, err)
		}
	}
	if here.Epoch() != 2 {
		t.Errorf("epoch %d after wrong news, want 2", here.Epoch())
	}
}

// On several nodes PEs learn of the failure that ends the job: their node does not know that it is the first.
func TestEndsFirstOnNodes(t *testing.T) {
	c := startCluster(t, []App{shell(2, "exec sleep 1000")}, []int{0, 1}, func(s *settings) { s.EndsFirst = true })
	c.launch()
	if err := syscall.Kill(c.steps[1].PID(ID{PE: 1}), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	nextOf(t, c.steps[1], Failed)
	if view := viewOf(t, c.steps[1]); !view.Dead(1, incarnation) {
		t.Error("the failure is not on the page")
	}
}

// A job on several nodes starts no further one, and says so.
func TestSpawnOnNodes(t *testing.T) {
	c := startCluster(t, []App{shell(2, "exec sleep 1000")}, []int{0, 1})
	c.launch()
	from := pmix.Proc{Nspace: c.steps[0].table.job(0).nspace}
	pmixHost{c.steps[0].clients}.Spawn(&server.SpawnRequest{From: from, Apps: []server.SpawnApp{{Cmd: "true", MaxProcs: 1}}})
	pmiHost{c.steps[1].clients}.Spawn(&pmi1.SpawnRequest{From: from, Apps: []pmi1.SpawnApp{{Cmd: "true", MaxProcs: 1}}})
	for range 2 {
		if got := receive(t, "notice", c.said); !strings.Contains(got, errNoRoot.Error()) {
			t.Errorf("the user is told %q", got)
		}
	}
}

// A request to end PEs is an abort of the job if it names all PEs of all nodes. Otherwise it reaches near ones, and the
// user is told of the others.
func TestAbortOnNodes(t *testing.T) {
	c := startCluster(t, []App{shell(4, "exec sleep 1000")}, []int{0, 0, 1, 1})
	c.launch()
	s := c.steps[0]
	all := func(ranks ...pmix.Rank) (names []pmix.Proc) {
		for _, rank := range ranks {
			names = append(names, pmix.Proc{Nspace: s.table.job(0).nspace, Rank: rank})
		}
		return names
	}
	for _, names := range [][]pmix.Proc{nil, all(pmix.RankWildcard), all(3, 2, 1, 0)} {
		if own := s.clients.killOthers(all(0)[0], names); own == nil || own.id.PE != 0 {
			t.Errorf("the end of %v is no abort of the job", names)
		}
	}
	if err := s.FarFailed(FarFailure{PEs: []int{3}, End: ending.End{Signal: 9}}); err != nil {
		t.Fatal(err)
	}
	if own := s.clients.killOthers(all(0)[0], all(0, 1, 2)); own == nil {
		t.Error("the end of all that live is no abort of the job")
	}
	if own := s.clients.killOthers(all(0)[0], all(1, 3, 2, 9)); own != nil {
		t.Error("the end of some is an abort of the job")
	}
	if e := nextOf(t, s, Failed); e.PE != 1 || e.By != "PE 0" {
		t.Errorf("event %+v, want the end of PE 1 for PE 0", e)
	}
	far := c.steps[1]
	if own := far.clients.killOthers(all(0)[0], all(1, 2)); own != nil {
		t.Error("a request of a PE of another node is an abort of the job")
	}
	if e := nextOf(t, far, Failed); e.PE != 2 || e.By != "PE 0" {
		t.Errorf("event %+v, want the end of PE 2 for PE 0", e)
	}
}

// Ranks of Open MPI get the loopback interface only where nodes are emulated and nothing else is there, and the user has
// said nothing.
func TestEmulation(t *testing.T) {
	loopback, only := onlyLoopback()
	share := testShare("goshmem-test", []int{0, 1}, 0)
	var want []string
	if only {
		want = []string{"OMPI_MCA_btl_tcp_if_include=" + loopback}
	}
	if got := emulation(os.Environ(), &share); !slices.Equal(got, want) {
		t.Errorf("variables %q, want %q", got, want)
	}
	for _, kv := range []string{"OMPI_MCA_btl_tcp_if_include=eth0", "OMPI_MCA_btl_tcp_if_exclude="} {
		if got := emulation([]string{kv}, &share); got != nil {
			t.Errorf("with %s: variables %q, want none", kv, got)
		}
	}
	share.Emulated = false
	if got := emulation(nil, &share); got != nil {
		t.Errorf("on real nodes: variables %q, want none", got)
	}
}
