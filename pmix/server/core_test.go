package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/pmix/codec"
)

const testNspace = "job-1"

// testJob returns a job of n processes on one node.
func testJob(n int) JobLayout {
	j := JobLayout{Nspace: testNspace, Hosts: []string{"vm"}}
	for r := range n {
		j.Procs = append(j.Procs, Proc{Rank: uint32(r), LocalRank: uint16(r)})
	}
	return j
}

// world drives a core and keeps a readable log of its actions.
type world struct {
	t     testing.TB
	core  *core
	now   tick
	conns map[codec.Rank]connID // connections of the first namespace
	last  connID
	tags  map[connID]uint32
	log   []string
	sent  []action     // actions that the log only summarizes
	carry func(action) // carries what goes to other nodes; nil: nobody does
}

func newWorld(t testing.TB, job JobLayout, remote bool) *world {
	t.Helper()
	if err := job.check(); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, core: newCore(remote, 100), conns: map[codec.Rank]connID{}, tags: map[connID]uint32{}}
	w.addJob(job)
	return w
}

func (w *world) addJob(job JobLayout) { w.addChild(job, codec.Proc{}) }

// addChild adds a job that a process has spawned.
func (w *world) addChild(job JobLayout, parent codec.Proc) {
	w.t.Helper()
	s, err := newNspace(&job, parent)
	if err != nil {
		w.t.Fatal(err)
	}
	w.step(event{kind: evAddJob, space: s, proc: parent})
}

func (w *world) step(ev event) []action {
	ev.now = w.now
	out := w.core.Step(ev, nil)
	for _, a := range out {
		if w.carry != nil && (a.kind == actAsk || a.kind == actTell || a.kind == actServed || a.kind == actFence) {
			w.carry(a)
			continue
		}
		w.log = append(w.log, w.describe(a))
		if a.kind == actSend {
			w.sent = append(w.sent, a)
		}
	}
	return out
}

func (w *world) describe(a action) string {
	switch a.kind {
	case actAccept:
		return "accept " + short(a.proc)
	case actReject:
		return "reject " + statusName(a.status)
	case actSend:
		if a.tag == codec.TagNotify {
			return "event " + w.nameOf(a.conn) + " " + describeEvent(a.payload)
		}
		return fmt.Sprintf("reply %s#%d %s", w.nameOf(a.conn), a.tag, describeBody(a.payload))
	case actConnected:
		return "connected " + short(a.proc)
	case actFinalized:
		return "finalized " + short(a.proc)
	case actLost:
		return "lost " + short(a.proc)
	case actAbort:
		return fmt.Sprintf("abort %s %v %d %s", short(a.proc), a.procs, a.status, a.text)
	case actSpawn:
		return fmt.Sprintf("spawn %d by %s: %v", a.spawn.ID, short(a.spawn.From), a.spawn.Apps)
	case actStdin:
		return fmt.Sprintf("stdin of %v: %q, end %v", a.procs, a.payload, a.flag)
	case actListen:
		return fmt.Sprintf("%d listeners", len(a.listen))
	case actFence:
		if a.status != codec.StatusSuccess {
			return fmt.Sprintf("fence %v %s", a.fence, statusName(a.status))
		}
		return fmt.Sprintf("fence %v %d bytes", a.fence, len(a.payload))
	case actExpire:
		return fmt.Sprintf("expire %v", a.fence)
	case actFetch:
		return fmt.Sprintf("fetch %s %s", short(a.proc), a.key)
	case actLog:
		to := "out"
		if a.flag {
			to = "err"
		}
		return fmt.Sprintf("log %s %s %q", short(a.proc), to, a.payload)
	case actJob:
		return fmt.Sprintf("job %s, over %v", a.proc.Nspace, a.flag)
	case actServed:
		return fmt.Sprintf("served %d %s", a.request, statusName(a.status))
	case actDrop:
		return "drop " + short(a.proc)
	case actRefused:
		return "refused " + a.text
	default:
		return describeControl(a)
	}
}

// short formats a process, without the first namespace's name.
func short(p codec.Proc) string {
	if p.Nspace == testNspace {
		return p.Rank.String()
	}
	return p.String()
}

func (w *world) nameOf(conn connID) string {
	if p := w.core.conns[conn]; p != nil {
		return short(p.name)
	}
	return "nobody"
}

func describeBody(b []byte) string {
	if status, err := codec.DecodeStatusReply(b); err == nil {
		return statusName(status)
	}
	if g, err := codec.DecodeGroupReply(b); err == nil {
		return describeGroup(g)
	}
	r, err := codec.DecodeGetReply(b)
	if err != nil {
		return fmt.Sprintf("%d bytes", len(b))
	}
	var out []string
	for _, data := range r.Data {
		pairs, err := data.Pairs()
		if err != nil {
			return err.Error()
		}
		for _, kv := range pairs {
			out = append(out, fmt.Sprintf("%s=%v", kv.Key, kv.Value))
		}
	}
	return strings.Join(out, " ")
}

func statusName(s codec.Status) string {
	if s == codec.StatusSuccess {
		return "ok"
	}
	return strings.TrimPrefix(s.String(), "PMIX_")
}

func first(r codec.Rank) codec.Proc { return codec.Proc{Nspace: testNspace, Rank: r} }

func (w *world) connect(ranks ...codec.Rank) {
	for _, r := range ranks {
		w.conns[r] = w.connectAs(first(r))
	}
}

// connectAs connects a process of any namespace.
func (w *world) connectAs(p codec.Proc) connID {
	w.last++
	w.tags[w.last] = codec.TagFirstDynamic - 1
	w.step(event{kind: evClaim, conn: w.last, proc: p})
	return w.last
}

// request sends a request and returns its tag.
func (w *world) request(rank codec.Rank, r codec.Request) uint32 {
	w.t.Helper()
	return w.requestOn(w.conns[rank], r)
}

// requestOn sends a request on any connection.
func (w *world) requestOn(conn connID, r codec.Request) uint32 {
	w.t.Helper()
	body, err := codec.AppendRequest(nil, r)
	if err != nil {
		w.t.Fatal(err)
	}
	w.tags[conn]++
	w.step(event{kind: evFrame, conn: conn, tag: w.tags[conn], payload: body})
	return w.tags[conn]
}

func (w *world) closeConn(rank codec.Rank) {
	w.step(event{kind: evClosed, conn: w.conns[rank]})
	delete(w.conns, rank)
}

func (w *world) exit(rank codec.Rank) { w.step(event{kind: evExited, proc: first(rank)}) }

// advance lets seconds pass.
func (w *world) advance(seconds tick) {
	w.now += seconds * 100
	w.step(event{kind: evTick})
}

// expect compares the log since the last call with want.
func (w *world) expect(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.log, cmp.Transformer("empty", func(s []string) []string {
		return slices.Clip(append([]string{}, s...))
	})); diff != "" {
		w.t.Errorf("actions (-want +got):\n%s", diff)
	}
	w.log = nil
}

// started returns a world of n connected processes.
func started(t testing.TB, n int) *world {
	t.Helper()
	w := newWorld(t, testJob(n), false)
	for r := range n {
		w.connect(codec.Rank(r))
	}
	w.log = nil
	return w
}

func fenceOf(ranks ...codec.Rank) *codec.FenceRequest {
	r := &codec.FenceRequest{}
	for _, rank := range ranks {
		r.Procs = append(r.Procs, first(rank))
	}
	return r
}

func getOf(rank codec.Rank, key string, infos ...codec.Info) *codec.GetRequest {
	return &codec.GetRequest{Proc: first(rank), Key: key, Info: infos}
}

func commitOf(scope codec.Scope, pairs ...string) *codec.CommitRequest {
	e := codec.NewEncoder(nil)
	for _, p := range pairs {
		key, value, _ := strings.Cut(p, "=")
		e.KValGroup(codec.KVal{Key: key, Value: codec.StringValue(value)})
	}
	return &codec.CommitRequest{Blobs: []codec.ScopedBlob{{Scope: scope, Data: e.Bytes()}}}
}

func seconds(n int32) codec.Info { return codec.Info{Key: codec.KeyTimeout, Value: codec.IntValue(n)} }

func TestClaims(t *testing.T) {
	w := newWorld(t, testJob(2), false)
	w.connect(0)
	w.expect("connected 0", "accept 0")
	w.connect(0)
	w.expect("refused claim of a rank that is already connected", "reject ERR_EXISTS")
	w.connect(2)
	w.expect("refused claim of a process that this server does not serve", "reject ERR_NOT_FOUND")
	w.step(event{kind: evClaim, conn: 99, proc: codec.Proc{Nspace: "other", Rank: 1}})
	w.expect("refused claim of a process that this server does not serve", "reject ERR_NOT_FOUND")
	w.exit(1)
	w.connect(1)
	w.expect("refused claim of a rank whose process has ended", "reject ERR_NO_PERMISSIONS")
}

func TestClaimAgainAfterLossAndFinalize(t *testing.T) {
	w := started(t, 1)
	w.closeConn(0)
	w.expect("lost 0")
	w.connect(0)
	w.expect("connected 0", "accept 0")
	w.request(0, &codec.FinalizeRequest{})
	w.expect("finalized 0", "reply 0#101 ok")
	old := w.conns[0]
	w.connect(0)
	w.expect("connected 0", "accept 0")
	w.step(event{kind: evClosed, conn: old})
	w.expect()
	w.request(0, fenceOf(codec.RankWildcard))
	w.expect("reply 0#101 ok")
}

func TestRequestsAfterFinalize(t *testing.T) {
	w := started(t, 1)
	w.request(0, &codec.FinalizeRequest{})
	w.request(0, &codec.DeregisterEventsRequest{})
	w.expect("finalized 0", "reply 0#101 ok")
	w.request(0, fenceOf(0))
	w.expect("refused request FENCE after finalize", "reply 0#103 ERR_INIT")
	w.closeConn(0)
	w.expect()
}

func TestFence(t *testing.T) {
	w := started(t, 3)
	w.request(1, fenceOf(codec.RankWildcard))
	w.request(0, fenceOf(0, 1, 2)) // the same set in another form
	w.expect()
	w.request(2, fenceOf())
	w.expect("reply 0#101 ok", "reply 1#101 ok", "reply 2#101 ok")
}

func TestFenceOfSome(t *testing.T) {
	w := started(t, 3)
	w.request(0, fenceOf(0, 2))
	w.request(1, fenceOf(1))
	w.expect("reply 1#101 ok")
	w.request(2, fenceOf(2, 0, 2))
	w.expect("reply 0#101 ok", "reply 2#101 ok")
}

func TestFenceRefusals(t *testing.T) {
	w := started(t, 2)
	w.request(0, fenceOf(1))
	w.expect("refused fence: among job-1:1, want the caller to take part", "reply 0#101 ERR_BAD_PARAM")
	w.request(0, fenceOf(0, 7))
	w.expect("refused fence: process job-1.7, want a rank below 2", "reply 0#102 ERR_BAD_PARAM")
	w.request(0, &codec.FenceRequest{Procs: []codec.Proc{{Nspace: "other", Rank: 0}}})
	w.expect("refused fence: process other.0 is unknown here, want a process of a job of this server", "reply 0#103 ERR_BAD_PARAM")
}

// Two threads of a process may call fences of the same set: the n-th call belongs to the n-th fence.
func TestFencesInSequence(t *testing.T) {
	w := started(t, 2)
	w.request(0, fenceOf())
	w.request(0, fenceOf())
	w.request(1, fenceOf())
	w.expect("reply 0#101 ok", "reply 1#101 ok")
	w.request(1, fenceOf())
	w.expect("reply 0#102 ok", "reply 1#102 ok")
}

func TestDeathInFence(t *testing.T) {
	for name, die := range map[string]func(w *world){
		"connection": func(w *world) { w.closeConn(2) },
		"process":    func(w *world) { w.exit(2) },
	} {
		t.Run(name, func(t *testing.T) {
			w := started(t, 3)
			w.request(2, fenceOf())
			w.request(0, fenceOf())
			die(w)
			got := strings.Join(w.log, "; ")
			if !strings.Contains(got, "reply 0#101 ERR_PROC_TERM_WO_SYNC") {
				t.Errorf("%s; want an error for the participant that waits", got)
			}
			w.log = nil
			w.request(1, fenceOf()) // the request was on its way
			w.expect("reply 1#101 ERR_PROC_TERM_WO_SYNC")
			w.request(0, fenceOf())
			w.expect("reply 0#102 ERR_PROC_TERM_WO_SYNC")
			w.request(0, fenceOf(0, 1))
			w.request(1, fenceOf(0, 1))
			w.expect("reply 0#103 ok", "reply 1#102 ok")
		})
	}
}

func TestExitBeforeConnectFailsFence(t *testing.T) {
	w := newWorld(t, testJob(2), false)
	w.connect(0)
	w.log = nil
	w.request(0, fenceOf())
	w.exit(1)
	w.exit(1)
	w.expect("reply 0#101 ERR_PROC_TERM_WO_SYNC")
}

// A process that has finalized may connect again and join. If it ends instead, so does the fence.
func TestFinalizeWithoutJoining(t *testing.T) {
	w := started(t, 3)
	w.request(0, fenceOf())
	w.request(1, &codec.FinalizeRequest{})
	w.expect("finalized 1", "reply 1#101 ok")
	w.exit(1)
	w.expect("reply 0#101 EVENT_PROC_TERMINATED")
	w.request(2, fenceOf())
	w.expect("reply 2#101 EVENT_PROC_TERMINATED")
	w.request(0, fenceOf(0, 2))
	w.request(2, fenceOf(0, 2))
	w.expect("reply 0#102 ok", "reply 2#102 ok")
}

// A failed fence is over for late callers, too, even if the cause has gone. The sequence stays aligned.
func TestLateJoinerHearsOfFailure(t *testing.T) {
	w := started(t, 3)
	w.request(0, fenceOf())
	w.closeConn(1)
	w.log = nil
	w.connect(1)
	w.expect("connected 1", "accept 1")
	w.request(2, fenceOf())
	w.expect("reply 2#101 ERR_PROC_TERM_WO_SYNC")
	w.request(1, fenceOf())
	w.expect("reply 1#101 ERR_PROC_TERM_WO_SYNC")
	for _, r := range []codec.Rank{0, 1, 2} {
		w.request(r, fenceOf())
	}
	w.expect("reply 0#102 ok", "reply 1#102 ok", "reply 2#102 ok")
}

func TestFenceTimeout(t *testing.T) {
	w := started(t, 2)
	r := fenceOf()
	r.Info = []codec.Info{seconds(2)}
	w.request(0, r)
	w.advance(1)
	w.expect()
	w.advance(1)
	w.expect("reply 0#101 ERR_TIMEOUT")
	w.request(1, fenceOf())
	w.expect("reply 1#101 ERR_TIMEOUT")
	if len(w.core.fences.bySet) != 0 || w.core.deadline() != 0 {
		t.Errorf("%d fences are kept and the deadline is %d after all were answered, want none", len(w.core.fences.bySet), w.core.deadline())
	}
}

func TestFailedFencesAreBounded(t *testing.T) {
	w := started(t, 2)
	for range 3 * maxFailedFences {
		r := fenceOf()
		r.Info = []codec.Info{seconds(1)}
		w.request(0, r)
		w.advance(1)
	}
	if n := len(w.core.fences.bySet[FenceSet{Op: opFence, Procs: "job-1:*"}]); n > maxFailedFences {
		t.Errorf("%d failed fences are kept, want at most %d", n, maxFailedFences)
	}
}

func TestOpenFencesAreBounded(t *testing.T) {
	w := started(t, 2)
	for range maxFences {
		w.request(0, fenceOf())
	}
	w.expect()
	w.request(0, fenceOf())
	w.expect("refused fence: too many under way", fmt.Sprintf("reply 0#%d ERR_OUT_OF_RESOURCE", 101+maxFences))
}

func TestGet(t *testing.T) {
	w := started(t, 2)
	w.request(1, commitOf(codec.ScopeLocal, "a=1", "b=2"))
	w.request(0, getOf(1, "a"))
	w.request(0, getOf(1, ""))
	w.expect("reply 1#101 ok", "reply 0#101 a=1 b=2", "reply 0#102 a=1 b=2")
	w.request(0, getOf(codec.RankWildcard, codec.KeyHwlocXMLV2))
	w.request(0, getOf(7, "a"))
	w.request(0, &codec.GetRequest{Proc: codec.Proc{Nspace: "other"}, Key: "a"})
	w.expect("reply 0#103 ERR_NOT_FOUND", "reply 0#104 ERR_NOT_FOUND", "reply 0#105 ERR_NOT_FOUND")
}

func TestGetOfLaterKey(t *testing.T) {
	w := started(t, 3)
	w.request(0, getOf(1, "b"))
	w.request(2, getOf(1, ""))
	w.expect()
	w.request(1, commitOf(codec.ScopeLocal, "a=1"))
	w.expect("reply 1#101 ok", "reply 2#101 a=1")
	w.request(1, commitOf(codec.ScopeGlobal, "b=2"))
	w.expect("reply 1#102 ok", "reply 0#101 a=1 b=2")
}

func TestGetWithoutWaiting(t *testing.T) {
	w := started(t, 2)
	for _, key := range []string{codec.KeyImmediate, codec.KeyOptional} {
		w.request(0, getOf(1, "a", codec.Info{Key: key, Value: codec.BoolValue(true)}))
	}
	w.expect("reply 0#101 ERR_NOT_FOUND", "reply 0#102 ERR_NOT_FOUND")
	w.request(0, getOf(1, "a", codec.Info{Key: codec.KeyImmediate, Value: codec.BoolValue(false)}))
	w.expect()
}

func TestGetTimeout(t *testing.T) {
	w := started(t, 2)
	w.request(0, getOf(1, "a", seconds(3)))
	w.request(0, getOf(1, "b", seconds(1)))
	w.request(0, getOf(1, "c"))
	if at := w.core.deadline(); at != 100 {
		t.Errorf("deadline at tick %d, want 100", at)
	}
	w.advance(1)
	w.expect("reply 0#102 ERR_TIMEOUT")
	w.advance(2)
	w.expect("reply 0#101 ERR_TIMEOUT")
	w.request(1, commitOf(codec.ScopeLocal, "c=3"))
	w.expect("reply 1#101 ok", "reply 0#103 c=3")
}

func TestGetOfOneWhoEnds(t *testing.T) {
	w := started(t, 4)
	for _, r := range []codec.Rank{1, 2, 3} {
		w.request(r, commitOf(codec.ScopeLocal, "a=1"))
		w.request(0, getOf(r, "b"))
	}
	w.log = nil
	w.exit(1)
	w.expect("reply 0#101 ERR_PROC_TERM_WO_SYNC")
	w.closeConn(2)
	w.expect("lost 2", "reply 0#102 ERR_PROC_TERM_WO_SYNC")
	w.request(3, &codec.FinalizeRequest{})
	w.expect("finalized 3", "reply 3#102 ok", "reply 0#103 ERR_NOT_FOUND")
	for _, r := range []codec.Rank{1, 2, 3} {
		w.request(0, getOf(r, "a"))
		w.request(0, getOf(r, "b"))
	}
	w.expect("reply 0#104 a=1", "reply 0#105 ERR_PROC_TERM_WO_SYNC", "reply 0#106 a=1",
		"reply 0#107 ERR_PROC_TERM_WO_SYNC", "reply 0#108 a=1", "reply 0#109 ERR_NOT_FOUND")
}

func TestClosedConnectionForgetsItsGets(t *testing.T) {
	w := started(t, 2)
	w.request(0, getOf(1, "a"))
	w.closeConn(0)
	w.request(1, commitOf(codec.ScopeLocal, "a=1"))
	w.expect("lost 0", "reply 1#101 ok")
}

func TestAbort(t *testing.T) {
	w := started(t, 2)
	w.request(1, &codec.AbortRequest{Status: 42, Message: "no more"})
	w.expect("abort 1 [] 42 no more", "reply 1#101 ok")
	w.request(1, &codec.AbortRequest{Status: 1, Procs: fenceOf(0, 1, 0).Procs})
	w.expect("abort 1 [] 1 ", "reply 1#102 ok")
	w.request(1, &codec.AbortRequest{Status: 1, Procs: fenceOf(codec.RankWildcard).Procs})
	w.expect("abort 1 [] 1 ", "reply 1#103 ok")
	if got := fmt.Sprint(inOneWord([]codec.Proc{first(0), second(3), first(1)}, testNspace)); got != "[job-2.3 job-1.*]" {
		t.Errorf("names %s, want the other job's and the namespace", got)
	}
	w.request(1, &codec.AbortRequest{Status: 1, Procs: fenceOf(2).Procs})
	w.expect("refused abort: process job-1.2 is unknown here, want a process of a job of this server", "reply 1#104 ERR_BAD_PARAM")
}

func TestOtherRequests(t *testing.T) {
	w := started(t, 1)
	w.request(0, &codec.NotifyRequest{Status: -9999, Range: codec.RangeNamespace})
	w.request(0, &codec.OtherRequest{Cmd: codec.CmdFabricRegister, Body: []byte{2, 0}})
	w.request(0, &codec.OtherRequest{Cmd: 77})
	w.expect("reply 0#101 ok", "refused request FABRIC_REGISTER is not served", "reply 0#102 ERR_NOT_SUPPORTED",
		"refused request command 77 is not served", "reply 0#103 ERR_NOT_SUPPORTED")
	w.step(event{kind: evFrame, conn: w.conns[0], tag: 200, payload: []byte{2}})
	w.expect("refused pmix codec: offset 1: byte: length 1, want at most the 0 bytes that follow",
		"reply 0#200 ERR_UNPACK_FAILURE")
	w.request(0, &codec.CommitRequest{Blobs: []codec.ScopedBlob{{Scope: codec.ScopeLocal, Data: []byte{2, 2}}}})
	if got := w.log[len(w.log)-1]; got != "reply 0#104 ERR_UNPACK_FAILURE" {
		t.Errorf("%s, want a refused commit", got)
	}
	w.step(event{kind: evFrame, conn: 999, tag: 1, payload: []byte{2, 0}})
	w.step(event{kind: evClosed, conn: 999})
}
