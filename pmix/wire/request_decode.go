package wire

import (
	"fmt"
	"math"
)

// DecodeRequest reads the body of a request. Byte slices in the result alias b.
// A command that this package does not decode comes back as an OtherRequest.
func DecodeRequest(b []byte) (Request, error) { return NewDecoder(b).decodeRequest() }

// RequestDecoder decodes requests one after the other, which costs less than DecodeRequest: names and keys that came
// before are not stored again. The zero value is ready for use.
type RequestDecoder struct{ d Decoder }

// Decode is DecodeRequest.
func (r *RequestDecoder) Decode(b []byte) (Request, error) {
	if r.d.seen == nil {
		r.d.seen = stringSet{}
	}
	r.d = Decoder{buf: b, seen: r.d.seen}
	request, err := r.d.decodeRequest()
	r.d.buf = nil
	return request, err
}

func (d *Decoder) decodeRequest() (Request, error) {
	d.Count(1, "command")
	cmd := Command(d.Byte())
	if d.err != nil {
		return nil, d.err
	}
	r := d.request(cmd)
	if err := d.End(); err != nil {
		return nil, fmt.Errorf("request %s: %w", cmd, err)
	}
	return r, nil
}

func (d *Decoder) request(cmd Command) Request {
	switch cmd {
	case CmdRequestInit:
		return &InitRequest{}
	case CmdAbort:
		return d.abort()
	case CmdCommit:
		return d.commit()
	case CmdFence:
		return &FenceRequest{Procs: d.Procs(), Info: d.Infos()}
	case CmdGet:
		return d.get()
	case CmdFinalize:
		return &FinalizeRequest{}
	case CmdNotify:
		return d.notify()
	case CmdRegisterEvents:
		return &RegisterEventsRequest{Codes: group(d, "codes", (*Decoder).Status), Info: d.Infos()}
	case CmdDeregisterEvents:
		return d.deregisterEvents()
	case CmdJobControl:
		return &JobControlRequest{Targets: d.Procs(), Info: d.Infos()}
	case CmdPublish:
		return d.publish()
	case CmdLookup:
		return d.lookup()
	case CmdUnpublish:
		return d.unpublish()
	case CmdQuery:
		return d.queryRequest()
	case CmdLog:
		return d.logRequest()
	case CmdMonitor:
		return d.monitor()
	case CmdConnect:
		return &ConnectRequest{Procs: d.Procs(), Info: d.Infos()}
	case CmdDisconnect:
		return &DisconnectRequest{Procs: d.Procs(), Info: d.Infos()}
	case CmdSpawn:
		return &SpawnRequest{Info: d.Infos(), Apps: group(d, "apps", (*Decoder).app)}
	case CmdIOFPull:
		return d.iofPull()
	case CmdIOFPush:
		return d.iofPush()
	case CmdIOFDeregister:
		return d.iofDeregister()
	case CmdGroupConstruct:
		return d.groupConstruct()
	case CmdGroupDestruct:
		return d.groupDestruct()
	case CmdGroupLeave:
		return d.groupLeave()
	default:
		return &OtherRequest{Cmd: cmd, Body: d.take(uint64(d.Rest()), "body")}
	}
}

func (d *Decoder) abort() Request {
	d.Count(1, "status")
	r := &AbortRequest{Status: d.Status()}
	d.Count(1, "message")
	r.Message = d.Str()
	r.Procs = d.Procs()
	return r
}

func (d *Decoder) commit() Request {
	r := &CommitRequest{}
	for d.More() {
		d.Count(1, "scope")
		b := ScopedBlob{Scope: Scope(d.Byte())}
		d.Count(1, "buffer")
		start := d.off
		if t := d.Byte(); d.err == nil && t != BufferNonDescribe {
			d.fail(start, "buffer: type %d, want %d (non-described)", t, BufferNonDescribe)
		}
		b.Data = d.ByteObject()
		r.Blobs = append(r.Blobs, b)
	}
	return r
}

func (d *Decoder) get() Request {
	r := &GetRequest{}
	d.Count(1, "nspace")
	r.Proc.Nspace = d.string(MaxNspaceLen, "nspace")
	d.Count(1, "rank")
	r.Proc.Rank = Rank(d.uint(math.MaxUint32, "rank"))
	r.Info = d.Infos()
	if d.More() {
		d.Count(1, "key")
		r.Key = d.Key()
	}
	return r
}

func (d *Decoder) notify() Request {
	r := &NotifyRequest{}
	d.Count(1, "status")
	r.Status = d.Status()
	d.Count(1, "range")
	r.Range = Range(d.Byte())
	r.Info = d.Infos()
	return r
}

func (d *Decoder) deregisterEvents() Request {
	r := &DeregisterEventsRequest{}
	for d.More() {
		d.Count(1, "code")
		r.Codes = append(r.Codes, d.Status())
	}
	return r
}
