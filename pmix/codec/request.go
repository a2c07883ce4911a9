package codec

// Request is a message from a client to its server.
type Request interface {
	// Command returns the number that the message starts with.
	Command() Command
	encode(e *Encoder) // packs what follows the number
	decode(d *Decoder) // reads what follows the number
}

// InitRequest asks for the job's description. Answered by a JobInfo.
type InitRequest struct{}

// AbortRequest asks to end processes; without Procs, all of the namespace. Answered by a status.
type AbortRequest struct {
	Status  Status
	Message string
	Procs   []Proc
}

// CommitRequest hands over what was put since the last commit. Answered by a status.
type CommitRequest struct {
	Blobs []ScopedBlob
}

// ScopedBlob is a sequence of key-value groups for one scope.
type ScopedBlob struct {
	Scope Scope
	Data  []byte
}

// FenceRequest joins a fence among Procs. Answered by a status when all have joined.
type FenceRequest struct {
	Procs []Proc
	Info  []Info
}

// GetRequest asks for the data of a process; an empty key stands for all of it. Answered by a GetReply.
type GetRequest struct {
	Proc Proc
	Info []Info
	Key  string
}

// FinalizeRequest ends the client's use of the server. Answered by a status.
type FinalizeRequest struct{}

// NotifyRequest raises an event. Answered by a status.
type NotifyRequest struct {
	Status Status
	Range  Range
	Info   []Info
}

// RegisterEventsRequest asks for events with the given codes; without codes, for those of a default handler. Answered
// by a status.
type RegisterEventsRequest struct {
	Codes []Status
	Info  []Info
}

// DeregisterEventsRequest ends a registration. Not answered.
type DeregisterEventsRequest struct {
	Codes []Status
}

// JobControlRequest asks the server to act on processes, or to clean up after them. Answered by a status.
type JobControlRequest struct {
	Targets []Proc
	Info    []Info
}

// OtherRequest is a request whose command this package does not decode.
type OtherRequest struct {
	Cmd  Command
	Body []byte // the bytes after the command
}

// Command returns CmdRequestInit.
func (*InitRequest) Command() Command { return CmdRequestInit }

// Command returns CmdAbort.
func (*AbortRequest) Command() Command { return CmdAbort }

// Command returns CmdCommit.
func (*CommitRequest) Command() Command { return CmdCommit }

// Command returns CmdFence.
func (*FenceRequest) Command() Command { return CmdFence }

// Command returns CmdGet.
func (*GetRequest) Command() Command { return CmdGet }

// Command returns CmdFinalize.
func (*FinalizeRequest) Command() Command { return CmdFinalize }

// Command returns CmdNotify.
func (*NotifyRequest) Command() Command { return CmdNotify }

// Command returns CmdRegisterEvents.
func (*RegisterEventsRequest) Command() Command { return CmdRegisterEvents }

// Command returns CmdDeregisterEvents.
func (*DeregisterEventsRequest) Command() Command { return CmdDeregisterEvents }

// Command returns CmdJobControl.
func (*JobControlRequest) Command() Command { return CmdJobControl }

// Command returns the command that was received.
func (r *OtherRequest) Command() Command { return r.Cmd }

// AppendRequest appends the body of a request.
//
//   - Errors: a value whose Go type does not match its type number; dst comes back unchanged.
func AppendRequest(dst []byte, r Request) ([]byte, error) {
	e := NewEncoder(dst)
	e.Count(1)
	e.Byte(byte(r.Command()))
	r.encode(e)
	if err := e.Err(); err != nil {
		return dst, err
	}
	return e.Bytes(), nil
}

func (*InitRequest) encode(*Encoder) {}

func (*InitRequest) decode(*Decoder) {}

func (r *AbortRequest) encode(e *Encoder) {
	e.Count(1)
	e.Status(r.Status)
	e.Count(1)
	e.String(r.Message)
	e.Procs(r.Procs)
}

func (r *AbortRequest) decode(d *Decoder) {
	d.Count(1, "status")
	r.Status = d.Status()
	d.Count(1, "message")
	r.Message = d.Str()
	r.Procs = d.Procs()
}

func (r *CommitRequest) encode(e *Encoder) {
	for _, b := range r.Blobs {
		e.Count(1)
		e.Byte(byte(b.Scope))
		e.Count(1)
		e.Byte(BufferNonDescribe)
		e.ByteObject(b.Data)
	}
}

func (r *CommitRequest) decode(d *Decoder) {
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
}

func (r *FenceRequest) encode(e *Encoder) {
	e.Procs(r.Procs)
	e.Infos(r.Info)
}

func (r *FenceRequest) decode(d *Decoder) { r.Procs, r.Info = d.Procs(), d.Infos() }

func (r *GetRequest) encode(e *Encoder) {
	e.Count(1)
	e.String(r.Proc.Nspace)
	e.Count(1)
	e.Rank(r.Proc.Rank)
	e.Infos(r.Info)
	if r.Key != "" {
		e.Count(1)
		e.String(r.Key)
	}
}

func (r *GetRequest) decode(d *Decoder) {
	d.Count(1, "nspace")
	r.Proc.Nspace = d.string(MaxNspaceLen, "nspace")
	d.Count(1, "rank")
	r.Proc.Rank = d.Rank()
	r.Info = d.Infos()
	if d.More() {
		d.Count(1, "key")
		r.Key = unpackKey(d)
	}
}

func (*FinalizeRequest) encode(*Encoder) {}

func (*FinalizeRequest) decode(*Decoder) {}

func (r *NotifyRequest) encode(e *Encoder) {
	e.Count(1)
	e.Status(r.Status)
	e.Count(1)
	e.Byte(byte(r.Range))
	e.Infos(r.Info)
}

func (r *NotifyRequest) decode(d *Decoder) {
	d.Count(1, "status")
	r.Status = d.Status()
	d.Count(1, "range")
	r.Range = Range(d.Byte())
	r.Info = d.Infos()
}

func (r *RegisterEventsRequest) encode(e *Encoder) {
	packGroup(e, r.Codes, (*Encoder).Status)
	e.Infos(r.Info)
}

func (r *RegisterEventsRequest) decode(d *Decoder) {
	r.Codes, r.Info = unpackGroup(d, "codes", (*Decoder).Status), d.Infos()
}

func (r *DeregisterEventsRequest) encode(e *Encoder) {
	for _, c := range r.Codes {
		e.Count(1)
		e.Status(c)
	}
}

func (r *DeregisterEventsRequest) decode(d *Decoder) {
	for d.More() {
		d.Count(1, "code")
		r.Codes = append(r.Codes, d.Status())
	}
}

func (r *JobControlRequest) encode(e *Encoder) {
	e.Procs(r.Targets)
	e.Infos(r.Info)
}

func (r *JobControlRequest) decode(d *Decoder) { r.Targets, r.Info = d.Procs(), d.Infos() }

func (r *OtherRequest) encode(e *Encoder) { e.Raw(r.Body) }

func (r *OtherRequest) decode(d *Decoder) { r.Body = d.next(uint64(d.Rest()), "body") }
