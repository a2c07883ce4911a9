package remote

import (
	"fmt"
	"time"

	"github.com/rs/zerolog"

	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/ending"
	"github.com/goshmem/goshmem/internal/plan"
	"github.com/goshmem/goshmem/internal/wire"
	"github.com/goshmem/goshmem/internal/xunix"
)

// Each function describes one type to a wire.Coder, field by field in the order of the type. A test
// finds fields that are missing here.

func codeConfig(c *wire.Coder, v *daemon.Config) {
	wire.List(c, &v.Apps, codeApp)
	codeShare(c, &v.Share)
	wire.Integer(c, &v.HeapSize)
	wire.Integer(c, &v.MostPEs)
	codeBinding(c, &v.Binding)
	wire.List(c, &v.Places, codePlace)
	c.Bool(&v.StdinTo.All)
	wire.List(c, &v.StdinTo.PEs, wire.Integer)
	c.Bool(&v.Terminal)
	c.Bool(&v.Raw)
	c.Bool(&v.Merge)
	c.Bool(&v.PTY.On)
	c.Bool(&v.PTY.Asked)
	codeWindow(c, &v.PTY.Window)
	c.Bool(&v.Tools)
	c.Bool(&v.OwnsChildren)
	c.Bool(&v.Watchdog.Off)
	wire.Integer(c, &v.Watchdog.Tier)
	wire.Integer(c, &v.Watchdog.Hang)
	wire.Integer(c, &v.Watchdog.NewsDelay)
	c.Bool(&v.EndsFirst)
	c.Bool(&v.Recover)
	codeHeartbeat(c, &v.Heartbeat)
	wire.List(c, &v.Debug, wire.Integer)
	c.String(&v.DataNetwork)
	wire.Integer(c, &v.AgentPorts[0])
	wire.Integer(c, &v.AgentPorts[1])
	wire.Integer(c, &v.Surroundings.Umask)
	wire.Integer(c, &v.Surroundings.OpenFiles)
	c.Bool(&v.Memory)
	c.String(&v.Profiles)
}

func codeBinding(c *wire.Coder, v *daemon.Binding) {
	wire.Integer(c, &v.Bind)
	wire.Integer(c, &v.Map)
	wire.Integer(c, &v.Rank)
	c.Bool(&v.Overload)
	c.Bool(&v.Report)
	wire.List(c, &v.CPUs, wire.Integer)
}

func codeReport(c *wire.Coder, v *daemon.Report) {
	wire.List(c, &v.Bindings, codeBound)
	wire.Integer(c, &v.Processors)
	c.String(&v.Agent)
	wire.List(c, &v.Programs, codeString)
	codeHeartbeatAt(c, &v.Heartbeat)
}

func codeHeartbeat(c *wire.Coder, v *daemon.Heartbeat) {
	wire.Integer(c, &v.Period)
	wire.Integer(c, &v.Tier)
	wire.Integer(c, &v.Job)
	for i := range v.Key {
		wire.Integer(c, &v.Key[i])
	}
}

func codeHeartbeatAt(c *wire.Coder, v *daemon.HeartbeatAt) {
	wire.Integer(c, &v.Tier)
	c.String(&v.Responder)
	c.String(&v.Detector)
	c.String(&v.Lack)
}

// codeWatch describes the body of KindWatch.
func codeWatch(c *wire.Coder, v *daemon.Watch) {
	wire.List(c, &v.Peers, codeHeartbeatAt)
	wire.Integer(c, &v.Tier)
	c.Bool(&v.Check)
}

func codeBound(c *wire.Coder, v *daemon.Bound) {
	wire.Integer(c, &v.PE)
	c.String(&v.Text)
}

func codeShare(c *wire.Coder, v *daemon.Share) {
	c.String(&v.Name)
	for i := range v.Key {
		wire.Integer(c, &v.Key[i])
	}
	for i := range v.DataKey {
		wire.Integer(c, &v.DataKey[i])
	}
	wire.List(c, &v.Hosts, codeString)
	wire.List(c, &v.Homes, wire.Integer)
	wire.Integer(c, &v.Node)
	c.Bool(&v.Emulated)
	c.Bool(&v.Grows)
	wire.Integer(c, &v.CollRadix)
}

func codeApp(c *wire.Coder, v *daemon.App) {
	wire.Integer(c, &v.NPEs)
	c.String(&v.Program)
	c.String(&v.Path)
	wire.List(c, &v.Args, codeString)
	c.String(&v.Name)
	wire.List(c, &v.Env, codeString)
	c.String(&v.Dir)
	wire.Integer(c, &v.Procs)
}

func codeString(c *wire.Coder, v *string) { c.String(v) }

func codePlace(c *wire.Coder, v *plan.Place) {
	wire.List(c, &v.CPUs, wire.Integer)
	c.String(&v.Unit)
	wire.Integer(c, &v.Sharers)
}

func codeWindow(c *wire.Coder, v *xunix.Window) {
	wire.Integer(c, &v.Rows)
	wire.Integer(c, &v.Columns)
	wire.Integer(c, &v.Width)
	wire.Integer(c, &v.Height)
}

func codeID(c *wire.Coder, v *daemon.ID) {
	wire.Integer(c, &v.Job)
	wire.Integer(c, &v.PE)
}

func codeEnd(c *wire.Coder, v *ending.End) {
	wire.Integer(c, &v.Signal)
	wire.Integer(c, &v.Code)
	c.Bool(&v.Core)
	c.Bool(&v.OOM)
	c.Bool(&v.Unfinished)
	c.Bool(&v.Unknown)
}

func codeFarFailure(c *wire.Coder, v *daemon.FarFailure) {
	wire.Integer(c, &v.Job)
	wire.List(c, &v.PEs, wire.Integer)
	codeEnd(c, &v.End)
	c.Bool(&v.NodeLost)
	c.Bool(&v.Before)
}

func codeEvent(c *wire.Coder, v *daemon.Event) {
	wire.Integer(c, &v.Kind)
	codeID(c, &v.ID)
	wire.Integer(c, &v.NPEs)
	wire.Integer(c, &v.PID)
	codeEnd(c, &v.End)
	c.String(&v.Tier)
	c.Bool(&v.GoesOn)
	wire.Integer(c, &v.Usage.User)
	wire.Integer(c, &v.Usage.System)
	wire.Integer(c, &v.Usage.MaxRSS)
	wire.Integer(c, &v.Usage.Voluntary)
	wire.Integer(c, &v.Usage.Involuntary)
	wire.Integer(c, &v.Ran)
	wire.Integer(c, &v.Memory.Peak)
	wire.Integer(c, &v.Memory.Floor)
	c.Bool(&v.Profiled)
	c.Bool(&v.Unconnected)
	codeTraffic(c, &v.Far)
	codeTraffic(c, &v.Agent)
	c.String(&v.State)
	c.String(&v.By)
	wire.Integer(c, &v.Status)
	c.String(&v.Msg)
	wire.Integer(c, &v.At)
	wire.Integer(c, &v.Written.Stdout)
	wire.Integer(c, &v.Written.Stderr)
}

func codeTraffic(c *wire.Coder, v *daemon.Traffic) {
	for _, n := range []*uint64{&v.Operations, &v.Batches, &v.Sent, &v.Received} {
		wire.Integer(c, n)
	}
}

func codeChunk(c *wire.Coder, v *daemon.Chunk) {
	wire.Integer(c, &v.To)
	c.Bytes(&v.Data)
	c.Bool(&v.End)
}

func codeCredit(c *wire.Coder, v *daemon.Credit) {
	wire.Integer(c, &v.To)
	wire.Integer(c, &v.Bytes)
	c.Bool(&v.Gone)
}

func codePEAnswer(c *wire.Coder, v *daemon.Answer) {
	codeID(c, &v.ID)
	wire.Integer(c, &v.PID)
	c.Bool(&v.Asked)
	c.Bool(&v.Done)
	c.Bool(&v.Late)
	c.Bool(&v.Ended)
	c.Bool(&v.Left)
	c.Bytes(&v.Text)
}

// setup is the body of KindConfig.
type setup struct {
	Level zerolog.Level // of the log that the front end wants
	// Age is how long ago the job began when the front end sent this. The clocks of two machines cannot be compared, so
	// the node takes the job for younger by the time that this is on its way.
	Age    time.Duration
	Config daemon.Config
}

func codeSetup(c *wire.Coder, v *setup) {
	wire.Integer(c, &v.Level)
	wire.Integer(c, &v.Age)
	codeConfig(c, &v.Config)
}

// order is the body of KindAsk.
type order struct {
	Order  wire.Order
	AtMost time.Duration
}

func codeOrder(c *wire.Coder, v *order) {
	wire.Integer(c, &v.Order)
	wire.Integer(c, &v.AtMost)
}

// quit is the body of KindQuitGo.
type quit struct {
	ID     daemon.ID
	AtMost time.Duration
}

func codeQuit(c *wire.Coder, v *quit) {
	codeID(c, &v.ID)
	wire.Integer(c, &v.AtMost)
}

// source is an output of a PE, and the body of KindOutputBegin.
type source struct {
	ID     daemon.ID
	Stream daemon.Stream
}

func codeSource(c *wire.Coder, v *source) {
	codeID(c, &v.ID)
	codeStream(c, &v.Stream)
}

func codeStream(c *wire.Coder, v *daemon.Stream) {
	wire.Integer(c, v)
	if c.Decodes() && *v > daemon.Stderr {
		c.Fail(fmt.Errorf("stream %d, want %d or %d", *v, daemon.Stdout, daemon.Stderr))
		*v = 0
	}
}

// text is the body of KindOutput and KindLog.
type text struct {
	Stream daemon.Stream // KindLog
	Goes   bool          // KindOutput: the text goes on in the next frame of the stream
	Text   []byte
}

func codeText(c *wire.Coder, v *text) {
	codeStream(c, &v.Stream)
	c.Bool(&v.Goes)
	c.Bytes(&v.Text)
}

// answer is the body of KindAnswer: what the request asked for.
type answer struct {
	Failed  bool
	Failure failure       // Failed
	Yes     bool          // KindStopped, KindForsake, KindAtWork, KindHasGo
	PID     int           // KindPID
	Tier    string        // KindConfig, KindTier
	ToolURI string        // KindConfig
	Report  daemon.Report // KindConfig
}

func codeAnswer(c *wire.Coder, v *answer) {
	if c.Bool(&v.Failed); v.Failed {
		codeFailure(c, &v.Failure)
	}
	c.Bool(&v.Yes)
	wire.Integer(c, &v.PID)
	c.String(&v.Tier)
	c.String(&v.ToolURI)
	codeReport(c, &v.Report)
}

// codeAgents describes the body of KindAgents.
func codeAgents(c *wire.Coder, v *[]string) { wire.List(c, v, codeString) }

// nothing is the body of what needs no more than its kind.
type nothing struct{}

func codeNothing(*wire.Coder, *nothing) {}

// encode returns the body of a message.
func encode[T any](code func(*wire.Coder, *T), v T) []byte {
	return wire.Encode(func(c *wire.Coder) { code(c, &v) })
}

// decode decodes the body of a message.
func decode[T any](f *wire.Frame, code func(*wire.Coder, *T)) (v T, err error) {
	err = wire.Decode(f.Body, fmt.Sprintf("message of kind %#x", uint16(f.Kind)), func(c *wire.Coder) { code(c, &v) })
	return v, err
}
