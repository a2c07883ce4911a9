package explore

// Protocol is a protocol that can be explored.
type Protocol struct {
	Name      string
	Draw      func(Limits) Draw                  // draws a random scenario
	Scenarios func(nodes, deaths int) []Scenario // returns the scenarios of an exhaustive search
}

// Protocols are all protocols.
var Protocols = []Protocol{
	{"ftco", DrawFTCO, FTCOScenarios},
	{"agree", DrawAgree, AgreeScenarios},
	{"literal", DrawLiteral, LiteralScenarios}, // the search has to find it wrong
}

// Find returns the protocol with a name.
func Find(name string) (Protocol, bool) {
	for _, p := range Protocols {
		if p.Name == name {
			return p, true
		}
	}
	return Protocol{}, false
}

// MostNodes is the greatest number of members of a random schedule.
const MostNodes = 64
