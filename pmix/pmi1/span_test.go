package pmi1

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// spanned is a job on several nodes: a core for each of them.
type spanned struct {
	t     *testing.T
	nodes []int // by rank
	cores []*core
	parts map[uint64]map[int]BarrierPart // by number and node
}

// newSpanned starts a job whose ranks are on some nodes. All have joined.
func newSpanned(t *testing.T, nodes ...int) *spanned {
	t.Helper()
	s := &spanned{t: t, nodes: nodes, parts: map[uint64]map[int]BarrierPart{}}
	for node := range slices.Max(nodes) + 1 {
		c := newCore()
		c.Step(event{kind: evAddJob, job: &WorldSpec{Nspace: "j", Procs: procsOn(nodes...), ThisNode: node}}, nil)
		s.cores = append(s.cores, c)
		for rank, on := range nodes {
			if on == node {
				c.Step(event{kind: evConnect, conn: connID(rank + 1), proc: codec.Proc{Nspace: "j", Rank: codec.Rank(rank)}}, nil)
				s.say(rank, "cmd=init pmi_version=1 pmi_subversion=1")
			}
		}
	}
	return s
}

// step steps a node, keeps its parts, and returns what it sends, a line each.
func (s *spanned) step(node int, ev event) (sent []string) {
	s.t.Helper()
	for _, a := range s.cores[node].Step(ev, nil) {
		switch a.kind {
		case actSend:
			sent = append(sent, string(rune('0'+a.conn-1))+"< "+strings.TrimSuffix(a.text, "\n"))
		case actBarrier:
			if s.parts[a.part.Seq] == nil {
				s.parts[a.part.Seq] = map[int]BarrierPart{}
			}
			if _, twice := s.parts[a.part.Seq][node]; twice {
				s.t.Errorf("node %d hands in its part of barrier %d twice", node, a.part.Seq)
			}
			s.parts[a.part.Seq][node] = a.part
		}
	}
	return sent
}

// say has a rank send a line.
func (s *spanned) say(rank int, line string) []string {
	s.t.Helper()
	return s.step(s.nodes[rank], event{kind: evInput, conn: connID(rank + 1), data: []byte(line + "\n")})
}

// wantSent checks what was sent.
func (s *spanned) wantSent(got []string, want ...string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Errorf("sent %q, want %q", got, want)
	}
}

// wantParts checks which nodes have handed in well, and which an error.
func (s *spanned) wantParts(seq uint64, well, failed []int) {
	s.t.Helper()
	var gotWell, gotFailed []int
	for node := range s.cores {
		switch part, ok := s.parts[seq][node]; {
		case ok && part.Failed:
			gotFailed = append(gotFailed, node)
		case ok:
			gotWell = append(gotWell, node)
		}
	}
	if !slices.Equal(gotWell, well) || !slices.Equal(gotFailed, failed) {
		s.t.Errorf("barrier %d: parts of %v and errors of %v, want %v and %v", seq, gotWell, gotFailed, well, failed)
	}
}

// end answers the parts of a barrier.
func (s *spanned) end(seq uint64) (sent []string) {
	s.t.Helper()
	ev := event{kind: evBarrier, proc: codec.Proc{Nspace: "j"}, id: seq}
	for node := range s.cores {
		part := s.parts[seq][node]
		ev.data = append(ev.data, part.Data...)
		if part.Failed {
			ev.err = errors.New("failed")
		}
	}
	for node := range s.cores {
		sent = append(sent, s.step(node, ev)...)
	}
	return sent
}

// A barrier brings what was put on each node to all others.
func TestBarrierAcrossNodes(t *testing.T) {
	s := newSpanned(t, 0, 0, 1)
	s.say(0, "cmd=put kvsname=j key=a value=1")
	s.say(2, "cmd=put kvsname=j key=b value=2 3")
	s.wantSent(s.say(0, "cmd=barrier_in"))
	s.wantParts(1, nil, nil)
	s.wantSent(s.say(2, "cmd=barrier_in"))
	s.wantParts(1, []int{1}, nil)
	s.wantSent(s.step(0, event{kind: evBarrier, proc: codec.Proc{Nspace: "j"}, id: 1})) // without this node's part
	s.wantSent(s.say(1, "cmd=barrier_in"))
	s.wantParts(1, []int{0, 1}, nil)
	s.wantSent(s.step(0, event{kind: evBarrier, proc: codec.Proc{Nspace: "j"}, id: 2})) // of no barrier
	out := "cmd=barrier_out rc=0"
	s.wantSent(s.end(1), "0< "+out, "1< "+out, "2< "+out)
	s.wantSent(s.say(1, "cmd=get kvsname=j key=b"), "1< cmd=get_result rc=0 msg=success value=2 3")
	s.wantSent(s.say(2, "cmd=get kvsname=j key=a"), "2< cmd=get_result rc=0 msg=success value=1")
	s.wantSent(s.say(2, "cmd=get kvsname=j key=PMI_process_mapping"), "2< cmd=get_result rc=0 msg=success value=(vector,(0,1,2),(1,1,1))")

	s.say(1, "cmd=put kvsname=j key=a value=4")
	for rank := range 3 {
		s.say(rank, "cmd=barrier_in")
	}
	if part := s.parts[2][1]; len(part.Data) != 0 {
		t.Errorf("node 1 hands in %q, want nothing that it has handed in before", part.Data)
	}
	s.end(2)
	s.wantSent(s.say(2, "cmd=get kvsname=j key=a"), "2< cmd=get_result rc=0 msg=success value=4")
}

// A rank that leaves makes its node hand in an error: when another one of its node waits, or one elsewhere does.
// All fail, then and later.
func TestBarrierAcrossNodesFails(t *testing.T) {
	const here, there = "0< cmd=barrier_failed rc=-1 msg=rank_1_has_left", "2< cmd=barrier_failed rc=-1 msg=a_rank_on_another_node_has_left"
	for name, x := range map[string]struct {
		before func(s *spanned)
		want   []string
	}{
		"one of the node waits": {func(s *spanned) { s.say(0, "cmd=barrier_in") }, []string{here, there}},
		"another node calls":    {func(s *spanned) { s.step(0, event{kind: evCalled, proc: codec.Proc{Nspace: "j"}, id: 1}) }, []string{there}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSpanned(t, 0, 0, 1)
			s.say(2, "cmd=barrier_in")
			x.before(s)
			s.step(0, event{kind: evExited, proc: codec.Proc{Nspace: "j", Rank: 1}})
			s.wantParts(1, []int{1}, []int{0})
			s.wantSent(s.end(1), x.want...)
			s.wantSent(s.say(2, "cmd=barrier_in"), there) // at once
			s.step(1, event{kind: evCalled, proc: codec.Proc{Nspace: "j"}, id: 2})
			s.wantParts(2, nil, []int{1})
		})
	}
}

// A death that comes after the node's part is for the next barrier.
func TestDeathAfterThePart(t *testing.T) {
	s := newSpanned(t, 0, 1)
	s.say(0, "cmd=barrier_in")
	s.say(1, "cmd=barrier_in")
	s.step(0, event{kind: evExited, proc: codec.Proc{Nspace: "j", Rank: 1}}) // on the other node, known here
	s.wantParts(1, []int{0, 1}, nil)
	s.wantSent(s.end(1), "0< cmd=barrier_out rc=0", "1< cmd=barrier_out rc=0")
	s.say(0, "cmd=barrier_in")
	s.wantParts(2, nil, []int{0})
}

// All nodes know the dead of all nodes. A member of another node that failed is dead although it never joined here; one
// whose death has two witnesses is listed once.
func TestDeadOfOtherNodes(t *testing.T) {
	s := newSpanned(t, 0, 0, 1, 1)
	for _, rank := range []codec.Rank{2, 1, 2} {
		for node := range s.cores {
			s.step(node, event{kind: evExited, proc: codec.Proc{Nspace: "j", Rank: rank}, failed: true})
		}
	}
	const ask = "cmd=get kvsname=j key=PMI_dead_processes"
	s.wantSent(s.say(0, ask), "0< cmd=get_result rc=0 msg=success value=2,1")
	s.wantSent(s.say(3, ask), "3< cmd=get_result rc=0 msg=success value=2,1")
}

// Damaged data of another node breaks the barrier, and does not take the server with it.
func TestDamagedPairs(t *testing.T) {
	for name, data := range map[string]string{
		"short head": "\x01\x00", "short pair": "\x05\x00\x05\x00a", "no key": "\x00\x00\x01\x00a",
	} {
		s := newSpanned(t, 0, 1)
		s.say(0, "cmd=barrier_in")
		sent := s.step(0, event{kind: evBarrier, proc: codec.Proc{Nspace: "j"}, id: 1, data: []byte(data)})
		if len(sent) != 1 || !strings.Contains(sent[0], "barrier_failed") {
			t.Errorf("%s: sent %q, want a failed barrier", name, sent)
		}
	}
}

// A server without a way to other nodes takes no job that needs one, and connects no process of another node.
func TestServerOfOneNode(t *testing.T) {
	s, _ := serve(t)
	if err := s.AddJob(WorldSpec{Nspace: "j", Procs: procsOn(0, 1)}); err == nil || !strings.Contains(err.Error(), "without Config.Remote") {
		t.Errorf("error %v, want one that asks for Config.Remote", err)
	}
	env := (&WorldSpec{Nspace: "j", Procs: procsOn(0, 1, 1), ThisNode: 1}).Environ(2, 3)
	for _, want := range []string{"PMI_RANK=2", "PMI_SIZE=3", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2"} {
		if !slices.Contains(env, want) {
			t.Errorf("environment %q, want %s", env, want)
		}
	}
}
