package codec

// QueryRequest asks about jobs, processes and the server itself. Answered by a QueryReply.
type QueryRequest struct {
	Queries []Query
}

// LogRequest hands over text and data to log. Answered by a status.
type LogRequest struct {
	Time       uint64 // seconds since 1970; zero: not given
	Data       []Info
	Directives []Info
}

// QueryReply is the answer to a query: a status and the answers found.
type QueryReply struct {
	Status Status
	Info   []Info
}

// Command returns CmdQuery.
func (*QueryRequest) Command() Command { return CmdQuery }

// Command returns CmdLog.
func (*LogRequest) Command() Command { return CmdLog }

func (r *QueryRequest) encode(e *Encoder) { packGroup(e, r.Queries, packQuery) }

func (r *QueryRequest) decode(d *Decoder) { r.Queries = unpackGroup(d, "queries", unpackQuery) }

func (r *LogRequest) encode(e *Encoder) {
	packOne(e, r.Time)
	e.Infos(r.Data)
	e.Infos(r.Directives)
}

func (r *LogRequest) decode(d *Decoder) {
	d.Count(1, "time")
	r.Time, r.Data, r.Directives = d.Uint(), d.Infos(), d.Infos()
}

// Append appends the answer.
//
//   - Errors: a value whose Go type does not match its type number; dst comes back unchanged.
func (r *QueryReply) Append(dst []byte) ([]byte, error) {
	e := NewEncoder(nil)
	for _, i := range r.Info {
		e.Info(i)
	}
	if e.err != nil {
		return dst, e.err
	}
	return AppendQueryReply(dst, r.Status, len(r.Info), e.buf), nil
}

// AppendQueryReply appends the answer to a query from n packed infos, one after the other.
func AppendQueryReply(dst []byte, s Status, n int, packed []byte) []byte {
	e := NewEncoder(dst)
	e.Count(1)
	e.Status(s)
	e.Count(1)
	e.Uint(uint64(n))
	if n > 0 {
		e.Count(n)
		e.Raw(packed)
	}
	return e.buf
}

// DecodeQueryReply reads the answer to a query; byte objects in it alias b.
func DecodeQueryReply(b []byte) (QueryReply, error) {
	d := NewDecoder(b)
	d.Count(1, "status")
	r := QueryReply{Status: d.Status()}
	if d.More() {
		r.Info = d.Infos()
	}
	if err := d.End(); err != nil {
		return QueryReply{}, err
	}
	return r, nil
}
