package sim

import "github.com/peerage-go/peerage/gossip/view"

type upper struct{}
type upperWorld struct{}

func (u *upper) handle(from nodeID, f frame)     {}
func (p *proc) startUpper()                      {}
func (p *proc) endUpper()                        {}
func (p *proc) upperLease(valid bool)            {}
func (p *proc) upperView(v *view.View)           {}
func (p *proc) upperPeer(id nodeID, up bool)     {}
func (p *proc) abandonUpper()                    {}
func (p *proc) leaveUpper(then func())           { then() }
func (p *proc) upperState() string               { return "" }
func (w *world) startUpperWorld()                {}
func (w *world) endUpperLiveness(q map[int]bool) {}
