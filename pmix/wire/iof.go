package wire

import "math"

// IOFChannel is a set of standard streams.
type IOFChannel uint16

// Channels of I/O forwarding.
const (
	IOFStdin  IOFChannel = 1
	IOFStdout IOFChannel = 2
	IOFStderr IOFChannel = 4
	IOFDiag   IOFChannel = 8
)

// IOFPullRequest asks for what processes write. Answered by an IOFPullReply; the text comes as IOFMessages.
type IOFPullRequest struct {
	Procs    []Proc
	Info     []Info
	Channels IOFChannel
	ID       uint64 // the client's name for this request, which comes back with the text
}

// IOFPushRequest gives processes something to read. Answered by a status.
type IOFPushRequest struct {
	Procs []Proc
	Info  []Info
	Data  []byte // empty: nothing, or the end
}

// IOFDeregisterRequest ends a pull. Answered by a status.
type IOFDeregisterRequest struct {
	Info []Info
	ID   uint64 // the server's name for the pull
}

// IOFPullReply is the answer to a pull: a status and, if that is success, the server's name for it.
type IOFPullReply struct {
	Status Status
	ID     uint64
}

// IOFMessage carries text that a process wrote. It is sent with TagIOF.
type IOFMessage struct {
	Source  Proc
	Channel IOFChannel
	ID      uint64 // the client's name for its pull
	Info    []Info
	Data    []byte
}

// KeyIOFComplete says that a stream has ended.
const KeyIOFComplete = "pmix.iof.cmp"

// Command returns CmdIOFPull.
func (*IOFPullRequest) Command() Command { return CmdIOFPull }

// Command returns CmdIOFPush.
func (*IOFPushRequest) Command() Command { return CmdIOFPush }

// Command returns CmdIOFDeregister.
func (*IOFDeregisterRequest) Command() Command { return CmdIOFDeregister }

func (e *Encoder) one(v uint64) {
	e.Count(1)
	e.Uint(v)
}

func (d *Decoder) one(limit uint64, what string) uint64 {
	d.Count(1, what)
	return d.uint(limit, what)
}

// libpmix packs the group of processes of a pull even if there are none.
func (r *IOFPullRequest) encode(e *Encoder) {
	e.one(uint64(len(r.Procs)))
	e.Count(len(r.Procs))
	for _, p := range r.Procs {
		e.Proc(p)
	}
	e.Infos(r.Info)
	e.one(uint64(r.Channels))
	e.one(r.ID)
}

func (d *Decoder) iofPull() Request {
	n := d.items(d.one(math.MaxUint64, "number of procs"), "procs")
	d.Count(n, "procs")
	return &IOFPullRequest{
		Procs: repeat(d, n, (*Decoder).Proc), Info: d.Infos(),
		Channels: IOFChannel(d.one(math.MaxUint16, "channels")), ID: d.one(math.MaxUint64, "reference"),
	}
}

func (r *IOFPushRequest) encode(e *Encoder) {
	e.Procs(r.Procs)
	e.Infos(r.Info)
	if len(r.Data) > 0 {
		e.Count(1)
		e.ByteObject(r.Data)
	}
}

func (d *Decoder) iofPush() Request {
	r := &IOFPushRequest{Procs: d.Procs(), Info: d.Infos()}
	if d.More() {
		d.Count(1, "data")
		r.Data = d.ByteObject()
	}
	return r
}

func (r *IOFDeregisterRequest) encode(e *Encoder) {
	e.Infos(r.Info)
	e.one(r.ID)
}

func (d *Decoder) iofDeregister() Request {
	return &IOFDeregisterRequest{Info: d.Infos(), ID: d.one(math.MaxUint64, "reference")}
}

// AppendIOFPullReply appends success and the server's name for a pull.
func AppendIOFPullReply(dst []byte, id uint64) []byte {
	e := NewEncoder(AppendStatusReply(dst, StatusSuccess))
	e.one(id)
	return e.Bytes()
}

// DecodeIOFPullReply reads the answer to a pull.
func DecodeIOFPullReply(b []byte) (IOFPullReply, error) {
	d := NewDecoder(b)
	d.Count(1, "status")
	r := IOFPullReply{Status: d.Status()}
	if r.Status == StatusSuccess {
		r.ID = d.one(math.MaxUint64, "reference")
	}
	if err := d.End(); err != nil {
		return IOFPullReply{}, err
	}
	return r, nil
}

// Append appends the body of the message.
//
//   - Errors: an info whose Go type does not belong to its type number; dst comes back unchanged.
func (m *IOFMessage) Append(dst []byte) ([]byte, error) {
	e := NewEncoder(dst)
	e.Count(1)
	e.Proc(m.Source)
	e.one(uint64(m.Channel))
	e.one(m.ID)
	e.Infos(m.Info)
	e.Count(1)
	e.ByteObject(m.Data)
	if e.err != nil {
		return dst, e.err
	}
	return e.buf, nil
}

// DecodeIOFMessage reads the body of a message; the text aliases b.
func DecodeIOFMessage(b []byte) (IOFMessage, error) {
	d := NewDecoder(b)
	d.Count(1, "source")
	m := IOFMessage{Source: d.Proc()}
	m.Channel = IOFChannel(d.one(math.MaxUint16, "channel"))
	m.ID = d.one(math.MaxUint64, "reference")
	m.Info = d.Infos()
	d.Count(1, "data")
	m.Data = d.ByteObject()
	if err := d.End(); err != nil {
		return IOFMessage{}, err
	}
	return m, nil
}
