package codec

import "math"

// PublishRequest publishes keys and values to the processes of a range, which Info holds. Directives and data travel in
// one list. Answered by a status.
type PublishRequest struct {
	UID  uint32 // the sender's effective user, as it claims
	Info []Info
}

// LookupRequest asks for published keys. Answered by a LookupReply.
type LookupRequest struct {
	UID  uint32
	Keys []string
	Info []Info
}

// UnpublishRequest withdraws keys that the sender has published; without keys, all of them. Answered by a status.
type UnpublishRequest struct {
	UID  uint32
	Keys []string
	Info []Info
}

// LookupReply is the answer to a lookup: a status and the values found.
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
	packUID(e, r.UID)
	e.Infos(r.Info)
}

func (r *PublishRequest) decode(d *Decoder) { r.UID, r.Info = unpackUID(d), d.Infos() }

func (r *LookupRequest) encode(e *Encoder) {
	packUID(e, r.UID)
	packKeys(e, r.Keys)
	e.Infos(r.Info)
}

func (r *LookupRequest) decode(d *Decoder) {
	r.UID, r.Keys, r.Info = unpackUID(d), unpackKeys(d), d.Infos()
}

func (r *UnpublishRequest) encode(e *Encoder) {
	packUID(e, r.UID)
	packKeys(e, r.Keys)
	e.Infos(r.Info)
}

func (r *UnpublishRequest) decode(d *Decoder) {
	r.UID, r.Keys, r.Info = unpackUID(d), unpackKeys(d), d.Infos()
}

func packUID(e *Encoder, uid uint32) { packOne(e, uint64(uid)) }

func unpackUID(d *Decoder) uint32 { return uint32(unpackOne(d, math.MaxUint32, "user")) }

// packKeys packs the number of keys, then each key as a group of its own.
func packKeys(e *Encoder, keys []string) {
	packOne(e, uint64(len(keys)))
	for _, k := range keys {
		e.Count(1)
		e.String(k)
	}
}

func unpackKeys(d *Decoder) []string {
	d.Count(1, "number of keys")
	return unpackRepeated(d, checkCount(d, d.Uint(), "keys"), func(d *Decoder) string {
		d.Count(1, "key")
		return unpackKey(d)
	})
}

// Append appends the value as it stands in a LookupReply.
//
//   - Errors: a value whose Go type does not match its type number; dst comes back unchanged.
func (p *PData) Append(dst []byte) ([]byte, error) {
	e := NewEncoder(dst)
	packPData(e, *p)
	if e.err != nil {
		return dst, e.err
	}
	return e.buf, nil
}

// Append appends the answer.
//
//   - Errors: a value whose Go type does not match its type number; dst comes back unchanged.
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

// AppendLookupReply appends the answer to a lookup from packed values, each by PData.Append.
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
		r.Data = unpackGroup(d, "values", unpackPData)
	}
	if err := d.End(); err != nil {
		return LookupReply{}, err
	}
	return r, nil
}
