package wire

// KindWatch is a request of the front end, as KindConfig is one: the nodes are to watch each other from now on.
const KindWatch Kind = 0x0701

// Accusation is the body of KindAccuse.
type Accusation struct {
	Inc    uint32 // the incarnation of the node that is accused
	Reason uint8  // as ring.Reason
	// Proven says that the kernel of the node, or its successor, has proven the death, or that the node was fenced. Otherwise
	// it only answers nothing.
	Proven bool
}

// Append appends the body to b.
func (a *Accusation) Append(b []byte) []byte { return append(b, Encode(a.code)...) }

// Parse reads a body.
func (a *Accusation) Parse(b []byte) error { return Decode(b, "accusation", a.code) }

func (a *Accusation) code(c *Coder) {
	Integer(c, &a.Inc)
	Integer(c, &a.Reason)
	c.Bool(&a.Proven)
}
