package express

const (
	// MostSockets is how many express sockets a PE has.
	MostSockets = 16
	// FirstTrips is after how many round trips to a node through the agent a PE wants a socket to it.
	FirstTrips = 64
	// MostTrips bounds that number, which doubles with each refusal and each socket that had to make room for another one.
	MostTrips = 1 << 16
)

// Client is a PE's side of its express sockets. It decides, and its driver has the sockets.
type Client struct {
	peers []peer
	asked int    // 1 + the node to which a socket was asked for; 0: none
	open  int    // sockets
	clock uint64 // counts the requests
}

// peer is another node.
type peer struct {
	trips  uint32 // through the agent, since the last socket
	need   uint32 // trips after which a socket is wanted; 0: FirstTrips
	number uint64 // of the last request
	used   uint64 // the clock at the last request
	open   bool   // there is a socket
	busy   bool   // a request is under way on it
}

// NewClient returns a Client without sockets, in a job of so many nodes.
func NewClient(nodes int) *Client { return &Client{peers: make([]peer, nodes)} }

// IsOpen reports whether there is a socket to a node.
func (c *Client) IsOpen(node int) bool { return c.peers[node].open }

// IsBusy reports whether a request is under way to a node.
func (c *Client) IsBusy(node int) bool { return c.peers[node].busy }

// Asked returns the node to which a socket was asked for.
func (c *Client) Asked() (node int, ok bool) { return c.asked - 1, c.asked > 0 }

// Requests returns how many requests there were so far.
func (c *Client) Requests() uint64 { return c.clock }

// Trip counts a round trip to a node without a socket. If it returns true, the driver asks the agent for one, which then
// counts as asked for.
func (c *Client) Trip(node int) (ask bool) {
	p := &c.peers[node]
	if p.open || c.asked > 0 {
		return false
	}
	if p.trips++; p.trips < max(p.need, FirstTrips) {
		return false
	}
	p.trips, c.asked = 0, node+1
	return true
}

// Refused says that the agent does not give the socket that was asked for.
func (c *Client) Refused() {
	if c.asked > 0 {
		c.peers[c.asked-1].hesitate()
		c.asked = 0
	}
}

// hesitate makes the next socket to the node wait for more trips.
func (p *peer) hesitate() { p.trips, p.need = 0, min(2*max(p.need, FirstTrips), MostTrips) }

// Given says that the agent gives a socket to a node, on which the last number executed is last. The driver closes the
// socket unless keep is set, and that to the node evict unless evict is negative.
func (c *Client) Given(node int, last uint64) (keep bool, evict int) {
	evict = -1
	if c.asked != node+1 { // asked for by a Port before this one
		return false, evict
	}
	c.asked = 0
	if c.open == MostSockets {
		if evict = c.oldest(); evict < 0 {
			c.peers[node].hesitate()
			return false, evict
		}
		c.peers[evict].hesitate()
		c.close(evict)
	}
	p := &c.peers[node]
	p.open, p.trips, p.number, p.used = true, 0, max(p.number, last), c.clock
	c.open++
	return true, evict
}

// oldest returns the node of the socket that was used longest ago and has no request under way; -1: all have one.
func (c *Client) oldest() (node int) {
	node = -1
	for i := range c.peers {
		if p := &c.peers[i]; p.open && !p.busy && (node < 0 || p.used < c.peers[node].used) {
			node = i
		}
	}
	return node
}

// close forgets a socket.
func (c *Client) close(node int) {
	c.peers[node].open, c.peers[node].busy = false, false
	c.open--
}

// Begin gives a request its number. It returns false if there is no socket, or it is busy. The node has executed all that
// was given to the agent before.
func (c *Client) Begin(node int) (number uint64, ok bool) {
	p := &c.peers[node]
	if !p.open || p.busy {
		return 0, false
	}
	p.busy = true
	p.number++
	c.clock++
	p.used = c.clock
	return p.number, true
}

// End says that the reply to the request has come.
func (c *Client) End(node int) { c.peers[node].busy = false }

// Lost says that the socket is given up, or was lost.
func (c *Client) Lost(node int) {
	if c.peers[node].open {
		c.close(node)
	}
}
