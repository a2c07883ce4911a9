package codec

import "math"

func unpackKey(d *Decoder) string { return d.string(MaxKeyLen, "key") }

func unpackKVal(d *Decoder) KVal { return KVal{Key: unpackKey(d), Value: d.Value()} }

func packApp(e *Encoder, a App) {
	e.String(a.Cmd)
	packStringVector(e, a.Argv)
	packStringVector(e, a.Env)
	e.String(a.Cwd)
	e.Int(int64(a.MaxProcs))
	packInfoVector(e, a.Info)
}

func unpackApp(d *Decoder) App {
	return App{
		Cmd: d.Str(), Argv: unpackStringVector(d, "arguments"), Env: unpackStringVector(d, "environment"),
		Cwd: d.Str(), MaxProcs: int32(d.int(32, "maxprocs")), Info: unpackInfoVector(d),
	}
}

func packQuery(e *Encoder, q Query) {
	packStringVector(e, q.Keys)
	packInfoVector(e, q.Qualifiers)
}

func unpackQuery(d *Decoder) Query {
	return Query{Keys: unpackStringVector(d, "keys"), Qualifiers: unpackInfoVector(d)}
}

func packProcInfo(e *Encoder, p ProcInfo) {
	e.Proc(p.Proc)
	e.String(p.Hostname)
	e.String(p.Executable)
	packPID(e, p.PID)
	e.Byte(p.State)
}

func unpackProcInfo(d *Decoder) ProcInfo {
	return ProcInfo{
		Proc: d.Proc(), Hostname: d.Str(), Executable: d.Str(),
		PID: unpackPID(d), State: d.Byte(),
	}
}

// packPID packs a process id after the type that it is widened to, which no other value of this format carries.
func packPID(e *Encoder, pid uint32) {
	e.Uint(uint64(TypeUint32))
	e.Uint(uint64(pid))
}

func unpackPID(d *Decoder) uint32 {
	start := d.off
	if t := unpackDataType(d); d.err == nil && t != TypeUint32 {
		d.fail(start, "pid: sent as type %d, want %d", t, TypeUint32)
	}
	return uint32(d.uint(math.MaxUint32, "pid"))
}

func packPData(e *Encoder, p PData) {
	e.Proc(p.Proc)
	e.String(p.Key)
	e.Value(p.Value)
}

func unpackPData(d *Decoder) PData { return PData{Proc: d.Proc(), Key: unpackKey(d), Value: d.Value()} }

func packTimeval(e *Encoder, t Timeval) {
	e.Int(t.Sec)
	e.Int(t.Usec)
}

func unpackTimeval(d *Decoder) Timeval { return Timeval{Sec: d.Int(), Usec: d.Int()} }

func packEnvar(e *Encoder, v Envar) {
	e.String(v.Name)
	e.String(v.Value)
	e.Byte(v.Separator)
}

func unpackEnvar(d *Decoder) Envar {
	return Envar{Name: d.Str(), Value: d.Str(), Separator: d.Byte()}
}

func packCoord(e *Encoder, c Coord) {
	e.Byte(c.View)
	e.Uint(uint64(len(c.Coords)))
	for _, x := range c.Coords {
		e.Uint(uint64(x))
	}
}

func unpackCoord(d *Decoder) Coord {
	view := d.Byte()
	n := checkCount(d, d.Uint(), "coordinates")
	return Coord{View: view, Coords: unpackRepeated(d, n, func(d *Decoder) uint32 {
		return uint32(d.uint(math.MaxUint32, "coordinate"))
	})}
}

func packRegAttr(e *Encoder, a RegAttr) {
	e.String(a.Name)
	e.String(a.Key)
	e.Uint(uint64(a.Type))
	packStringVector(e, a.Description)
}

func unpackRegAttr(d *Decoder) RegAttr {
	return RegAttr{Name: d.Str(), Key: unpackKey(d), Type: unpackDataType(d), Description: unpackStringVector(d, "lines")}
}

func packEndpoint(e *Encoder, p Endpoint) {
	e.String(p.UUID)
	e.String(p.OSName)
	e.ByteObject(p.Addr)
}

func unpackEndpoint(d *Decoder) Endpoint {
	return Endpoint{UUID: d.Str(), OSName: d.Str(), Addr: d.ByteObject()}
}

func packDeviceDistance(e *Encoder, x DeviceDistance) {
	e.String(x.UUID)
	e.String(x.OSName)
	e.Uint(x.Type)
	e.Uint(uint64(x.Min))
	e.Uint(uint64(x.Max))
}

func unpackDeviceDistance(d *Decoder) DeviceDistance {
	return DeviceDistance{
		UUID: d.Str(), OSName: d.Str(), Type: d.Uint(),
		Min: uint16(d.uint(math.MaxUint16, "distance")), Max: uint16(d.uint(math.MaxUint16, "distance")),
	}
}

func unpackDataType(d *Decoder) DataType { return DataType(d.uint(math.MaxUint16, "data type")) }
