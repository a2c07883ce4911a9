package codec

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/goshmem/goshmem/pmix/codec/codectest"
)

// frame is a message of a dump, from a real client or a real server.
type frame = codectest.Frame

// loadFrames reads a dialog between Open MPI 4.1.4 and libpmix 4.2.2 as its server.
func loadFrames(t testing.TB) []frame {
	t.Helper()
	return codectest.Load(t, "testdata/openmpi-4.1.4-rank0-of-2.txt")
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// hostIsLittle says whether this host can read the dump's handshake header, which is in host order.
func hostIsLittle() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

func TestGoldenFrames(t *testing.T) {
	if !hostIsLittle() {
		t.Skip("the dump is from a little-endian host")
	}
	frames := loadFrames(t)
	if len(frames) != 30 {
		t.Fatalf("%d frames in the dump, want 30", len(frames))
	}
	commands := map[uint32]Command{}
	seen := map[Command]int{}
	for i, f := range frames {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			switch {
			case i == 0:
				goldenHandshake(t, f)
			case i == 1:
				goldenHandshakeReply(t, f)
			case f.FromClient:
				tag, cmd := goldenRequest(t, f)
				commands[tag] = cmd
				seen[cmd]++
			default:
				goldenReply(t, f, commands)
			}
		})
	}
	want := map[Command]int{
		CmdRequestInit: 1, CmdRegisterEvents: 2, CmdJobControl: 2, CmdGet: 2, CmdCommit: 1, CmdFence: 3,
		CmdDeregisterEvents: 4, CmdFinalize: 1,
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("requests seen (-want +got):\n%s", diff)
	}
}

func goldenHandshake(t *testing.T, f frame) {
	t.Helper()
	size, err := ParseHandshakeHeader(f.Header)
	if err != nil || size != len(f.Body) {
		t.Fatalf("handshake header: size %d, %v; want %d", size, err, len(f.Body))
	}
	h, err := DecodeHandshake(f.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check(); err != nil {
		t.Error(err)
	}
	want := NewHandshake(Proc{"job-1", 0}, SecurityNone, nil)
	want.Version = "4.2.2rc2"
	if diff := cmp.Diff(want, h, cmp.Comparer(bytes.Equal)); diff != "" {
		t.Errorf("handshake (-want +got):\n%s", diff)
	}
	sameBytes(t, AppendHandshake(nil, h), append(bytes.Clone(f.Header), f.Body...))
}

func goldenHandshakeReply(t *testing.T, f frame) {
	t.Helper()
	status, index, err := DecodeHandshakeReply(f.Body)
	if err != nil || status != StatusSuccess {
		t.Fatalf("handshake reply: status %v, %v", status, err)
	}
	sameBytes(t, AppendHandshakeReply(nil, status, index), f.Body)
}

func goldenRequest(t *testing.T, f frame) (uint32, Command) {
	t.Helper()
	h, err := ParseHeader(f.Header)
	if err != nil || int(h.Size) != len(f.Body) {
		t.Fatalf("header %+v, %v; body of %d bytes", h, err, len(f.Body))
	}
	r, err := DecodeRequest(f.Body)
	if err != nil {
		t.Fatal(err)
	}
	body, err := AppendRequest(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, AppendFrame(nil, h.Index, h.Tag, body), append(bytes.Clone(f.Header), f.Body...))
	if c, ok := r.(*CommitRequest); ok {
		for _, b := range c.Blobs {
			data := ProcData{Packed: b.Data}
			pairs, err := data.Pairs()
			if err != nil || len(pairs) == 0 {
				t.Errorf("commit of scope %d: %d pairs, %v", b.Scope, len(pairs), err)
			}
		}
	}
	return h.Tag, r.Command()
}

func goldenReply(t *testing.T, f frame, commands map[uint32]Command) {
	t.Helper()
	h, err := ParseHeader(f.Header)
	if err != nil || int(h.Size) != len(f.Body) {
		t.Fatalf("header %+v, %v; body of %d bytes", h, err, len(f.Body))
	}
	var body []byte
	switch cmd := commands[h.Tag]; cmd {
	case CmdRequestInit:
		body = reencodeJobInfo(t, f.Body)
	case CmdGet:
		body = reencodeGetReply(t, f.Body)
	default:
		status, err := DecodeStatusReply(f.Body)
		if err != nil || status != StatusSuccess {
			t.Fatalf("reply to %v: %v, %v", cmd, status, err)
		}
		body = AppendStatusReply(nil, status)
	}
	sameBytes(t, AppendFrame(nil, h.Index, h.Tag, body), append(bytes.Clone(f.Header), f.Body...))
}

// reencodeJobInfo decodes a job description down to the keys of each process, and encodes it again.
func reencodeJobInfo(t *testing.T, b []byte) []byte {
	t.Helper()
	j, err := DecodeJobInfo(b)
	if err != nil {
		t.Fatal(err)
	}
	blobs := 0
	for i, kv := range j.Pairs {
		if kv.Key != KeyProcBlob {
			continue
		}
		blobs++
		content, _ := kv.Value.Bytes()
		p, err := DecodeProcBlob(content)
		if err != nil {
			t.Fatal(err)
		}
		if j.Pairs[i].Value, err = p.Value(); err != nil {
			t.Fatal(err)
		}
	}
	if j.Nspace != "job-1" || blobs != 2 {
		t.Errorf("job %q with %d processes, want job-1 with 2", j.Nspace, blobs)
	}
	out, err := j.Append(nil)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func reencodeGetReply(t *testing.T, b []byte) []byte {
	t.Helper()
	r, err := DecodeGetReply(b)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Data) == 0 {
		return r.Append(nil)
	}
	pairs, err := r.Data[0].Pairs()
	if err != nil {
		t.Fatal(err)
	}
	e := NewEncoder(nil)
	for _, kv := range pairs {
		e.KValGroup(kv)
	}
	r.Data[0].Packed = e.Bytes()
	return r.Append(nil)
}

func sameBytes(t *testing.T, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("bytes differ:\ngot  % x\nwant % x", got, want)
	}
}

// TestGoldenAbort covers the only request that the dump lacks, in Open MPI's layout.
func TestGoldenAbort(t *testing.T) {
	want := unhex(t, "0201"+"0254"+"0206686900"+"0200")
	body, err := AppendRequest(nil, &AbortRequest{Status: 42, Message: "hi"})
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, body, want)
	got, err := DecodeRequest(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&AbortRequest{Status: 42, Message: "hi"}, got); diff != "" {
		t.Errorf("abort (-want +got):\n%s", diff)
	}
}
