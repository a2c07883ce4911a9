package server

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Queries tell the states of processes of all nodes, those that have ended well included, of which no other node hears.
func TestQueriesBetweenNodes(t *testing.T) {
	m := newMesh(t, 2)
	w := m.worlds[0]
	m.worlds[1].core.find(first(2)).pid, m.worlds[1].core.find(first(3)).pid = 222, 333
	if got, want := w.rows(queryOf(codec.KeyQueryProcTable)), []string{"0 n0  0 6", "1 n0  0 6", "2 n1  222 6", "3 n1  333 6"}; !slices.Equal(got, want) {
		t.Errorf("processes %q, want %q", got, want)
	}
	m.worlds[1].step(event{kind: evExited, proc: first(2), exit: Exit{Signal: 9}})
	host := about(codec.KeyHostname, codec.StringValue("n1"))
	if got, want := w.rows(queryOf(codec.KeyQueryLocalProcTable, host)), []string{"2 n1  222 54", "3 n1  333 6"}; !slices.Equal(got, want) {
		t.Errorf("processes of n1 %q, want %q", got, want)
	}
	if got, want := w.rows(queryOf(codec.KeyQueryLocalProcTable)), []string{"0 n0  0 6", "1 n0  0 6"}; !slices.Equal(got, want) {
		t.Errorf("processes of the own node %q, want %q", got, want)
	}
	third := about(codec.KeyProcID, codec.ProcValue(first(3)))
	for _, c := range []struct{ keys, want string }{
		{codec.KeyProcPID + " " + codec.KeyProcState, "ok ppid=333 proc.state=6"},
		{codec.KeyQueryJobStatus, "ok qry.jst=PMIX_ERR_PROC_ABORTED_BY_SIG"},
	} {
		if got := w.queryText(0, queryOf(c.keys, third)); got != c.want {
			t.Errorf("query of %s: %s, want %s", c.keys, got, c.want)
		}
	}
	if len(w.core.errands.open)+len(w.core.errands.byProc) != 0 {
		t.Error("questions are left, want none")
	}
}

// A job is over when the processes of all nodes have ended well.
func TestJobStatusOfAllNodes(t *testing.T) {
	m := newMesh(t, 2)
	for _, rank := range []codec.Rank{1, 2, 3} {
		m.request(rank, &codec.FinalizeRequest{})
		m.exit(rank)
	}
	if got, want := m.worlds[0].queryText(0, queryOf(codec.KeyQueryJobStatus)), "ok qry.jst=PMIX_SUCCESS"; got != want {
		t.Errorf("with a process that runs %s, want %s", got, want)
	}
	m.request(0, &codec.FinalizeRequest{})
	m.exit(0)
	if got, want := m.worlds[0].jobStatusNow(), codec.StatusEventJobEnd; got != want {
		t.Errorf("with all ended %v, want %v", got, want)
	}
}

// jobStatusNow returns the status of the first job as the node knows it.
func (w *world) jobStatusNow() codec.Status {
	v, _ := w.core.queries.jobStatus(&question{space: w.core.spaces[testNspace]})
	status, _ := v.Data.(codec.Status)
	return status
}

// A query is answered although a node dies. Its processes are lost.
func TestQueryOfDeadNode(t *testing.T) {
	m := newMesh(t, 2)
	m.kill(1)
	w := m.worlds[0]
	if got, want := w.rows(queryOf(codec.KeyQueryProcTable)), []string{"0 n0  0 6", "1 n0  0 6", "2 n1  0 56", "3 n1  0 56"}; !slices.Equal(got, want) {
		t.Errorf("processes %q, want %q", got, want)
	}
	if got, want := w.queryText(0, queryOf(codec.KeyQueryJobStatus)), "ok qry.jst="+codec.StatusEventNodeDown.String(); got != want {
		t.Errorf("job status %s, want %s", got, want)
	}
}

// Answers that no server gives are logged, and the query is answered.
func TestStrangeCensus(t *testing.T) {
	e := codec.NewEncoder(nil)
	e.Uint(0) // groups
	e.Proc(first(1))
	e.Uint(1)
	e.Byte(6)
	e.Bool(false)
	e.Status(codec.StatusSuccess)
	for _, body := range [][]byte{e.Bytes(), {1, 2}} {
		w := newWorld(t, twoNodes(0), true)
		w.core.peered = true
		var asked uint64
		w.carry = func(a action) { asked = a.request }
		w.connect(0, 1)
		w.log = nil
		w.request(0, queryOf(codec.KeyQueryProcTable))
		a := peerAnswer{body: body}
		w.step(event{kind: evAnswered, request: asked, payload: a.append(nil)})
		if len(w.log) != 2 || w.log[0][:len("refused query: ")] != "refused query: " {
			t.Errorf("%q, want a line for the log and an answer", w.log)
		}
	}
}

// expectGroups checks what a process learns of the groups of all nodes: their names, and the members of one.
func (m *mesh) expectGroups(rank codec.Rank, names, id string, members ...codec.Rank) {
	m.t.Helper()
	w := m.on(rank)
	keys := codec.KeyQueryNumGroups + " " + codec.KeyQueryGroupNames + " " + codec.KeyQueryGroupMembership
	got := w.queryText(rank, queryOf(keys, about(codec.KeyGroupID, codec.StringValue(id))))
	want := fmt.Sprintf("ok qry.pgrpnum=%d qry.pgrp={3 [%s]} qry.pgrpmems={22 %v}", len(strings.Fields(names)), names, ranks(members...))
	if got != want {
		m.t.Errorf("rank %d learns %q of groups and the members of %s, want %q", rank, got, id, want)
	}
}

// All nodes tell the same of groups, whichever nodes these are on.
func TestGroupQueriesBetweenNodes(t *testing.T) {
	m := newMesh(t, 3)
	m.request(2, construct("g", ranks(2, 4)))
	m.request(4, construct("g", ranks(2, 4)))
	m.request(1, construct("h", ranks(1, 2)))
	m.request(2, construct("h", ranks(1, 2)))
	m.request(5, construct("h", ranks(5)))
	m.clear()
	for rank := range codec.Rank(6) {
		m.expectGroups(rank, "g h h", "g", 2, 4)
	}
	m.expectGroups(0, "g h h", "h", 1, 2) // the asker is in neither
	m.expectGroups(2, "g h h", "h", 1, 2)
	m.expectGroups(5, "g h h", "h", 5)
	m.request(4, &codec.FinalizeRequest{})
	m.exit(4) // of which the other nodes do not hear
	m.expectGroups(0, "g h h", "g", 2)
	m.expectGroups(2, "g h h", "g", 2)
	m.kill(2)
	m.expectGroups(2, "g h", "h", 1, 2)
	m.request(2, &codec.FinalizeRequest{})
	m.exit(2)
	m.expectGroups(0, "h", "h", 1)
	for node, w := range m.worlds[:2] {
		if len(w.core.queries.farGroups)+len(w.core.errands.open) != 0 {
			t.Errorf("node %d keeps groups of other nodes or questions, want none", node)
		}
	}
}

// A member finds all members, also of a node on which the group is still to come about.
func TestQueryOfYoungGroup(t *testing.T) {
	m := newMesh(t, 2)
	m.ended = func(node int) {
		if node == 0 {
			m.expectGroups(0, "g", "g", 0, 2)
		}
	}
	m.request(0, construct("g", ranks(0, 2)))
	m.request(2, construct("g", ranks(0, 2)))
}
