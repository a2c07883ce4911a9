package explore

// Protocol is what can be explored.
type Protocol struct {
	Name      string
	Draw      func(Limits) Draw                  // a random scenario
	Scenarios func(nodes, deaths int) []Scenario // those to search exhaustively
}

// Protocols are all of them.
var Protocols = []Protocol{
	{"ftco", DrawFTCO, FTCOScenarios},
	{"agree", DrawAgree, AgreeScenarios},
	{"literal", DrawLiteral, LiteralScenarios}, // goes wrong, as it has to
}

// Find is the protocol of a name.
func Find(name string) (Protocol, bool) {
	for _, p := range Protocols {
		if p.Name == name {
			return p, true
		}
	}
	return Protocol{}, false
}

// MostNodes is how many members a random schedule can have.
const MostNodes = 64
