package wire

import "math"

// Rank packs a rank.
func (e *Encoder) Rank(r Rank) { e.Uint(uint64(r)) }

// Status packs a status code.
func (e *Encoder) Status(s Status) { e.Int(int64(s)) }

// ByteObject reads a size and that many bytes, which alias the buffer.
func (d *Decoder) ByteObject() []byte { return d.take(d.Uint(), "byte object") }

// Rank reads a rank.
func (d *Decoder) Rank() Rank { return Rank(d.uint(math.MaxUint32, "rank")) }

// Status reads a status code.
func (d *Decoder) Status() Status { return Status(d.int(32, "status")) }

// Proc reads a process name.
func (d *Decoder) Proc() Proc {
	return Proc{Nspace: d.string(MaxNspaceLen, "nspace"), Rank: d.Rank()}
}

// Key reads a key.
func (d *Decoder) Key() string { return d.string(MaxKeyLen, "key") }

// Info reads a key, its flags and its value.
func (d *Decoder) Info() Info {
	return Info{Key: d.Key(), Flags: uint32(d.uint(math.MaxUint32, "info flags")), Value: d.Value()}
}

// KVal reads a key and its value.
func (d *Decoder) KVal() KVal { return KVal{Key: d.Key(), Value: d.Value()} }

// KValGroup reads a group of one key and value.
func (d *Decoder) KValGroup() KVal {
	d.Count(1, "key-value")
	return d.KVal()
}

// KValGroups reads key-value groups up to the end of the buffer.
func (d *Decoder) KValGroups() []KVal {
	var kvs []KVal
	for d.More() {
		kvs = append(kvs, d.KValGroup())
	}
	if d.err != nil {
		return nil
	}
	return kvs
}

// Procs reads a count group and the group of processes that follows a count above zero.
func (d *Decoder) Procs() []Proc {
	return group(d, "procs", (*Decoder).Proc)
}

// Infos reads a count group and the group of infos that follows a count above zero.
func (d *Decoder) Infos() []Info {
	return group(d, "infos", (*Decoder).Info)
}

// group reads "count 1, n" and then, for n above zero, "count n, values".
func group[T any](d *Decoder, what string, read func(*Decoder) T) []T {
	d.Count(1, what)
	n := d.items(d.Uint(), what)
	if n == 0 {
		return nil
	}
	d.Count(n, what)
	return repeat(d, n, read)
}

// repeat reads n values of one type.
func repeat[T any](d *Decoder, n int, read func(*Decoder) T) []T {
	if n == 0 || d.err != nil {
		return nil
	}
	out := make([]T, 0, room(n))
	for range n {
		v := read(d)
		if d.err != nil {
			return nil
		}
		out = append(out, v)
	}
	return out
}

// signedItems reads an int32 number of values, the form that string vectors use.
func (d *Decoder) signedItems(what string) int {
	start := d.off
	n := d.int(32, what)
	if n < 0 {
		d.fail(start, "number of %s: %d, want 0 or more", what, n)
		return 0
	}
	return d.items(uint64(n), what)
}

func (d *Decoder) stringVector(what string) []string {
	return repeat(d, d.signedItems(what), (*Decoder).Str)
}

func (d *Decoder) infoVector() []Info {
	return repeat(d, d.items(d.Uint(), "infos"), (*Decoder).Info)
}

func (d *Decoder) app() App {
	return App{
		Cmd: d.Str(), Argv: d.stringVector("arguments"), Env: d.stringVector("environment"),
		Cwd: d.Str(), MaxProcs: int32(d.int(32, "maxprocs")), Info: d.infoVector(),
	}
}

func (d *Decoder) query() Query {
	return Query{Keys: d.stringVector("keys"), Qualifiers: d.infoVector()}
}

func (d *Decoder) procInfo() ProcInfo {
	return ProcInfo{
		Proc: d.Proc(), Hostname: d.Str(), Executable: d.Str(),
		PID: d.pid(), State: d.Byte(),
	}
}

func (d *Decoder) pid() uint32 {
	start := d.off
	if t := d.dataType(); d.err == nil && t != TypeUint32 {
		d.fail(start, "pid: sent as type %d, want %d", t, TypeUint32)
	}
	return uint32(d.uint(math.MaxUint32, "pid"))
}

func (d *Decoder) pdata() PData { return PData{Proc: d.Proc(), Key: d.Key(), Value: d.Value()} }

func (d *Decoder) timeval() Timeval { return Timeval{Sec: d.Int(), Usec: d.Int()} }

func (d *Decoder) envar() Envar {
	return Envar{Name: d.Str(), Value: d.Str(), Separator: d.Byte()}
}

func (d *Decoder) coord() Coord {
	view := d.Byte()
	n := d.items(d.Uint(), "coordinates")
	return Coord{View: view, Coords: repeat(d, n, func(d *Decoder) uint32 {
		return uint32(d.uint(math.MaxUint32, "coordinate"))
	})}
}

func (d *Decoder) regAttr() RegAttr {
	return RegAttr{Name: d.Str(), Key: d.Key(), Type: d.dataType(), Description: d.stringVector("lines")}
}

func (d *Decoder) endpoint() Endpoint {
	return Endpoint{UUID: d.Str(), OSName: d.Str(), Addr: d.ByteObject()}
}

func (d *Decoder) deviceDistance() DeviceDistance {
	return DeviceDistance{
		UUID: d.Str(), OSName: d.Str(), Type: d.Uint(),
		Min: uint16(d.uint(math.MaxUint16, "distance")), Max: uint16(d.uint(math.MaxUint16, "distance")),
	}
}

func (d *Decoder) dataType() DataType { return DataType(d.uint(math.MaxUint16, "data type")) }
