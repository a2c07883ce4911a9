package codec

import "fmt"

// DecodeRequest reads the body of a request. Byte slices in the result alias b.
// A command that this package does not decode comes back as an OtherRequest.
func DecodeRequest(b []byte) (Request, error) { return decodeRequest(NewDecoder(b)) }

// RequestDecoder decodes a sequence of requests. It costs less than DecodeRequest, because requests share the memory of
// names and keys that came before. The zero value is ready for use.
type RequestDecoder struct{ d Decoder }

// Decode reads the body of a request, as DecodeRequest does.
func (r *RequestDecoder) Decode(b []byte) (Request, error) {
	if r.d.seen == nil {
		r.d.seen = stringSet{}
	}
	r.d = Decoder{buf: b, seen: r.d.seen}
	request, err := decodeRequest(&r.d)
	r.d.buf = nil
	return request, err
}

func decodeRequest(d *Decoder) (Request, error) {
	d.Count(1, "command")
	cmd := Command(d.Byte())
	if d.err != nil {
		return nil, d.err
	}
	r := newRequest(cmd)
	r.decode(d)
	if err := d.End(); err != nil {
		return nil, fmt.Errorf("request %s: %w", cmd, err)
	}
	return r, nil
}

// newRequest returns an empty request of the type that a command announces.
func newRequest(cmd Command) Request {
	switch cmd {
	case CmdRequestInit:
		return &InitRequest{}
	case CmdAbort:
		return &AbortRequest{}
	case CmdCommit:
		return &CommitRequest{}
	case CmdFence:
		return &FenceRequest{}
	case CmdGet:
		return &GetRequest{}
	case CmdFinalize:
		return &FinalizeRequest{}
	case CmdNotify:
		return &NotifyRequest{}
	case CmdRegisterEvents:
		return &RegisterEventsRequest{}
	case CmdDeregisterEvents:
		return &DeregisterEventsRequest{}
	case CmdJobControl:
		return &JobControlRequest{}
	case CmdPublish:
		return &PublishRequest{}
	case CmdLookup:
		return &LookupRequest{}
	case CmdUnpublish:
		return &UnpublishRequest{}
	case CmdQuery:
		return &QueryRequest{}
	case CmdLog:
		return &LogRequest{}
	case CmdMonitor:
		return &MonitorRequest{}
	case CmdConnect:
		return &ConnectRequest{}
	case CmdDisconnect:
		return &DisconnectRequest{}
	case CmdSpawn:
		return &SpawnRequest{}
	case CmdIOFPull:
		return &IOFPullRequest{}
	case CmdIOFPush:
		return &IOFPushRequest{}
	case CmdIOFDeregister:
		return &IOFDeregisterRequest{}
	case CmdGroupConstruct:
		return &GroupConstructRequest{}
	case CmdGroupDestruct:
		return &GroupDestructRequest{}
	case CmdGroupLeave:
		return &GroupLeaveRequest{}
	default:
		return &OtherRequest{Cmd: cmd}
	}
}
