package codec

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var (
	aProc  = Proc{Nspace: "job-1", Rank: 3}
	aInfos = []Info{{Key: KeyFwdStdout, Value: BoolValue(true)}}
)

// dynamicRequests returns requests for spawn, connect and I/O forwarding.
func dynamicRequests() map[string]Request {
	return map[string]Request{
		"spawn": &SpawnRequest{Info: aInfos, Apps: []App{
			{Cmd: "/bin/a", Argv: []string{"a", "b"}, Env: []string{"X=1"}, Cwd: "/tmp", MaxProcs: 2, Info: aInfos},
			{Cmd: "c", MaxProcs: 1},
		}},
		"spawn-nothing":  &SpawnRequest{},
		"connect":        &ConnectRequest{Procs: []Proc{aProc, {Nspace: "job-2", Rank: RankWildcard}}, Info: aInfos},
		"disconnect":     &DisconnectRequest{Procs: []Proc{aProc}},
		"iof-pull":       &IOFPullRequest{Procs: []Proc{aProc}, Info: aInfos, Channels: IOFStdout | IOFStderr, ID: 300},
		"iof-pull-none":  &IOFPullRequest{Channels: IOFStdout},
		"iof-push":       &IOFPushRequest{Procs: []Proc{aProc}, Data: []byte("text\n")},
		"iof-push-end":   &IOFPushRequest{Procs: []Proc{aProc}, Info: []Info{{Key: KeyIOFComplete, Value: BoolValue(true)}}},
		"iof-deregister": &IOFDeregisterRequest{ID: 1 << 40},
	}
}

func TestDynamicRequests(t *testing.T) {
	for name, want := range dynamicRequests() {
		b, err := AppendRequest(nil, want)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		got, err := DecodeRequest(b)
		if err != nil || got.Command() != want.Command() {
			t.Fatalf("%s: %v, %v", name, got, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		for n := range b {
			if _, err := DecodeRequest(b[:n]); err == nil && name != "iof-push" {
				t.Errorf("%s cut off after %d of %d bytes: no error", name, n, len(b))
			}
		}
	}
}

func TestDynamicReplies(t *testing.T) {
	job := JobInfo{Nspace: "job-2", Pairs: []KVal{{Key: KeyJobSize, Value: Uint32Value(2)}}}
	packed, err := job.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	spawn, err := DecodeSpawnReply(AppendSpawnReply(nil, packed))
	if diff := cmp.Diff(SpawnReply{Job: job}, spawn); err != nil || diff != "" {
		t.Errorf("spawn: %v (-want +got):\n%s", err, diff)
	}
	connect, err := DecodeConnectReply(AppendConnectReply(nil, packed, packed))
	if diff := cmp.Diff(ConnectReply{Jobs: []JobInfo{job, job}}, connect); err != nil || diff != "" {
		t.Errorf("connect: %v (-want +got):\n%s", err, diff)
	}
	pull, err := DecodeIOFPullReply(AppendIOFPullReply(nil, 77))
	if err != nil || pull != (IOFPullReply{ID: 77}) {
		t.Errorf("pull: %+v, %v", pull, err)
	}
	failed := AppendStatusReply(nil, StatusErrNotFound)
	spawn, err = DecodeSpawnReply(append(bytes.Clone(failed), 2, 0)) // libpmix adds a null string
	if err != nil || spawn.Status != StatusErrNotFound {
		t.Errorf("failed spawn: %+v, %v", spawn, err)
	}
	if connect, err = DecodeConnectReply(failed); err != nil || connect.Status != StatusErrNotFound {
		t.Errorf("failed connect: %+v, %v", connect, err)
	}
	if pull, err = DecodeIOFPullReply(failed); err != nil || pull.Status != StatusErrNotFound {
		t.Errorf("failed pull: %+v, %v", pull, err)
	}
	m := IOFMessage{Source: aProc, Channel: IOFStderr, ID: 9, Info: aInfos, Data: []byte("oops\n")}
	b, err := m.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := DecodeIOFMessage(b)
	if diff := cmp.Diff(m, got); err != nil || diff != "" {
		t.Errorf("message: %v (-want +got):\n%s", err, diff)
	}
}

func TestToolReply(t *testing.T) {
	for name, want := range map[string]ToolReply{
		"named":     {Given: &Proc{Nspace: "job-1-tool-1"}, Server: Proc{Nspace: "server", Rank: 7}},
		"not named": {Server: Proc{Nspace: string(bytes.Repeat([]byte("x"), MaxNspaceLen)), Rank: 7}},
		"refused":   {Status: StatusErrNoPermissions},
	} {
		b := AppendToolReply(nil, want)
		got, err := ReadToolReply(bytes.NewReader(b), want.Given != nil)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
		for n := range b {
			if _, err := ReadToolReply(bytes.NewReader(b[:n]), want.Given != nil); err == nil {
				t.Errorf("%s cut off after %d of %d bytes: no error", name, n, len(b))
			}
		}
	}
	if _, err := ReadToolReply(bytes.NewReader(make([]byte, 1000)), true); err == nil {
		t.Error("tool without a name: no error")
	}
}

// Each kind of process sends the fields of its kind.
func TestHandshakeKinds(t *testing.T) {
	for flag := range SingletonFlag + 2 {
		want := NewHandshake(aProc, SecurityNative, []byte("cred"))
		want.Flag = flag
		if hasUser(flag) {
			want.UID, want.GID = 1000, 100
		}
		if !hasProc(flag) {
			want.Proc = Proc{}
		}
		b := AppendHandshake(nil, want)
		got, err := DecodeHandshake(b[HeaderSize:])
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("kind %d: %v (-want +got):\n%s", flag, err, diff)
		}
		known := flag == ClientFlag || (flag >= ToolNeedsIDFlag && flag <= SingletonFlag)
		if err := got.Check(); (err == nil) != known {
			t.Errorf("kind %d: %v, want it accepted: %v", flag, err, known)
		}
	}
}

// FuzzDynamicReply looks for panics, and for answers whose second encoding differs from the first.
func FuzzDynamicReply(f *testing.F) {
	job := JobInfo{Nspace: "job-2", Pairs: []KVal{{Key: KeyJobSize, Value: Uint32Value(2)}}}
	packed, err := job.Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	m := IOFMessage{Source: aProc, Channel: IOFStdout, Info: aInfos, Data: []byte("text")}
	message, err := m.Append(nil)
	if err != nil {
		f.Fatal(err)
	}
	for _, b := range [][]byte{
		AppendSpawnReply(nil, packed), AppendConnectReply(nil, packed, packed), AppendIOFPullReply(nil, 1), message,
		AppendToolReply(nil, ToolReply{Given: &aProc, Server: aProc}),
	} {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = DecodeSpawnReply(b)
		_, _ = DecodeConnectReply(b)
		_, _ = DecodeIOFPullReply(b)
		for _, needsID := range []bool{false, true} {
			reply, err := ReadToolReply(bytes.NewReader(b), needsID)
			if err != nil {
				continue
			}
			again, err := ReadToolReply(bytes.NewReader(AppendToolReply(nil, reply)), needsID)
			if diff := cmp.Diff(reply, again); err != nil || (diff != "" && reply.Status == StatusSuccess) {
				t.Errorf("% x decodes again to %+v, %v", b, again, err)
			}
		}
		m, err := DecodeIOFMessage(b)
		if err != nil {
			return
		}
		once, err := m.Append(nil)
		if err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		m, err = DecodeIOFMessage(once)
		if err != nil {
			t.Fatalf("% x does not decode: %v", once, err)
		}
		if twice, err := m.Append(nil); err != nil || !bytes.Equal(once, twice) {
			t.Errorf("% x is encoded again as % x, %v", once, twice, err)
		}
	})
}
