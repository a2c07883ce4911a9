package pmi1

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goshmem/goshmem/pmix/codec"
)

// Published names are known to the processes of all jobs. In a job on one node the server has the table of them. In a job on
// several nodes the front end has it, and the servers pass the requests of their clients on.

// maxNames bounds the published names of all jobs.
const maxNames = 4096

// NameAsker passes questions about names on to the table of the job's nodes. It must not block.
type NameAsker interface {
	// AskNames sends a question, which NameTable.Answer answers. The answer is Server.NamesAnswered with the number, for
	// which IsNameQuestion holds.
	AskNames(number uint64, question []byte)
}

// nameQuestion is the bit by which the numbers of questions about names are told from those of a PMIx server.
const nameQuestion = 1 << 63

// IsNameQuestion reports whether a number is that of a question about names.
func IsNameQuestion(number uint64) bool { return number&nameQuestion != 0 }

// nameOp says what a request about names wants.
type nameOp uint8

const (
	opPublish nameOp = iota + 1
	opLookup
	opUnpublish
	opEndJob // withdraws the names of a job that is over
)

// results are the commands of the answers that clients get.
var results = [...]string{opPublish: "publish_result", opLookup: "lookup_result", opUnpublish: "unpublish_result", opEndJob: ""}

// nameRequest is a request about names: the job that it comes from, and what it names.
type nameRequest struct {
	op                    nameOp
	nspace, service, port string
}

func (r *nameRequest) append(b []byte) []byte {
	e := codec.NewEncoder(b)
	e.Byte(byte(r.op))
	for _, s := range []string{r.nspace, r.service, r.port} {
		e.ByteObject([]byte(s)) // a string of the codec has no zero bytes
	}
	return e.Bytes()
}

func parseNameRequest(b []byte) (r nameRequest, err error) {
	d := codec.NewDecoder(b)
	r.op = nameOp(d.Byte())
	r.nspace, r.service, r.port = string(d.ByteObject()), string(d.ByteObject()), string(d.ByteObject())
	if err := d.End(); err != nil {
		return nameRequest{}, fmt.Errorf("question about published names: %w", err)
	}
	if r.op == 0 || r.op > opEndJob {
		return nameRequest{}, fmt.Errorf("question about published names is of kind %d, want 1 to %d", r.op, opEndJob)
	}
	return r, nil
}

// appendNameAnswer appends the answer to a question: the port, or why there is none.
func appendNameAnswer(b []byte, port string, failure error) []byte {
	e := codec.NewEncoder(b)
	e.Bool(failure == nil)
	if failure != nil {
		port = failure.Error()
	}
	e.ByteObject([]byte(port))
	return e.Bytes()
}

func parseNameAnswer(b []byte) (port string, failure error) {
	d := codec.NewDecoder(b)
	well, text := d.Bool(), string(d.ByteObject())
	switch {
	case d.End() != nil || well && !fitsValue(text):
		return "", errors.New("damaged answer about published names")
	case !well:
		return "", errors.New(text)
	default:
		return text, nil
	}
}

// NameTable has the published names of all jobs.
//
//   - Concurrent calls: none.
type NameTable struct {
	byService map[string]name
}

// name is a published name: the job that owns it, and the port that it stands for.
type name struct {
	nspace, port string
}

// NewNameTable returns a table without names.
func NewNameTable() *NameTable { return &NameTable{byService: map[string]name{}} }

// Answer answers a question of a node's server.
//
//   - Errors: a question that no server asks.
func (t *NameTable) Answer(question []byte) (answer []byte, err error) {
	r, err := parseNameRequest(question)
	if err != nil {
		return nil, err
	}
	port, failure := t.serve(&r)
	return appendNameAnswer(nil, port, failure), nil
}

var errNotPublished = errors.New("service not found")

// serve serves a request. It returns the port for which a name stands that was looked up.
func (t *NameTable) serve(r *nameRequest) (port string, err error) {
	n, found := t.byService[r.service]
	switch r.op {
	case opPublish:
		return "", t.publish(r)
	case opLookup:
		if !found {
			return "", errNotPublished
		}
		return n.port, nil
	case opUnpublish:
		if !found || n.nspace != r.nspace { // only its own job may withdraw a name
			return "", errNotPublished
		}
		delete(t.byService, r.service)
	case opEndJob:
		for service, n := range t.byService {
			if n.nspace == r.nspace {
				delete(t.byService, service)
			}
		}
	}
	return "", nil
}

func (t *NameTable) publish(r *nameRequest) error {
	switch _, taken := t.byService[r.service]; {
	case r.service == "" || len(r.service) >= maxValue:
		return fmt.Errorf("service name has %d characters, want 1 to %d", len(r.service), maxValue-1)
	case !fitsValue(r.port):
		return fmt.Errorf("port has %d characters, want at most %d and one line", len(r.port), maxValue-1)
	case taken:
		return errors.New("key already present")
	case len(t.byService) >= maxNames:
		return fmt.Errorf("%d names are published already, want at most %d: unpublish one first", len(t.byService), maxNames)
	}
	t.byService[r.service] = name{r.nspace, r.port}
	return nil
}

// fitsValue reports whether text fits into a line where clients expect a value.
func fitsValue(text string) bool { return len(text) < maxValue && !strings.Contains(text, "\n") }

// askNames serves a member's request about names, or passes it on.
func (c *core) askNames(m *member, op nameOp, f fields) {
	r := &nameRequest{op: op, nspace: m.world.Nspace, service: f.text("service"), port: f.text("port")}
	if !c.namesFar {
		port, err := c.names.serve(r)
		c.answerNames(m, op, port, err)
		return
	}
	m.phase = phaseNames
	c.asked[c.passOn(r)] = asked{m, op}
}

// asked is a question about names that a member waits for.
type asked struct {
	m  *member
	op nameOp
}

// passOn sends a request about names, and returns the number of the question.
func (c *core) passOn(r *nameRequest) uint64 {
	c.lastAsked++
	number := nameQuestion | c.lastAsked
	c.emit(action{kind: actNames, id: number, question: r.append(nil)})
	return number
}

// takeNames takes the answer to a question about names; nil: there will be none.
func (c *core) takeNames(number uint64, answer []byte) {
	q, waits := c.asked[number]
	delete(c.asked, number)
	if !waits || q.m.phase != phaseNames { // nobody waits for the answer about a job that is over
		return
	}
	q.m.phase = phaseJoined
	if answer == nil {
		c.answerNames(q.m, q.op, "", errors.New("the front end, which has the published names, is lost"))
		return
	}
	port, err := parseNameAnswer(answer)
	c.answerNames(q.m, q.op, port, err)
}

// answerNames answers a member's request about names.
func (c *core) answerNames(m *member, op nameOp, port string, err error) {
	if op == opLookup && err == nil {
		c.send(m, reply(results[op], "port", port, "info", "ok", "rc", "0", "msg", "success"))
		return
	}
	c.answer(m, results[op], err)
}

// withdrawNames withdraws the names of a job that is over. A node none of whose processes has joined the job leaves it to
// others, unless they may be lost.
func (c *core) withdrawNames(w *world) {
	r := &nameRequest{op: opEndJob, nspace: w.Nspace}
	switch {
	case !c.namesFar:
		_, _ = c.names.serve(r) // such a request does not fail
	case w.joined || len(w.dead) > 0:
		c.passOn(r)
	}
}
