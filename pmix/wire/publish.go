package wire

import "math"

// PublishRequest offers keys and values to whom the range among Info lets see them. Directives and data travel in one
// list. Answered by a status.
type PublishRequest struct {
	UID  uint32 // the sender's effective user, by its own word
	Info []Info
}

// LookupRequest asks for published keys. Answered by a LookupReply.
type LookupRequest struct {
	UID  uint32
	Keys []string
	Info []Info
}

// UnpublishRequest takes back keys that the sender has published, all when none is named. Answered by a status.
type UnpublishRequest struct {
	UID  uint32
	Keys []string
	Info []Info
}

// LookupReply is the answer to a lookup: a status and, when there are any, the values found.
type LookupReply struct {
	Status Status
	Data   []PData
}

// Command returns CmdPublish.
func (*PublishRequest) Command() Command { return CmdPublish }

// Command returns CmdLookup.
func (*LookupRequest) Command() Command { return CmdLookup }

// Command returns CmdUnpublish.
func (*UnpublishRequest) Command() Command { return CmdUnpublish }

func (r *PublishRequest) encode(e *Encoder) {
	e.uid(r.UID)
	e.Infos(r.Info)
}

func (r *LookupRequest) encode(e *Encoder) {
	e.uid(r.UID)
	e.keys(r.Keys)
	e.Infos(r.Info)
}

func (r *UnpublishRequest) encode(e *Encoder) {
	e.uid(r.UID)
	e.keys(r.Keys)
	e.Infos(r.Info)
}

func (d *Decoder) publish() Request {
	return &PublishRequest{UID: d.uid(), Info: d.Infos()}
}

func (d *Decoder) lookup() Request {
	return &LookupRequest{UID: d.uid(), Keys: d.keys(), Info: d.Infos()}
}

func (d *Decoder) unpublish() Request {
	return &UnpublishRequest{UID: d.uid(), Keys: d.keys(), Info: d.Infos()}
}

func (e *Encoder) uid(uid uint32) {
	e.Count(1)
	e.Uint(uint64(uid))
}

func (d *Decoder) uid() uint32 {
	d.Count(1, "user")
	return uint32(d.uint(math.MaxUint32, "user"))
}

// Keys are packed one by one, each as a group of its own.
func (e *Encoder) keys(keys []string) {
	e.Count(1)
	e.Uint(uint64(len(keys)))
	for _, k := range keys {
		e.Count(1)
		e.String(k)
	}
}

func (d *Decoder) keys() []string {
	d.Count(1, "number of keys")
	return repeat(d, d.items(d.Uint(), "keys"), func(d *Decoder) string {
		d.Count(1, "key")
		return d.Key()
	})
}

// Append appends the value as it stands in a LookupReply.
//
//   - Errors: a value whose Go type does not belong to its type number; dst comes back unchanged.
func (p *PData) Append(dst []byte) ([]byte, error) {
	e := NewEncoder(dst)
	e.pdata(*p)
	if e.err != nil {
		return dst, e.err
	}
	return e.buf, nil
}

// Append appends the answer.
//
//   - Errors: a value whose Go type does not belong to its type number; dst comes back unchanged.
func (r *LookupReply) Append(dst []byte) ([]byte, error) {
	packed := make([][]byte, len(r.Data))
	for i := range r.Data {
		var err error
		if packed[i], err = r.Data[i].Append(nil); err != nil {
			return dst, err
		}
	}
	return AppendLookupReply(dst, r.Status, packed), nil
}

// AppendLookupReply appends the answer to a lookup from values that are packed already, each by PData.Append.
func AppendLookupReply(dst []byte, s Status, packed [][]byte) []byte {
	e := NewEncoder(dst)
	e.Count(1)
	e.Status(s)
	if len(packed) == 0 {
		return e.buf
	}
	e.Count(1)
	e.Uint(uint64(len(packed)))
	e.Count(len(packed))
	for _, p := range packed {
		e.Raw(p)
	}
	return e.buf
}

// DecodeLookupReply reads the answer to a lookup; byte objects in it alias b.
func DecodeLookupReply(b []byte) (LookupReply, error) {
	d := NewDecoder(b)
	d.Count(1, "status")
	r := LookupReply{Status: d.Status()}
	if d.More() {
		r.Data = group(d, "values", (*Decoder).pdata)
	}
	if err := d.End(); err != nil {
		return LookupReply{}, err
	}
	return r, nil
}
