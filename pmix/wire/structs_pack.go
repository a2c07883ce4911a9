package wire

func (e *Encoder) stringVector(v []string) {
	e.Count(len(v)) // string vectors are counted by an int32, as groups are
	for _, s := range v {
		e.String(s)
	}
}

func (e *Encoder) infoVector(v []Info) {
	e.Uint(uint64(len(v)))
	for _, i := range v {
		e.Info(i)
	}
}

func (e *Encoder) app(a App) {
	e.String(a.Cmd)
	e.stringVector(a.Argv)
	e.stringVector(a.Env)
	e.String(a.Cwd)
	e.Int(int64(a.MaxProcs))
	e.infoVector(a.Info)
}

func (e *Encoder) query(q Query) {
	e.stringVector(q.Keys)
	e.infoVector(q.Qualifiers)
}

// A pid carries the type that it was widened to, even in buffers that describe nothing else.
func (e *Encoder) pid(pid uint32) {
	e.Uint(uint64(TypeUint32))
	e.Uint(uint64(pid))
}

func (e *Encoder) procInfo(p ProcInfo) {
	e.Proc(p.Proc)
	e.String(p.Hostname)
	e.String(p.Executable)
	e.pid(p.PID)
	e.Byte(p.State)
}

func (e *Encoder) pdata(p PData) {
	e.Proc(p.Proc)
	e.String(p.Key)
	e.Value(p.Value)
}

func (e *Encoder) timeval(t Timeval) {
	e.Int(t.Sec)
	e.Int(t.Usec)
}

func (e *Encoder) envar(v Envar) {
	e.String(v.Name)
	e.String(v.Value)
	e.Byte(v.Separator)
}

func (e *Encoder) coord(c Coord) {
	e.Byte(c.View)
	e.Uint(uint64(len(c.Coords)))
	for _, x := range c.Coords {
		e.Uint(uint64(x))
	}
}

func (e *Encoder) regAttr(a RegAttr) {
	e.String(a.Name)
	e.String(a.Key)
	e.Uint(uint64(a.Type))
	e.stringVector(a.Description)
}

func (e *Encoder) endpoint(p Endpoint) {
	e.String(p.UUID)
	e.String(p.OSName)
	e.ByteObject(p.Addr)
}

func (e *Encoder) deviceDistance(x DeviceDistance) {
	e.String(x.UUID)
	e.String(x.OSName)
	e.Uint(x.Type)
	e.Uint(uint64(x.Min))
	e.Uint(uint64(x.Max))
}
