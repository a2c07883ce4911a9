package pmi1

import (
	"errors"
	"strings"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
)

// named is a job on several nodes whose published names are in one table.
type named struct {
	*spanned
	table *NameTable
}

func newNamed(t *testing.T, nodes ...int) *named {
	t.Helper()
	n := &named{spanned: newSpanned(t, nodes...), table: NewNameTable()}
	for _, c := range n.cores {
		c.namesFar = true
	}
	return n
}

// ask steps a node, and returns what it sends and the questions that it asks.
func (n *named) ask(node int, ev event) (sent []string, questions []action) {
	n.t.Helper()
	for _, a := range n.cores[node].Step(ev, nil) {
		switch a.kind {
		case actSend:
			sent = append(sent, strings.TrimSuffix(a.text, "\n"))
		case actNames:
			questions = append(questions, a)
			if !IsNameQuestion(a.id) {
				n.t.Errorf("question %#x, want a number of a question about names", a.id)
			}
		}
	}
	return sent, questions
}

// say has a rank send a line.
func (n *named) say(rank int, line string) (sent []string, questions []action) {
	n.t.Helper()
	return n.ask(n.nodes[rank], event{kind: evInput, conn: connID(rank + 1), data: []byte(line + "\n")})
}

// answer has the table answer a question of a node.
func (n *named) answer(node int, question action) string {
	n.t.Helper()
	answer, err := n.table.Answer(question.question)
	if err != nil {
		n.t.Fatal(err)
	}
	sent, _ := n.ask(node, event{kind: evNames, id: question.id, data: answer})
	return strings.Join(sent, ";")
}

// Processes of all nodes share the published names. Those of a job go when it ends.
func TestNamesOfAllNodes(t *testing.T) {
	n := newNamed(t, 0, 1)
	for _, c := range []struct {
		rank       int
		line, want string
	}{
		{0, "cmd=publish_name service=sea ice port=tag#0$x", "cmd=publish_result rc=0 msg=success"},
		{1, "cmd=publish_name service=sea ice port=y", "cmd=publish_result rc=-1 msg=key_already_present"},
		{1, "cmd=lookup_name service=sea ice", "cmd=lookup_result port=tag#0$x info=ok rc=0 msg=success"},
		{1, "cmd=lookup_name service=sea", "cmd=lookup_result rc=-1 msg=service_not_found"},
		{1, "cmd=unpublish_name service=sea ice", "cmd=unpublish_result rc=0 msg=success"}, // of the same job
		{0, "cmd=lookup_name service=sea ice", "cmd=lookup_result rc=-1 msg=service_not_found"},
		{0, "cmd=publish_name service=nul\x00 port=z\x00", "cmd=publish_result rc=0 msg=success"},
		{1, "cmd=lookup_name service=nul\x00", "cmd=lookup_result port=z\x00 info=ok rc=0 msg=success"},
	} {
		sent, questions := n.say(c.rank, c.line)
		if len(sent) != 0 || len(questions) != 1 {
			t.Fatalf("%q: sent %q and %d questions, want one question alone", c.line, sent, len(questions))
		}
		if got := n.answer(n.nodes[c.rank], questions[0]); got != c.want {
			t.Errorf("%q: %q, want %q", c.line, got, c.want)
		}
	}
	for node := range n.cores {
		_, questions := n.ask(node, event{kind: evRemoveJob, proc: codec.Proc{Nspace: "j"}})
		if len(questions) != 1 {
			t.Fatalf("node %d asks %d questions at the end of the job, want one", node, len(questions))
		}
		if got := n.answer(node, questions[0]); got != "" {
			t.Errorf("node %d sends %q after the end of the job, want nothing", node, got)
		}
		if left := len(n.cores[node].asked) + len(n.cores[node].jobs); left != 0 {
			t.Errorf("node %d keeps %d questions and jobs, want none", node, left)
		}
	}
	if len(n.table.byService) != 0 {
		t.Errorf("names %v are left, want none", n.table.byService)
	}
}

// A request about names ends, whatever becomes of the client and of the table. Nothing may come from the client before.
func TestNamesWithoutAnswer(t *testing.T) {
	n := newNamed(t, 0, 1, 1)
	_, questions := n.say(0, "cmd=lookup_name service=s")
	sent, _ := n.ask(0, event{kind: evNames, id: questions[0].id})
	if got := strings.Join(sent, ";"); !strings.Contains(got, "cmd=lookup_result rc=-1 msg=the_front_end") {
		t.Errorf("with the table lost %q, want an error", got)
	}
	sent, _ = n.ask(0, event{kind: evNames, id: questions[0].id}) // twice
	n.wantSent(sent)

	_, questions = n.say(1, "cmd=publish_name service=s port=p")
	n.ask(1, event{kind: evClosed, conn: 2})
	if got := n.answer(1, questions[0]); got != "" {
		t.Errorf("a client that has gone is sent %q", got)
	}
	_, questions = n.say(2, "cmd=lookup_name service=s")
	n.say(2, "cmd=get_maxes") // it has not waited: its connection is closed
	if got := n.answer(1, questions[0]); got != "" {
		t.Errorf("a client that has broken the protocol is sent %q", got)
	}
}

// A node none of whose processes speaks PMI-1 says nothing at the end of a job, unless it knows of the death of others.
func TestEndOfSilentJob(t *testing.T) {
	for _, dies := range []bool{false, true} {
		c := newCore()
		c.namesFar = true
		c.Step(event{kind: evAddJob, job: &WorldSpec{Nspace: "j", Procs: procsOn(0, 1)}}, nil)
		if dies {
			c.Step(event{kind: evExited, proc: codec.Proc{Nspace: "j", Rank: 1}, failed: true}, nil)
		}
		out := c.Step(event{kind: evRemoveJob, proc: codec.Proc{Nspace: "j"}}, nil)
		if asks := len(out) == 1 && out[0].kind == actNames; asks != dies {
			t.Errorf("with a death %v the node does %+v", dies, out)
		}
	}
}

// FuzzNames: the table answers what no server asks with an error, and a server survives what no table answers.
func FuzzNames(f *testing.F) {
	for op := opPublish; op <= opEndJob; op++ {
		r := nameRequest{op, "j", "service", "port"}
		f.Add(r.append(nil), appendNameAnswer(nil, "port", nil))
	}
	f.Add([]byte{5, 0, 0, 0}, appendNameAnswer(nil, "", errors.New("no")))
	f.Fuzz(func(t *testing.T, question, answer []byte) {
		table := NewNameTable()
		if _, err := table.Answer((&nameRequest{opPublish, "other", "theirs", "p"}).append(nil)); err != nil {
			t.Fatal(err)
		}
		if reply, err := table.Answer(question); err == nil {
			if _, failure := parseNameAnswer(reply); failure != nil && failure.Error() == "damaged answer about published names" {
				t.Errorf("the table gives the answer %q to %q", reply, question)
			}
		}
		if r, err := parseNameRequest(question); err != nil || r.nspace != "other" {
			if _, err := table.serve(&nameRequest{op: opLookup, service: "theirs"}); err != nil {
				t.Errorf("after %q another job's name is gone: %v", question, err)
			}
		}
		c := newCore()
		c.namesFar = true
		c.Step(event{kind: evAddJob, job: &WorldSpec{Nspace: "j", Procs: procsOn(0)}}, nil)
		c.Step(event{kind: evConnect, conn: 1, proc: codec.Proc{Nspace: "j"}}, nil)
		c.Step(event{kind: evInput, conn: 1, data: []byte("cmd=init pmi_version=1 pmi_subversion=1\ncmd=lookup_name service=s\n")}, nil)
		if len(answer) == 0 {
			answer = nil
		}
		out := c.Step(event{kind: evNames, id: nameQuestion | 1, data: answer}, nil)
		if len(out) != 1 || len(out[0].text) > maxValue+maxKey+maxMessage || strings.Count(out[0].text, "\n") != 1 {
			t.Errorf("after the answer %q the client is sent %+v, want one line", answer, out)
		}
	})
}
