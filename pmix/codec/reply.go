package codec

// AppendStatusReply appends a status, the answer to most requests.
func AppendStatusReply(dst []byte, s Status) []byte {
	e := NewEncoder(dst)
	e.Count(1)
	e.Status(s)
	return e.Bytes()
}

// DecodeStatusReply reads an answer that is a status alone.
func DecodeStatusReply(b []byte) (Status, error) {
	d := NewDecoder(b)
	d.Count(1, "status")
	s := d.Status()
	return s, d.End()
}

// GetReply is the answer to a get: a status and the data found. It is the data of one process, or the description of a
// job under RankWildcard, which data of processes may follow. Success without data means that there is none.
type GetReply struct {
	Status Status
	Data   []ProcData
}

// ProcData is the data of one process: its name and the packed key-value groups.
type ProcData struct {
	Proc   Proc
	Packed []byte
}

// Append appends the answer.
func (r *GetReply) Append(dst []byte) []byte {
	dst = AppendStatusReply(dst, r.Status)
	for i := range r.Data {
		dst = r.Data[i].Append(dst)
	}
	return dst
}

// DecodeGetReply reads the answer to a get; the packed data aliases b.
func DecodeGetReply(b []byte) (GetReply, error) {
	d := NewDecoder(b)
	d.Count(1, "status")
	r := GetReply{Status: d.Status()}
	for d.More() {
		r.Data = append(r.Data, UnpackProcData(d))
	}
	if err := d.End(); err != nil {
		return GetReply{}, err
	}
	return r, nil
}

// Append appends the data as a group of one byte object.
func (p *ProcData) Append(dst []byte) []byte {
	inner := NewEncoder(make([]byte, 0, len(p.Packed)+len(p.Proc.Nspace)+16))
	inner.Count(1)
	inner.Proc(p.Proc)
	inner.Raw(p.Packed)
	e := NewEncoder(dst)
	e.Count(1)
	e.ByteObject(inner.Bytes())
	return e.Bytes()
}

// UnpackProcData reads a group of one byte object that holds the data of one process.
func UnpackProcData(d *Decoder) ProcData {
	start := d.off
	d.Count(1, "process data")
	inner := NewDecoder(d.ByteObject())
	if d.err != nil {
		return ProcData{}
	}
	inner.Count(1, "process")
	p := ProcData{Proc: inner.Proc()}
	if inner.err != nil {
		d.fail(start, "process data: %v", inner.err)
		return ProcData{}
	}
	p.Packed = inner.buf[inner.off:]
	return p
}

// Pairs decodes the packed key-value groups.
func (p *ProcData) Pairs() ([]KVal, error) {
	d := NewDecoder(p.Packed)
	kvs := unpackKValGroups(d)
	return kvs, d.End()
}

// JobInfo is the description of a job that answers an InitRequest.
type JobInfo struct {
	Nspace string
	Pairs  []KVal
}

// Append appends the description.
//
//   - Errors: a value whose Go type does not match its type number; dst comes back unchanged.
func (j *JobInfo) Append(dst []byte) ([]byte, error) {
	e := NewEncoder(dst)
	e.Count(1)
	e.String(j.Nspace)
	for _, kv := range j.Pairs {
		e.KValGroup(kv)
	}
	if e.err != nil {
		return dst, e.err
	}
	return e.buf, nil
}

// DecodeJobInfo reads the description.
func DecodeJobInfo(b []byte) (JobInfo, error) {
	d := NewDecoder(b)
	j := unpackJobInfo(d)
	if err := d.End(); err != nil {
		return JobInfo{}, err
	}
	return j, nil
}

func unpackJobInfo(d *Decoder) JobInfo {
	d.Count(1, "nspace")
	j := JobInfo{Nspace: d.string(MaxNspaceLen, "nspace")}
	j.Pairs = unpackKValGroups(d)
	return j
}

// ProcBlob is the part of a job's description about one process, the content of KeyProcBlob.
type ProcBlob struct {
	Rank  Rank
	Pairs []KVal
}

// Value returns the blob as a byte object.
//
//   - Errors: a value whose Go type does not match its type number.
func (p *ProcBlob) Value() (Value, error) {
	e := NewEncoder(nil)
	e.Count(1)
	e.Rank(p.Rank)
	for _, kv := range p.Pairs {
		e.KValGroup(kv)
	}
	return BytesValue(e.buf), e.err
}

// DecodeProcBlobRank reads only the rank from the content of a KeyProcBlob.
func DecodeProcBlobRank(b []byte) (Rank, error) {
	d := NewDecoder(b)
	d.Count(1, "rank")
	r := d.Rank()
	return r, d.Err()
}

// DecodeProcBlob reads the content of a KeyProcBlob.
func DecodeProcBlob(b []byte) (ProcBlob, error) {
	d := NewDecoder(b)
	d.Count(1, "rank")
	p := ProcBlob{Rank: d.Rank()}
	p.Pairs = unpackKValGroups(d)
	if err := d.End(); err != nil {
		return ProcBlob{}, err
	}
	return p, nil
}
