package codec

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/goshmem/goshmem/pmix/codec/codectest"
)

// dumps returns what libpmix 4.2.2 sends when a program uses one part of its interface, and the answers of this
// project's server. Package server records them.
func dumps(t testing.TB) map[string][]frame {
	t.Helper()
	files, err := filepath.Glob("testdata/libpmix-4.2.2-*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no dumps: %v", err)
	}
	out := map[string][]frame{}
	for _, file := range files {
		out[filepath.Base(file)] = codectest.Load(t, file)
	}
	return out
}

// unserved are requests that are always refused, so they are not decoded.
var unserved = map[Command]bool{CmdAllocate: true, CmdGetCredential: true, CmdValidateCredential: true}

func TestGoldenLibPMIx(t *testing.T) {
	if !hostIsLittle() {
		t.Skip("the dumps are from a little-endian host")
	}
	seen := map[Command]bool{}
	for name, frames := range dumps(t) {
		t.Run(name, func(t *testing.T) {
			commands := map[uint32]Command{}
			goldenHandshakeReply(t, frames[1])
			for i, f := range frames[2:] {
				t.Run(fmt.Sprint(i+2), func(t *testing.T) {
					if f.FromClient {
						goldenAnyRequest(t, f, commands)
						return
					}
					sameFrame(t, f, commands)
				})
			}
			for _, cmd := range commands {
				seen[cmd] = true
			}
		})
	}
	for cmd := range Command(len(commandNames)) {
		if !seen[cmd] && !unrecorded[cmd] {
			t.Errorf("no dump has the request %v", cmd)
		}
	}
}

// unrecorded are requests that libpmix 4.2 never sends: it invites, joins and leaves by events, and computes distances
// itself.
var unrecorded = map[Command]bool{
	CmdGroupJoin: true, CmdGroupInvite: true, CmdGroupLeave: true,
	CmdFabricRegister: true, CmdFabricUpdate: true, CmdDeviceDistances: true,
}

func goldenAnyRequest(t *testing.T, f frame, commands map[uint32]Command) {
	t.Helper()
	h, err := ParseHeader(f.Header)
	if err != nil {
		t.Fatal(err)
	}
	if h.Tag == TagHeartbeat {
		if len(f.Body) > 0 {
			t.Errorf("heartbeat with %d bytes, want none", len(f.Body))
		}
		return
	}
	tag, cmd := goldenRequest(t, f)
	commands[tag] = cmd
	r, err := DecodeRequest(f.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, other := r.(*OtherRequest); other != unserved[cmd] {
		t.Errorf("request %v is decoded in full: %v, want %v", cmd, !other, !unserved[cmd])
	}
}

// sameFrame decodes a frame from the server, encodes it again, and compares the bytes.
func sameFrame(t *testing.T, f frame, commands map[uint32]Command) {
	t.Helper()
	h, err := ParseHeader(f.Header)
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	if h.Tag == TagNotify {
		var n Notification
		if n, err = DecodeNotification(f.Body); err == nil {
			body, err = n.Append(nil)
		}
	} else {
		body, err = again(t, commands[h.Tag], f.Body)
	}
	if err != nil {
		t.Fatal(err)
	}
	sameBytes(t, AppendFrame(nil, h.Index, h.Tag, body), append(bytes.Clone(f.Header), f.Body...))
}

// again decodes the answer to a request and encodes it.
func again(t *testing.T, cmd Command, b []byte) ([]byte, error) {
	t.Helper()
	if status, err := DecodeStatusReply(b); err == nil {
		return AppendStatusReply(nil, status), nil
	}
	switch cmd {
	case CmdRequestInit:
		j, err := DecodeJobInfo(b)
		if err != nil {
			return nil, err
		}
		return j.Append(nil)
	case CmdGet:
		return reencodeGetReply(t, b), nil
	case CmdLookup:
		r, err := DecodeLookupReply(b)
		if err != nil {
			return nil, err
		}
		return r.Append(nil)
	case CmdQuery:
		r, err := DecodeQueryReply(b)
		if err != nil {
			return nil, err
		}
		return r.Append(nil)
	case CmdGroupConstruct:
		r, err := DecodeGroupReply(b)
		if err != nil {
			return nil, err
		}
		return r.Append(nil)
	case CmdIOFPull:
		r, err := DecodeIOFPullReply(b)
		return AppendIOFPullReply(nil, r.ID), err
	case CmdSpawn:
		r, err := DecodeSpawnReply(b)
		if err != nil {
			return nil, err
		}
		info, err := r.Job.Append(nil)
		return AppendSpawnReply(nil, info), err
	default:
		return nil, fmt.Errorf("answer to %v: % x", cmd, b)
	}
}
