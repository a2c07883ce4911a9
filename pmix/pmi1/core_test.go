package pmi1

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/pmix/codec"
)

// table drives a core with jobs, all of whose processes are connected.
type table struct {
	t     testing.TB
	core  *core
	conns map[codec.Proc]connID
	procs map[connID]codec.Proc
}

// newTable starts a core with jobs of the given names. The digit at a name's end is the number of processes.
func newTable(t testing.TB, jobs ...string) *table {
	t.Helper()
	w := &table{t: t, core: newCore(), conns: map[codec.Proc]connID{}, procs: map[connID]codec.Proc{}}
	for _, name := range jobs {
		w.add(WorldSpec{Nspace: name, Procs: make([]Proc, int(name[len(name)-1]-'0'))})
	}
	return w
}

func (w *table) add(j WorldSpec) {
	w.t.Helper()
	if err := j.check(); err != nil {
		w.t.Fatal(err)
	}
	w.core.Step(event{kind: evAddJob, job: &j}, nil)
	for rank := range j.Procs {
		p := codec.Proc{Nspace: j.Nspace, Rank: codec.Rank(rank)}
		conn := connID(len(w.conns) + 1)
		w.conns[p], w.procs[conn] = conn, p
		w.core.Step(event{kind: evConnect, conn: conn, proc: p}, nil)
	}
}

// proc parses a process name such as "a2.1".
func proc(name string) codec.Proc {
	nspace, rank, _ := strings.Cut(name, ".")
	return codec.Proc{Nspace: nspace, Rank: codec.Rank(rank[0] - '0')}
}

// step returns what the core does, one action a line.
func (w *table) step(ev event) (did []string) {
	w.t.Helper()
	for _, a := range w.core.Step(ev, nil) {
		who := func(p codec.Proc) string { return fmt.Sprintf("%s.%d", p.Nspace, p.Rank) }
		switch a.kind {
		case actSend:
			text, ok := strings.CutSuffix(a.text, "\n")
			if !ok || strings.Contains(text, "\n") {
				w.t.Errorf("sent %q, want one line", a.text)
			}
			did = append(did, who(w.procs[a.conn])+"< "+text)
		case actClose:
			did = append(did, who(w.procs[a.conn])+" closed")
		case actJoined:
			did = append(did, who(a.proc)+" joined")
		case actFinalized:
			did = append(did, who(a.proc)+" finalized")
		case actLost:
			did = append(did, who(a.proc)+" lost")
		case actAbort:
			did = append(did, fmt.Sprintf("%s aborts %d", who(a.proc), a.status))
		case actSpawn:
			did = append(did, fmt.Sprintf("%s spawns %+v", who(a.spawn.From), *a.spawn))
		case actRefused:
			did = append(did, who(a.proc)+" refused: "+a.text)
		}
	}
	return did
}

// say sends text, with ";" for newlines.
func (w *table) say(who, text string) []string {
	w.t.Helper()
	text = strings.ReplaceAll(text, ";", "\n")
	return w.step(event{kind: evInput, conn: w.conns[proc(who)], data: []byte(text)})
}

const hello = "cmd=init pmi_version=1 pmi_subversion=1;"

// join makes processes join.
func (w *table) join(all ...string) {
	w.t.Helper()
	for _, who := range all {
		w.want(w.say(who, hello), who+" joined", who+"< cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
	}
}

func (w *table) want(did []string, want ...string) {
	w.t.Helper()
	if d := cmp.Diff(want, did); d != "" {
		w.t.Errorf("the core did (-want +got):\n%s", d)
	}
}

func (w *table) exit(who string) []string { return w.step(event{kind: evExited, proc: proc(who)}) }

func (w *table) fail(who string) []string {
	return w.step(event{kind: evExited, proc: proc(who), failed: true})
}

// TestConversation is MPICH's dialog from MPI_Init to MPI_Finalize.
func TestConversation(t *testing.T) {
	w := newTable(t)
	w.add(WorldSpec{Nspace: "j", Procs: []Proc{{}, {AppNum: 3}}, Universe: 8, Preput: []Pair{{"P", "q"}}})
	w.join("j.0", "j.1")
	for _, x := range [][2]string{
		{"cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024"},
		{"cmd=get_appnum", "cmd=appnum appnum=3"},
		{"cmd=get_my_kvsname", "cmd=my_kvsname kvsname=j"},
		{"cmd=get_universe_size", "cmd=universe_size size=8"},
		{"cmd=get kvsname=j key=PMI_process_mapping", "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))"},
		{"cmd=get kvsname=j key=PMI_dead_processes", "cmd=get_result rc=-1 msg=key_PMI_dead_processes_not_found value=unknown"},
		{"cmd=get kvsname=j key=P", "cmd=get_result rc=0 msg=success value=q"},
		{"cmd=put kvsname=j key=a value=b=c", "cmd=put_result rc=0 msg=success"},
		{"cmd=put kvsname=j key=e value=", "cmd=put_result rc=0 msg=success"},
		{"cmd=put kvsname=k key=a value=d", "cmd=put_result rc=-1 msg=kvs_k_not_found"},
		{"cmd=put kvsname=j value=d", `cmd=put_result rc=-1 msg=key_"",_want_1_to_63_characters_without_blanks_and_"="`},
		{"cmd=get kvsname=j key=a", "cmd=get_result rc=0 msg=success value=b=c"},
		{"cmd=get kvsname=j key=e", "cmd=get_result rc=0 msg=success value="},
		{"cmd=get kvsname=k key=a", "cmd=get_result rc=-1 msg=key_a_not_found value=unknown"},
		{"cmd=getbyidx kvsname=j idx=1", "cmd=getbyidx_results rc=0 nextidx=2 key=a val=b=c"},
		{"cmd=getbyidx kvsname=j idx=3", "cmd=getbyidx_results rc=-1 reason=no_more_keyvals"},
		{"cmd=getbyidx kvsname=j idx=-1", "cmd=getbyidx_results rc=-1 reason=no_more_keyvals"},
	} {
		w.want(w.say("j.1", x[0]+";"), "j.1< "+x[1])
	}
	w.want(w.say("j.0", "cmd=get kvsname=j key=a;"), "j.0< cmd=get_result rc=0 msg=success value=b=c")
	w.want(w.say("j.0", "cmd=barrier_in;"))
	w.want(w.say("j.1", "cmd=barrier_in;"), "j.0< cmd=barrier_out rc=0", "j.1< cmd=barrier_out rc=0")
	w.want(w.say("j.1", "cmd=barrier_in;"))
	w.want(w.say("j.0", "cmd=barrier_in;"), "j.1< cmd=barrier_out rc=0", "j.0< cmd=barrier_out rc=0")
	w.want(w.say("j.1", "cmd=finalize;"), "j.1 finalized", "j.1< cmd=finalize_ack rc=0", "j.1 closed")
	w.want(w.say("j.0", "cmd=finalize;"), "j.0 finalized", "j.0< cmd=finalize_ack rc=0", "j.0 closed")
	w.want(w.exit("j.0"))
	w.want(w.exit("j.1"))
}

// TestPieces: lines may come in pieces, and several at once.
func TestPieces(t *testing.T) {
	w := newTable(t, "a1")
	w.want(w.say("a1.0", "cmd=in"))
	w.want(w.say("a1.0", "it pmi_version=1"))
	w.want(w.say("a1.0", ";cmd=get_appnum;cmd=get_"), "a1.0 joined",
		"a1.0< cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0", "a1.0< cmd=appnum appnum=0")
	w.want(w.say("a1.0", "my_kvsname;"), "a1.0< cmd=my_kvsname kvsname=a1")
}

func TestVersion(t *testing.T) {
	w := newTable(t, "a1")
	w.want(w.say("a1.0", "cmd=init pmi_version=2 pmi_subversion=0;"), "a1.0< cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=-1")
	w.join("a1.0")
}

// TestViolations: a client that breaks the protocol is disconnected, and the others are told as of any death.
func TestViolations(t *testing.T) {
	for _, x := range [][2]string{
		{"cmd=no_such;", "cmd=no_such, want a command of PMI 1.1"},
		{";", "an empty line"},
		{" ;", "an empty line"},
		{"=x;", `line "=x": a value without a key`},
		{"barrier_in;", `line "barrier_in", want key=value`},
		{"key=value;", "cmd=, want a command of PMI 1.1"},
		{hello, "cmd=init, want init first and once"},
		{"cmd=barrier_in;cmd=barrier_in;", "cmd=barrier_in while another request is under way"},
		{"cmd=barrier_in;mcmd=spawn;", "mcmd, want"},
		{strings.Repeat("x", maxLine+1), "a line of more than 4096 bytes"},
		{strings.Repeat("x=y ", maxLine) + ";", "a line of more than 4096 bytes"},
	} {
		w := newTable(t, "a3")
		w.join("a3.0", "a3.1", "a3.2")
		w.want(w.say("a3.0", "cmd=barrier_in;"))
		did := w.say("a3.1", x[0])
		if !strings.Contains(did[0], "a3.1 refused: "+x[1]) {
			t.Errorf("%.50q: %q, want a refusal: %s", x[0], did, x[1])
		}
		w.want(did[1:], "a3.1 closed", "a3.1 lost", "a3.0< cmd=barrier_failed rc=-1 msg=rank_1_has_left")
		w.want(w.say("a3.0", "cmd=get kvsname=a3 key=PMI_dead_processes;"), "a3.0< cmd=get_result rc=0 msg=success value=1")
		w.want(w.say("a3.1", "cmd=get_maxes;"))
	}
	w := newTable(t, "a1")
	for range maxLine / 1024 {
		w.want(w.say("a1.0", strings.Repeat("x", 1024)))
	}
	w.want(w.say("a1.0", "x"), "a1.0 refused: a line of more than 4096 bytes", "a1.0 closed")
	w = newTable(t, "a1")
	w.want(w.say("a1.0", "cmd=get_maxes;"), "a1.0 refused: cmd=get_maxes, want init first and once", "a1.0 closed")
}

// TestBarrierFails: a barrier fails when a process leaves, in whatever way, before or after the others have entered.
func TestBarrierFails(t *testing.T) {
	const failed = "< cmd=barrier_failed rc=-1 msg=rank_2_has_left"
	for name, x := range map[string]struct {
		leave func(w *table) []string
		says  []string
		dead  bool
	}{
		"exits silently": {func(w *table) []string { return w.exit("a3.2") }, []string{"a3.2 closed"}, false},
		"fails silently": {func(w *table) []string { return w.fail("a3.2") }, []string{"a3.2 closed"}, true},
		"fails":          {func(w *table) []string { w.join("a3.2"); return w.fail("a3.2") }, []string{"a3.2 closed"}, true},
		"exits":          {func(w *table) []string { w.join("a3.2"); return w.exit("a3.2") }, []string{"a3.2 closed"}, true},
		"hangs up": {func(w *table) []string {
			w.join("a3.2")
			return w.step(event{kind: evClosed, conn: w.conns[proc("a3.2")]})
		}, []string{"a3.2 lost"}, true},
		"finalizes": {
			func(w *table) []string { w.join("a3.2"); return w.say("a3.2", "cmd=finalize;") },
			[]string{"a3.2 finalized", "a3.2< cmd=finalize_ack rc=0", "a3.2 closed"},
			false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newTable(t, "a3")
			w.join("a3.0", "a3.1")
			w.want(w.say("a3.0", "cmd=barrier_in;"))
			w.want(x.leave(w), append(x.says, "a3.0"+failed)...)
			w.want(w.say("a3.1", "cmd=barrier_in;"), "a3.1"+failed)
			w.want(w.say("a3.0", "cmd=barrier_in;"), "a3.0"+failed)
			dead := "a3.0< cmd=get_result rc=-1 msg=key_PMI_dead_processes_not_found value=unknown"
			if x.dead {
				dead = "a3.0< cmd=get_result rc=0 msg=success value=2"
			}
			w.want(w.say("a3.0", "cmd=get kvsname=a3 key=PMI_dead_processes;"), dead)
			w.want(w.exit("a3.2"))
			w.want(w.fail("a3.2"))
		})
	}
}

// TestConnectOnce: a running process has one connection.
func TestConnectOnce(t *testing.T) {
	w := newTable(t, "a2")
	w.procs[9] = proc("a2.0")
	w.want(w.step(event{kind: evConnect, conn: 9, proc: proc("a2.0")}), "a2.0 closed")
	w.join("a2.0")
	w.want(w.exit("a2.1"), "a2.1 closed")
	w.want(w.step(event{kind: evConnect, conn: 9, proc: proc("a2.1")}), "a2.0 closed")
	w.want(w.step(event{kind: evConnect, conn: 9, proc: proc("b1.0")}), "a2.0 closed")
}

// TestSilentHangUp: a program that does not use PMI-1 may close the unknown descriptor.
func TestSilentHangUp(t *testing.T) {
	w := newTable(t, "a2")
	w.want(w.step(event{kind: evClosed, conn: w.conns[proc("a2.0")]}))
	w.join("a2.1")
	w.want(w.say("a2.1", "cmd=barrier_in;"))
	w.want(w.exit("a2.0"), "a2.1< cmd=barrier_failed rc=-1 msg=rank_0_has_left")
}

func TestAbort(t *testing.T) {
	w := newTable(t, "a2")
	w.join("a2.0", "a2.1")
	w.want(w.say("a2.1", "cmd=abort exitcode=42;"), "a2.1 aborts 42")
	w.want(w.say("a2.0", "cmd=abort;"), "a2.0 aborts 1")
}

// TestJobsAreApart: pairs, barriers and ends of jobs are separate. Published names are shared.
func TestJobsAreApart(t *testing.T) {
	w := newTable(t, "a1", "b2")
	w.join("a1.0", "b2.0", "b2.1")
	w.want(w.say("a1.0", "cmd=put kvsname=a1 key=k value=v;"), "a1.0< cmd=put_result rc=0 msg=success")
	w.want(w.say("b2.0", "cmd=get kvsname=b2 key=k;"), "b2.0< cmd=get_result rc=-1 msg=key_k_not_found value=unknown")
	w.want(w.say("b2.0", "cmd=barrier_in;"))
	w.want(w.say("a1.0", "cmd=barrier_in;"), "a1.0< cmd=barrier_out rc=0")
	w.want(w.say("a1.0", "cmd=publish_name service=sea ice port=tag#0$x;"), "a1.0< cmd=publish_result rc=0 msg=success")
	w.want(w.say("b2.1", "cmd=publish_name service=sea ice port=y;"), "b2.1< cmd=publish_result rc=-1 msg=key_already_present")
	w.want(w.say("b2.1", "cmd=lookup_name service=sea ice;"), "b2.1< cmd=lookup_result port=tag#0$x info=ok rc=0 msg=success")
	w.want(w.say("b2.1", "cmd=lookup_name service=sea;"), "b2.1< cmd=lookup_result rc=-1 msg=service_not_found")
	w.want(w.say("b2.1", "cmd=unpublish_name service=sea ice;"), "b2.1< cmd=unpublish_result rc=-1 msg=service_not_found")
	w.want(w.say("a1.0", "cmd=unpublish_name service=sea ice;"), "a1.0< cmd=unpublish_result rc=0 msg=success")
	w.want(w.say("a1.0", "cmd=publish_name service=s port=z;"), "a1.0< cmd=publish_result rc=0 msg=success")
	w.want(w.exit("a1.0"), "a1.0 closed")
	w.want(w.step(event{kind: evRemoveJob, proc: proc("a1.0")}))
	w.want(w.say("b2.1", "cmd=lookup_name service=s;"), "b2.1< cmd=lookup_result rc=-1 msg=service_not_found")
	w.want(w.say("b2.1", "cmd=barrier_in;"), "b2.0< cmd=barrier_out rc=0", "b2.1< cmd=barrier_out rc=0")
	w.want(w.step(event{kind: evRemoveJob, proc: proc("b2.0")}), "b2.0 closed", "b2.1 closed")
	if len(w.core.jobs)+len(w.core.conns)+len(w.core.names.byService) != 0 {
		t.Errorf("the core still has %v, %v, %v", w.core.jobs, w.core.conns, w.core.names.byService)
	}
}

// TestLimits: there are limits on what a job can make the server store, and on what it can make another client read.
func TestLimits(t *testing.T) {
	w := newTable(t, "a1")
	w.join("a1.0")
	long := strings.Repeat("v", maxValue)
	w.want(w.say("a1.0", "cmd=put kvsname=a1 key=k value="+long+";"),
		"a1.0< cmd=put_result rc=-1 msg=value_of_k_has_1024_characters,_want_at_most_1023_and_one_line")
	w.want(w.say("a1.0", "cmd=put kvsname=a1 key=k value="+long[1:]+";"), "a1.0< cmd=put_result rc=0 msg=success")
	if did := w.say("a1.0", "cmd=put kvsname=a1 key="+strings.Repeat("k", maxKey)+" value=v;"); !strings.Contains(did[0], "rc=-1") {
		t.Errorf("key that is too long: %q", did)
	}
	if did := w.say("a1.0", "cmd=publish_name service="+long+" port=p;"); !strings.Contains(did[0], "rc=-1") {
		t.Errorf("name that is too long: %q", did)
	}
	if did := w.say("a1.0", "cmd=publish_name service=s port="+long+";"); !strings.Contains(did[0], "rc=-1") {
		t.Errorf("port that is too long: %q", did)
	}
	stored := 0
	for ; stored < maxStored; stored++ {
		if did := w.say("a1.0", fmt.Sprintf("cmd=put kvsname=a1 key=k%d value=%s;", stored, long[1:])); strings.Contains(did[0], "rc=-1") {
			break
		}
	}
	if kept := stored * maxValue; kept > maxStored || kept < maxStored*9/10 {
		t.Errorf("%d bytes were stored, want nearly %d", kept, maxStored)
	}
	w.want(w.say("a1.0", "cmd=put kvsname=a1 key=k value=shorter;"), "a1.0< cmd=put_result rc=0 msg=success")
	for range 2 * maxStored / maxValue { // putting a key again takes no more space, unless the value is longer
		w.want(w.say("a1.0", "cmd=put kvsname=a1 key=k value="+long[1:]+";"), "a1.0< cmd=put_result rc=0 msg=success")
		w.want(w.say("a1.0", "cmd=put kvsname=a1 key=k value=shorter;"), "a1.0< cmd=put_result rc=0 msg=success")
	}
	for i := 0; strings.Contains(w.say("a1.0", fmt.Sprintf("cmd=put kvsname=a1 key=new%d value=%s;", i, long[:900]))[0], "rc=0"); i++ {
		if i > 2 {
			t.Fatal("a full store accepts more")
		}
	}
	if did := w.say("a1.0", "cmd=put kvsname=a1 key=k value="+long[1:]+";"); !strings.Contains(did[0], "rc=-1") {
		t.Errorf("longer value in a full store: %q", did)
	}
	for i := range maxNames {
		w.want(w.say("a1.0", fmt.Sprintf("cmd=publish_name service=%d port=p;", i)), "a1.0< cmd=publish_result rc=0 msg=success")
	}
	if did := w.say("a1.0", "cmd=publish_name service=more port=p;"); !strings.Contains(did[0], "rc=-1") {
		t.Errorf("name beyond the limit: %q", did)
	}
}

func TestBadJobs(t *testing.T) {
	for name, j := range map[string]WorldSpec{
		"no name":    {Procs: make([]Proc, 1)},
		"blank":      {Nspace: "a b", Procs: make([]Proc, 1)},
		"long name":  {Nspace: strings.Repeat("n", maxName), Procs: make([]Proc, 1)},
		"empty":      {Nspace: "a"},
		"long value": {Nspace: "a", Procs: make([]Proc, 1), Preput: []Pair{{"k", strings.Repeat("v", maxValue)}}},
	} {
		if err := j.check(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestEnviron(t *testing.T) {
	j := WorldSpec{Nspace: "a", Procs: make([]Proc, 3)}
	want := []string{"PMI_FD=4", "PMI_RANK=2", "PMI_SIZE=3", "MPI_LOCALRANKID=2", "MPI_LOCALNRANKS=3"}
	if d := cmp.Diff(want, j.Environ(2, 4)); d != "" {
		t.Error(d)
	}
	j.Spawned = true
	if d := cmp.Diff(append(want, "PMI_SPAWNED=1"), j.Environ(2, 4)); d != "" {
		t.Error(d)
	}
}
