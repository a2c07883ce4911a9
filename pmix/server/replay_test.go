package server

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/codec/codectest"
)

// TestReplay sends the core what libpmix sent when the dumps were recorded, and requires the same answers.
func TestReplay(t *testing.T) {
	files, err := filepath.Glob("../codec/testdata/libpmix-4.2.2-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dumps: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			frames := codectest.Load(t, file)[2:] // the driver does the handshake
			want, commands := said(t, frames, false), map[uint32]codec.Command{}
			job := testJob(1)
			job.Programs, job.Commands = []string{"speak"}, []string{"speak"}
			w := newWorld(t, job, false)
			w.connect(0)
			w.sent = nil
			for _, m := range said(t, frames, true) {
				if m.tag == codec.TagHeartbeat {
					continue
				}
				r, err := codec.DecodeRequest(m.body)
				if err != nil {
					t.Fatal(err)
				}
				commands[m.tag] = r.Command()
				for _, a := range w.step(event{kind: evFrame, conn: w.conns[0], tag: m.tag, payload: m.body}) {
					w.spawn(a)
				}
			}
			if len(w.sent) != len(want) {
				t.Errorf("%d answers and messages, want %d", len(w.sent), len(want))
			}
			for _, m := range want {
				if !w.hasSent(m, describes[commands[m.tag]]) {
					t.Errorf("nothing sent with tag %d that is % x", m.tag, m.body)
				}
			}
		})
	}
}

// message is a frame without its index.
type message struct {
	tag  uint32
	body []byte
}

// said returns the messages of one side.
func said(t *testing.T, frames []codectest.Frame, byClient bool) []message {
	t.Helper()
	var out []message
	for _, f := range frames {
		if f.FromClient != byClient {
			continue
		}
		h, err := codec.ParseHeader(f.Header)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, message{h.Tag, f.Body})
	}
	return out
}

// spawn does for the core what the host did in the recording.
func (w *world) spawn(a action) {
	if a.kind != actSpawn {
		return
	}
	child := testJob(a.spawn.Apps[0].MaxProcs)
	child.Nspace = "job-1.1"
	space, err := newNspace(&child, a.spawn.From)
	if err != nil {
		w.t.Fatal(err)
	}
	w.step(event{kind: evAddJob, space: space, proc: a.spawn.From})
	w.step(event{kind: evSpawned, request: a.spawn.ID, proc: codec.Proc{Nspace: child.Nspace}})
}

// describes are requests whose answers describe a job or the server and may change. For these, only the beginning of
// the answer is compared.
var describes = map[codec.Command]bool{codec.CmdRequestInit: true, codec.CmdSpawn: true, codec.CmdQuery: true}

// hasSent finds a message among those sent, and removes it.
func (w *world) hasSent(m message, beginning bool) bool {
	const statusSize = 2 // bytes of a status
	for i, a := range w.sent {
		same := bytes.Equal(a.payload, m.body)
		if beginning && len(a.payload) > statusSize && len(m.body) > statusSize {
			same = bytes.Equal(a.payload[:statusSize], m.body[:statusSize])
		}
		if a.tag == m.tag && same {
			w.sent = append(w.sent[:i:i], w.sent[i+1:]...)
			return true
		}
	}
	return false
}
