package codec

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

// IOFPullRequest asks for the output of processes. Answered by an IOFPullReply; the text comes in IOFMessages.
type IOFPullRequest struct {
	Procs    []Proc
	Info     []Info
	Channels IOFChannel
	ID       uint64 // the client's name for this request; IOFMessages carry it
}

// IOFPushRequest sends input to processes. Answered by a status.
type IOFPushRequest struct {
	Procs []Proc
	Info  []Info
	Data  []byte // the input; empty if only Info matters, such as KeyIOFComplete
}

// IOFDeregisterRequest ends a pull. Answered by a status.
type IOFDeregisterRequest struct {
	Info []Info
	ID   uint64 // the server's name for the pull
}

// IOFPullReply is the answer to a pull: a status and, with success, the server's name for the pull.
type IOFPullReply struct {
	Status Status
	ID     uint64
}

// IOFMessage carries text that a process wrote, in a frame with TagIOF.
type IOFMessage struct {
	Source  Proc
	Channel IOFChannel
	ID      uint64 // the client's name for its pull
	Info    []Info
	Data    []byte
}

// KeyIOFComplete marks the end of a stream.
const KeyIOFComplete = "pmix.iof.cmp"

// Command returns CmdIOFPull.
func (*IOFPullRequest) Command() Command { return CmdIOFPull }

// Command returns CmdIOFPush.
func (*IOFPushRequest) Command() Command { return CmdIOFPush }

// Command returns CmdIOFDeregister.
func (*IOFDeregisterRequest) Command() Command { return CmdIOFDeregister }

// encode packs the group of processes even if there are none, as libpmix does.
func (r *IOFPullRequest) encode(e *Encoder) {
	packOne(e, uint64(len(r.Procs)))
	e.Count(len(r.Procs))
	for _, p := range r.Procs {
		e.Proc(p)
	}
	e.Infos(r.Info)
	packOne(e, uint64(r.Channels))
	packOne(e, r.ID)
}

func (r *IOFPullRequest) decode(d *Decoder) {
	n := checkCount(d, unpackOne(d, math.MaxUint64, "number of procs"), "procs")
	d.Count(n, "procs")
	r.Procs, r.Info = unpackRepeated(d, n, (*Decoder).Proc), d.Infos()
	r.Channels = IOFChannel(unpackOne(d, math.MaxUint16, "channels"))
	r.ID = unpackOne(d, math.MaxUint64, "reference")
}

func (r *IOFPushRequest) encode(e *Encoder) {
	e.Procs(r.Procs)
	e.Infos(r.Info)
	if len(r.Data) > 0 {
		e.Count(1)
		e.ByteObject(r.Data)
	}
}

func (r *IOFPushRequest) decode(d *Decoder) {
	r.Procs, r.Info = d.Procs(), d.Infos()
	if d.More() {
		d.Count(1, "data")
		r.Data = d.ByteObject()
	}
}

func (r *IOFDeregisterRequest) encode(e *Encoder) {
	e.Infos(r.Info)
	packOne(e, r.ID)
}

func (r *IOFDeregisterRequest) decode(d *Decoder) {
	r.Info, r.ID = d.Infos(), unpackOne(d, math.MaxUint64, "reference")
}

// AppendIOFPullReply appends success and the server's name for a pull.
func AppendIOFPullReply(dst []byte, id uint64) []byte {
	e := NewEncoder(AppendStatusReply(dst, StatusSuccess))
	packOne(e, id)
	return e.Bytes()
}

// DecodeIOFPullReply reads the answer to a pull.
func DecodeIOFPullReply(b []byte) (IOFPullReply, error) {
	d := NewDecoder(b)
	d.Count(1, "status")
	r := IOFPullReply{Status: d.Status()}
	if r.Status == StatusSuccess {
		r.ID = unpackOne(d, math.MaxUint64, "reference")
	}
	if err := d.End(); err != nil {
		return IOFPullReply{}, err
	}
	return r, nil
}

// Append appends the body of the message.
//
//   - Errors: an info whose Go type does not match its type number; dst comes back unchanged.
func (m *IOFMessage) Append(dst []byte) ([]byte, error) {
	e := NewEncoder(dst)
	e.Count(1)
	e.Proc(m.Source)
	packOne(e, uint64(m.Channel))
	packOne(e, m.ID)
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
	m.Channel = IOFChannel(unpackOne(d, math.MaxUint16, "channel"))
	m.ID = unpackOne(d, math.MaxUint64, "reference")
	m.Info = d.Infos()
	d.Count(1, "data")
	m.Data = d.ByteObject()
	if err := d.End(); err != nil {
		return IOFMessage{}, err
	}
	return m, nil
}
