package codec

// SpawnRequest asks the server to start a job. Answered by a SpawnReply.
type SpawnRequest struct {
	Info []Info // about the whole job
	Apps []App
}

// ConnectRequest joins a connection of processes, which are then treated as one job. Answered by a ConnectReply when
// all have joined.
type ConnectRequest struct {
	Procs []Proc
	Info  []Info
}

// DisconnectRequest joins the end of a connection. Answered by a status when all have joined.
type DisconnectRequest struct {
	Procs []Proc
	Info  []Info
}

// SpawnReply is the answer to a spawn: a status and, with success, the description of the new job.
type SpawnReply struct {
	Status Status
	Job    JobInfo
}

// ConnectReply is the answer to a connect: a status and, with success, the descriptions of the other participants'
// jobs.
type ConnectReply struct {
	Status Status
	Jobs   []JobInfo
}

// Keys of a spawn request, and of the description of a spawned job.
const (
	KeyParentID  = "pmix.parent" // the process that asked for the job
	KeySpawned   = "pmix.spawned"
	KeyWDir      = "pmix.wdir"
	KeyFwdStdin  = "pmix.fwd.stdin"
	KeyFwdStdout = "pmix.fwd.stdout"
	KeyFwdStderr = "pmix.fwd.stderr"

	KeySetEnvar     = "pmix.envar.set" // changes of the environment apply in the order given
	KeyAddEnvar     = "pmix.envar.add"
	KeyUnsetEnvar   = "pmix.envar.unset"
	KeyPrependEnvar = "pmix.envar.prepnd"
	KeyAppendEnvar  = "pmix.envar.appnd"
)

// Command returns CmdSpawn.
func (*SpawnRequest) Command() Command { return CmdSpawn }

// Command returns CmdConnect.
func (*ConnectRequest) Command() Command { return CmdConnect }

// Command returns CmdDisconnect.
func (*DisconnectRequest) Command() Command { return CmdDisconnect }

func (r *SpawnRequest) encode(e *Encoder) {
	e.Infos(r.Info)
	packGroup(e, r.Apps, packApp)
}

func (r *SpawnRequest) decode(d *Decoder) {
	r.Info, r.Apps = d.Infos(), unpackGroup(d, "apps", unpackApp)
}

func (r *ConnectRequest) encode(e *Encoder) {
	e.Procs(r.Procs)
	e.Infos(r.Info)
}

func (r *ConnectRequest) decode(d *Decoder) { r.Procs, r.Info = d.Procs(), d.Infos() }

func (r *DisconnectRequest) encode(e *Encoder) {
	e.Procs(r.Procs)
	e.Infos(r.Info)
}

func (r *DisconnectRequest) decode(d *Decoder) { r.Procs, r.Info = d.Procs(), d.Infos() }

// AppendSpawnReply appends success and the packed description of the new job.
func AppendSpawnReply(dst, packed []byte) []byte {
	return append(AppendStatusReply(dst, StatusSuccess), packed...)
}

// DecodeSpawnReply reads the answer to a spawn.
func DecodeSpawnReply(b []byte) (SpawnReply, error) {
	d := NewDecoder(b)
	d.Count(1, "status")
	r := SpawnReply{Status: d.Status()}
	if r.Status == StatusSuccess {
		r.Job = unpackJobInfo(d)
	} else {
		skipNspace(d)
	}
	if err := d.End(); err != nil {
		return SpawnReply{}, err
	}
	return r, nil
}

// skipNspace skips the namespace, mostly a null string, that libpmix packs after an error status.
func skipNspace(d *Decoder) {
	if d.More() {
		d.Count(1, "nspace")
		d.string(MaxNspaceLen, "nspace")
	}
}

// AppendConnectReply appends success and the packed descriptions of jobs.
func AppendConnectReply(dst []byte, packed ...[]byte) []byte {
	e := NewEncoder(AppendStatusReply(dst, StatusSuccess))
	for _, p := range packed {
		e.Count(1)
		e.ByteObject(p)
	}
	return e.Bytes()
}

// DecodeConnectReply reads the answer to a connect.
func DecodeConnectReply(b []byte) (ConnectReply, error) {
	d := NewDecoder(b)
	d.Count(1, "status")
	r := ConnectReply{Status: d.Status()}
	for d.More() {
		d.Count(1, "description")
		start := d.off
		inner := NewDecoder(d.ByteObject())
		job := unpackJobInfo(inner)
		if err := inner.End(); err != nil && d.err == nil {
			d.fail(start, "description: %v", err)
		}
		r.Jobs = append(r.Jobs, job)
	}
	if err := d.End(); err != nil {
		return ConnectReply{}, err
	}
	return r, nil
}
