package codec

// NoContextID stands for the context identifier of a group that has none.
const NoContextID = 1<<64 - 1

// MaxGroupIDLen is the longest name of a group: it may stand where a namespace does.
const MaxGroupIDLen = MaxNspaceLen

// GroupConstructRequest joins the construction of a group. Answered by a GroupReply when all of Procs have joined.
type GroupConstructRequest struct {
	ID    string
	Procs []Proc
	Info  []Info
}

// GroupDestructRequest joins the end of a group. Answered by a status when all members have joined.
type GroupDestructRequest struct {
	ID   string
	Info []Info
}

// GroupLeaveRequest removes the caller from a group. Answered by a status at once.
type GroupLeaveRequest struct {
	ID   string
	Info []Info
}

// GroupReply is the answer to a construction. The infos after the context identifier are an extension of this package;
// libpmix 4 does not read that far.
type GroupReply struct {
	Status    Status
	ContextID uint64 // NoContextID: none was assigned
	Info      []Info
}

// Command returns CmdGroupConstruct.
func (*GroupConstructRequest) Command() Command { return CmdGroupConstruct }

// Command returns CmdGroupDestruct.
func (*GroupDestructRequest) Command() Command { return CmdGroupDestruct }

// Command returns CmdGroupLeave.
func (*GroupLeaveRequest) Command() Command { return CmdGroupLeave }

func (r *GroupConstructRequest) encode(e *Encoder) {
	e.Count(1)
	e.String(r.ID)
	e.Procs(r.Procs)
	e.Infos(r.Info)
}

func (r *GroupConstructRequest) decode(d *Decoder) {
	r.ID, r.Procs, r.Info = unpackGroupID(d), d.Procs(), d.Infos()
}

func (r *GroupDestructRequest) encode(e *Encoder) { packNamedInfos(e, r.ID, r.Info) }

func (r *GroupDestructRequest) decode(d *Decoder) { r.ID, r.Info = unpackGroupID(d), d.Infos() }

func (r *GroupLeaveRequest) encode(e *Encoder) { packNamedInfos(e, r.ID, r.Info) }

func (r *GroupLeaveRequest) decode(d *Decoder) { r.ID, r.Info = unpackGroupID(d), d.Infos() }

func packNamedInfos(e *Encoder, id string, infos []Info) {
	e.Count(1)
	e.String(id)
	e.Infos(infos)
}

func unpackGroupID(d *Decoder) string {
	d.Count(1, "group")
	return d.string(MaxGroupIDLen, "group")
}

// Append appends the answer.
//
//   - Errors: a value whose Go type does not match its type number; dst comes back unchanged.
func (r *GroupReply) Append(dst []byte) ([]byte, error) {
	e := NewEncoder(AppendStatusReply(dst, r.Status))
	packOne(e, r.ContextID)
	if len(r.Info) > 0 {
		e.Infos(r.Info)
	}
	if e.err != nil {
		return dst, e.err
	}
	return e.buf, nil
}

// DecodeGroupReply reads the answer to a construction; an error may come as a status alone.
func DecodeGroupReply(b []byte) (GroupReply, error) {
	d := NewDecoder(b)
	d.Count(1, "status")
	r := GroupReply{Status: d.Status(), ContextID: NoContextID}
	if d.More() {
		d.Count(1, "context")
		r.ContextID = d.Uint()
	}
	if d.More() {
		r.Info = d.Infos()
	}
	if err := d.End(); err != nil {
		return GroupReply{}, err
	}
	return r, nil
}
