package server_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/internal/house/testenv"
	"github.com/goshmem/goshmem/pmix/codec"
	"github.com/goshmem/goshmem/pmix/codec/codectest"
	"github.com/goshmem/goshmem/pmix/server"
)

// With -record, what libpmix sends replaces the dumps in pmix/codec/testdata.
var record = flag.Bool("record", false, "record what libpmix and the server say to each other")

// dumps is the folder of the recorded frames, with a file for each part of speak.c.
const dumps = "../codec/testdata"

func dumpOf(part string) string { return filepath.Join(dumps, "libpmix-4.2.2-"+part+".txt") }

// spawner is a host that adds a job for each spawn request without starting it. It records what clients log.
type spawner struct {
	server.Host
	srv   chan *server.Server
	lines chan string
}

func (spawner) ClientConnected(codec.Proc, int) {}
func (spawner) ClientFinalized(codec.Proc)      {}
func (spawner) ClientLost(codec.Proc)           {}
func (h spawner) Abort(from codec.Proc, procs []codec.Proc, status int, msg string) {
	h.lines <- fmt.Sprintf("abort %v %v %d %s", from, procs, status, msg)
}

func (h spawner) Control(from codec.Proc, targets []codec.Proc, a server.ControlAction) {
	h.lines <- fmt.Sprintf("control %v %v signal %d", from, targets, a.Signal)
}

func (h spawner) Log(from codec.Proc, toStderr bool, text []byte) {
	h.lines <- fmt.Sprintf("log %v %v %q", from, toStderr, text)
}

func (h spawner) Stdin(to []codec.Proc, data []byte, eof bool) {
	h.lines <- fmt.Sprintf("stdin %v %q %v", to, data, eof)
}

func (h spawner) Spawn(r *server.SpawnRequest) {
	srv := <-h.srv
	h.srv <- srv
	child := server.JobLayout{Nspace: "job-1.1", Hosts: []string{"vm"}}
	for rank := range r.Apps[0].MaxProcs {
		child.Procs = append(child.Procs, server.Proc{Rank: uint32(rank), LocalRank: uint16(rank)})
	}
	status := codec.StatusSuccess
	if err := srv.AddJob(child, r.From); err != nil {
		status = codec.StatusError
	}
	h.lines <- fmt.Sprintf("spawn %v %s %v in %s", r.From, r.Apps[0].Cmd, r.Apps[0].Args, r.Apps[0].Dir)
	srv.SpawnDone(r.ID, child.Nspace, status)
}

// speak runs a part of speak.c as the only process of a job. It returns the program's output, the upcalls, and the
// frames.
func speak(t *testing.T, part string) (printed, upcalls []string, frames []codectest.Frame) {
	t.Helper()
	program := testenv.CompileC(t, testenv.CC, "testdata/speak.c", testenv.LibPMIx)
	h := spawner{srv: make(chan *server.Server, 1), lines: make(chan string, 64)}
	j := job(1)
	j.Programs, j.Commands = []string{"speak"}, []string{"speak"}
	srv, err := server.Start(server.Config{Job: j, Host: h})
	if err != nil {
		t.Fatal(err)
	}
	h.srv <- srv
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	recorder := codectest.Record(t, address(srv.Environ(codec.Proc{Nspace: "job-1"})))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, part)
	cmd.Env = through(recorder, srv.Environ(codec.Proc{Nspace: "job-1"}))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("speak %s: %v\n%s", part, err, out)
	}
	conns, err := recorder.Frames()
	if err != nil || len(conns) != 1 {
		t.Fatalf("%d connections, %v; want one", len(conns), err)
	}
	for len(h.lines) > 0 {
		upcalls = append(upcalls, <-h.lines)
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n"), upcalls, conns[0]
}

const scheme = "tcp4://"

// address finds the server's address in the environment of a client.
func address(env []string) string {
	for _, kv := range env {
		if _, addr, ok := strings.Cut(kv, scheme); ok {
			return addr
		}
	}
	return ""
}

// through makes a client connect to the server through a recorder.
func through(recorder *codectest.Recorder, env []string) []string {
	env = slices.Clone(env)
	for i, kv := range env {
		if before, _, ok := strings.Cut(kv, scheme); ok {
			env[i] = before + scheme + recorder.Addr()
		}
	}
	return env
}

// requests lists the commands in a dump from a client. Its messages that are not requests are listed by tag.
func requests(t *testing.T, frames []codectest.Frame) []string {
	t.Helper()
	var out []string
	for _, f := range frames[1:] { // after the handshake
		if !f.FromClient {
			continue
		}
		if tag := binary.BigEndian.Uint32(f.Header[4:]); tag < codec.TagFirstDynamic {
			out = append(out, fmt.Sprint("tag ", tag))
			continue
		}
		r, err := codec.DecodeRequest(f.Body)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r.Command().String())
	}
	return out
}

// TestLibPMIx uses every part of the reference library's interface, and compares the frames with the dumps.
func TestLibPMIx(t *testing.T) {
	for part, want := range spoken {
		t.Run(part, func(t *testing.T) {
			printed, upcalls, frames := speak(t, part)
			if diff := cmp.Diff(want, append(printed, upcalls...)); diff != "" {
				t.Errorf("printed, then upcalls (-want +got):\n%s", diff)
			}
			if *record {
				remark := "libpmix 4.2.2 as a client of this server: speak " + part + " (pmix/server, -record)"
				if err := codectest.Write(dumpOf(part), remark, frames); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(requests(t, codectest.Load(t, dumpOf(part))), requests(t, frames)); diff != "" {
				t.Errorf("requests (-dump +now):\n%s", diff)
			}
		})
	}
}

// Every part of the program has a dump, and every dump belongs to a part.
func TestDumpsAreComplete(t *testing.T) {
	files, err := filepath.Glob(dumpOf("*"))
	if err != nil {
		t.Fatal(err)
	}
	for part := range spoken {
		i := slices.Index(files, dumpOf(part))
		if i < 0 {
			t.Errorf("no dump of %s; go test ./pmix/server -run TestLibPMIx -record makes one", part)
			continue
		}
		files = slices.Delete(files, i, i+1)
	}
	if len(files) > 0 {
		t.Errorf("dumps without a part: %v", files)
	}
}
