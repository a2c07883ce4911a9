package remote

import (
	"github.com/goshmem/goshmem/internal/daemon"
	"github.com/goshmem/goshmem/internal/wire"
)

func codeSpawnRequest(c *wire.Coder, v *daemon.SpawnRequest) {
	wire.Integer(c, &v.Node)
	wire.Integer(c, &v.ID)
	c.String(&v.From.Nspace)
	wire.Integer(c, &v.From.Rank)
	wire.List(c, &v.Apps, codeSpawnApp)
	wire.List(c, &v.Preput, codePreput)
}

func codeSpawnApp(c *wire.Coder, v *daemon.SpawnApp) {
	codeApp(c, &v.App)
	c.String(&v.Search)
	c.String(&v.WrittenDir)
	c.String(&v.Placing.Hosts)
	c.String(&v.Placing.More)
	codePlacingFile(c, &v.Placing.File)
	codePlacingFile(c, &v.Placing.MoreFile)
	c.String(&v.Placing.MapBy)
	c.String(&v.Placing.RankBy)
}

func codePlacingFile(c *wire.Coder, v *daemon.PlacingFile) {
	c.String(&v.Name)
	c.String(&v.Text)
}

func codePreput(c *wire.Coder, v *daemon.Preput) {
	c.String(&v.Key)
	c.String(&v.Value)
}

func codeSpawnAnswer(c *wire.Coder, v *daemon.SpawnAnswer) {
	wire.Integer(c, &v.Node)
	wire.Integer(c, &v.ID)
	wire.Integer(c, &v.Number)
	c.String(&v.Failed)
}

func codeFurtherJob(c *wire.Coder, v *daemon.FurtherJob) {
	wire.Integer(c, &v.Number)
	for i := range v.Key {
		wire.Integer(c, &v.Key[i])
	}
	c.String(&v.Parent.Nspace)
	wire.Integer(c, &v.Parent.Rank)
	wire.List(c, &v.Homes, wire.Integer)
	wire.List(c, &v.Bases, wire.Integer)
	wire.List(c, &v.Hosts, codeString)
	wire.List(c, &v.Apps, codeSpawnApp)
	wire.List(c, &v.Preput, codePreput)
}

// AddJob makes a further job known on the node.
func (c *Client) AddJob(j daemon.FurtherJob) error {
	_, _, err := c.request(wire.KindAddJob, "add a job", encode(codeFurtherJob, j), startAtMost)
	return err
}

// StartJob starts the node's PEs of a further job.
func (c *Client) StartJob(number int) error {
	return requestOfJob(c, wire.KindStartJob, "start a job", number)
}

// DropJob ends the PEs of a further job that could not be started everywhere.
func (c *Client) DropJob(number int) error {
	return requestOfJob(c, wire.KindDropJob, "drop a job", number)
}

// requestOfJob requests something about a further job.
func requestOfJob(c *Client, kind wire.Kind, what string, number int) error {
	_, _, err := c.request(kind, what, encode(wire.Integer, number), startAtMost)
	return err
}

// EndJob frees a further job that is over. It never waits.
func (c *Client) EndJob(number int) { c.tell(wire.KindEndJob, encode(wire.Integer, number)) }

// AnswerSpawn answers a request of the node for a job. It never waits.
func (c *Client) AnswerSpawn(a daemon.SpawnAnswer) {
	c.tell(wire.KindSpawnAnswer, encode(codeSpawnAnswer, a))
}
