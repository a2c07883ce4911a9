package server

import (
	"slices"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// farJob returns a job with rank 0 on node 2 of three, seen from node 0, which has none of it.
func farJob() JobLayout {
	return JobLayout{Nspace: "job-2", Hosts: []string{"n0", "n1", "n2"}, Procs: []Proc{{Node: 2}}}
}

// A job on some of the nodes is described without the others. Nodes keep their numbers.
func TestJobOnSomeNodes(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0)
	w.addChild(farJob(), first(0))
	w.log = nil
	about2 := about(codec.KeyNspace, codec.StringValue("job-2"))
	for _, c := range []struct{ keys, node, want string }{
		{"pmix.num.nodes pmix.nlist", "", "ok num.nodes=1 nlist=n2"},
		{"pmix.lpeers pmix.nodeid", "n2", "ok lpeers=0 nodeid=2"},
		{"pmix.lpeers", "n1", "ERR_NOT_FOUND"},
	} {
		qualifiers := []codec.Info{about2}
		if c.node != "" {
			qualifiers = append(qualifiers, about(codec.KeyHostname, codec.StringValue(c.node)))
		}
		if got := w.queryText(0, queryOf(c.keys, qualifiers...)); got != c.want {
			t.Errorf("%s of node %q: %s, want %s", c.keys, c.node, got, c.want)
		}
	}
}

// Processes of a job without processes here take part in connects with those that are here, and get what they ask for
// from their node.
func TestConnectWithFarJob(t *testing.T) {
	w := newWorld(t, twoNodes(0), true)
	w.connect(0)
	w.addChild(farJob(), first(0))
	w.log = nil
	w.request(0, &codec.ConnectRequest{Procs: []codec.Proc{first(0), {Nspace: "job-2", Rank: codec.RankWildcard}}})
	w.expect("fence connect;job-1:0;job-2:*#1 0 bytes")
	w.step(event{kind: evFenceDone, fence: FenceID{FenceSet{Op: opConnect, Procs: "job-1:0;job-2:*"}, 1}})
	reply, err := codec.DecodeConnectReply(w.sent[len(w.sent)-1].payload)
	if err != nil || len(reply.Jobs) != 1 || reply.Jobs[0].Nspace != "job-2" {
		t.Errorf("%+v, %v, want the description of job-2", reply, err)
	}
	w.log = nil
	w.request(0, &codec.GetRequest{Proc: second(0), Key: "k"})
	w.expect("fetch job-2.0 k")
}

// Where processes run can be asked for where there are several nodes, and only there.
func TestPlacingDirectives(t *testing.T) {
	r := spawnOf(codec.Info{Key: codec.KeyHost, Flags: codec.InfoRequired, Value: codec.StringValue("n1")})
	here := started(t, 1)
	here.request(0, r)
	here.expect(`refused spawn: directive "pmix.host" is required but not supported`, "reply 0#101 ERR_NOT_SUPPORTED")
	w := newWorld(t, twoNodes(0), true)
	w.connect(0)
	w.log = nil
	w.request(0, r)
	w.expect("spawn 1 by 0: [{/bin/child [child x] [] /tmp 2 []}]")
	for server, want := range map[*world]bool{here: false, w: true} {
		attrs, _ := server.core.attributesOf("PMIx_Spawn")
		if got := slices.ContainsFunc(attrs, func(a attribute) bool { return a.key == codec.KeyMapBy }); got != want {
			t.Errorf("several nodes: %t, and mapping is said to be followed: %t", want, got)
		}
	}
}
