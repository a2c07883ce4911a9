package codec

// MonitorRequest asks the server to watch the caller, or to end a watch. Answered by a status.
type MonitorRequest struct {
	Monitor Info   // the kind of watch
	Error   Status // code of the event that reports a missing sign of life
	Info    []Info
}

// Command returns CmdMonitor.
func (*MonitorRequest) Command() Command { return CmdMonitor }

func (r *MonitorRequest) encode(e *Encoder) {
	e.Count(1)
	e.Info(r.Monitor)
	e.Count(1)
	e.Status(r.Error)
	e.Infos(r.Info)
}

func (r *MonitorRequest) decode(d *Decoder) {
	d.Count(1, "monitor")
	r.Monitor = d.Info()
	d.Count(1, "status")
	r.Error = d.Status()
	r.Info = d.Infos()
}
